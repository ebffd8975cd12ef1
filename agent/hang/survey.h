/* SPDX-License-Identifier: Apache-2.0 */
/* A look at all workers of a node, one after the other. Blocks: for a thread beside the loop. */
#ifndef DT_AGENT_HANG_SURVEY_H
#define DT_AGENT_HANG_SURVEY_H

#include "agent/hang/witness.h"
#include "base/buf.h"
#include "rendezvous/protocol/comms.h"
#include "rendezvous/protocol/stance.h"

#include <sys/types.h>

struct dt_survey_worker {
    int rank;
    pid_t pid;     /* 0: it has ended, or was never started; ... */
    char left[64]; /* ... and how: "has exited with 0" */
    char *dump;    /* what its flight recorder wrote; NULL: it was not asked. The caller's */
    struct dt_page_told page;
    struct dt_comms_told comms; /* what NCCL told */
    dt_ms still;                /* it has stood still for so long */
    struct dt_witness_round round;
};

/* Adds a stance of each to OUT, which was empty, and to STACKS, for people, all that was seen.
 * STORE_PORT: of the job's store; 0: no agent serves one. Workers whose turn does not come within
 * DT_LOOK_TIME_MAX have a stance that says so. NATIVE: see native_calls.h. -1: no memory. */
int dt_survey_take(const struct dt_survey_worker *workers, int count, int store_port, bool native,
                   struct dt_stances *out, struct dt_buf *stacks, struct dt_err *err);

#endif
