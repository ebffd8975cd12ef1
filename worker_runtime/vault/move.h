/* SPDX-License-Identifier: Apache-2.0 */
/* The shards of a step that was chosen, from who holds them to the ranks of this world, which may
 * be more or fewer. A shard moves by pieces, stretches that one old and one new owner have in
 * common. All ranks go through the pieces in one order, and each takes part in those that it gives
 * or gets: so nobody waits in a circle, and no file is needed. */
#ifndef DT_WORKER_RUNTIME_VAULT_MOVE_H
#define DT_WORKER_RUNTIME_VAULT_MOVE_H

#include "worker_runtime/vault/vault.h"

/* A stretch of one unit. */
struct dt_vault_piece {
    int from, to;          /* old rank, new rank */
    size_t from_at, to_at; /* among all shards of each in a row */
    size_t count;
};

/* Where a walk over all pieces is; zeroed at first. */
struct dt_vault_walk {
    size_t unit, at;
};

/* The next piece; false: there are no more. OLD and NEW cut the same units. Pure. */
bool dt_vault_next_piece(struct dt_vault_walk *w, const struct dt_layout *old,
                         const struct dt_layout *new, struct dt_vault_piece *out);

/* This rank's shards of a step. */
struct dt_vault_shards {
    struct dt_zero_state
        state; /* in the vault's slot where this rank holds just these, or in ROOM */
    float *room;
};

/* Fills OUT, to be ended with dt_vault_shards_finish(). V may be NULL where this rank holds
 * nothing. Collective over G. */
int dt_vault_move(const struct dt_vault *v, const struct dt_vault_choice *c,
                  const struct dt_layout *layout, struct dt_coll *g, struct dt_vault_shards *out,
                  struct dt_err *err);
void dt_vault_shards_finish(struct dt_vault_shards *s);

#endif
