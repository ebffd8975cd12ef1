/* SPDX-License-Identifier: Apache-2.0 */
/* The alphabet of byte-level tokens, in which each byte is a character that can be seen: GPT-2's.
 * Pure. */
#ifndef DT_TOKENIZER_ALPHABET_H
#define DT_TOKENIZER_ALPHABET_H

#include "base/buf.h"

/* Appends the bytes that TEXT stands for. False where a character of it is not in the alphabet; OUT
 * then has some of them. */
bool dt_alphabet_bytes(struct dt_bytes text, struct dt_buf *out);
/* Appends the character that stands for BYTE. */
void dt_alphabet_put(uint8_t byte, struct dt_buf *out);

#endif
