/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/tokenizer/lossy.h"

#include "base/utf8.h"

#define ASCII_BITS 0x8080808080808080u

size_t dt_lossy_whole(struct dt_bytes part)
{
    size_t i = 0;
    while (i < part.len) {
        uint64_t eight;
        while (part.len - i >= sizeof eight) {
            memcpy(&eight, part.at + i, sizeof eight);
            if (eight & ASCII_BITS)
                break;
            i += sizeof eight;
        }
        size_t n = i < part.len ? dt_utf8_len(part.at + i, part.len - i) : 0;
        if (n == 0)
            break;
        i += n;
    }
    return i;
}

/* Which second bytes may follow FIRST (table 3-7 of the standard); no byte where it begins none. */
static void second_range(uint8_t first, uint8_t *low, uint8_t *high)
{
    *low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    *high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (first < 0xc2 || first > 0xf4)
        *low = 1, *high = 0;
}

static size_t length_told_by(uint8_t first)
{
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Whether the bytes that L holds can still become a character with BYTE behind them. */
static bool goes_on(const struct dt_lossy *l, uint8_t byte)
{
    uint8_t low = 0x80, high = 0xbf;
    if (l->len == 1)
        second_range(l->bytes[0], &low, &high);
    return byte >= low && byte <= high;
}

static void give_up(struct dt_lossy *l, struct dt_buf *out)
{
    if (l->len)
        dt_buf_put(out, "\xef\xbf\xbd", 3);
    l->len = 0;
}

static void put_byte(struct dt_lossy *l, uint8_t byte, struct dt_buf *out)
{
    if (l->len && !goes_on(l, byte))
        give_up(l, out);
    if (l->len == 0 && byte < 0x80) {
        dt_buf_put_u8(out, byte);
        return;
    }
    l->bytes[l->len++] = byte;
    uint8_t low, high;
    second_range(l->bytes[0], &low, &high);
    if (low > high) {
        give_up(l, out);
    } else if (l->len == length_told_by(l->bytes[0])) {
        dt_buf_put(out, l->bytes, l->len);
        l->len = 0;
    }
}

void dt_lossy_put(struct dt_lossy *l, struct dt_bytes part, bool end, struct dt_buf *out)
{
    for (size_t i = 0; i < part.len;) {
        size_t whole = l->len ? 0 : dt_lossy_whole((struct dt_bytes){part.at + i, part.len - i});
        dt_buf_put(out, part.at + i, whole);
        i += whole;
        if (i < part.len)
            put_byte(l, part.at[i++], out);
    }
    if (end)
        give_up(l, out);
}
