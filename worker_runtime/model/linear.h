/* SPDX-License-Identifier: Apache-2.0 */
/* The linear layers of a block, by how they are cut where ranks share one: a column layer has some
 * of the outputs on each rank and all inputs, a row layer some of the inputs and, once the ranks'
 * sums are added up, all outputs. So what lies between a column layer and the row layer behind it,
 * heads or the inner width, never leaves a rank.
 *
 * What goes into a column layer, and what comes out of a row layer, is whole on each rank of the
 * block's team: a row layer's outputs are summed over the team, and so is, on the way back, the
 * gradient of what all column layers behind one norm take. A row layer's bias is whole, too, and
 * added by the first rank alone. Where the team shares the stream's rows (mesh/rows.h), a norm
 * gives own rows, which are gathered in front of the column layers, and of those sums each rank
 * takes own rows. What a team exchanges is here and nowhere else.
 *
 * Gradients of weight and bias are added where the block's are; a frozen block has none, nor has
 * the inputs' half of a way back (halves.h), which looks at no X; with the weights' half DX is
 * NULL.
 *
 * A weight that is kept in NF4 becomes numbers here, right before each product.
 *
 * A layer with an adapter beside it (lora.h) is that here and nowhere else: what the adapter adds
 * is adapter.h. */
#ifndef DT_WORKER_RUNTIME_MODEL_LINEAR_H
#define DT_WORKER_RUNTIME_MODEL_LINEAR_H

#include "worker_runtime/model/block.h"

/* The product alone, of the parameters of B that L names, and back; an adapter, or a gradient of it
 * that is frozen, is not looked at. For adapter.c and experts.c. X NULL: the weight's gradient is
 * not wanted. DX NULL: it alone is. */
void dt_linear_product(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                       const dt_elem *x);
void dt_linear_product_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx,
                                bool add, const dt_elem *x, const dt_elem *dout);

/* In front of column layers: what norm N makes of X + ADD, or of X where ADD is NULL, of all rows
 * in scratch->normed, and that sum in SUM, which may be NULL then. X, ADD and SUM are own rows. */
void dt_linear_columns_begin(const struct dt_block *b, const struct dt_norm *n, dt_elem *sum,
                             const dt_elem *x, const dt_elem *add);
void dt_linear_column_forward(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                              const dt_elem *x);
/* With the GELU behind it, and what goes into that in PRE. */
void dt_linear_column_gelu_forward(const struct dt_block *b, const struct dt_linear *l,
                                   dt_elem *out, dt_elem *pre, const dt_elem *x);
/* dx = , or with ADD += , what DOUT means for X, by this rank's part of the layer. */
void dt_linear_column_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx,
                               bool add, const dt_elem *x, const dt_elem *dout);

/* Behind the last column layer that takes what norm N gave of X, own rows, and has put into
 * scratch->branch what this rank's part of them means for it: what all ranks' parts mean joins the
 * stream's gradient, and those of the norm's parameters, as norm_backward() has them. */
void dt_linear_columns_end(const struct dt_block *b, const struct dt_norm *n, dt_elem *dweight,
                           dt_elem *dbias, const dt_elem *x);

/* OUT, and DOUT, are of own rows; where rows are shared scratch->branch, and scratch->normed, are
 * used for all of them. */
void dt_linear_row_forward(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                           const dt_elem *x);
void dt_linear_row_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx,
                            const dt_elem *x, const dt_elem *dout);
/* Through the GELU in front of it, too, which was taken of PRE: dpre = . */
void dt_linear_row_gelu_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dpre,
                                 const dt_elem *x, const dt_elem *pre, const dt_elem *dout);

/* In parts, for experts.c, whose row layers are many. Where this rank's part of all rows is put;
 * and OUT, own rows, of that once it is there: the sum of all parts. */
dt_elem *dt_linear_rows_room(const struct dt_block *b, dt_elem *out);
void dt_linear_rows_end(const struct dt_block *b, dt_elem *out);
/* DOUT, own rows, as all rows: ROOM, or where no rows are shared DOUT itself. */
const dt_elem *dt_linear_rows_back(const struct dt_block *b, dt_elem *room, const dt_elem *dout);

#endif
