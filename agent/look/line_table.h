/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of CPython's code objects. A table has an entry for each run of instructions, and says by
 * how much the line differs from that of the entry before. Pure. */
#ifndef DT_AGENT_LOOK_LINE_TABLE_H
#define DT_AGENT_LOOK_LINE_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum dt_line_format {
    DT_LINES_NUMBERS,   /* co_lnotab, to 3.9: two bytes an entry */
    DT_LINES_RANGES,    /* co_linetable of 3.10: two bytes an entry, which may have no line */
    DT_LINES_LOCATIONS, /* co_linetable from 3.11 on: columns too */
};

/* The line of the instruction at AT, in bytes from the first one, of code that begins at line
 * FIRST: FIRST itself before the first instruction. 0: it has no line, or TABLE is damaged. */
int dt_line_table_at(enum dt_line_format format, const uint8_t *table, size_t len, int first,
                     int64_t at);

#endif
