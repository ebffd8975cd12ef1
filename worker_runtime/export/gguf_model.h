/* SPDX-License-Identifier: Apache-2.0 */
/* A model in GGUF: which keys say what it is, and which of its tensors is where under which name.
 * Pure. */
#ifndef DT_WORKER_RUNTIME_EXPORT_GGUF_MODEL_H
#define DT_WORKER_RUNTIME_EXPORT_GGUF_MODEL_H

#include "base/err.h"
#include "worker_runtime/export/gguf.h"
#include "worker_runtime/model/shape.h"

enum dt_gguf_turn {
    DT_GGUF_AS_IT_IS,
    DT_GGUF_PAIRS,      /* of each head, rows i and i + head_dim / 2 stand together */
    DT_GGUF_TRANSPOSED, /* ours is [in, out] */
    DT_GGUF_PLUS_ONE,   /* of a norm that multiplies by 1 more than its weight */
};

struct dt_gguf_tensor {
    char name[64];
    size_t source;      /* which of our tensors */
    size_t rows, width; /* as in the file; 0 rows: one dimension */
    enum dt_gguf_turn turn;
    enum dt_gguf_type type;
};

/* Our TENSORS, of which there are COUNT, into OUT, which has room for as many. TYPES: what each is
 * to be; where a tensor cannot be that, or programs expect another, it gets the nearest that is
 * right. */
int dt_gguf_model_tensors(const struct dt_shape *s, const struct dt_tensor *tensors, size_t count,
                          const enum dt_gguf_type *types, struct dt_gguf_tensor *out,
                          struct dt_err *err);
/* Row R of T, in our tensor, where it is not transposed. */
size_t dt_gguf_source_row(const struct dt_shape *s, const struct dt_gguf_tensor *t, size_t r);

/* By how much each of head_dim / 2 pairs turns more slowly than its speed says, in a tensor of its
 * own, rope_freqs.weight; false: there is none. */
bool dt_gguf_rope_factors(const struct dt_shape *s, float *out);

/* MAIN: of most of its weights. */
int dt_gguf_put_model(struct dt_gguf *g, const struct dt_shape *s, enum dt_gguf_type main,
                      struct dt_err *err);

#endif
