/* SPDX-License-Identifier: Apache-2.0 */
/* A meeting (coll/backend.h) over the job's store, and the first thing that ranks do there: each
 * says who it is and where, and learns the same of all others. Keys lie under the epoch, so what a
 * former world left in the store is not met by this one. */
#ifndef DT_WORKER_RUNTIME_STORE_MEETING_H
#define DT_WORKER_RUNTIME_STORE_MEETING_H

#include "worker_runtime/coll/backend.h"
#include "worker_runtime/job_env.h"

struct dt_store_meeting;

/* Connects to ENV's store, which may take TIMEOUT to be there. */
struct dt_store_meeting *dt_store_meeting_open(const struct dt_job_env *env, dt_ms timeout,
                                               struct dt_err *err);
void dt_store_meeting_close(struct dt_store_meeting *m); /* NULL is fine */
struct dt_meeting *dt_store_meeting_base(struct dt_store_meeting *m);

/* All of the world, in order of rank; the caller frees it. Two ranks are on one host when one agent
 * started them (GROUP_RANK) and they see the same processes of the same machine. Fails at TIMEOUT
 * and names the ranks that did not come. */
struct dt_coll_member *dt_store_meeting_members(struct dt_store_meeting *m,
                                                const struct dt_job_env *env, dt_ms timeout,
                                                struct dt_err *err);

#endif
