/* SPDX-License-Identifier: Apache-2.0 */
/* The mlp of a block with experts. A router, which is a small product and a softmax, picks some of
 * them for each row; the row goes through these alone, and what they make of it is added up, each
 * by its weight. A shared expert, where there is one, takes all rows, by a weight of its own.
 *
 * Rows are laid in the order of experts, so that all of one expert's are one product, and those of
 * one expert in their own order, so that sums have the same bits each time. No row is left out,
 * however many an expert has; one without rows costs nothing, and its gradients stay as they are.
 *
 * A weight multiplies what is between an expert's two products, which means the same as behind them
 * and leaves nothing of that to be kept for the way back.
 *
 * Ranks may share the experts of a block: exchange.h. Then a rank without rows of its own computes
 * for others nevertheless.
 *
 * A team may share each expert, too: a rank has a part of its inner width, so that gate and up are
 * column layers, and down is a row layer, as linear.h has them. The router is whole on each rank,
 * which picks what the others pick. What is given is this rank's part of a sum over the team, and
 * so is each gradient, those of the router and of the shared expert's weight among them: a rank
 * knows a part of a weight's slope, and what follows from slopes on the way back is linear in them.
 *
 * The host reads how many rows each expert has, and asks for as many products: on a GPU it waits
 * for that once in each way forward. */
#ifndef DT_WORKER_RUNTIME_MODEL_EXPERTS_H
#define DT_WORKER_RUNTIME_MODEL_EXPERTS_H

#include "worker_runtime/model/block.h"

/* Leaves what is kept, and in OUT, [N, C], unless it is NULL, what the mlp makes of X, [N, C]. N:
 * all rows of the team. */
void dt_experts_forward(const struct dt_block *b, dt_elem *out, const dt_elem *x);
/* dx = what DOUT means for X, after dt_experts_forward() of the same. DX may be DOUT. */
void dt_experts_backward(const struct dt_block *b, dt_elem *dx, const dt_elem *x,
                         const dt_elem *dout);

/* What SHARE of the auxiliary loss (transformer.h) means for the probability of each expert, for
 * any row of any block: into OUT, [experts]. COUNTS: [layers, experts], of blocks with so many
 * ROWS. Pure. */
void dt_experts_balance(const struct dt_shape *s, size_t rows, const int32_t *counts, double share,
                        float *out);

#endif
