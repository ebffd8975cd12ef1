/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that encode blocks of words. Blocks go in and come out in one order, whoever does them.
 * All functions are for one thread, which fills the blocks and gets their tokens. */
#ifndef DT_TOKENIZER_CROWD_H
#define DT_TOKENIZER_CROWD_H

#include "worker_runtime/data/tokenizer/bpe.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"

/* An item is the length of the next word of TEXT, or a token by its id. */
#define DT_BLOCK_TOKEN ((uint32_t)1 << 31)

struct dt_block {
    struct dt_buf text;
    struct dt_ids items;
    struct dt_ids ids; /* what became of them */
};

struct dt_crowd;

/* THREADS beside the caller's, 0: its own does all. TAKE gets the ids of each block. */
struct dt_crowd *dt_crowd_create(const struct dt_bpe *bpe, int threads, dt_ids_fn *take, void *arg,
                                 struct dt_err *err);
void dt_crowd_destroy(struct dt_crowd *c); /* NULL is fine; what was not taken is lost */

/* The block to fill; it changes with each hand-over. */
struct dt_block *dt_crowd_block(struct dt_crowd *c);
/* Hands the block over. May wait, and may call TAKE for this or earlier ones. */
int dt_crowd_submit(struct dt_crowd *c, struct dt_err *err);
/* Takes all that were handed over. */
int dt_crowd_drain(struct dt_crowd *c, struct dt_err *err);

#endif
