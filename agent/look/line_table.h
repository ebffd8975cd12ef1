/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of CPython's code objects, from 3.11 on: the location table (co_linetable) has an entry for
 * each run of instructions, and says by how much the line differs from that of the entry before.
 * Pure. */
#ifndef DT_AGENT_LOOK_LINE_TABLE_H
#define DT_AGENT_LOOK_LINE_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* The line of instruction INSTRUCTION, counted in units of two bytes, of code that begins at line
 * FIRST: FIRST itself before the first instruction. 0: it has no line, or TABLE is damaged. */
int dt_line_table_at(const uint8_t *table, size_t len, int first, int64_t instruction);

#endif
