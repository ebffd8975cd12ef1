/* SPDX-License-Identifier: Apache-2.0 */
/* Attention where several ranks share the positions of each sample, round a ring: the queries of a
 * rank stay, and keys and values go from each rank to the next, until all have met. Of C ranks each
 * sends its keys and values C - 1 times, as for spread.h, but never has more than those of two:
 * what it attends to, and what comes next. Pieces that stand behind a rank's queries pass by
 * without being computed with; all have as much to compute as pieces.h deals them. What each gives
 * is added up by the logsum, in the order in which it comes: own keys first, and so other ranks may
 * round otherwise, but each the same on each run.
 *
 * On the way back they go round once more. Gradients of keys and values travel one step behind
 * these, each rank adds its part, and after C steps they are at home: in all 3 C - 2 times as much
 * is sent as a rank has, 1 more than for spread.h. By the logsum of all keys, which was kept, parts
 * are plain sums.
 *
 * What comes next is under way while a rank computes, both ways: messages of keys and values are
 * started before, those of gradients while the next ones are computed. What moves meanwhile is what
 * there is room for without the neighbour: on one host 128 KiB, between hosts what a connection
 * holds. The rest moves when both have computed and wait. */
#ifndef DT_WORKER_RUNTIME_MODEL_RING_H
#define DT_WORKER_RUNTIME_MODEL_RING_H

#include "worker_runtime/model/block.h"

/* As the ops of dt_attention are, of A that dt_block_attention() made; dqkv as
 * dt_block_attention_backward() has it. */
void dt_ring_forward(const struct dt_block *b, const struct dt_attention *a);
void dt_ring_backward(const struct dt_block *b, const struct dt_attention *a, dt_elem *dqkv,
                      const dt_elem *dout);

#endif
