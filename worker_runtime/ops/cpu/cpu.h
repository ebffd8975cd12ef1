/* SPDX-License-Identifier: Apache-2.0 */
/* The fast ops. These files are compiled once for each set of instructions (DT_ISA is base, v3 or
 * v4), so their names carry it; ops/cpu.c picks a table at run time.
 *
 * Loops are plain C that the compiler makes vectors of. Sums and maxima say "omp simd reduction":
 * that allows this one sum another order, and nothing else; infinities and NaN stay what they are.
 * Work is cut in parts by its shape, never by chance, so results repeat. */
#ifndef DT_WORKER_RUNTIME_OPS_CPU_CPU_H
#define DT_WORKER_RUNTIME_OPS_CPU_CPU_H

#include <stddef.h>

#include "worker_runtime/device/cpu.h"
#include "worker_runtime/ops/cpu/pool.h"
#include "worker_runtime/ops/ops.h"

#define DT_JOIN_AS(a, b) a##_##b
#define DT_JOIN(a, b) DT_JOIN_AS(a, b)
#define DT_CPU(name) DT_JOIN(dt_cpu_##name, DT_ISA)
#define DT_TEXT_OF(x) #x
#define DT_TEXT(x) DT_TEXT_OF(x)

struct dt_range {
    size_t from, to;
};

/* Parts of SIZE each, the last one shorter. */
static inline size_t dt_parts(size_t n, size_t size)
{
    return (n + size - 1) / size;
}

static inline struct dt_range dt_part(size_t n, size_t size, size_t part)
{
    size_t from = part * size;
    return (struct dt_range){from, n - from < size ? n : from + size};
}

void DT_CPU(embedding_forward)(const struct dt_embedding *e, dt_elem *out, const dt_elem *token,
                               const dt_elem *position, struct dt_stream *s);
void DT_CPU(embedding_backward)(const struct dt_embedding *e, dt_elem *dtoken, dt_elem *dposition,
                                const dt_elem *dout, struct dt_stream *s);
void DT_CPU(norm_forward)(const struct dt_norm *n, dt_elem *out, dt_elem *sum, const dt_elem *x,
                          const dt_elem *add, struct dt_stream *s);
void DT_CPU(norm_backward)(const struct dt_norm *n, dt_elem *dx, dt_elem *dweight, dt_elem *dbias,
                           const dt_elem *x, const dt_elem *dout, struct dt_stream *s);
void DT_CPU(rope)(const struct dt_rope *r, dt_elem *x, bool backward, struct dt_stream *s);
void DT_CPU(linear_forward)(const struct dt_linear *l, dt_elem *out, const dt_elem *x,
                            struct dt_stream *s);
void DT_CPU(linear_gelu_forward)(const struct dt_linear *l, dt_elem *out, dt_elem *pre,
                                 const dt_elem *x, struct dt_stream *s);
void DT_CPU(linear_backward)(const struct dt_linear *l, dt_elem *dx, bool add, dt_elem *dweight,
                             dt_elem *dbias, const dt_elem *x, const dt_elem *dout,
                             struct dt_stream *s);
void DT_CPU(attention_forward)(const struct dt_attention *a, dt_elem *out, struct dt_stream *s);
void DT_CPU(attention_backward)(const struct dt_attention *a, dt_elem *dq, dt_elem *dk, dt_elem *dv,
                                const dt_elem *out, const dt_elem *dout, struct dt_stream *s);
void DT_CPU(gelu_forward)(size_t n, dt_elem *out, const dt_elem *pre, struct dt_stream *s);
void DT_CPU(gelu_backward)(size_t n, dt_elem *dpre, const dt_elem *pre, const dt_elem *dout,
                           struct dt_stream *s);
void DT_CPU(swiglu_forward)(size_t n, dt_elem *out, const dt_elem *gate, const dt_elem *up,
                            struct dt_stream *s);
void DT_CPU(swiglu_backward)(size_t n, dt_elem *dgate, dt_elem *dup, const dt_elem *gate,
                             const dt_elem *up, const dt_elem *dout, struct dt_stream *s);
void DT_CPU(cross_entropy)(const struct dt_cross_entropy *c, float *losses, dt_elem *logits,
                           bool gradients, struct dt_stream *s);
void DT_CPU(add)(size_t n, dt_elem *to, const dt_elem *from, struct dt_stream *s);
void DT_CPU(adamw)(const struct dt_adamw *a, size_t n, float *master, float *exp_avg,
                   float *exp_avg_sq, dt_elem *params, const float *grads, struct dt_stream *s);
void DT_CPU(sum_squares)(size_t n, double *out, const float *x, struct dt_stream *s);
void DT_CPU(cast)(size_t n, void *out, enum dt_dtype out_type, const void *x, enum dt_dtype type,
                  struct dt_stream *s);
void DT_CPU(round_to)(size_t n, float *x, enum dt_dtype type, struct dt_stream *s);

#endif
