/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/line_table.h"

#include "base/buf.h"

#include <limits.h>

#define INSTRUCTION_BYTES 2

/* Kinds of locations; those below LOCATION_ONE_LINE say columns only. */
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

/* Reads what a location of KIND has behind its first byte: by how much the line changes. */
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

static int as_line(int64_t line)
{
    return line > 0 && line <= INT_MAX ? (int)line : 0;
}

/* An entry says how many bytes of instructions come before its change of the line. */
static int line_by_numbers(struct dt_reader *r, int64_t line, int64_t at)
{
    int64_t entry = 0;
    while (dt_reader_left(r) > 0) {
        entry += dt_read_u8(r);
        int8_t change = (int8_t)dt_read_u8(r);
        if (r->bad)
            return 0;
        if (at < entry)
            break;
        line += change;
    }
    return as_line(line);
}

#define RANGE_WITHOUT_LINE (-128)

/* An entry says how many bytes of instructions have its line. */
static int line_by_ranges(struct dt_reader *r, int64_t line, int64_t at)
{
    int64_t end = 0;
    while (dt_reader_left(r) > 0) {
        end += dt_read_u8(r);
        int8_t change = (int8_t)dt_read_u8(r);
        if (r->bad)
            return 0;
        if (change != RANGE_WITHOUT_LINE)
            line += change;
        if (at < end)
            return change == RANGE_WITHOUT_LINE ? 0 : as_line(line);
    }
    return 0;
}

static int line_by_locations(struct dt_reader *r, int64_t line, int64_t at)
{
    int64_t end = 0;
    while (dt_reader_left(r) > 0) {
        uint8_t head = dt_read_u8(r);
        int kind = head >> 3 & 15;
        line += read_change(r, kind);
        if (r->bad || !(head & 0x80) || line < 0 || line > INT_MAX)
            return 0;
        end += ((head & 7) + 1) * INSTRUCTION_BYTES;
        if (at < end)
            return kind == LOCATION_NONE ? 0 : (int)line;
    }
    return 0;
}

int dt_line_table_at(enum dt_line_format format, const uint8_t *table, size_t len, int first,
                     int64_t at)
{
    struct dt_reader r = dt_reader_over(table, len);
    if (at < 0)
        return as_line(first);
    switch (format) {
    case DT_LINES_NUMBERS:
        return line_by_numbers(&r, first, at);
    case DT_LINES_RANGES:
        return line_by_ranges(&r, first, at);
    case DT_LINES_LOCATIONS:
        return line_by_locations(&r, first, at);
    }
    return 0;
}
