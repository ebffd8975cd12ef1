/* SPDX-License-Identifier: Apache-2.0 */
/* One round of a job at a torchrun's store, once it is known who is in it: which ranks this node's
 * workers are, where all workers meet, and the barrier at the end. Each round has keys of its own
 * there. */
#ifndef DT_AGENT_BACKEND_TORCHRUN_FOREIGN_ROUND_H
#define DT_AGENT_BACKEND_TORCHRUN_FOREIGN_ROUND_H

#include "agent/backend/backend.h"
#include "rendezvous/client/client.h"

struct dt_foreign_round;

struct dt_foreign_round_config {
    struct dt_store_client *client;
    const struct dt_plan *plan;
    int64_t round;
    int node, nodes;  /* this one, of how many */
    bool served;      /* the workers' store, by an agent; else by worker 0 */
    const char *addr; /* where it is if this is node 0 */
    int port;
    void (*on_world)(void *arg, const struct dt_world *world);
    void (*on_failed)(void *arg, const struct dt_err *err);
    void (*on_met)(void *arg, const struct dt_err *err);
    void *arg;
};

/* ON_WORLD or ON_FAILED follows, from the loop. The client and the plan outlive the round, and the
 * client is closed after it is left. */
struct dt_foreign_round *dt_foreign_round_begin(const struct dt_foreign_round_config *config,
                                                struct dt_err *err);

/* ON_MET follows. */
int dt_foreign_round_meet(struct dt_foreign_round *r, dt_ms timeout, struct dt_err *err);

/* No event comes any more. It is freed when what it asked for is answered. */
void dt_foreign_round_leave(struct dt_foreign_round *r);

#endif
