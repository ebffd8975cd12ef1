/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps one connection to a rendezvous up, over which frames go both ways.
 *
 * What is at an address is found out once, as every client of a c10d store would: a connection that
 * asks for the key that our stores always hold. Without it the store is somebody else's. With it a
 * second connection is made, which begins with our preamble; hello, and proof where a token is
 * asked for, follow. When that one is lost it is made again, at once if it lasted for more than a
 * moment, then with growing pauses, for ever.
 *
 * A refusal ends it only if it was never up. Later one is a lost connection like any other: before
 * the proof anybody may have said it who got hold of the port, and a daemon that was started with
 * the wrong options is started again. All calls belong to the loop's thread. */
#ifndef DT_AGENT_BACKEND_ELASTIC_CONTROL_H
#define DT_AGENT_BACKEND_ELASTIC_CONTROL_H

#include "base/addr.h"
#include "base/clock.h"
#include "base/err.h"
#include "rendezvous/protocol/proof.h"

#include <uv.h>

struct dt_control;

/* Called from the loop, never from inside a call below; each may call anything. */
struct dt_control_events {
    /* HOST: "daemon" or "agent". LOCAL: our end of the connection, where others may reach us. */
    void (*up)(void *arg, const char *host, const struct dt_addr *local);
    void (*down)(void *arg, const struct dt_err *why); /* was up; it tries again */
    /* The same of a rendezvous that was reached before: who answers there now refuses this agent,
     * or cannot prove what it has to. Told each time. */
    void (*refused)(void *arg, const struct dt_err *why);
    void (*frame)(void *arg, const struct dt_message *m);
    /* A c10d store without our key. Nothing more comes. */
    void (*foreign)(void *arg);
    /* Refused the first time, or never reached in time. Nothing more comes. */
    void (*failed)(void *arg, const struct dt_err *why);
};

struct dt_control_config {
    const char *addr; /* "HOST:PORT"; outlives it */
    bool ours;        /* nothing but a rendezvous is wanted: does not ask for the key */
    /* Who does not know it is not believed. Outlives the connection; NULL: none. */
    const struct dt_token *token;
    /* Of the run, which every JOIN then shows. Likewise. */
    const struct dt_token *run_token;
    dt_ms open_timeout;    /* until it is up for the first time */
    dt_ms attempt_timeout; /* for one address to connect and greet */
    dt_ms backoff_first, backoff_most;
    dt_ms lasted; /* a connection that was up for so long is made again at once */
    const struct dt_control_events *events;
    void *arg;
};
#define DT_CONTROL_CONFIG_DEFAULT                                                                  \
    ((struct dt_control_config){.open_timeout = 60 * DT_SECOND,                                    \
                                .attempt_timeout = 5 * DT_SECOND,                                  \
                                .backoff_first = 50,                                               \
                                .backoff_most = 2 * DT_SECOND,                                     \
                                .lasted = DT_SECOND})

/* Starts connecting. NULL: no memory. */
struct dt_control *dt_control_open(uv_loop_t *loop, const struct dt_control_config *config,
                                   struct dt_err *err);

/* The rendezvous that it is up to understands STILL and LOOKED. */
bool dt_control_looks(const struct dt_control *c);

/* The rendezvous that it is up to understands REMARK. */
bool dt_control_takes_remarks(const struct dt_control *c);

/* Jobs of several people meet at the rendezvous that it is up to. */
bool dt_control_is_shared(const struct dt_control *c);

/* Nothing is said, and nothing happens, while it is not up. */
void dt_control_say(struct dt_control *c, const struct dt_message *m);

/* The connection is of no use; makes a new one. No `down` comes of it. */
void dt_control_drop(struct dt_control *c, const char *why);
/* The same, as it refuses this agent: pauses grow until it says something else. */
void dt_control_drop_refused(struct dt_control *c, const char *why);

/* Why there is no connection, as far as is known. NULL: there is one, or nothing was tried yet. */
const char *dt_control_trouble(const struct dt_control *c);

/* No event comes from here on. Frees C, then calls ON_CLOSED (may be NULL). NULL is fine, ON_CLOSED
 * is then not called. */
void dt_control_close(struct dt_control *c, void (*on_closed)(void *arg), void *arg);

#endif
