/* SPDX-License-Identifier: Apache-2.0 */
/* A client of the c10d store (dtrun's or PyTorch's) on a libuv loop: any number of requests at a
 * time, a callback for each, and a new connection when one is lost.
 *
 * Order. Every request takes effect after all that were issued before it on this client, and
 * callbacks of requests that do not block come in the order of issue. Requests that may block
 * (WAIT, BARRIER, and GET and MULTI_GET, which wait for their keys as all real clients do) hold up
 * nobody: answers carry no tags, so no other request can share a connection with an open wait. They
 * go in steps: a CHECK on the main connection, behind all that was issued before, which is all
 * there is to it when the keys are there; else the wait itself, on a connection that it has to
 * itself, taken from a small pool; and last, for GET and MULTI_GET, the values, on the main
 * connection again. A barrier goes by the same way, so what was set before it is seen by who comes
 * out of it.
 *
 * Failure. When the connection is lost each request that was sent fails with DT_E_DISCONNECTED (or
 * what else ended it): whether it took effect is not known, so none is ever sent twice. New ones
 * queue, up to the bounds, for the next connection, which is tried for with growing pauses. A
 * request that is over its time fails at once with DT_E_TIMEOUT; an open wait is also taken back on
 * the wire, while a late answer is thrown away. Requests without an answer (SET, APPEND, MULTI_SET,
 * QUEUE_PUSH) succeed once the kernel has them; who must know that the server does sends a PING
 * behind.
 *
 * All calls belong to the loop's thread. Callbacks come from the loop, never from inside a call,
 * and may call anything, dt_store_client_close() too. */
#ifndef DT_RENDEZVOUS_CLIENT_CLIENT_H
#define DT_RENDEZVOUS_CLIENT_CLIENT_H

#include "base/clock.h"
#include "base/err.h"
#include "rendezvous/protocol/c10d_answer.h"

#include <uv.h>

struct dt_store_client;

enum dt_store_client_event {
    DT_STORE_CLIENT_CONNECTED,
    DT_STORE_CLIENT_LOST,   /* it tries again; told before the requests that fail of it */
    DT_STORE_CLIENT_FAILED, /* it has given up: all requests fail, now and later */
};

struct dt_store_client_config {
    const char *addr;        /* "HOST:PORT", "[IPV6]:PORT", "unix:/PATH"; copied */
    dt_ms open_timeout;      /* until the first connection */
    dt_ms reconnect_timeout; /* for each later one; 0: FAILED instead of LOST, DT_FOREVER: never
                                give up */
    dt_ms attempt_timeout;   /* for one address to connect and greet, and to take a wait back */
    dt_ms backoff_first, backoff_most;
    bool fail_fast;    /* refuse requests while there is no connection, instead of queueing them */
    uint64_t requests; /* how many may be pending ... */
    uint64_t bytes;    /* ... and how large they may be together */
    /* WHY is NULL for CONNECTED. May be NULL. */
    void (*on_event)(void *arg, enum dt_store_client_event event, const struct dt_err *why);
    void *arg;
};

#define DT_STORE_CLIENT_CONFIG_DEFAULT                                                             \
    ((struct dt_store_client_config){                                                              \
        .open_timeout = 300 * DT_SECOND,                                                           \
        .reconnect_timeout = DT_FOREVER,                                                           \
        .attempt_timeout = 10 * DT_SECOND,                                                         \
        .backoff_first = 20,                                                                       \
        .backoff_most = 2 * DT_SECOND,                                                             \
        .requests = 16384,                                                                         \
        .bytes = 64u << 20,                                                                        \
    })

/* Starts connecting. The name is looked up on a thread of libuv's. NULL: no memory. */
struct dt_store_client *dt_store_client_open(uv_loop_t *loop,
                                             const struct dt_store_client_config *config,
                                             struct dt_err *err);

/* Exactly one of REPLY (ERR is NULL) and ERR (REPLY is NULL). Both last as long as the call. */
typedef void dt_store_done_fn(void *arg, const struct dt_c10d_reply *reply,
                              const struct dt_err *err);

/* Issues REQ, any operation but VALIDATE, CANCEL_WAIT and WATCH_KEY; its bytes are copied. DONE
 * (may be NULL) is called once. TIMEOUT covers queueing too. -1 and *err: refused, and DONE will
 * not be called. */
int dt_store_client_request(struct dt_store_client *c, const struct dt_c10d_request *req,
                            dt_ms timeout, dt_store_done_fn *done, void *arg, struct dt_err *err);

/* Why there is no connection, as far as is known; a text to add to what is waited for. NULL: there
 * is one, or nothing was tried yet. */
const char *dt_store_client_trouble(const struct dt_store_client *c);

/* Whether the store is one of PyTorch 1.13 or 2.0: without APPEND, PING, queues, barriers and the
 * list of keys, requests for which fail. Known once connected. */
bool dt_store_client_legacy(const struct dt_store_client *c);

/* Pending requests fail with DT_E_CANCELED, then ON_CLOSED (may be NULL) is called, both from the
 * loop; the client is freed. Nothing else happens from here on. NULL is fine, ON_CLOSED is then not
 * called. */
void dt_store_client_close(struct dt_store_client *c, void (*on_closed)(void *arg), void *arg);

#endif
