/* SPDX-License-Identifier: Apache-2.0 */
/* The launchers: each op of ops/ops.h with its name, arguments and order, ELEM first (DT_F32 or
 * DT_BF16). They start work on s->compute and return at once; a cudaError_t says whether it could
 * be started. Sums are taken in float (double where ops.h says so) and in an order that depends on
 * the shape and the kind of GPU alone, unless s->fast. */
#ifndef DT_CUDA_KERNELS_KERNELS_H
#define DT_CUDA_KERNELS_KERNELS_H

#include "cuda/device/stream.h"
#include "worker_runtime/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* embedding.cu */
cudaError_t dt_cuda_embedding_forward(enum dt_dtype elem, const struct dt_embedding *e, void *out,
                                      const void *token, const void *position, struct dt_stream *s);
cudaError_t dt_cuda_embedding_backward(enum dt_dtype elem, const struct dt_embedding *e,
                                       void *dtoken, void *dposition, const void *dout,
                                       struct dt_stream *s);

/* norm.cu, norm_backward.cu */
cudaError_t dt_cuda_norm_forward(enum dt_dtype elem, const struct dt_norm *n, void *out, void *sum,
                                 const void *x, const void *add, struct dt_stream *s);
cudaError_t dt_cuda_norm_backward(enum dt_dtype elem, const struct dt_norm *n, void *dx,
                                  void *dweight, void *dbias, const void *x, const void *dout,
                                  struct dt_stream *s);

/* head_norm.cu */
cudaError_t dt_cuda_head_norm_forward(enum dt_dtype elem, const struct dt_head_norm *n, void *out,
                                      const void *x, struct dt_stream *s);
cudaError_t dt_cuda_head_norm_backward(enum dt_dtype elem, const struct dt_head_norm *n, void *dx,
                                       void *dweight, const void *x, const void *dout,
                                       struct dt_stream *s);

/* rope.cu */
cudaError_t dt_cuda_rope(enum dt_dtype elem, const struct dt_rope *r, void *x, bool backward,
                         struct dt_stream *s);

/* linear.c, over cuBLASLt; bias.cu has what it lacks */
cudaError_t dt_cuda_linear_forward(enum dt_dtype elem, const struct dt_linear *l, void *out,
                                   const void *x, struct dt_stream *s);
cudaError_t dt_cuda_linear_gelu_forward(enum dt_dtype elem, const struct dt_linear *l, void *out,
                                        void *pre, const void *x, struct dt_stream *s);
cudaError_t dt_cuda_linear_backward(enum dt_dtype elem, const struct dt_linear *l, void *dx,
                                    bool add, void *dweight, void *dbias, const void *x,
                                    const void *dout, struct dt_stream *s);
cudaError_t dt_cuda_linear_gelu_backward(enum dt_dtype elem, const struct dt_linear *l, void *dpre,
                                         void *dweight, void *dbias, const void *x, const void *pre,
                                         const void *dout, struct dt_stream *s);
/* bias.cu: each row of out += the layer's bias */
cudaError_t dt_cuda_bias_forward(enum dt_dtype elem, const struct dt_linear *l, void *out,
                                 struct dt_stream *s);
/* dbias[out] += the sum of dout's rows. */
cudaError_t dt_cuda_bias_backward(enum dt_dtype elem, const struct dt_linear *l, void *dbias,
                                  const void *dout, struct dt_stream *s);

/* attention.cu, attention_backward.cu */
cudaError_t dt_cuda_attention_forward(enum dt_dtype elem, const struct dt_attention *a, void *out,
                                      struct dt_stream *s);
cudaError_t dt_cuda_attention_backward(enum dt_dtype elem, const struct dt_attention *a, void *dq,
                                       void *dk, void *dv, const void *out, const void *dout,
                                       struct dt_stream *s);

/* activation.cu */
cudaError_t dt_cuda_gelu_forward(enum dt_dtype elem, size_t n, void *out, const void *pre,
                                 struct dt_stream *s);
cudaError_t dt_cuda_gelu_backward(enum dt_dtype elem, size_t n, void *dpre, const void *pre,
                                  const void *dout, struct dt_stream *s);
cudaError_t dt_cuda_swiglu_forward(enum dt_dtype elem, const struct dt_gate *g, void *out,
                                   const void *gate, const void *up, struct dt_stream *s);
cudaError_t dt_cuda_swiglu_backward(enum dt_dtype elem, const struct dt_gate *g, void *dgate,
                                    void *dup, const void *gate, const void *up, const void *dout,
                                    struct dt_stream *s);
cudaError_t dt_cuda_geglu_forward(enum dt_dtype elem, const struct dt_gate *g, void *out,
                                  const void *gate, const void *up, struct dt_stream *s);
cudaError_t dt_cuda_geglu_backward(enum dt_dtype elem, const struct dt_gate *g, void *dgate,
                                   void *dup, const void *gate, const void *up, const void *dout,
                                   struct dt_stream *s);

