/* SPDX-License-Identifier: Apache-2.0 */
/* This agent at the rendezvous of its job: the session, with a connection and a clock. What is said
 * and what follows from answers is decided in session.c; this knows how long a rendezvous that is
 * not there is waited for, and tells people.
 *
 * A daemon may be gone for a while: it comes back and knows all. A rendezvous that an agent hosted
 * is gone with that agent, and so is the job. All calls belong to the loop's thread. */
#ifndef DT_AGENT_BACKEND_ELASTIC_PRESENCE_H
#define DT_AGENT_BACKEND_ELASTIC_PRESENCE_H

#include "agent/backend/backend.h"
#include "base/addr.h"
#include "rendezvous/protocol/proof.h"

struct dt_presence;

/* Called from the loop, never from inside a call below; each may call anything. `closed` and those
 * behind it are the last. */
struct dt_presence_events {
    /* It is there (again), our end is LOCAL, and nothing is said yet: the node's address and port
     * must be right when this returns. */
    void (*reached)(void *arg, const struct dt_addr *local);
    void (*world)(void *arg, const struct dt_world *world);
    /* Until UNTIL no later round can have begun; 0: one may have. */
    void (*lease)(void *arg, dt_ms until);
    void (*stop)(void *arg, enum dt_stop_how how, const char *why);
    /* The job is over, as the rendezvous says. */
    void (*closed)(void *arg, enum dt_close_kind kind, const char *why);
    /* A store that is no dtrun's. */
    void (*foreign)(void *arg);
    /* Never reached in time, or refused by it. */
    void (*failed)(void *arg, const struct dt_err *why);
    /* Away for longer than anybody waits. HOSTED: by an agent, so the job is over. */
    void (*gone)(void *arg, bool hosted, const struct dt_err *why);
};

struct dt_presence_config {
    const struct dt_plan *plan;   /* outlives it, as all of these do */
    const char *endpoint;         /* "HOST:PORT" */
    bool ours;                    /* it is this agent that serves there */
    const struct dt_token *token; /* NULL: none */
    struct dt_node_info node;     /* strings may change until `reached` returns */
    const struct dt_presence_events *events;
    void *arg;
};

/* Starts connecting. NULL: no memory, or no use for the token. */
struct dt_presence *dt_presence_open(uv_loop_t *loop, const struct dt_presence_config *config,
                                     struct dt_err *err);

/* As those of dt_backend_ops. After the last event they do nothing. */
void dt_presence_join(struct dt_presence *p);
void dt_presence_failed(struct dt_presence *p, const struct dt_result *result);
void dt_presence_succeeded(struct dt_presence *p);
void dt_presence_tell(struct dt_presence *p, const struct dt_beat *facts);
/* Where workers would meet here. */
void dt_presence_set_port(struct dt_presence *p, int port);

/* Tells that this node goes, WHY. Until the end the others wait for workers that are alive here. */
void dt_presence_leave(struct dt_presence *p, const char *why);

/* No event comes any more, and the connection is closed: whoever hosts need not wait for us. */
void dt_presence_end(struct dt_presence *p);

/* The same; frees P, then calls ON_CLOSED. */
void dt_presence_close(struct dt_presence *p, void (*on_closed)(void *arg), void *arg);

#endif
