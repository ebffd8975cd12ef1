/* SPDX-License-Identifier: Apache-2.0 */
/* Attention where several ranks share the positions of each sample: keys and values of all
 * positions are gathered, for one block at a time, and each rank's queries meet them. On the way
 * back they are gathered once more, which takes less than keeping them for all blocks would. */
#ifndef DT_WORKER_RUNTIME_MODEL_SPREAD_H
#define DT_WORKER_RUNTIME_MODEL_SPREAD_H

#include "worker_runtime/model/block.h"

/* Numbers of a position's keys and values together. */
size_t dt_spread_pair(const struct dt_block *b);
/* Rows of this rank that stand before those of its piece number PIECE. */
size_t dt_spread_rows_before(const struct dt_block *b, size_t piece);
/* This rank's keys and values, each position's side by side, out of rows in which more stands; and
 * gradients of them, back into such, DQKV. */
void dt_spread_pack(const struct dt_block *b, const struct dt_attention *a, char *to);
void dt_spread_unpack(const struct dt_block *b, const struct dt_attention *a, dt_elem *dqkv,
                      const char *from);
/* Between rows of WIDTH numbers as all ranks have them, one rank behind the other, and those of
 * each sample from its first position to its last. */
void dt_spread_reorder(const struct dt_block *b, size_t width, dt_elem *by_rank,
                       dt_elem *by_position, bool to_position);

/* As the ops of dt_attention are, of A that dt_block_attention() made; dqkv as
 * dt_block_attention_backward() has it. */
void dt_spread_forward(const struct dt_block *b, const struct dt_attention *a);
void dt_spread_backward(const struct dt_block *b, const struct dt_attention *a, dt_elem *dqkv,
                        const dt_elem *dout);

#endif
