/* SPDX-License-Identifier: Apache-2.0 */
/* What of a worker's output is told to somebody who reads along: from where, how much of it at a
 * time, and how it looks as JSON. A line ends in \n, \r or \r\n. Pure. */
#ifndef DT_AGENT_OUTPUT_PORTION_H
#define DT_AGENT_OUTPUT_PORTION_H

#include "base/buf.h"

#include <stdbool.h>

/* Where to go on who has read up to AT of what has END bytes and keeps the last KEPT of them. */
uint64_t dt_portion_from(uint64_t end, uint64_t at, uint64_t kept);

/* Where in B the last LINES lines begin. An unfinished one counts. */
size_t dt_portion_last_lines(struct dt_bytes b, int lines);
/* Where in B the first line begins that is there as a whole; 0 where none does. */
size_t dt_portion_first_line(struct dt_bytes b);

/* How many bytes of B to tell, at most MOST: whole lines. Of a line that is longer than MOST a part
 * goes, which ends with a whole character. ALL: an unfinished line goes too. */
size_t dt_portion_cut(struct dt_bytes b, size_t most, bool all);

/* Appends B as a JSON string. What is no UTF-8, and a NUL, becomes U+FFFD. */
void dt_portion_quote(struct dt_buf *out, struct dt_bytes b);

#endif
