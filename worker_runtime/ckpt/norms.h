/* SPDX-License-Identifier: Apache-2.0 */
/* How long the weights are that make each output of a linear layer: rows of a matrix [out, in],
 * columns of a GPT-2's [in, out]. Parts of the matrix are added up as they come. Pure. */
#ifndef DT_WORKER_RUNTIME_CKPT_NORMS_H
#define DT_WORKER_RUNTIME_CKPT_NORMS_H

#include "worker_runtime/model/shape.h"

struct dt_norms {
    bool in_out;
    size_t columns;      /* of the matrix */
    size_t first, count; /* of the outputs that are asked for */
    double *squares;     /* [count] */
};

/* Of COUNT outputs of the layer whose weight is T, from FIRST on. End it also when it fails. */
int dt_norms_begin(struct dt_norms *n, const struct dt_shape *s, const struct dt_tensor *t,
                   size_t first, size_t count, struct dt_err *err);
void dt_norms_finish(struct dt_norms *n);
/* X: COUNT elements of the matrix from element FIRST on. */
void dt_norms_add(struct dt_norms *n, uint64_t first, size_t count, const float *x);
/* Once all are added. */
float dt_norms_of(const struct dt_norms *n, size_t output);

#endif
