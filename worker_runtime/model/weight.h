/* SPDX-License-Identifier: Apache-2.0 */
/* The weight of a linear layer in its block's unit: which tensors it is, and its numbers, whatever
 * they are kept in. */
#ifndef DT_WORKER_RUNTIME_MODEL_WEIGHT_H
#define DT_WORKER_RUNTIME_MODEL_WEIGHT_H

#include "worker_runtime/model/block.h"

/* Whether tensor number TENSOR of the block is part of L's weight, and from which of its outputs
 * on: queries, keys and values are one layer with three weights, one behind the other. */
bool dt_weight_has(const struct dt_block *b, const struct dt_linear *l, size_t tensor,
                   size_t *column);

/* L as it is computed with. What is kept in NF4 becomes numbers, which are there until the next
 * call: between two products no weight takes its full size. */
struct dt_linear dt_weight_open(const struct dt_block *b, const struct dt_linear *l);

#endif
