/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as they come in, whole lines out. A line ends in \n, \r or \r\n, and keeps its end. What is
 * unfinished is held until its end has come, or until it is longer than DT_LINES_LONGEST: then it
 * is passed on in pieces. Nothing is lost, changed or put in another order. Pure. */
#ifndef DT_AGENT_OUTPUT_LINES_H
#define DT_AGENT_OUTPUT_LINES_H

#include "base/buf.h"

#include <stdbool.h>

#define DT_LINES_LONGEST (64u << 10)

/* Zeroed memory has seen nothing yet. */
struct dt_lines {
    struct dt_buf tail; /* of an unfinished line: what has not been passed on */
    bool open;          /* of which something has been passed on */
    bool after_cr;      /* the last line ended in a \r that may be half of a \r\n */
};

/* A whole line STARTS and ENDS. The \n of a \r\n that came apart is a piece that only ends. */
typedef void dt_lines_fn(void *arg, struct dt_bytes piece, bool starts, bool ends);

void dt_lines_put(struct dt_lines *l, struct dt_bytes in, dt_lines_fn *fn, void *arg);

/* Passes on what is held; the line stays unfinished. */
void dt_lines_show(struct dt_lines *l, dt_lines_fn *fn, void *arg);

/* No more comes: an unfinished line gets a \n. */
void dt_lines_end(struct dt_lines *l, dt_lines_fn *fn, void *arg);

void dt_lines_finish(struct dt_lines *l);

#endif
