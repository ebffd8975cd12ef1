/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/python_text.h"

/* Bits of an object's state, from the kind on: bytes of a character, and whether these follow. */
#define STATE_KIND 7u
#define STATE_COMPACT 8u
#define STATE_ASCII 16u

#define REPLACEMENT 0xfffd /* for what is no character */

static void put_character(struct dt_buf *out, uint32_t c)
{
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) || c == 0)
        c = REPLACEMENT;
    if (c < 0x80) {
        dt_buf_put_u8(out, (uint8_t)c);
        return;
    }
    if (c < 0x800) {
        dt_buf_put_u8(out, (uint8_t)(0xc0 | c >> 6));
    } else {
        if (c < 0x10000) {
            dt_buf_put_u8(out, (uint8_t)(0xe0 | c >> 12));
        } else {
            dt_buf_put_u8(out, (uint8_t)(0xf0 | c >> 18));
            dt_buf_put_u8(out, (uint8_t)(0x80 | (c >> 12 & 63)));
        }
        dt_buf_put_u8(out, (uint8_t)(0x80 | (c >> 6 & 63)));
    }
    dt_buf_put_u8(out, (uint8_t)(0x80 | (c & 63)));
}

/* LEN characters of KIND bytes each. */
static void put_characters(struct dt_buf *out, const uint8_t *at, size_t len, unsigned kind)
{
    for (size_t i = 0; i < len; i++, at += kind) {
        uint32_t c = at[0];
        if (kind > 1)
            c |= (uint32_t)at[1] << 8;
        if (kind > 2)
            c |= (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        put_character(out, c);
    }
}

int dt_python_text_read(struct dt_memory *m, const struct dt_python_layout *layout,
                        uint64_t address, struct dt_buf *out)
{
    uint64_t len;
    uint32_t state;
    uint8_t head[DT_PYTHON_TEXT_HEAD], text[4 * 1024];
    size_t length_end = layout->text_length + sizeof len;
    size_t state_end = layout->text_state + sizeof state;
    if (dt_memory_read(m, address, head, length_end > state_end ? length_end : state_end) < 0)
        return -1;
    memcpy(&len, head + layout->text_length, sizeof len);
    memcpy(&state, head + layout->text_state, sizeof state);
    state >>= layout->text_kind;
    unsigned kind = state & STATE_KIND;
    if (!(state & STATE_COMPACT) || (kind != 1 && kind != 2 && kind != 4) ||
        len > DT_PYTHON_TEXT_MAX)
        return -1;
    address += state & STATE_ASCII ? layout->text_ascii : layout->text_wide;
    while (len > 0) {
        size_t part = len < sizeof text / kind ? len : sizeof text / kind;
        if (dt_memory_read(m, address, text, part * kind) < 0)
            return -1;
        put_characters(out, text, part, kind);
        address += part * kind;
        len -= part;
    }
    return out->bad ? -1 : 0;
}

int dt_python_bytes_read(struct dt_memory *m, const struct dt_python_layout *layout,
                         uint64_t address, struct dt_buf *out)
{
    uint64_t len;
    if (dt_memory_word(m, address + layout->bytes_size, &len) < 0 || len > DT_PYTHON_BYTES_MAX)
        return -1;
    if (len == 0)
        return 0;
    uint8_t *room = dt_buf_room(out, len);
    if (!room || dt_memory_read(m, address + layout->bytes_data, room, len) < 0)
        return -1;
    dt_buf_grew(out, len);
    return 0;
}
