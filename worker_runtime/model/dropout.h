/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout of rows. What goes of a row hangs on its sample's number in the run and on its position,
 * and not on the rank that has it or a part of it: so each world drops the same, and so does who
 * computes a row once more. */
#ifndef DT_WORKER_RUNTIME_MODEL_DROPOUT_H
#define DT_WORKER_RUNTIME_MODEL_DROPOUT_H

#include "worker_runtime/model/block.h"

/* OUT = what D leaves of X, the block's rows of WIDTH numbers each; ADD: +=. OUT may be X. D's
 * start is that of the run's first row. */
void dt_drop_rows(const struct dt_block *b, const struct dt_dropout *d, size_t width, dt_elem *out,
                  bool add, const dt_elem *x);

/* The same of all rows of a micro-batch, be they shared or not: what goes into a linear layer.
 * WIDTH numbers of each row are here, from FROM on, of ALL. */
struct dt_inputs {
    size_t width, from, all;
};
void dt_drop_inputs(const struct dt_block *b, const struct dt_dropout *d,
                    const struct dt_inputs *inputs, dt_elem *out, bool add, const dt_elem *x);

#endif
