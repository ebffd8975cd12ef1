/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a model: the stream's last sum, a norm, a product with the matrix of the vocabulary,
 * and the loss. The logits of all rows would be the largest thing in memory by far, and each row's
 * loss needs no other row, so callers go through the rows in chunks, forward and back for each. */
#ifndef DT_WORKER_RUNTIME_MODEL_HEAD_H
#define DT_WORKER_RUNTIME_MODEL_HEAD_H

#include "worker_runtime/mesh/rows.h"
#include "worker_runtime/model/activations.h"

struct dt_head {
    const struct dt_shape *shape;
    const struct dt_words *words; /* that MATRIX has */
    struct dt_team *team;         /* who has the others; NULL: there are none */
    const struct dt_ops *ops;
    struct dt_stream *stream;
    const dt_elem *weight, *bias, *matrix; /* the norm's, and [V, C]; a Llama's norm has no bias */
    dt_elem *dweight, *dbias, *dmatrix;    /* where their gradients are added */
    /* [M, C]: the last block's, who left scratch->branch; NULL: the head went forward before, and
     * their sum is in scratch->branch. */
    const dt_elem *middle;
    const int32_t *targets; /* [N] */
    const float *weights;   /* [N]: of each row's gradients; NULL: 1 */
    float *losses;          /* [N] */
    dt_elem *dstream;       /* [M, C]: where the gradient of the stream is added */
    const struct dt_scratch *scratch;
};

/* Before the first of ALL rows goes forward, with those below; not where logits alone are wanted.
 */
void dt_head_begin(const struct dt_head *h, size_t all);
/* Of ROWS rows from FIRST on, into scratch->logits, before their cap. */
void dt_head_logits(const struct dt_head *h, size_t first, size_t rows);
/* The losses of ROWS rows from FIRST on; with GRADIENTS, scratch->logits then has what backward
 * begins with, multiplied by SCALE. */
void dt_head_forward(const struct dt_head *h, size_t first, size_t rows, bool gradients,
                     float scale);
/* Of the same rows, before any others go forward; and behind the last of ALL. Then what their words
 * mean for them is added to dstream; to dweight and dbias, with a team, a part of it, which is to
 * be summed over the team. */
void dt_head_backward(const struct dt_head *h, size_t first, size_t rows);
void dt_head_end(const struct dt_head *h, size_t all);

#endif
