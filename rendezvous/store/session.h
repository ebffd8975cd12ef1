/* SPDX-License-Identifier: Apache-2.0 */
/* One c10d client's conversation with the store, without any I/O: bytes in, answers out. Pure.
 *
 * The server's shell feeds it what the socket gave and sends what it has put into `out`; tests and
 * fuzzers feed it arrays. It knows the rules between requests: the hello, what an abandoned wait
 * means in each generation, and that no answer may outgrow the room that one peer is allowed. */
#ifndef DT_RENDEZVOUS_STORE_SESSION_H
#define DT_RENDEZVOUS_STORE_SESSION_H

#include "rendezvous/protocol/c10d.h"
#include "rendezvous/store/store.h"

struct dt_store_session {
    struct dt_c10d_decoder decoder;
    struct dt_buf out; /* answers, oldest first; the shell takes them from here */
    uint64_t most_out; /* an answer that would make OUT larger ends the session */
    bool no_room;      /* see may_serve; ask again with the same bytes */
    struct dt_store *store;
    struct dt_store_waiter waiter;
    bool holds_hello; /* DT_HELLO_KEY is there: always, and counted nowhere */
    bool only_hello;  /* nothing may be asked but whether it is; see dt_store_session_restrict() */
    /* Whether requests of this peer may be served now, but the question for DT_HELLO_KEY. NULL, as
     * after init: always. Where it or the next says no, step() returns MORE, and no_room is set. */
    bool (*may_serve)(struct dt_store_session *s);
    /* Whether OUT may grow by N bytes now; asked before a request has any effect. NULL, as after
     * init: always. */
    bool (*may_answer)(struct dt_store_session *s, uint64_t n);
    /* Appends what is at DT_KEY_WAITS for this peer. NULL, as after init: there is no such key. */
    void (*put_waits)(const struct dt_store_session *s, struct dt_buf *out);
    /* Called when OUT grew by a wake-up, that is from inside another session's step. May not call
     * the store. */
    void (*on_wake)(struct dt_store_session *s);
};

/* LEGACY: how peers without a hello number their operations, DT_C10D_L1 or DT_C10D_L2. */
void dt_store_session_init(struct dt_store_session *s, struct dt_store *store,
                           const struct dt_c10d_limits *limits, enum dt_c10d_dialect legacy,
                           uint64_t most_out, void (*on_wake)(struct dt_store_session *s));
/* Before its first step: this peer may ask nothing but whether DT_HELLO_KEY is there. Anything else
 * is refused as soon as its operation, or a length, is known. */
void dt_store_session_restrict(struct dt_store_session *s);
void dt_store_session_finish(struct dt_store_session *s);

/* Takes at most one request off the front of BYTES and carries it out. DONE: *USED bytes are dealt
 * with and *OP was done. MORE: s->decoder.needed bytes are wanted. BAD: the peer is to be closed,
 * *err says why, and *OP which operation it was about (DT_C10D_OPS when that is not known). */
enum dt_decoded dt_store_session_step(struct dt_store_session *s, const uint8_t *bytes, size_t len,
                                      size_t *used, enum dt_c10d_op *op, struct dt_err *err);

#endif
