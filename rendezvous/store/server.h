/* SPDX-License-Identifier: Apache-2.0 */
/* The store on a libuv loop: listeners, peers, limits, back-pressure. A thin shell around
 * dt_store_session: it moves bytes and takes turns; what a request means is decided below it.
 *
 * Fairness: in one turn of the loop a peer gets a bounded number of requests and bytes, and a
 * bounded number of peers get their wake-ups; the rest waits for the next turn, so nobody's flood
 * is anybody else's silence. Bounds: what a peer may have buffered in and out, what all may
 * together (budget.h), how many there may be, and from one address. Beyond the number of
 * connections nobody is accepted until a place is free: clients wait in the kernel's queue. Places
 * and memory are taken from those that say nothing, or do not read, while others want them. A
 * violation closes that one peer with one rate-limited log line. All calls belong to the loop's
 * thread. */
#ifndef DT_RENDEZVOUS_STORE_SERVER_H
#define DT_RENDEZVOUS_STORE_SERVER_H

#include "base/addr.h"
#include "base/clock.h"
#include "base/err.h"
#include "rendezvous/protocol/c10d.h"
#include "rendezvous/store/store.h"

#include <uv.h>

struct dt_store_server;

struct dt_store_server_config {
    struct dt_store_limits store;
    struct dt_c10d_limits request;
    enum dt_c10d_dialect legacy; /* how peers without a hello are read: DT_C10D_L1 or _L2 */
    size_t connections;
    size_t per_address;          /* of these; 0: as many as there are. See sources.h */
    uint64_t peer_bytes;         /* one peer's request or untaken answers; below 4 GiB */
    uint64_t buffered_bytes;     /* buffered for all peers together */
    dt_ms idle_timeout;          /* 0: none. A peer that waits for a key is not idle */
    uint64_t turn;               /* ns that all peers together have of one turn of the loop */
    uint64_t spin;               /* ns to look for another request before sleeping; 0: none */
    const struct dt_cidr *allow; /* copied; none: everybody may connect */
    size_t allow_count;
    /* Who of them is served the store; copied; none: everybody. Others are told whether this is a
     * server of ours (DT_HELLO_KEY), and may speak the control protocol. */
    const struct dt_cidr *allow_c10d;
    size_t allow_c10d_count;
};

#define DT_STORE_TURN UINT64_C(50000000) /* 50 ms: timers and signals are late by no more */

/* Room for every PyTorch job we know of, in a few GiB at the very most. */
#define DT_STORE_SERVER_CONFIG_DEFAULT                                                             \
    ((struct dt_store_server_config){                                                              \
        .store = {.keys = 16u << 20, .bytes = UINT64_C(4) << 30, .value = 16u << 20},              \
        .request = DT_C10D_LIMITS_DEFAULT,                                                         \
        .legacy = DT_C10D_L1,                                                                      \
        .connections = 65536,                                                                      \
        .peer_bytes = 64u << 20,                                                                   \
        .buffered_bytes = UINT64_C(1) << 30,                                                       \
        .turn = DT_STORE_TURN,                                                                     \
    })

struct dt_store_server_counters {
    uint64_t accepted;    /* connections, ever */
    uint64_t not_allowed; /* of these closed at once, their address being in no allowed range */
    uint64_t waited;      /* times that all places were taken and newcomers had to wait */
    uint64_t violations;  /* peers closed for breaking the protocol */
    uint64_t limits;      /* peers closed for passing a limit */
    uint64_t idle;        /* peers closed by the idle timeout */
    uint64_t cut_short;   /* peers that went away inside a request */
    uint64_t bytes_in, bytes_out;
    uint64_t requests[DT_C10D_OPS];
    size_t connected; /* now */
};

/* NULL and *err when there is no memory. End with dt_store_server_close(). */
struct dt_store_server *dt_store_server_create(uv_loop_t *loop,
                                               const struct dt_store_server_config *config,
                                               struct dt_err *err);

/* Listens on one more address; *BOUND (may be NULL) tells the port taken for port 0. */
int dt_store_server_listen(struct dt_store_server *s, const struct dt_addr *addr,
                           struct dt_addr *bound, struct dt_err *err);
/* Serves a listening socket that somebody else opened (systemd); owns FD from here on. */
int dt_store_server_adopt(struct dt_store_server *s, int fd, struct dt_addr *bound,
                          struct dt_err *err);

/* Takes new limits and ranges for what comes; peers that are connected stay. */
int dt_store_server_reconfigure(struct dt_store_server *s,
                                const struct dt_store_server_config *config, struct dt_err *err);

/* A new, empty store behind the same listeners, for a job's next attempt: all clients that are
 * connected are closed, and what they wait for never comes; control peers stay. -1: no memory, and
 * nothing is changed. */
int dt_store_server_renew(struct dt_store_server *s, struct dt_err *err);

/* For an owner that ends something of its own before it closes the server: nobody new comes from
 * here on, and peers that are connected stay. */
void dt_store_server_stop_listening(struct dt_store_server *s);

/* Stops listening, lets peers take the answers they are owed for up to GRACE, closes all and frees
 * the server; then ON_CLOSED (may be NULL) is called, once. A second call may only shorten the
 * grace. */
void dt_store_server_close(struct dt_store_server *s, dt_ms grace, void (*on_closed)(void *arg),
                           void *arg);

/* The same for a host that is to leave last: goes on serving, newcomers too, until nobody is
 * connected any more or GRACE is over. dt_store_server_close() may still cut it short. */
void dt_store_server_leave(struct dt_store_server *s, dt_ms grace, void (*on_closed)(void *arg),
                           void *arg);

/* The store itself, for whoever serves in his own process; until the server is renewed or closed.
 * What is set there wakes who waits for it. */
struct dt_store *dt_store_server_inside(struct dt_store_server *s);

/* WANTED connections, or as many as this process may open files, with RESERVE of these left for
 * others: beyond, accept() would fail, and libuv would then reset the newcomer. */
size_t dt_store_server_places(size_t wanted, size_t reserve);

const struct dt_store_server_counters *dt_store_server_counters(const struct dt_store_server *s);
/* What is in force; its ranges of addresses are not for others. */
const struct dt_store_server_config *dt_store_server_limits(const struct dt_store_server *s);
const struct dt_store_counts *dt_store_server_store(const struct dt_store_server *s);

#endif
