/* SPDX-License-Identifier: Apache-2.0 */
/* The clients of one store server, and the turns they take. Inside the server only.
 *
 * A peer is a socket and a dt_store_session, unless its first bytes make it the control handler's.
 * In one turn of the loop it gets a bounded number of requests and bytes, and a bounded number of
 * peers with work left over (requests, or answers after a wake-up) go on; the rest waits for the
 * next turn. Answers go out in one write per read; a peer that leaves 1 MiB of them unread is not
 * listened to until it has taken them. Idle peers hold no buffer. */
#ifndef DT_RENDEZVOUS_STORE_PEERS_H
#define DT_RENDEZVOUS_STORE_PEERS_H

#include "base/list.h"
#include "base/log.h"
#include "rendezvous/protocol/key_waits.h"
#include "rendezvous/store/budget.h"
#include "rendezvous/store/control.h"
#include "rendezvous/store/heap.h"
#include "rendezvous/store/server.h"
#include "rendezvous/store/sources.h"
#include "rendezvous/store/turns.h"

struct dt_store_peer;

#define DT_STORE_READ_SIZE (64u << 10)
/* How long a connection may be there without a word that can be understood. */
#define DT_STORE_PATIENCE (10 * DT_SECOND)
/* How long a client may stand in the way of an agent: well below what dtrun-ctl waits for an
 * answer. */
#define DT_STORE_YIELD (4 * DT_SECOND)

/* The server sets the first block before dt_store_peers_open() and owns what it points to. */
struct dt_store_peers {
    uv_loop_t *loop;
    struct dt_store *store;
    const struct dt_store_server_config *config;
    struct dt_store_server_counters *counters;
    const struct dt_control_ops *control; /* NULL: the store's clients are all there is */
    void *control_arg;
    void (*on_gone)(
        struct dt_store_peers *peers); /* a peer's memory is free, so there is a place */
    void (*on_closed)(struct dt_store_peers *peers);

    size_t count;        /* accepted and not yet gone */
    struct dt_list list; /* the longest inactive first */
    /* Newcomers that have to be understood soon, and those that have said nothing; in both who has
     * been there longest is first. */
    struct dt_list expected, silent;
    size_t seated;           /* clients of the store that are served */
    struct dt_list standing; /* those that are not yet; the first is next */
    bool crowded;            /* somebody waits for a place of any kind */
    struct dt_store_sources sources;
    struct dt_store_turns turns;
    struct dt_store_budget budget;
    struct dt_store_heap heap;
    uv_timer_t watch; /* active while somebody has to be looked at */
    dt_ms watched_at;
    dt_ms stopped; /* for how long, in all, this process did not run */
    struct dt_log_limit complaints;
    struct dt_buf spare_out; /* lent to whoever is answering */
    uint8_t read_buffer[DT_STORE_READ_SIZE];
};

void dt_store_peers_open(struct dt_store_peers *peers);
/* Only when count is 0; on_closed is called later. */
void dt_store_peers_close(struct dt_store_peers *peers);

/* The time by which peers are judged. It stands still while the process does, as nobody's bytes can
 * move then. */
dt_ms dt_store_peers_now(const struct dt_store_peers *peers);

/* Up to BYTES are going to be allocated for a peer. */
void dt_store_peers_grow(struct dt_store_peers *peers, uint64_t bytes);

/* Looks now and then at those that hold bytes and at newcomers, while there is reason to. */
void dt_store_peers_watch(struct dt_store_peers *peers);
/* P has to be understood within DT_STORE_PATIENCE from now. */
void dt_store_peers_expect(struct dt_store_peer *p);
/* The last sixteenth of all places is for control peers: a client of the store that has one of them
 * is served when another leaves. True: P is seated. False: it stands, and goes on later. */
bool dt_store_peers_seat(struct dt_store_peer *p);
void dt_store_peers_unseat(struct dt_store_peer *p);
/* Somebody waits for a place: those that have said nothing for DT_STORE_YIELD lose theirs. */
void dt_store_peers_want_place(struct dt_store_peers *peers);

/* Takes the connection that waits at LISTENER. -1: no memory for it now, it goes on waiting. */
int dt_store_peers_accept(struct dt_store_peers *peers, uv_stream_t *listener);

/* Lets all take what they are owed, reads nothing more from them, and closes each when it is done.
 */
void dt_store_peers_end_all(struct dt_store_peers *peers);
void dt_store_peers_close_all(struct dt_store_peers *peers);
/* All but control peers. */
void dt_store_peers_close_clients(struct dt_store_peers *peers);

/* Closes those that have asked nothing since BEFORE and wait for nothing. */
void dt_store_peers_close_idle(struct dt_store_peers *peers, dt_ms before);

/* Adds to WAITS the keys for which clients wait that are on the host of P. */
void dt_store_peers_note_waits(const struct dt_store_peer *p, struct dt_key_waits *waits);

#endif