/* loss.cu */
cudaError_t dt_cuda_cross_entropy(enum dt_dtype elem, const struct dt_cross_entropy *c,
                                  float *losses, void *logits, bool gradients, struct dt_stream *s);
cudaError_t dt_cuda_cross_entropy_sums(enum dt_dtype elem, const struct dt_cross_entropy *c,
                                       float *sums, const void *logits, struct dt_stream *s);
cudaError_t dt_cuda_cross_entropy_join(enum dt_dtype elem, const struct dt_cross_entropy *c,
                                       size_t parts, const float *sums, float *losses, void *logits,
                                       bool gradients, struct dt_stream *s);

/* elementwise.cu */
cudaError_t dt_cuda_add(enum dt_dtype elem, size_t n, void *to, const void *from,
                        struct dt_stream *s);
cudaError_t dt_cuda_add_to_floats(enum dt_dtype elem, size_t n, void *to, const void *from,
                                  struct dt_stream *s);
cudaError_t dt_cuda_copy_rows(enum dt_dtype elem, size_t rows, size_t width, void *to,
                              size_t to_stride, const void *from, size_t from_stride,
                              struct dt_stream *s);
cudaError_t dt_cuda_dropout(enum dt_dtype elem, const struct dt_dropout *d, size_t n, void *out,
                            bool add, const void *x, struct dt_stream *s);
cudaError_t dt_cuda_cast(size_t n, void *out, enum dt_dtype out_type, const void *x,
                         enum dt_dtype type, struct dt_stream *s);
cudaError_t dt_cuda_round_to(size_t n, float *x, enum dt_dtype type, struct dt_stream *s);

/* nf4.cu */
cudaError_t dt_cuda_nf4_expand(enum dt_dtype elem, const struct dt_nf4 *q, void *out,
                               struct dt_stream *s);

/* magnitude.cu */
cudaError_t dt_cuda_magnitude_norms(enum dt_dtype elem, const struct dt_linear *l, size_t r,
                                    float scale, const void *a, const void *b, float *rnorms,
                                    struct dt_stream *s);
cudaError_t dt_cuda_magnitude_forward(enum dt_dtype elem, const struct dt_magnitude *m, void *out,
                                      const void *base, const void *sum, struct dt_stream *s);
cudaError_t dt_cuda_magnitude_backward(enum dt_dtype elem, const struct dt_magnitude *m, void *dsum,
                                       void *dbase, void *dmagnitudes, const void *base,
                                       const void *sum, const void *dout, struct dt_stream *s);

/* experts.cu */
cudaError_t dt_cuda_route(enum dt_dtype elem, const struct dt_routes *r, float *probs,
                          int32_t *experts, float *weights, const void *logits,
                          struct dt_stream *s);
cudaError_t dt_cuda_route_backward(enum dt_dtype elem, const struct dt_routes *r, void *dlogits,
                                   const float *probs, const int32_t *experts,
                                   const float *dweights, const float *dprobs, struct dt_stream *s);
cudaError_t dt_cuda_weigh_forward(enum dt_dtype elem, size_t rows, size_t width, void *x,
                                  const float *weights, const int32_t *of, struct dt_stream *s);
cudaError_t dt_cuda_weigh_backward(enum dt_dtype elem, size_t rows, size_t width, void *x,
                                   void *dout, float *dweights, const float *weights,
                                   const int32_t *of, struct dt_stream *s);
cudaError_t dt_cuda_sigmoid_forward(enum dt_dtype elem, size_t n, float *out, const void *x,
                                    struct dt_stream *s);
cudaError_t dt_cuda_sigmoid_backward(enum dt_dtype elem, size_t n, void *dx, const float *out,
                                     const float *dout, struct dt_stream *s);

/* routes.cu; experts are at most 1024 */
cudaError_t dt_cuda_route_sort(const struct dt_routes *r, const struct dt_route_order *to,
                               const int32_t *experts, struct dt_stream *s);
cudaError_t dt_cuda_route_spread(enum dt_dtype elem, const struct dt_routes *r,
                                 const struct dt_route_order *o, size_t width, void *out,
                                 const void *x, struct dt_stream *s);
cudaError_t dt_cuda_route_collect(enum dt_dtype elem, const struct dt_routes *r,
                                  const struct dt_route_order *o, size_t width, void *out, bool add,
                                  const void *x, struct dt_stream *s);

/* adamw.cu */
cudaError_t dt_cuda_adamw(enum dt_dtype elem, const struct dt_adamw *a, size_t parts,
                          const struct dt_adamw_part *part, struct dt_stream *s);

/* squares.cu: waits. SUMS are untouched when something fails. */
cudaError_t dt_cuda_sum_squares(enum dt_dtype elem, size_t parts, double *sums,
                                const struct dt_squares_part *part, struct dt_stream *s);

#ifdef __cplusplus
}
#endif

#endif
