/* SPDX-License-Identifier: Apache-2.0 */
/* A c10d job whose store turned out to be a real torchrun's (or any that does not hold our hello
 * key): joined as one of its own agents joins, through the state that they keep under one key. What
 * is torchrun's there stays so: its rounds, its ranks, its counting of restarts. */
#ifndef DT_AGENT_BACKEND_TORCHRUN_FOREIGN_H
#define DT_AGENT_BACKEND_TORCHRUN_FOREIGN_H

#include "agent/backend/backend.h"

/* As those of backend.h. Connects to the plan's endpoint itself. */
struct dt_backend *dt_backend_foreign_open(uv_loop_t *loop, const struct dt_plan *plan,
                                           const struct dt_backend_events *events, void *arg,
                                           struct dt_err *err);

#endif
