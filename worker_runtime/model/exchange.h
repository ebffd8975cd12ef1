/* SPDX-License-Identifier: Apache-2.0 */
/* Rows on their way to the ranks that have their experts, and back. Each rank of the team has its
 * own rows, in the order of experts, and as many experts as any other: so what goes to one rank is
 * one piece. What comes lies in the order of who sent it; it is put into the order of experts, and
 * for one expert in that of ranks, so that each expert sees the rows of all in one order, however
 * many ranks there are.
 *
 * The most that one rank sends to another is sent by all to all. Without a team nothing moves. */
#ifndef DT_WORKER_RUNTIME_MODEL_EXCHANGE_H
#define DT_WORKER_RUNTIME_MODEL_EXCHANGE_H

#include "worker_runtime/model/block.h"

/* The rows that this rank's experts have. */
struct dt_own_rows {
    size_t experts, rows;
    const int32_t *first; /* [experts + 1]: where those of each begin */
    const float *weights; /* of row n: weights[of[n]], or weights[n] where OF is NULL */
    const int32_t *of;
};

/* Behind dt_route_sort_fn: finds how many rows each expert has, into kept->first, and tells the
 * others of the team how many come, and what they weigh. */
void dt_exchange_plan(const struct dt_block *b);
/* What the last plan came to. */
struct dt_own_rows dt_exchange_own(const struct dt_block *b);

/* scratch->spread, in the order of experts, becomes what this returns, [own rows, width]. */
dt_elem *dt_exchange_there(const struct dt_block *b);
/* Where what experts make of that may be written; and how it gets from there to scratch->spread. */
dt_elem *dt_exchange_room(const struct dt_block *b);
void dt_exchange_back(const struct dt_block *b);
/* What their gradients are to weights, of own rows, where dt_exchange_slopes() says; then they are
 * in scratch->dweights. */
float *dt_exchange_slopes(const struct dt_block *b);
void dt_exchange_slopes_back(const struct dt_block *b);

#endif
