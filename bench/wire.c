/* SPDX-License-Identifier: Apache-2.0 */
/* See wire.h: the parts of request building that all protocols share. */
#include "bench/wire.h"

void out_fill(struct dt_buf *b, char c, size_t len)
{
    uint8_t *at = dt_buf_room(b, len);
    if (!at)
        return;
    memset(at, c, len);
    dt_buf_grew(b, len);
}

void out_key(struct dt_buf *b, const struct key *k)
{
    dt_buf_put(b, "/", 1);
    dt_buf_put(b, &k->family, 1);
    out_fill(b, 'k', k->size - 2 - k->digits);
    out_fill(b, '0', k->digits);
}

void out_note_key(struct out *o, const struct key *k, size_t end)
{
    if (o->keys < WIRE_KEYS_MAX)
        o->key_at[o->keys++] = end - k->digits;
}

unsigned key_digits(unsigned long keys)
{
    unsigned digits = 1;
    for (unsigned long top = (keys - 1) >> 4; top > 0; top >>= 4)
        digits++;
    return digits;
}

void key_put_digits(uint8_t *at, unsigned digits, uint32_t number)
{
    for (; digits > 0; number >>= 4)
        at[--digits] = (uint8_t) "0123456789abcdef"[number & 15];
}
