/* SPDX-License-Identifier: Apache-2.0 */
/* One look at a worker's stream by somebody who reads it along: where it begins, and what it found.
 */
#ifndef DT_AGENT_OUTPUT_READING_H
#define DT_AGENT_OUTPUT_READING_H

#include "agent/output/output.h"

#define DT_READING_KEPT ((uint64_t)256 << 10) /* nobody is further behind */

/* What is wanted. */
struct dt_reading_wish {
    bool fresh;    /* nothing was read of it yet: the last DT_OUTPUT_TAIL bytes, all of them */
    uint64_t at;   /* else: from there on ... */
    size_t most;   /* ... so many bytes */
    uint64_t kept; /* and none before the last so many; at most DT_READING_KEPT */
};

struct dt_reading {
    int local_rank;
    unsigned stream;
    struct dt_output_log log;
    struct dt_reading_wish wish;
    int file; /* a descriptor of our own, to be read; -1: nothing is to be done */
    uint64_t end, from;
    struct dt_buf bytes; /* those from FROM on */
};

/* Begins the look at a stream that dt_output_log() gave; one that is in memory is over with that.
 * -1 and *err: its file cannot be had. End with dt_reading_finish() in either case. */
int dt_reading_begin(struct dt_reading *r, const struct dt_output *o, struct dt_err *err);

/* Reads the file, if there is one. May take as long as its disk does: on any thread. */
void dt_reading_read(struct dt_reading *r);

void dt_reading_finish(struct dt_reading *r);

#endif
