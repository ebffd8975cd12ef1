/* SPDX-License-Identifier: Apache-2.0 */
/* Attention where several ranks share the positions of each sample, by heads: each rank gives its
 * positions of most heads away for all positions of some, attends, and gets its own positions of
 * all heads back. Of C ranks each sends (C - 1) / C of its queries, keys, values and output, where
 * spread.h makes it receive C - 1 times its keys and values: less for many ranks, more where many
 * query heads read one of keys. The ranks divide the heads of keys. Each head is attended as one
 * rank would, to the bit. On the way back all is swapped once more. */
#ifndef DT_WORKER_RUNTIME_MODEL_SWAP_H
#define DT_WORKER_RUNTIME_MODEL_SWAP_H

#include "worker_runtime/model/block.h"

/* As the ops of dt_attention are, of A that dt_block_attention() made; dqkv as
 * dt_block_attention_backward() has it. kept->logsum is that of the rank's heads. */
void dt_swap_forward(const struct dt_block *b, const struct dt_attention *a);
void dt_swap_backward(const struct dt_block *b, const struct dt_attention *a, dt_elem *dqkv,
                      const dt_elem *dout);

#endif
