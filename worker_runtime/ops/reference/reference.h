/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of dt_ops_reference, as the table (model/ops.h) wants them. On this device a
 * dt_elem is a float, and the stream is not looked at. */
#ifndef DT_WORKER_RUNTIME_OPS_REFERENCE_REFERENCE_H
#define DT_WORKER_RUNTIME_OPS_REFERENCE_REFERENCE_H

#include "worker_runtime/ops/ops.h"

void dt_ref_embedding_forward(const struct dt_embedding *e, dt_elem *out, const dt_elem *token,
                              const dt_elem *position, struct dt_stream *s);
void dt_ref_embedding_backward(const struct dt_embedding *e, dt_elem *dtoken, dt_elem *dposition,
                               const dt_elem *dout, struct dt_stream *s);
void dt_ref_norm_forward(const struct dt_norm *n, dt_elem *out, dt_elem *sum, const dt_elem *x,
                         const dt_elem *add, struct dt_stream *s);
void dt_ref_norm_backward(const struct dt_norm *n, dt_elem *dx, dt_elem *dweight, dt_elem *dbias,
                          const dt_elem *x, const dt_elem *dout, struct dt_stream *s);
void dt_ref_rope(const struct dt_rope *r, dt_elem *x, bool backward, struct dt_stream *s);
void dt_ref_linear_forward(const struct dt_linear *l, dt_elem *out, const dt_elem *x,
                           struct dt_stream *s);
void dt_ref_linear_gelu_forward(const struct dt_linear *l, dt_elem *out, dt_elem *pre,
                                const dt_elem *x, struct dt_stream *s);
void dt_ref_linear_backward(const struct dt_linear *l, dt_elem *dx, bool add, dt_elem *dweight,
                            dt_elem *dbias, const dt_elem *x, const dt_elem *dout,
                            struct dt_stream *s);
void dt_ref_attention_forward(const struct dt_attention *a, dt_elem *out, struct dt_stream *s);
void dt_ref_attention_backward(const struct dt_attention *a, dt_elem *dq, dt_elem *dk, dt_elem *dv,
                               const dt_elem *out, const dt_elem *dout, struct dt_stream *s);
void dt_ref_gelu_forward(size_t n, dt_elem *out, const dt_elem *pre, struct dt_stream *s);
void dt_ref_gelu_backward(size_t n, dt_elem *dpre, const dt_elem *pre, const dt_elem *dout,
                          struct dt_stream *s);
void dt_ref_swiglu_forward(size_t n, dt_elem *out, const dt_elem *gate, const dt_elem *up,
                           struct dt_stream *s);
void dt_ref_swiglu_backward(size_t n, dt_elem *dgate, dt_elem *dup, const dt_elem *gate,
                            const dt_elem *up, const dt_elem *dout, struct dt_stream *s);
void dt_ref_cross_entropy(const struct dt_cross_entropy *c, float *losses, dt_elem *logits,
                          bool gradients, struct dt_stream *s);
void dt_ref_add(size_t n, dt_elem *to, const dt_elem *from, struct dt_stream *s);
void dt_ref_adamw(const struct dt_adamw *a, size_t n, float *master, float *exp_avg,
                  float *exp_avg_sq, dt_elem *params, const float *grads, struct dt_stream *s);
void dt_ref_sum_squares(size_t n, double *out, const float *x, struct dt_stream *s);
void dt_ref_cast(size_t n, void *out, enum dt_dtype out_type, const void *x, enum dt_dtype type,
                 struct dt_stream *s);
void dt_ref_round_to(size_t n, float *x, enum dt_dtype type, struct dt_stream *s);

#endif
