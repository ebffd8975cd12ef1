/* SPDX-License-Identifier: Apache-2.0 */
/* The backend in this folder is for nodes that come and go: its agents meet at a rendezvous of
 * dtrun's, which decides. elastic.c finds out who hosts it (host.h), and is what the agent sees.
 *
 * This agent at the rendezvous of its job: the session, with a connection and a clock. What is said
 * and what follows from answers is decided in session.c; this knows how long a rendezvous that is
 * not there is waited for, tells people, and tells the agent: its events are the backend's.
 *
 * A daemon may be gone for a while: it comes back and knows all. A rendezvous that an agent hosted
 * is gone with that agent, and so is the job. All calls belong to the loop's thread. */
#ifndef DT_AGENT_BACKEND_ELASTIC_PRESENCE_H
#define DT_AGENT_BACKEND_ELASTIC_PRESENCE_H

#include "agent/backend/backend.h"
#include "base/addr.h"
#include "rendezvous/protocol/proof.h"

struct dt_presence;

struct dt_presence_config {
    const struct dt_plan *plan;   /* outlives it, as all of these do */
    const char *endpoint;         /* "HOST:PORT" */
    bool ours;                    /* it is this agent that serves there */
    const struct dt_err *no_host; /* why not, where it would have; or no error */
    const struct dt_token *token; /* NULL: none */
    const struct dt_token *run_token;
    struct dt_node_info node; /* strings may change until `reached` returns */
    const struct dt_backend_events *events;
    void *arg;
    /* Both are called from the loop; -1 and *err: this node cannot be in the job.
     * The rendezvous is there (again), our end is LOCAL, and nothing is said yet: the node's
     * address and port must be right when this returns. */
    int (*reached)(void *owner, const struct dt_addr *local, struct dt_err *err);
    /* The store is no dtrun's. 0: somebody else takes over, and P is closed. */
    int (*foreign)(void *owner, struct dt_err *err);
    void *owner;
};

/* Starts connecting. NULL: no memory, or no use for the token. */
struct dt_presence *dt_presence_open(uv_loop_t *loop, const struct dt_presence_config *config,
                                     struct dt_err *err);

/* As those of dt_backend_ops. Once it is over they do nothing, but that a join fails. */
void dt_presence_join(struct dt_presence *p);
void dt_presence_failed(struct dt_presence *p, const struct dt_result *result);
void dt_presence_found(struct dt_presence *p, const struct dt_result *result);
void dt_presence_barrier(struct dt_presence *p);
void dt_presence_remark(struct dt_presence *p, bool failed, const char *words);
void dt_presence_tell(struct dt_presence *p, const struct dt_beat *facts);
bool dt_presence_still(struct dt_presence *p, dt_ms still, bool sure);
void dt_presence_looked(struct dt_presence *p, int64_t look, const struct dt_stances *stances);
void dt_presence_tailed(struct dt_presence *p, int64_t id, bool over, const char *page);
/* Where workers would meet here. */
void dt_presence_set_port(struct dt_presence *p, int port);

/* Tells that this node goes, WHY. Until the end the others wait for workers that are alive here. */
void dt_presence_leave(struct dt_presence *p, const char *why);

/* There will be no world any more, WHY, which a join is answered; no other event comes. The
 * connection is closed: whoever hosts need not wait for us. */
void dt_presence_end(struct dt_presence *p, const struct dt_err *why);
bool dt_presence_is_over(const struct dt_presence *p);
/* A world was asked for and has not come. */
bool dt_presence_is_joining(const struct dt_presence *p);

/* No event comes any more; frees P, then calls ON_CLOSED. */
void dt_presence_close(struct dt_presence *p, void (*on_closed)(void *arg), void *arg);

#endif
