/* SPDX-License-Identifier: Apache-2.0 */
/* What is looked at on this host when a job starts (--preflight), by a process that nobody has to
 * wait for. */
#ifndef DT_AGENT_PREFLIGHT_H
#define DT_AGENT_PREFLIGHT_H

#include "agent/plan.h"
#include "base/err.h"

#include <stdbool.h>
#include <uv.h>

struct dt_preflight;

/* Forks that process: to be called while this one has a single thread. NULL and *err: there is no
 * memory, or no further process may be. */
struct dt_preflight *dt_preflight_start(const struct dt_plan *plan, struct dt_err *err);

/* FAILED: something will break the job, in one sentence. NULL: nothing will, as far as is known.
 * The handle is gone then. */
typedef void dt_preflight_over_fn(void *arg, const char *failed);

/* A person has to know of it: WORDS, with what to try. FAILED: it will break the job. */
typedef void dt_preflight_remark_fn(void *arg, bool failed, const char *words);

/* What was found is logged, ON_REMARK is called for what weighs, and then ON_OVER, once.
 * -1: LOOP cannot watch the process, and P is gone. */
int dt_preflight_listen(struct dt_preflight *p, uv_loop_t *loop, dt_preflight_remark_fn *on_remark,
                        dt_preflight_over_fn *on_over, void *arg, struct dt_err *err);

/* Ends the process and the handle; nobody is called. NULL is fine. */
void dt_preflight_close(struct dt_preflight *p);

#endif
