/* SPDX-License-Identifier: Apache-2.0 */
/* See wire.h: the parts of request building that all protocols share. */
#include "bench/wire.h"

#include <stdlib.h>
#include <string.h>

void out_finish(struct out *o)
{
    free(o->bytes);
    *o = (struct out){0};
}

static uint8_t *grow(struct out *o, size_t len)
{
    if (!o->bad && o->len + len > o->cap) {
        size_t cap = (o->len + len) * 2;
        uint8_t *bytes = realloc(o->bytes, cap);
        o->bad = !bytes;
        if (bytes) {
            o->bytes = bytes;
            o->cap = cap;
        }
    }
    if (o->bad)
        return NULL;
    uint8_t *at = o->bytes + o->len;
    o->len += len;
    return at;
}

void out_bytes(struct out *o, const void *bytes, size_t len)
{
    uint8_t *at = grow(o, len);
    if (at && len > 0)
        memcpy(at, bytes, len);
}

void out_fill(struct out *o, char c, size_t len)
{
    uint8_t *at = grow(o, len);
    if (at && len > 0)
        memset(at, c, len);
}

void out_key(struct out *o, const struct key *k)
{
    out_bytes(o, "/", 1);
    out_bytes(o, &k->family, 1);
    out_fill(o, 'k', k->size - 2 - k->digits);
    if (o->keys < WIRE_KEYS_MAX)
        o->key_at[o->keys++] = o->len;
    out_fill(o, '0', k->digits);
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
