/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of a rendezvous server that may be one job whose nodes were given different ids: each would
 * wait for the others without a word why. Inside the server only. */
#ifndef DT_RENDEZVOUS_RUNS_TWINS_H
#define DT_RENDEZVOUS_RUNS_TWINS_H

#include "rendezvous/runs/runs.h"

/* The id of another run that may be the same job as RUN, which is about to say whom it waits for at
 * NOW. NULL: there is none, or it will not say so. */
const char *dt_rdzv_twins_find(const struct dt_rdzv_runs *runs, const struct dt_rdzv_run *run,
                               dt_ms now);

#endif
