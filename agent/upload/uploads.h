/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's side of --upload: a helper process, what it says, and its end. */
#ifndef DT_AGENT_UPLOAD_UPLOADS_H
#define DT_AGENT_UPLOAD_UPLOADS_H

#include "agent/plan.h"
#include "base/err.h"

#include <uv.h>

struct dt_uploads;

/* Forks the helper: before this process has a loop, a thread or handlers of signals. PLAN outlives
 * it. */
struct dt_uploads *dt_uploads_start(const struct dt_plan *plan, struct dt_err *err);
/* Its lines go to the log from here on. -1: LOOP cannot watch it, and U is gone. */
int dt_uploads_listen(struct dt_uploads *u, uv_loop_t *loop, struct dt_err *err);
/* Whether this is the node that uploads what all nodes see. */
void dt_uploads_set_first(struct dt_uploads *u, bool first);
/* For how long the oldest of what is complete has waited to be uploaded; 0: nothing waits. U may be
 * NULL. */
dt_ms dt_uploads_wait(const struct dt_uploads *u, dt_ms now);
/* The workers are gone; CUT_OFF: maybe in the middle of what they wrote. The helper has PATIENCE to
 * upload what is left; when it has ended ON_CLOSED is called, and U is gone. */
void dt_uploads_close(struct dt_uploads *u, bool cut_off, dt_ms patience,
                      void (*on_closed)(void *arg), void *arg);
/* After close: it has no more than that. */
void dt_uploads_limit(struct dt_uploads *u, dt_ms patience);

#endif
