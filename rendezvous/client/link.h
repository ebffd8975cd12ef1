/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the event-loop store client, from connecting to closed; it is never used twice.
 * To a store of the legacy generation what takes several keys at once goes as several requests.
 * For client.c, which owns what the answers mean. All calls belong to the loop's thread. */
#ifndef DT_RENDEZVOUS_CLIENT_LINK_H
#define DT_RENDEZVOUS_CLIENT_LINK_H

#include "base/loop/wire.h"
#include "rendezvous/protocol/c10d_answer.h"

struct dt_store_link;

/* Called from the loop, never from inside the calls below. No event but `closed` follows
 * dt_store_link_close(). */
struct dt_store_link_events {
    void (*up)(struct dt_store_link *l);    /* connected, and greeted as a store greets */
    void (*moved)(struct dt_store_link *l); /* bytes came, or bytes were written */
    void (*lost)(struct dt_store_link *l, const struct dt_err *why); /* it is closing already */
    void (*closed)(struct dt_store_link *l); /* the last one: the link is freed behind it */
};

struct dt_store_link {
    struct dt_wire wire;
    enum dt_c10d_dialect dialect;
    bool greeting; /* connected, and the greeting is out */
    bool up;
    uint64_t queued; /* bytes of requests, ever; those that wire.written says are out */
    struct dt_c10d_answer_decoder answers;
    const struct dt_store_link_events *events;
    void *owner;
};

/* NULL: there will be no event. */
struct dt_store_link *dt_store_link_open(uv_loop_t *loop, const struct dt_addr *to,
                                         enum dt_c10d_dialect dialect,
                                         const struct dt_store_link_events *events, void *owner,
                                         struct dt_err *err);
void dt_store_link_close(struct dt_store_link *l);

/* Sends soon. -1: no memory, or a store of this generation cannot do it; nothing of REQ goes out.
 */
int dt_store_link_send(struct dt_store_link *l, const struct dt_c10d_request *req,
                       struct dt_err *err);

#endif
