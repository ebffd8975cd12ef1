/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of a store server: its socket, its bytes in and out, and whose they are. Inside
 * the server only; peers.h is all of them together. */
#ifndef DT_RENDEZVOUS_STORE_PEER_H
#define DT_RENDEZVOUS_STORE_PEER_H

#include "base/loop/uvx.h"
#include "rendezvous/store/peers.h"
#include "rendezvous/store/session.h"

struct dt_store_peer {
    struct dt_node in_list;
    struct dt_node in_due; /* linked: has work for the next turn */
    union dt_uvx_stream io;
    struct dt_store_peers *peers;
    struct dt_store_source *source; /* where it is counted; NULL: nowhere */
    struct dt_node in_newcomers;    /* linked: nothing that it said could be understood so far */
    dt_ms newcomer_since;
    bool seated;                /* it has one of the store's places */
    struct dt_node in_standing; /* linked: it waits for one */
    dt_ms standing_since;
    bool only_hello; /* by its address, unless it speaks the control protocol */
    bool spoke;      /* a byte came, so that it has to be understood soon */
    bool understood; /* a whole request, or the beginning of one, was among its bytes */
    bool met; /* its first bytes have told whom it wants: the store, or the control handler */
    struct dt_store_session session; /* a control peer's is over, only its `out` is used */
    struct dt_control_peer control;  /* conn: NULL unless it is one */
    struct dt_buf in;                /* an incomplete request, or requests for later turns */
    struct dt_buf sending;           /* owned by `write` while it is under way */
    size_t unsent;                   /* of `sending`, when last looked at */
    uv_write_t write;
    bool connected; /* counted as a client */
    bool writing, reading, closing;
    bool ended;    /* it will send no more; closed once it has taken its answers */
    uint64_t turn; /* the loop turn that the two shares below belong to */
    uint32_t turn_requests, turn_bytes;
    struct dt_store_holding holding; /* what its three buffers take */
    uint32_t incoming;               /* room for what the shared read buffer may leave for `in` */
    dt_ms last_active;
};

/* NULL: no memory. Its socket is for the caller to fill. */
struct dt_store_peer *dt_store_peer_create(struct dt_store_peers *peers, int family);
/* Its memory is freed, and peers->on_gone() called, later. Harmless when it is closing already. */
void dt_store_peer_close(struct dt_store_peer *p);

/* Says why a peer is to be closed, unless peers of its kind have filled the log already. */
void dt_store_peer_complain(struct dt_store_peer *p, const char *during, const struct dt_err *err);

void dt_store_peer_read(struct dt_store_peer *p, bool on);
/* Goes on with what it has sent already. It may be closing afterwards. */
void dt_store_peer_continue(struct dt_store_peer *p);
/* The same in one of the next turns. */
void dt_store_peer_later(struct dt_store_peer *p);
/* Nothing more is heard from it; it is closed when it has taken what it is owed. Takes effect when
 * it goes on. */
void dt_store_peer_end(struct dt_store_peer *p);

/* Whether its address is in one of the ranges, or there are none. A unix socket is guarded by its
 * path's permissions. */
bool dt_store_peer_is_in(const struct dt_store_peer *p, const struct dt_cidr *ranges, size_t count);

#endif
