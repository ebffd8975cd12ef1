/* SPDX-License-Identifier: Apache-2.0 */
/* One node's supervisor: joins, runs the workers, restarts or ends them, reports. */
#ifndef DT_AGENT_AGENT_H
#define DT_AGENT_AGENT_H

#include "agent/plan.h"
#include "base/err.h"

#include <signal.h>

/* Tells an agent that too few nodes of its job are left, for whoever has started them all: there
 * may be no rendezvous any more that says so. It ends nobody who does not listen to it yet, so it
 * is to be sent again and again. What ends already, and saves what there is, is not disturbed. */
#define DT_AGENT_JOB_LOST SIGURG

/* Carries PLAN out and returns the exit status of the process. Whatever went wrong has been said on
 * standard error. To be called once, from the main thread of a process without others. */
int dt_agent_run(const struct dt_plan *plan);

#endif
