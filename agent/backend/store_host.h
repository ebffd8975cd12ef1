/* SPDX-License-Identifier: Apache-2.0 */
/* The store that an agent serves in its own process, for its own and other nodes' workers: on which
 * addresses, and for whom. Nobody else is let in where nobody else can be meant. */
#ifndef DT_AGENT_BACKEND_STORE_HOST_H
#define DT_AGENT_BACKEND_STORE_HOST_H

#include "agent/plan.h"
#include "base/addr.h"
#include "base/err.h"
#include "rendezvous/store/server.h"

/* Where to listen; a second address is there only for names that may mean either, and may fail. */
struct dt_store_host_where {
    struct dt_addr at[2];
    size_t count;
};

/* Decides for PLAN, whose workers are told to connect to MASTER: where --store-listen says; on
 * loopback alone when MASTER is loopback; else on every address. */
int dt_store_host_decide(const struct dt_plan *plan, const char *master,
                         struct dt_store_host_where *out, struct dt_err *err);

/* Serves there, on the plan's port or a free one. Whoever is on this machine may connect, whatever
 * ranges the plan allows. *BOUND is where to. End with dt_store_host_close(). */
struct dt_store_server *dt_store_host_open(uv_loop_t *loop, const struct dt_plan *plan,
                                           const char *master, struct dt_addr *bound,
                                           struct dt_err *err);

/* The same for who can do without: when it cannot be had, nobody looks for who has the port, which
 * can take long. */
struct dt_store_server *dt_store_host_try(uv_loop_t *loop, const struct dt_plan *plan,
                                          const char *master, struct dt_addr *bound,
                                          struct dt_err *err);

/* Clients are given what they are owed, unless in a HURRY. LAST: who is at the barrier, or has a
 * few lines of Python to go behind it, is not to meet a closed door, so the host stays as long as
 * that is sensible. dt_store_server_close() may cut all this short. */
void dt_store_host_close(struct dt_store_server *s, bool last, bool hurry,
                         void (*on_closed)(void *arg), void *arg);

/* The port of an address that is no path. */
int dt_store_host_port(const struct dt_addr *a);

#endif
