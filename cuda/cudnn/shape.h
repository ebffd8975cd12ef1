/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as graphs of cuDNN's, which that knows by their pattern and computes in one kernel:
 * forward as product, scale, masks, softmax, product; backward as its derivatives, with the weights
 * found again from the kept logsum. */
#ifndef DT_CUDA_CUDNN_SHAPE_H
#define DT_CUDA_CUDNN_SHAPE_H

#include "cuda/cudnn/graph.h"
#include "worker_runtime/ops/ops.h"

/* All that a graph is made by. Numbers of one size, so that memcmp() sees no gaps. */
struct dt_cudnn_shape {
    int64_t batch, positions, heads, kv_heads, head_dim;
    int64_t q_stride, k_stride, v_stride, out_stride; /* from position to position */
    int64_t window;                                   /* 0: all */
    int64_t documents;                                /* whether there are any */
    int64_t backward;
    int64_t deterministic;
};

/* What a tensor is when the graph runs. */
enum dt_cudnn_role {
    DT_CUDNN_Q = 1,
    DT_CUDNN_K,
    DT_CUDNN_V,
    DT_CUDNN_OUT,
    DT_CUDNN_STATS, /* [batch, heads, positions] */
    DT_CUDNN_SCALE, /* numbers of the host's: that of scores, what a masked score is, and 1 */
    DT_CUDNN_MASKED,
    DT_CUDNN_ONE,
    DT_CUDNN_WINDOW,    /* a whole number of the host's */
    DT_CUDNN_DOCUMENTS, /* [batch, positions]: where each position's begins */
    DT_CUDNN_DOUT,
    DT_CUDNN_DQ,
    DT_CUDNN_DK,
    DT_CUDNN_DV,
    DT_CUDNN_AVERAGE, /* memory to work in: floats [batch, heads, positions]; the dq of all keys */
    DT_CUDNN_DQ_SUM,
    DT_CUDNN_ROLES,
};

/* Whether cuDNN is asked at all: bfloat16, causal, whole sequences, heads of a multiple of 8 up to
 * 128, nothing capped or dropped. */
bool dt_cudnn_takes(const struct dt_attention *a);
struct dt_cudnn_shape dt_cudnn_shape_of(const struct dt_attention *a, bool backward,
                                        bool deterministic);
/* Bytes of AVERAGE and DQ_SUM; 0: the graph has no such tensor. Multiples of 256. */
size_t dt_cudnn_average_bytes(const struct dt_cudnn_shape *s);
size_t dt_cudnn_dq_sum_bytes(const struct dt_cudnn_shape *s);

/* Tells G all of it; G->failed says whether that went well. */
void dt_cudnn_shape_tell(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g);

#endif
