/* SPDX-License-Identifier: Apache-2.0 */
/* What is written down of each round, and what is told and made of one that failed: why, to the
 * other nodes and the person at the terminal, and whether another one would only fail in the same
 * way. */
#ifndef DT_AGENT_AFTERMATH_H
#define DT_AGENT_AFTERMATH_H

#include "agent/attempt/attempt.h"
#include "agent/backend/backend.h"
#include "agent/failure/round_file.h"
#include "agent/failure/verdict.h"
#include "rendezvous/rdzv/futility.h"

/* The owner sets the first block. */
struct dt_aftermath {
    const struct dt_plan *plan;
    const struct dt_log_dir *logs;

    struct dt_futility futility; /* of a job that decides alone */
    char cause[DT_WHY_MAX]; /* why the round before failed, as all nodes are told; "": it did not */

    struct dt_round_record record; /* of the last round that began */
    bool open;                     /* nothing was decided about it yet */
};

/* A round begins with WORLD, with WORKERS of it here: that is written down. */
void dt_aftermath_begin(struct dt_aftermath *m, const struct dt_world *world, int workers);
/* Its workers here are gone; STEP is the last that they told of, -1: none. */
void dt_aftermath_end(struct dt_aftermath *m, int64_t step);

/* Tells the rendezvous what is known of a culprit of T, whose workers are gone, to be compared with
 * those of other nodes. */
void dt_aftermath_tell(const struct dt_attempt *t, const struct dt_culprit *c,
                       struct dt_backend *b);
/* The same where T was stopped for a failure elsewhere, if that may have come of one here. */
void dt_aftermath_confess(const struct dt_attempt *t, struct dt_backend *b);

/* Whether a restart would only fail as T did, of which V tells; then it is said. */
bool dt_aftermath_is_futile(struct dt_aftermath *m, const struct dt_attempt *t,
                            const struct dt_verdict *v);

/* Writes down why that round failed ("": it did not), and that DECIDED follows; V is on the workers
 * here, perhaps none. Nothing where that was done already. */
void dt_aftermath_note(struct dt_aftermath *m, const char *cause, const char *decided,
                       const struct dt_verdict *v);

/* The last words of a job that others decided about. Returns the exit status of the report; 0:
 * there is none. V is on the workers here; REPORT: it is wanted. */
int dt_aftermath_deliver(const struct dt_aftermath *m, const struct dt_verdict *v, bool report);

#endif
