/* SPDX-License-Identifier: Apache-2.0 */
/* A step of a pipeline without ranks: how long it takes, who is idle, what is held, and whether it
 * ends at all. The lists need not come from dt_pipe_list(): what is wrong with them is found. Pure.
 */
#ifndef DT_WORKER_RUNTIME_PIPELINE_SIMULATE_H
#define DT_WORKER_RUNTIME_PIPELINE_SIMULATE_H

#include "worker_runtime/pipeline/order.h"

#include <stdbool.h>

#define DT_PIPE_ROOM_MOST 2

/* What a section takes for a micro-batch; a backward is its input's gradient and its weights'. */
struct dt_pipe_times {
    double forward, input, weight;
};

struct dt_pipe_trial {
    struct dt_pipe_plan plan;
    const struct dt_pipe_op *ops;      /* [stages, dt_pipe_op_count()]; the caller's */
    const struct dt_pipe_times *times; /* by section; the caller's */
    double transfer;                   /* of a micro-batch across a border */
    /* How many messages each way a stage may have sent that nobody has received yet, up to
     * DT_PIPE_ROOM_MOST: with 0 it goes on when what it has just sent is received, as with
     * dt_coll_send(). It begins to receive what its next op takes when it begins to send. -1: sends
     * take no time of it. */
    int room;
    int early;  /* ops behind its next one whose messages it begins to receive then, too */
    bool joint; /* ops hand over as one, by dt_pipe_round() */
};

/* Of a stage. */
struct dt_pipe_use {
    double busy; /* of the makespan */
    int held;    /* the most at once, as dt_pipe_slots() counts */
};

/* USE: by stage. Refuses lists of which one lacks an op, has one twice or before what it needs, of
 * which two ends of a border name other micro-batches, and that wait for each other. */
int dt_pipe_simulate(const struct dt_pipe_trial *t, struct dt_pipe_use *use, double *makespan,
                     struct dt_err *err);

#endif
