/* SPDX-License-Identifier: Apache-2.0 */
/* What a client of the c10d store says and hears over one connection: the greeting, requests, and
 * the decoder of answers. To a store of the legacy generation what takes several keys at once goes
 * as several requests. The connection is its owner's. All calls belong to the loop's thread. */
#ifndef DT_RENDEZVOUS_CLIENT_LINK_H
#define DT_RENDEZVOUS_CLIENT_LINK_H

#include "base/loop/wire.h"
#include "rendezvous/protocol/c10d_answer.h"

/* Zeroed memory is a link that is not up. */
struct dt_store_link {
    struct dt_wire *wire;
    enum dt_c10d_dialect dialect;
    bool up;         /* greeted as a store greets */
    uint64_t queued; /* bytes of requests, ever; those that wire->written says are out */
    struct dt_c10d_answer_decoder answers;
};

/* WIRE is connected: begins anew over it, in that dialect, and greets. -1: no memory. */
int dt_store_link_greet(struct dt_store_link *l, struct dt_wire *wire, enum dt_c10d_dialect dialect,
                        struct dt_err *err);

/* While it is not up. DONE: it is now. BAD and *err: there is no store at the other end. */
enum dt_decoded dt_store_link_hear_greeting(struct dt_store_link *l, struct dt_err *err);

/* Sends soon. -1: no memory, or a store of this generation cannot do it; nothing of REQ goes out.
 */
int dt_store_link_send(struct dt_store_link *l, const struct dt_c10d_request *req,
                       struct dt_err *err);

#endif
