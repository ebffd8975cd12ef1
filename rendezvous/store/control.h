/* SPDX-License-Identifier: Apache-2.0 */
/* Who else is served behind a store's port: connections that open with the four bytes of the
 * control protocol. They count among the server's clients and keep its bounds: places, allowed
 * ranges, turns, buffers. It moves their bytes; what these mean is the handler's affair. They may
 * be silent as long as they like, and outlive dt_store_server_renew(). All calls belong to the
 * loop's thread. */
#ifndef DT_RENDEZVOUS_STORE_CONTROL_H
#define DT_RENDEZVOUS_STORE_CONTROL_H

#include "base/addr.h"
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* What a peer may leave untaken; over that it is closed. */
#define DT_CONTROL_UNTAKEN_MAX (4u << 20)

struct dt_store_server;

/* One connection: the server's, and good until CLOSED was called for it. */
struct dt_control_peer {
    void *conn; /* the handler's */
    struct dt_addr addr;
    bool local;         /* it is on this host, and its bytes cross no network */
    struct dt_buf *out; /* append here, then dt_control_peer_send() */
    size_t kept;        /* set by dt_control_peer_keep() */
};

struct dt_control_ops {
    /* Its first four bytes were DT_CONTROL_MAGIC; step() gets them too. What this returns is
     * PEER->conn. NULL: it is closed, and that is all that is heard of it. */
    void *(*opened)(void *arg, struct dt_control_peer *peer);
    /* Takes at most one message off the front of BYTES. DONE: *USED bytes are dealt with. MORE: so
     * far there is none. BAD: the peer gets what was appended for it, as far as it takes that at
     * once, and is closed; *err says why. */
    enum dt_decoded (*step)(void *conn, const uint8_t *bytes, size_t len, size_t *used,
                            struct dt_err *err);
    /* It is gone. Also called from inside dt_control_peer_close(). */
    void (*closed)(void *conn);
};

/* From here on connections that begin so are OPS's. NULL: none is, as without this call; of its
 * peers none may be left. */
void dt_store_server_control(struct dt_store_server *s, const struct dt_control_ops *ops,
                             void *arg);

/* The user at the other end, as the kernel of this host knows it. For what is seldom asked: it may
 * read all of the kernel's table of sockets. */
#define DT_CONTROL_USER_UNKNOWN (-1) /* PEER is not on this host, or the kernel does not say */
#define DT_CONTROL_USER_GONE (-2)    /* it was, and has closed its end */
int64_t dt_control_peer_user(const struct dt_control_peer *peer);

/* The handler keeps BYTES in all that may not go out yet. They count as what is buffered for the
 * peer, until CLOSED was called for it or this says otherwise. */
void dt_control_peer_keep(struct dt_control_peer *peer, size_t bytes);
/* What was appended goes out in one of the next turns of the loop. Closes nothing from inside. */
void dt_control_peer_send(struct dt_control_peer *peer);
/* The same, and closes it when it has taken all. step() is called for what it has sent already. */
void dt_control_peer_end(struct dt_control_peer *peer);
void dt_control_peer_close(struct dt_control_peer *peer);

#endif
