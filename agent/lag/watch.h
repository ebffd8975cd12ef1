/* SPDX-License-Identifier: Apache-2.0 */
/* This folder measures what each worker of an attempt needs for its own part, so that one that
 * holds the others up can be named: gauge.h measures, facts.h and reason.h say why one is slow, and
 * here are the timer, the samples, and for a node that judges alone the judge (rendezvous/lag).
 *
 * Samples are taken in a thread beside the loop, at times that no step of the program can keep up
 * with, and no worker is stopped or signalled. */
#ifndef DT_AGENT_LAG_WATCH_H
#define DT_AGENT_LAG_WATCH_H

#include "agent/plan.h"
#include "agent/process/group.h"
#include "agent/watch/pages.h"
#include "agent/world.h"
#include "base/err.h"
#include "rendezvous/protocol/own_time.h"

#include <uv.h>

struct dt_lag_watch;

/* What it watches. All but the struct itself outlives it. */
struct dt_lag_means {
    uv_loop_t *loop;
    const struct dt_plan *plan;
    const struct dt_world *world;
    const struct dt_group *group;
    const struct dt_pages *pages; /* NULL: none could be made */
};

/* From the loop: what is said of the worker that holds the others up, or (not HOLDS_UP) did. */
typedef void dt_lag_told_fn(void *arg, const char *sentence, bool holds_up);

/* TOLD: NULL where somebody else judges. NULL and *err: no memory. */
struct dt_lag_watch *dt_lag_watch_open(const struct dt_lag_means *means, dt_lag_told_fn *told,
                                       void *arg, struct dt_err *err);
/* Nothing is told from here on, and nothing of MEANS but the loop is needed. */
void dt_lag_watch_close(struct dt_lag_watch *w, void (*on_closed)(void *arg), void *arg);

/* The last window; its strings are good until the loop goes on. */
const struct dt_own_time *dt_lag_watch_last(const struct dt_lag_watch *w);

#endif
