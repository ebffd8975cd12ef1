/* SPDX-License-Identifier: Apache-2.0 */
/* How nodes that have found each other agree, through keys of the store under one prefix: the
 * exchange of ranks before the workers start, and the barrier after they have ended. The keys, who
 * sets them and when are torchrun's, so its agents take part; each node sends a few messages
 * however many nodes there are. At the store of a PyTorch of before 2.1, which a torchrun of the
 * same age serves, it is done in that one's way: each reads what all have said. See elders.h. */
#ifndef DT_AGENT_BACKEND_FIXED_EXCHANGE_H
#define DT_AGENT_BACKEND_FIXED_EXCHANGE_H

#include "agent/backend/fixed/ranks.h"
#include "base/clock.h"
#include "rendezvous/client/client.h"

/* Zeroed and given its first block; the strings and the client are the owner's. One thing is under
 * way at a time. The two events come from the loop, once for each thing that was begun, and with an
 * ERR (PLACE is then NULL) when it came to nothing; they come also when the client is closed, and a
 * second time where FIXED found the first ERR. */
struct dt_exchange {
    struct dt_store_client *client;
    const char *prefix;
    int node, nodes; /* this one, of how many. Node 0 gives out the ranks */
    const char *role;
    int workers;
    bool fixed; /* people said how many nodes there are, and may have said it differently */
    void (*on_place)(struct dt_exchange *x, const struct dt_ranks_place *place,
                     const struct dt_err *err);
    void (*on_met)(struct dt_exchange *x, const struct dt_err *err);

    bool elder; /* node 0 is one */
    dt_ms timeout;
    struct dt_buf key;
};

/* "/PREFIX/NAME" as a client spells it, made in ROOM and good until the next one there. Without
 * memory it is no key that anybody has. */
struct dt_bytes dt_exchange_key(struct dt_buf *room, const char *prefix, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void dt_exchange_finish(struct dt_exchange *x);

/* Asks for this node's place, which comes when all have asked. A second time, with the same
 * prefix, what was said is there already and nobody is waited for. */
int dt_exchange_ranks(struct dt_exchange *x, dt_ms timeout, struct dt_err *err);

/* Comes to the barrier, which opens when all have come. */
int dt_exchange_meet(struct dt_exchange *x, dt_ms timeout, struct dt_err *err);

/* For who has the store at hand: what is set once NODE has asked, and the number of those at the
 * barrier. Good until the next call. */
struct dt_bytes dt_exchange_said_key(struct dt_exchange *x, int node);
struct dt_bytes dt_exchange_met_key(struct dt_exchange *x);
/* What is set when NODE may go on, be it to its end. */
struct dt_bytes dt_exchange_place_key(struct dt_exchange *x, int node);

/* Whether NODE, which SAID that, was told of as many nodes as this one. */
int dt_exchange_check(const struct dt_exchange *x, int node, struct dt_bytes said,
                      struct dt_err *err);

#endif
