/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/tokenizer/alphabet.h"

#include "base/utf8.h"

/* The byte of character C; -1: none. Bytes that are seen stand for themselves, and the others, in
 * their order, are U+0100 and what follows. */
static int byte_of(unsigned c)
{
    if (c < 0x100)
        return (c > 0x20 && c < 0x7f) || (c > 0xa0 && c != 0xad) ? (int)c : -1;
    unsigned n = c - 0x100;
    if (n <= 0x20)
        return (int)n;
    if (n <= 0x42)
        return (int)(n - 0x21 + 0x7f);
    return n == 0x43 ? 0xad : -1;
}

bool dt_alphabet_bytes(struct dt_bytes text, struct dt_buf *out)
{
    for (size_t i = 0, n; i < text.len; i += n) {
        n = dt_utf8_len(text.at + i, text.len - i);
        int byte = n ? byte_of(dt_utf8_code(text.at + i, n)) : -1;
        if (byte < 0)
            return false;
        dt_buf_put_u8(out, (uint8_t)byte);
    }
    return true;
}

/* All of them have one or two bytes of UTF-8. */
void dt_alphabet_put(uint8_t byte, struct dt_buf *out)
{
    unsigned c = 0;
    while (byte_of(c) != byte)
        c++;
    if (c >= 0x80)
        dt_buf_put_u8(out, (uint8_t)(0xc0 | c >> 6));
    dt_buf_put_u8(out, (uint8_t)(c < 0x80 ? c : 0x80 | (c & 0x3f)));
}
