/* SPDX-License-Identifier: Apache-2.0 */
/* Where the workers of a round at a torchrun's rendezvous meet, as long as this node is the first
 * in it. Each round finds it empty and at the same port, since others may not ask for the port a
 * second time. */
#ifndef DT_AGENT_BACKEND_TORCHRUN_FOREIGN_STORE_H
#define DT_AGENT_BACKEND_TORCHRUN_FOREIGN_STORE_H

#include "agent/plan.h"
#include "base/err.h"
#include "rendezvous/store/server.h"

/* Zeroed, and given its first block; the plan and the string are the owner's. Once no round is to
 * be prepared any more the owner ends the server with dt_store_host_close(). */
struct dt_foreign_store {
    uv_loop_t *loop;
    const struct dt_plan *plan;
    const char *addr; /* this node's, as workers elsewhere reach it */

    struct dt_store_server *server; /* NULL: none was needed yet */
    int port;                       /* since the first time it was prepared */
};

/* For the next round. ELDERS: workers of a PyTorch that takes for granted that worker 0 serves the
 * store, and looks for keys of other names where an agent does. They are only found a port. */
int dt_foreign_store_prepare(struct dt_foreign_store *s, bool elders, struct dt_err *err);

#endif
