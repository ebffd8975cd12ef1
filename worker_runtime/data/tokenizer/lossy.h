/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 of bytes that may not be. Each maximal part of a character, and each byte that begins none,
 * becomes U+FFFD, as the Unicode standard advises and Rust's from_utf8_lossy() does. Bytes may come
 * in any slices. */
#ifndef DT_TOKENIZER_LOSSY_H
#define DT_TOKENIZER_LOSSY_H

#include "base/buf.h"

/* Zeroed: at the beginning. */
struct dt_lossy {
    uint8_t bytes[4]; /* of a character that is not whole yet */
    size_t len;
};

/* How many bytes of PART, from its beginning on, are whole characters. */
size_t dt_lossy_whole(struct dt_bytes part);

/* Appends the characters of PART to OUT; END: nothing follows. */
void dt_lossy_put(struct dt_lossy *l, struct dt_bytes part, bool end, struct dt_buf *out);

#endif
