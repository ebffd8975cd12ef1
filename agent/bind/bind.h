/* SPDX-License-Identifier: Apache-2.0 */
/* Which processors and which memory each worker gets. The plan is pure, over a description of the
 * machine that a helper library reads with hwloc; it is loaded only when binding is asked for. */
#ifndef DT_AGENT_BIND_BIND_H
#define DT_AGENT_BIND_BIND_H

#include "agent/plan.h"
#include "agent/process/spawn.h"
#include "base/buf.h"
#include "base/err.h"

struct dt_bind;

/* Decides for all workers of PLAN, or says why it cannot be done: too few cores, no hwloc helper.
 * PLAN->bind is not DT_BIND_NONE. DEVICES: CUDA_VISIBLE_DEVICES as in our environment, or NULL. */
struct dt_bind *dt_bind_create(const struct dt_plan *plan, const char *devices, struct dt_err *err);
void dt_bind_destroy(struct dt_bind *b);

/* Where local rank L runs; the sets are B's. */
struct dt_spawn_place dt_bind_place(const struct dt_bind *b, int local_rank);

/* "local rank 3: GPU 3 (0000:9b:00.0), NUMA node 1, cpus 32-47,96-111": one line, no newline. */
void dt_bind_describe(const struct dt_bind *b, int local_rank, struct dt_buf *out);

#endif
