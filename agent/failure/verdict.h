/* SPDX-License-Identifier: Apache-2.0 */
/* The last words about an attempt that failed: who, how, first; as the report on standard error, in
 * our own error file, and as an exit status. */
#ifndef DT_AGENT_FAILURE_VERDICT_H
#define DT_AGENT_FAILURE_VERDICT_H

#include "agent/backend/backend.h"
#include "agent/failure/failure.h"
#include "agent/failure/inquiry.h"
#include "agent/plan.h"
#include "agent/process/group.h"
#include "agent/watch/pages.h"

/* Who of this node's workers is to blame. */
struct dt_culprit {
    int local_rank, rank;
    int64_t died_ns; /* monotonic */
    struct dt_cause cause;
};

struct dt_verdict {
    struct dt_failure *failures; /* by local rank; never empty */
    size_t count, root;
    struct dt_culprit culprit; /* the root, or one that says what the root only suffered from */
};

/* Gathers the failures of a group that is over and whose output is drained. End it with
 * dt_verdict_finish(), also after a failure. */
int dt_verdict_make(struct dt_verdict *v, const struct dt_scene *scene,
                    const struct dt_group *group, struct dt_err *err);
void dt_verdict_finish(struct dt_verdict *v);

/* Whether a worker of a group that is over, and that was asked to end, had failed of itself before:
 * the first of those. */
bool dt_verdict_find_confession(const struct dt_scene *scene, const struct dt_group *group,
                                struct dt_culprit *out);

/* "worker 3 (pid 812) killed by SIGSEGV after 41.2 s" of the root cause. */
#define DT_VERDICT_SENTENCE (160 + DT_FAILURE_REMARK)
const char *dt_verdict_sentence(const struct dt_verdict *v, const struct dt_group *group, char *out,
                                size_t size);

/* How far each that failed was, where it told on its page: a log line each. */
void dt_verdict_say_steps(const struct dt_verdict *v, const struct dt_pages *pages);

/* Where the core dump of each is that left one: a log line each. */
void dt_verdict_say_cores(const struct dt_verdict *v, const struct dt_group *group);

/* Prints the report and, below it, the CAUSE; NULL: who is to blame here for what; leaves the root
 * failure in plan->error_file. Returns the exit status. */
int dt_verdict_deliver(const struct dt_verdict *v, const struct dt_plan *plan, const char *cause);

#endif
