/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of a GPU, by cuDNN where that can and may, else by our own kernels. A shape's plan is
 * made when it is met first, and its first result is compared with that of our kernels: who reads
 * cuDNN's documentation wrongly, or meets a version that means something else, trains on our
 * kernels and is told so. */
#ifndef DT_CUDA_CUDNN_ATTENTION_H
#define DT_CUDA_CUDNN_ATTENTION_H

#include "cuda/cudnn/calls.h"
#include "cuda/device/stream.h"
#include "worker_runtime/ops/ops.h"

struct dt_cudnn_attention;

/* The norm of the difference over that of our result, above which cuDNN's is not believed: results
 * that are right differ by what rounding to bfloat16 does, which should be less than 0.01. */
#define DT_CUDNN_APART_MOST 0.03

/* What it stands on: a test fills its own. */
struct dt_cudnn_under {
    const struct dt_cudnn_calls *calls;
    /* Our kernels, in bfloat16. */
    cudaError_t (*forward)(const struct dt_attention *a, void *out, struct dt_stream *s);
    cudaError_t (*backward)(const struct dt_attention *a, void *dq, void *dk, void *dv,
                            const void *out, const void *dout, struct dt_stream *s);
    /* Memory of the device that is kept until it closes. */
    void *(*take)(void *arg, size_t bytes, struct dt_err *err);
    /* To the host, and waits. */
    cudaError_t (*fetch)(struct dt_stream *s, void *host, const void *at, size_t bytes);
    bool (*is_recording)(struct dt_stream *s);
    void (*say)(void *arg, const char *line);
    void *arg;
};

/* UNDER is copied. NULL and *err: why cuDNN cannot be used. */
struct dt_cudnn_attention *dt_cudnn_attention_open(const struct dt_cudnn_under *under,
                                                   const struct dt_stream *s, struct dt_err *err);
void dt_cudnn_attention_close(struct dt_cudnn_attention *c); /* may be NULL */

/* As the ops of their names, in bfloat16. */
cudaError_t dt_cudnn_attention_forward(struct dt_cudnn_attention *c, const struct dt_attention *a,
                                       void *out, struct dt_stream *s);
cudaError_t dt_cudnn_attention_backward(struct dt_cudnn_attention *c, const struct dt_attention *a,
                                        void *dq, void *dk, void *dv, const void *out,
                                        const void *dout, struct dt_stream *s);

#endif
