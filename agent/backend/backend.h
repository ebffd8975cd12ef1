/* SPDX-License-Identifier: Apache-2.0 */
/* How agents find each other: one interface over static lists of nodes, elastic rendezvous, and a
 * job of one node that has nobody to find.
 *
 * An agent joins, is given a world, runs its workers in it, and joins again for the next attempt.
 * After success it enters the barrier, where all wait for all. All calls belong to the loop's
 * thread; events come from the loop, never from inside a call, and may call anything. */
#ifndef DT_AGENT_BACKEND_BACKEND_H
#define DT_AGENT_BACKEND_BACKEND_H

#include "agent/plan.h"
#include "base/err.h"

#include <stdbool.h>
#include <uv.h>

#define DT_WORLD_ADDR_MAX 256

/* One round, as one node sees it. Of constant size however many nodes there are. */
struct dt_world {
    int round;                      /* 0, 1, ... */
    int group_rank, group_size;     /* of this node among the nodes */
    int first_rank, size;           /* of its workers among all */
    int first_role_rank, role_size; /* and among those of its role */
    char master_addr[DT_WORLD_ADDR_MAX];
    int master_port;
    bool store_is_served; /* by an agent; else worker 0 opens it */
};

struct dt_backend_events {
    /* What was joined for. */
    void (*on_world)(void *arg, const struct dt_world *world);
    /* All came to the barrier, or (WHY) there is no more waiting for them. */
    void (*on_barrier_over)(void *arg, const struct dt_err *why);
    /* No world will come, now or later. The backend is still to be closed. */
    void (*on_failed)(void *arg, const struct dt_err *err);
};

struct dt_backend {
    const struct dt_backend_ops *ops;
};

struct dt_backend_ops {
    /* Asks for a world; again after each one, when the workers of it are gone. */
    void (*join)(struct dt_backend *b);
    void (*barrier)(struct dt_backend *b);
    /* Gives up what is under way, no event comes any more. Frees B, then calls ON_CLOSED. Peers get
     * the answers they are owed, and after a barrier their time to leave first, unless in a HURRY.
     * A second call, before ON_CLOSED, may only be in one; its ON_CLOSED is not called. */
    void (*close)(struct dt_backend *b, bool hurry, void (*on_closed)(void *arg), void *arg);
};

/* Both keep PLAN and EVENTS, and what a failed open leaves behind is closed when the loop runs. */

/* One node: the store is ours, on a free port or the given one, and each attempt finds it empty. */
struct dt_backend *dt_backend_local_open(uv_loop_t *loop, const struct dt_plan *plan,
                                         const struct dt_backend_events *events, void *arg,
                                         struct dt_err *err);

/* A fixed number of nodes, dtrun's or torchrun's, each with its rank. Node 0 serves the store. */
struct dt_backend *dt_backend_static_open(uv_loop_t *loop, const struct dt_plan *plan,
                                          const struct dt_backend_events *events, void *arg,
                                          struct dt_err *err);

#endif
