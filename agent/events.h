/* SPDX-License-Identifier: Apache-2.0 */
/* The event stream for machines: what torchrun's event handlers get, one JSON object each. "null"
 * drops them, "console" prints lines on standard error, "file:PATH" appends lines to a file, each
 * in one write. An event that cannot be written is lost, with one warning for all. Beyond torchrun,
 * "timestamp" is told (milliseconds since 1970), "entry_point" is the script, not the interpreter,
 * and "total_run_time" counts from the start in every event. */
#ifndef DT_AGENT_EVENTS_H
#define DT_AGENT_EVENTS_H

#include "agent/failure/verdict.h"
#include "agent/plan.h"
#include "agent/process/group.h"
#include "agent/world.h"
#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

struct dt_events;

/* The PLAN is kept until the end. HOST is the fully qualified name of this one. */
struct dt_events *dt_events_open(const struct dt_plan *plan, const char *host, struct dt_err *err);
void dt_events_close(struct dt_events *e);

/* The world of what comes; NULL: there is none yet. Copied. */
void dt_events_set_world(struct dt_events *e, const struct dt_world *world, int restarts);

/* The agent came into a state: "RENDEZVOUS", "ASSIGN_WORKER_RANKS", "SUCCEEDED", "FAILED". DURATION
 * is how long that took (-1: not told). RAW_ERROR is JSON, or NULL. E may be NULL: what could not
 * be opened is told nothing. */
void dt_events_agent(struct dt_events *e, const char *state, dt_ms duration, const char *raw_error);

/* So did a worker: "SUCCEEDED", "FAILED", "TERMINATED". RAW_ERROR is JSON, or NULL. */
void dt_events_worker(struct dt_events *e, const char *state, int local_rank, pid_t pid,
                      const char *raw_error);

/* So did all workers of a group that is over. VERDICT: on those that failed; NULL: none did. */
void dt_events_workers(struct dt_events *e, const struct dt_group *group,
                       const struct dt_verdict *verdict);

#endif
