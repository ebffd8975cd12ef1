/* SPDX-License-Identifier: Apache-2.0 */
/* Which step all ranks come back to, and who gives which shard of it. Each rank lists the images it
 * holds; all have all lists, and decide alike. Pure.
 *
 * The newest world counts most, since what an earlier one did behind the point where a later one
 * began was given up; of one world the newest step counts. Only a step of which every shard is held
 * by somebody can be chosen: shards of different steps, or cut for different worlds, never mix. */
#ifndef DT_WORKER_RUNTIME_VAULT_CHOOSE_H
#define DT_WORKER_RUNTIME_VAULT_CHOOSE_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Where a rank has an image from; the first is liked best. */
enum dt_vault_source {
    DT_VAULT_NOTHING,
    DT_VAULT_OWN_MEMORY, /* this very process made it */
    DT_VAULT_OWN,        /* a process before this one did */
    DT_VAULT_COPY,       /* a neighbour's, sent here */
};

/* One that is whole, as told to the others: numbers alone. */
struct dt_vault_held {
    int64_t source; /* DT_VAULT_NOTHING: no image */
    int64_t slot;   /* of all images from that source, in a row */
    int64_t host;   /* of who holds it */
    int64_t epoch, step, world, rank;
    int64_t shard, state;
};

/* Copies of how many other ranks a rank can keep: one, where all nodes run equally many workers. */
#define DT_VAULT_COPIES 4
/* What one rank can tell of: two slots of its own image and of each copy's. */
#define DT_VAULT_HELD (2 + 2 * DT_VAULT_COPIES)

struct dt_vault_giver {
    int rank; /* of this world, that holds the shard */
    int slot;
    enum dt_vault_source source;
    int host;
};

struct dt_vault_choice {
    int64_t epoch, step;
    int64_t shard, state;         /* sizes, as in struct dt_vault_facts */
    int world;                    /* for which the step was cut */
    struct dt_vault_giver *giver; /* of each shard; to be ended with dt_vault_choice_finish() */
};

/* HELD: DT_VAULT_HELD of each of RANKS. OUT->world 0: no step is whole. -1: no memory. */
int dt_vault_choose(const struct dt_vault_held *held, int ranks, struct dt_vault_choice *out,
                    struct dt_err *err);
/* For who has some of the parts alone: of COUNT entries, one of the newest step that is older than
 * that of BEFORE (NULL: of all); NULL: there is none. */
const struct dt_vault_held *dt_vault_next_step(const struct dt_vault_held *held, size_t count,
                                               const struct dt_vault_held *before);
/* RANK's part of STEP's step, the one that is liked best; NULL: there is none. */
const struct dt_vault_held *dt_vault_part(const struct dt_vault_held *held, size_t count,
                                          const struct dt_vault_held *step, int rank);
/* Whether the step that was chosen is older than the checkpoint of (EPOCH, STEP). */
bool dt_vault_choice_is_older(const struct dt_vault_choice *c, int64_t epoch, int64_t step);
void dt_vault_choice_finish(struct dt_vault_choice *c);

/* "ranks 0, 1 and 3 from their own memory, rank 2 from its vault, rank 4 from a copy on node 1" */
void dt_vault_choice_describe(const struct dt_vault_choice *c, struct dt_buf *out);

#endif
