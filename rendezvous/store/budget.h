/* SPDX-License-Identifier: Apache-2.0 */
/* What the peers of one server have buffered, in and out, out of one budget. Pure; inside the
 * server only.
 *
 * A peer takes bytes out of the budget before it allocates them, and gives them back when they are
 * free, so the budget is never passed. Who finds no room is not refused but waits for it, in the
 * order of coming. Whoever holds bytes must move them: a peer that does not is ended after
 * DT_STORE_MOVE_DEADLINE, and while others wait much sooner, those that hold most first. The last
 * eighth is for peers that hold little, so that large transfers do not keep small requests waiting.
 */
#ifndef DT_RENDEZVOUS_STORE_BUDGET_H
#define DT_RENDEZVOUS_STORE_BUDGET_H

#include "base/clock.h"
#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

/* In this time a peer that holds bytes has to move DT_STORE_MOVE_LEAST of them, or all. */
#define DT_STORE_MOVE_DEADLINE (30 * DT_SECOND)
/* The same while others wait for room. */
#define DT_STORE_MOVE_PRESSED (2 * DT_SECOND)
#define DT_STORE_MOVE_LEAST (64u << 10)
/* Who waits for room itself is kept from moving by others, but not for ever. */
#define DT_STORE_MOVE_KEPT (60 * DT_SECOND)
/* A peer that holds no more may have the last eighth, too. */
#define DT_STORE_HOLDS_LITTLE (192u << 10)

/* Zeroed, and its lists initialised by dt_store_budget_init(). */
struct dt_store_budget {
    uint64_t limit; /* may change at any time */
    uint64_t held;
    struct dt_list holders; /* whose bytes have not moved for longest first */
    struct dt_list waiting; /* for room; who came first is first */
};

struct dt_store_holding {
    struct dt_node in_holders; /* linked: bytes > 0 */
    struct dt_node in_waiting;
    bool excused; /* others keep it from moving its bytes; there is no deadline */
    uint64_t bytes;
    uint64_t wanted; /* how many it waits to hold */
    uint64_t moved;  /* of them, since moved_at */
    dt_ms moved_at;
};

void dt_store_budget_init(struct dt_store_budget *b, uint64_t limit);
void dt_store_holding_init(struct dt_store_holding *h);

/* H holds BYTES now. For what is allocated already, and to give back. */
void dt_store_budget_set(struct dt_store_budget *b, struct dt_store_holding *h, uint64_t bytes,
                         dt_ms now);
/* The most that a single peer can ever hold. */
uint64_t dt_store_budget_most(const struct dt_store_budget *b);
/* H may hold BYTES, and from here on does. False: there is no room, and it waits for it. */
bool dt_store_budget_take(struct dt_store_budget *b, struct dt_store_holding *h, uint64_t bytes,
                          dt_ms now);
/* Of what H holds N bytes were received, or taken by the peer. */
void dt_store_budget_moved(struct dt_store_budget *b, struct dt_store_holding *h, uint64_t n,
                           dt_ms now);
/* H holds nothing and waits for nothing any more. */
void dt_store_budget_leave(struct dt_store_budget *b, struct dt_store_holding *h);

/* Who has waited longest, if there is room for it now: it is taken off the list and may try again.
 * NULL: nobody. */
struct dt_store_holding *dt_store_budget_next(struct dt_store_budget *b);

/* Moves those that have to go from the holders to GONE, by in_holders; the caller ends them. */
void dt_store_budget_choose(struct dt_store_budget *b, dt_ms now, struct dt_list *gone);

#endif
