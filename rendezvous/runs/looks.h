/* SPDX-License-Identifier: Apache-2.0 */
/* People who want to know what all workers of a run do. They wait for the look that their question
 * began, or that was under way already, and get the same answer. Inside the server only. */
#ifndef DT_RENDEZVOUS_RUNS_LOOKS_H
#define DT_RENDEZVOUS_RUNS_LOOKS_H

#include "rendezvous/runs/runs.h"

/* C asks by M for the workers of RUN, which may be NULL: there is none. False: it has its answer;
 * else the run is to be stepped with DT_EV_LOOK. */
bool dt_rdzv_looks_take(struct dt_rdzv_run *run, struct dt_rdzv_conn *c,
                        const struct dt_message *m);
/* After each step of RUN: answers those who wait, unless nodes are still being asked. */
void dt_rdzv_looks_settle(struct dt_rdzv_run *run);
/* Whether somebody waits still, as the look that is there has no calls of C code: RUN is to be
 * stepped with a DT_EV_LOOK that is native. */
bool dt_rdzv_looks_lack_native(const struct dt_rdzv_run *run);
/* RUN is about to be no more. */
void dt_rdzv_looks_end(struct dt_rdzv_run *run);

#endif
