/* SPDX-License-Identifier: Apache-2.0 */
/* This folder notices that the workers of one attempt stand still, and says what each of them does:
 * what tells that they move (witness.h), what one of them does (posture.h), and here the timer, the
 * looks, the words for a person and the evidence. Whose fault it is, rendezvous/hang judges.
 *
 * Samples and looks are taken in threads beside the loop, so that it never waits for /proc. */
#ifndef DT_AGENT_HANG_HANG_H
#define DT_AGENT_HANG_HANG_H

#include "agent/hang/recorders.h"
#include "agent/log_dir.h"
#include "agent/plan.h"
#include "agent/process/group.h"
#include "agent/watch/pages.h"
#include "agent/world.h"
#include "base/err.h"
#include "rendezvous/hang/judge.h"

#include <uv.h>

struct dt_hang;

/* What it watches. All but the struct itself outlives it. */
struct dt_hang_means {
    uv_loop_t *loop;
    const struct dt_plan *plan;
    const struct dt_world *world;
    const struct dt_group *group;
    const struct dt_pages *pages; /* NULL: none could be made */
    const struct dt_log_dir *logs;
    struct dt_recorders *recorders; /* NULL: there are none */
};

/* All told from the loop, and from dt_hang_tell(). */
struct dt_hang_events {
    /* All workers here have stood still for so long: said again and again while nobody calls
     * dt_hang_tell(); 0: they move again. SURE: steps tell so, or a person said how long is too
     * long; else stacks alone do, and rendezvous/hang/doubt.h has to be asked. NULL, or
     * false: nobody else judges, so this node does, by its own workers. */
    bool (*still)(void *arg, dt_ms still, bool sure);
    /* As --on-hang says, this worker of ours is to count as failed, and WHY. */
    void (*end)(void *arg, int local_rank, const char *why);
};

/* NULL and *err on failure. */
struct dt_hang *dt_hang_open(const struct dt_hang_means *means, const struct dt_hang_events *events,
                             void *arg, struct dt_err *err);
/* Nothing is told from here on, and nothing of MEANS but the loop is needed. */
void dt_hang_close(struct dt_hang *h, void (*on_closed)(void *arg), void *arg);

/* Looks at all workers here and calls THEN once from the loop, unless H is closed before. Each
 * worker has a stance. STANCES are there for the time of the call. NATIVE: they say in which
 * function of C code each worker is, for which its threads are stopped for a moment. */
typedef void dt_hang_looked_fn(void *arg, const struct dt_stances *stances);
int dt_hang_look(struct dt_hang *h, bool native, dt_hang_looked_fn *then, void *arg,
                 struct dt_err *err);

/* Prints what dt_hang_look() sees, a line for each group of ranks that do the same. */
void dt_hang_print_look(struct dt_hang *h);

/* The workers hang, and F says why: prints F, once for each time that they stand still, keeps the
 * evidence and does what --on-hang says. ALL: the stances of the whole job. */
void dt_hang_tell(struct dt_hang *h, const struct dt_stances *all, const struct dt_hang_finding *f);

/* What was told of workers that have not moved since; NULL: nothing, or that one of them has been
 * in one function for long, which may be well. */
const char *dt_hang_sentence(const struct dt_hang *h);

#endif
