/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/line_table.h"

#include "base/buf.h"

#include <limits.h>

/* Kinds of entries; those below LOCATION_ONE_LINE say columns only. */
enum {
    LOCATION_ONE_LINE = 10,
    LOCATION_NO_COLUMNS = 13,
    LOCATION_LONG = 14,
    LOCATION_NONE = 15,
};

/* Six bits a byte, the lowest first; the seventh says that there are more. */
static uint32_t read_number(struct dt_reader *r)
{
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 30; shift += 6) {
        uint8_t byte = dt_read_u8(r);
        value |= (byte & 63u) << shift;
        if (!(byte & 64))
            return value;
    }
    r->bad = true;
    return 0;
}

/* The lowest bit is the sign. */
static int64_t read_signed(struct dt_reader *r)
{
    uint32_t value = read_number(r);
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* Reads what an entry of KIND has behind its first byte: by how much the line changes. */
static int64_t read_change(struct dt_reader *r, int kind)
{
    int64_t change = 0;
    if (kind == LOCATION_NONE)
        return 0;
    if (kind == LOCATION_NO_COLUMNS || kind == LOCATION_LONG)
        change = read_signed(r);
    if (kind == LOCATION_LONG)
        for (int i = 0; i < 3; i++) /* the last line, both columns */
            read_number(r);
    if (kind < LOCATION_ONE_LINE) {
        dt_read_u8(r);
    } else if (kind < LOCATION_NO_COLUMNS) {
        change = kind - LOCATION_ONE_LINE;
        dt_read_bytes(r, 2);
    }
    return change;
}

int dt_line_table_at(const uint8_t *table, size_t len, int first, int64_t instruction)
{
    struct dt_reader r = dt_reader_over(table, len);
    int64_t line = first, at = 0;
    if (instruction < 0)
        return first > 0 ? first : 0;
    while (dt_reader_left(&r) > 0) {
        uint8_t head = dt_read_u8(&r);
        int kind = head >> 3 & 15;
        line += read_change(&r, kind);
        if (r.bad || !(head & 0x80) || line < 0 || line > INT_MAX)
            return 0;
        at += (head & 7) + 1;
        if (instruction < at)
            return kind == LOCATION_NONE ? 0 : (int)line;
    }
    return 0;
}
