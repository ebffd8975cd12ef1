/* SPDX-License-Identifier: Apache-2.0 */
/* Unicode's normal form of composed characters (NFC), as of the tables of Unicode 10: those of
 * Hugging Face's tokenizers. */
#ifndef DT_TOKENIZER_NFC_H
#define DT_TOKENIZER_NFC_H

#include "base/buf.h"

#include <stdint.h>

/* Zeroed memory is ready. */
struct dt_nfc {
    uint32_t *codes; /* of characters that are put in order */
    size_t count, room;
};

void dt_nfc_finish(struct dt_nfc *n);

/* Whether what stands before the character CODE has no influence on it, nor it on that. */
bool dt_nfc_begins(uint32_t code);

/* Appends TEXT, which is UTF-8, normalized. */
void dt_nfc_put(struct dt_nfc *n, struct dt_bytes text, struct dt_buf *out);

#endif
