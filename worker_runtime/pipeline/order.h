/* SPDX-License-Identifier: Apache-2.0 */
/* What each stage of a pipeline computes in a step, and in which order. The model is cut into
 * stages * chunks sections, one behind the other: chunk C of stage S is section C * stages + S. All
 * ranks of a stage run its list. In each schedule both ends of a border between two sections name
 * the micro-batches in one order, and so do two stages alone all that one gives the other; a
 * section adds up their gradients in the order of their numbers. Pure. */
#ifndef DT_WORKER_RUNTIME_PIPELINE_ORDER_H
#define DT_WORKER_RUNTIME_PIPELINE_ORDER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define DT_PIPE_SECTIONS_MOST 4096
#define DT_PIPE_MICROS_MOST (1 << 16)

enum dt_pipe_schedule {
    DT_PIPE_GPIPE,       /* all forwards, then all backwards */
    DT_PIPE_1F1B,        /* a backward as soon as there is one: as idle, with less to hold */
    DT_PIPE_INTERLEAVED, /* 1F1B of several chunks a stage: less idle, more to send and hold */
    DT_PIPE_ZB_H1,       /* 1F1B that puts weights' gradients where stages would be idle */
};

enum dt_pipe_kind {
    DT_PIPE_FORWARD,
    DT_PIPE_BACKWARD, /* the gradients of the input and of the weights */
    DT_PIPE_INPUT,    /* its halves, of ZB-H1: the gradient that the section in front waits for */
    DT_PIPE_WEIGHT,   /* and those that nobody waits for */
};

struct dt_pipe_op {
    enum dt_pipe_kind kind;
    int micro, chunk;
};

struct dt_pipe_plan {
    enum dt_pipe_schedule schedule;
    int stages, chunks, micros; /* chunks of a stage; micro-batches of a step */
};

const char *dt_pipe_schedule_name(enum dt_pipe_schedule s);

/* Refuses what cannot be; what follows takes no other plan. */
int dt_pipe_check(const struct dt_pipe_plan *p, struct dt_err *err);

/* As many on each stage. */
size_t dt_pipe_op_count(const struct dt_pipe_plan *p);
void dt_pipe_list(const struct dt_pipe_plan *p, int stage, struct dt_pipe_op *ops);

/* Whether an op begins with what another stage gives, or ends with what one takes: the neighbour
 * towards which it goes, in a ring. With the weights' half of a backward it does neither. */
bool dt_pipe_takes(const struct dt_pipe_plan *p, int stage, const struct dt_pipe_op *op);
bool dt_pipe_gives(const struct dt_pipe_plan *p, int stage, const struct dt_pipe_op *op);

/* How many ops, from number I of STAGE's list on, hand over as one where a stage begins to send and
 * to receive in one go and goes on when all of that is through, as GPUs do: what they take is there
 * before the first, and what they make goes out behind the last, together with what the next ones
 * take. Of several chunks a forward and the backward behind it do, or stages would wait in a ring.
 */
int dt_pipe_round(const struct dt_pipe_plan *p, int stage, size_t i);

/* The most that STAGE holds at once of what is between its forward and the end of its backward:
 * micro-batches, or with several chunks, chunks of them. */
int dt_pipe_slots(const struct dt_pipe_plan *p, int stage);

#endif
