/* SPDX-License-Identifier: Apache-2.0 */
/* What the environment says about this worker's place in its job. Read once, checked as a whole:
 * whoever has half of a job in the environment has none, and is told which half is missing. */
#ifndef DT_WORKER_RUNTIME_JOB_ENV_H
#define DT_WORKER_RUNTIME_JOB_ENV_H

#include "base/err.h"
#include "rendezvous/protocol/page.h"

#include <stdbool.h>
#include <stdint.h>

struct dt_job_env {
    bool alone; /* nothing is said: a world of one */
    int rank, world;
    int local_rank, local_world;
    int group, groups; /* of agents: GROUP_RANK, GROUP_WORLD_SIZE */
    int restarts;
    /* Counts the worlds of this job: DTRUN_ROUND, which rises whenever ranks are given anew. Who
     * starts workers without telling it changes nothing but the restarts. */
    int64_t epoch;
    char run_id[256];
    char store[320]; /* "HOST:PORT"; "" when the world is one */
};

int dt_job_env_read(struct dt_job_env *e, struct dt_err *err);

/* Puts a next world in the place of the one in the environment, so that whoever reads that sees
 * what a new process would; then dt_job_env_read() has it. No other thread may look meanwhile. */
int dt_job_env_enter(const struct dt_page_world *w, struct dt_err *err);

/* Threads for computing: ASKED if more than 0, else OMP_NUM_THREADS, else the processors this
 * process may use divided by LOCAL_WORLD, at least one. */
int dt_job_env_threads(int asked, int local_world, int *threads, struct dt_err *err);

#endif
