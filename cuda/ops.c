/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of ops: a launcher of kernels.h each, with the element type filled in. What could not
 * be started is kept by the stream, the first failure of all; a kernel that fails while it runs
 * comes out of dt_device_sync(). */
#include "cuda/ops.h"

#include "cuda/cudnn/attention.h"
#include "cuda/device/device.h"
#include "cuda/kernels/kernels.h"

#include <math.h>

static void keep(struct dt_stream *s, cudaError_t e, const char *op)
{
    if (e != cudaSuccess && s->failed.code == DT_E_NONE)
        dt_cuda_fail(e, op, &s->failed);
}

/* Kernels go to the GPU that the calling thread speaks to, which is the first until it says else.
 */
static struct dt_stream *enter(struct dt_stream *s)
{
    cudaSetDevice(s->ordinal);
    return s;
}

/* An op for both element types, from its parameters, which its type in ops/ops.h checks, and what
 * its launcher takes of them. */
#define TYPED(op, parameters, ...)                                                                 \
    static dt_##op##_fn op##_f32, op##_bf16;                                                       \
    static void op##_f32 parameters                                                                \
    {                                                                                              \
        keep(s, dt_cuda_##op(DT_F32, __VA_ARGS__, enter(s)), #op);                                 \
    }                                                                                              \
    static void op##_bf16 parameters                                                               \
    {                                                                                              \
        keep(s, dt_cuda_##op(DT_BF16, __VA_ARGS__, enter(s)), #op);                                \
    }

/* clang-format off */
TYPED(embedding_forward,
      (const struct dt_embedding *e, dt_elem *out, const dt_elem *token, const dt_elem *position, struct dt_stream *s),
      e, out, token, position)
TYPED(embedding_backward,
      (const struct dt_embedding *e, dt_elem *dtoken, dt_elem *dposition, const dt_elem *dout, struct dt_stream *s),
      e, dtoken, dposition, dout)
TYPED(norm_forward,
      (const struct dt_norm *n, dt_elem *out, dt_elem *sum, const dt_elem *x, const dt_elem *add, struct dt_stream *s),
      n, out, sum, x, add)
TYPED(norm_backward,
      (const struct dt_norm *n, dt_elem *dx, dt_elem *dweight, dt_elem *dbias, const dt_elem *x, const dt_elem *dout, struct dt_stream *s),
      n, dx, dweight, dbias, x, dout)
TYPED(head_norm_forward,
      (const struct dt_head_norm *n, dt_elem *out, const dt_elem *x, struct dt_stream *s),
      n, out, x)
TYPED(head_norm_backward,
      (const struct dt_head_norm *n, dt_elem *dx, dt_elem *dweight, const dt_elem *x, const dt_elem *dout, struct dt_stream *s),
      n, dx, dweight, x, dout)
TYPED(rope,
      (const struct dt_rope *r, dt_elem *x, bool backward, struct dt_stream *s),
      r, x, backward)
TYPED(linear_forward,
      (const struct dt_linear *l, dt_elem *out, const dt_elem *x, struct dt_stream *s),
      l, out, x)
TYPED(linear_gelu_forward,
      (const struct dt_linear *l, dt_elem *out, dt_elem *pre, const dt_elem *x, struct dt_stream *s),
      l, out, pre, x)
TYPED(linear_backward,
      (const struct dt_linear *l, dt_elem *dx, bool add, dt_elem *dweight, dt_elem *dbias, const dt_elem *x, const dt_elem *dout, struct dt_stream *s),
      l, dx, add, dweight, dbias, x, dout)
TYPED(linear_gelu_backward,
      (const struct dt_linear *l, dt_elem *dpre, dt_elem *dweight, dt_elem *dbias, const dt_elem *x, const dt_elem *pre, const dt_elem *dout, struct dt_stream *s),
      l, dpre, dweight, dbias, x, pre, dout)
TYPED(gelu_forward,
      (size_t n, dt_elem *out, const dt_elem *pre, struct dt_stream *s),
      n, out, pre)
TYPED(gelu_backward,
      (size_t n, dt_elem *dpre, const dt_elem *pre, const dt_elem *dout, struct dt_stream *s),
      n, dpre, pre, dout)
TYPED(swiglu_forward,
      (const struct dt_gate *g, dt_elem *out, const dt_elem *gate, const dt_elem *up, struct dt_stream *s),
      g, out, gate, up)
TYPED(swiglu_backward,
      (const struct dt_gate *g, dt_elem *dgate, dt_elem *dup, const dt_elem *gate, const dt_elem *up, const dt_elem *dout, struct dt_stream *s),
      g, dgate, dup, gate, up, dout)
TYPED(geglu_forward,
      (const struct dt_gate *g, dt_elem *out, const dt_elem *gate, const dt_elem *up, struct dt_stream *s),
      g, out, gate, up)
TYPED(geglu_backward,
      (const struct dt_gate *g, dt_elem *dgate, dt_elem *dup, const dt_elem *gate, const dt_elem *up, const dt_elem *dout, struct dt_stream *s),
      g, dgate, dup, gate, up, dout)
TYPED(cross_entropy,
      (const struct dt_cross_entropy *c, float *losses, dt_elem *logits, bool gradients, struct dt_stream *s),
      c, losses, logits, gradients)
TYPED(cross_entropy_sums,
      (const struct dt_cross_entropy *c, float *sums, const dt_elem *logits, struct dt_stream *s),
      c, sums, logits)
TYPED(cross_entropy_join,
      (const struct dt_cross_entropy *c, size_t parts, const float *sums, float *losses, dt_elem *logits, bool gradients, struct dt_stream *s),
      c, parts, sums, losses, logits, gradients)
TYPED(add,
      (size_t n, dt_elem *to, const dt_elem *from, struct dt_stream *s),
      n, to, from)
TYPED(add_to_floats,
      (size_t n, dt_elem *to, const dt_elem *from, struct dt_stream *s),
      n, to, from)
TYPED(copy_rows,
      (size_t rows, size_t width, dt_elem *to, size_t to_stride, const dt_elem *from, size_t from_stride, struct dt_stream *s),
      rows, width, to, to_stride, from, from_stride)
TYPED(dropout,
      (const struct dt_dropout *d, size_t n, dt_elem *out, bool add, const dt_elem *x, struct dt_stream *s),
      d, n, out, add, x)
TYPED(adamw,
      (const struct dt_adamw *a, size_t parts, const struct dt_adamw_part *part, struct dt_stream *s),
      a, parts, part)
TYPED(nf4_expand,
      (const struct dt_nf4 *q, dt_elem *out, struct dt_stream *s),
      q, out)
TYPED(magnitude_norms,
      (const struct dt_linear *l, size_t r, float scale, const dt_elem *a, const dt_elem *b, float *rnorms, struct dt_stream *s),
      l, r, scale, a, b, rnorms)
TYPED(magnitude_forward,
      (const struct dt_magnitude *m, dt_elem *out, const dt_elem *base, const dt_elem *sum, struct dt_stream *s),
      m, out, base, sum)
TYPED(magnitude_backward,
      (const struct dt_magnitude *m, dt_elem *dsum, dt_elem *dbase, dt_elem *dmagnitudes, const dt_elem *base, const dt_elem *sum, const dt_elem *dout, struct dt_stream *s),
      m, dsum, dbase, dmagnitudes, base, sum, dout)
TYPED(route,
      (const struct dt_routes *r, float *probs, int32_t *experts, float *weights, const dt_elem *logits, struct dt_stream *s),
      r, probs, experts, weights, logits)
TYPED(route_backward,
      (const struct dt_routes *r, dt_elem *dlogits, const float *probs, const int32_t *experts, const float *dweights, const float *dprobs, struct dt_stream *s),
      r, dlogits, probs, experts, dweights, dprobs)
TYPED(route_spread,
      (const struct dt_routes *r, const struct dt_route_order *o, size_t width, dt_elem *out, const dt_elem *x, struct dt_stream *s),
      r, o, width, out, x)
TYPED(route_collect,
      (const struct dt_routes *r, const struct dt_route_order *o, size_t width, dt_elem *out, bool add, const dt_elem *x, struct dt_stream *s),
      r, o, width, out, add, x)
TYPED(weigh_forward,
      (size_t rows, size_t width, dt_elem *x, const float *weights, const int32_t *of, struct dt_stream *s),
      rows, width, x, weights, of)
TYPED(weigh_backward,
      (size_t rows, size_t width, dt_elem *x, dt_elem *dout, float *dweights, const float *weights, const int32_t *of, struct dt_stream *s),
      rows, width, x, dout, dweights, weights, of)
TYPED(sigmoid_forward,
      (size_t n, float *out, const dt_elem *x, struct dt_stream *s),
      n, out, x)
TYPED(sigmoid_backward,
      (size_t n, dt_elem *dx, const float *out, const float *dout, struct dt_stream *s),
      n, dx, out, dout)
/* clang-format on */

static dt_attention_forward_fn attention_forward_f32, attention_forward_bf16;
static dt_attention_backward_fn attention_backward_f32, attention_backward_bf16;

static void attention_forward_f32(const struct dt_attention *a, dt_elem *out, struct dt_stream *s)
{
    keep(s, dt_cuda_attention_forward(DT_F32, a, out, enter(s)), "attention_forward");
}

static void attention_backward_f32(const struct dt_attention *a, dt_elem *dq, dt_elem *dk,
                                   dt_elem *dv, const dt_elem *out, const dt_elem *dout,
                                   struct dt_stream *s)
{
    keep(s, dt_cuda_attention_backward(DT_F32, a, dq, dk, dv, out, dout, enter(s)),
         "attention_backward");
}

static void attention_forward_bf16(const struct dt_attention *a, dt_elem *out, struct dt_stream *s)
{
    enter(s);
    keep(s,
         s->attention ? dt_cudnn_attention_forward(s->attention, a, out, s)
                      : dt_cuda_attention_forward(DT_BF16, a, out, s),
         "attention_forward");
}

static void attention_backward_bf16(const struct dt_attention *a, dt_elem *dq, dt_elem *dk,
                                    dt_elem *dv, const dt_elem *out, const dt_elem *dout,
                                    struct dt_stream *s)
{
    enter(s);
    keep(s,
         s->attention ? dt_cudnn_attention_backward(s->attention, a, dq, dk, dv, out, dout, s)
                      : dt_cuda_attention_backward(DT_BF16, a, dq, dk, dv, out, dout, s),
         "attention_backward");
}

static dt_sum_squares_fn sum_squares;
static dt_cast_fn cast;
static dt_round_to_fn round_to;
static dt_route_sort_fn route_sort;

static void sum_squares(enum dt_dtype type, size_t parts, double *sums,
                        const struct dt_squares_part *part, struct dt_stream *s)
{
    cudaError_t e = dt_cuda_sum_squares(type, parts, sums, part, enter(s));
    keep(s, e, "sum_squares");
    for (size_t i = 0; i < parts && e != cudaSuccess; i++)
        sums[i] = NAN; /* no number that somebody might go on with */
}

static void cast(size_t n, void *out, enum dt_dtype out_type, const void *x, enum dt_dtype type,
                 struct dt_stream *s)
{
    keep(s, dt_cuda_cast(n, out, out_type, x, type, enter(s)), "cast");
}

static void round_to(size_t n, float *x, enum dt_dtype type, struct dt_stream *s)
{
    keep(s, dt_cuda_round_to(n, x, type, enter(s)), "round_to");
}

static void route_sort(const struct dt_routes *r, const struct dt_route_order *to,
                       const int32_t *experts, struct dt_stream *s)
{
    keep(s, dt_cuda_route_sort(r, to, experts, enter(s)), "route_sort");
}

/* clang-format off */
#define TABLE(of, T, type)                                      \
    {                                                           \
        .name = of,                                             \
        .elem = type,                                           \
        .embedding_forward = embedding_forward_##T,             \
        .embedding_backward = embedding_backward_##T,           \
        .norm_forward = norm_forward_##T,                       \
        .norm_backward = norm_backward_##T,                     \
        .head_norm_forward = head_norm_forward_##T,             \
        .head_norm_backward = head_norm_backward_##T,           \
        .rope = rope_##T,                                       \
        .linear_forward = linear_forward_##T,                   \
        .linear_gelu_forward = linear_gelu_forward_##T,         \
        .linear_backward = linear_backward_##T,                 \
        .linear_gelu_backward = linear_gelu_backward_##T,       \
        .attention_forward = attention_forward_##T,             \
        .attention_backward = attention_backward_##T,           \
        .gelu_forward = gelu_forward_##T,                       \
        .gelu_backward = gelu_backward_##T,                     \
        .swiglu_forward = swiglu_forward_##T,                   \
        .swiglu_backward = swiglu_backward_##T,                 \
        .geglu_forward = geglu_forward_##T,                     \
        .geglu_backward = geglu_backward_##T,                   \
        .cross_entropy = cross_entropy_##T,                     \
        .cross_entropy_sums = cross_entropy_sums_##T,           \
        .cross_entropy_join = cross_entropy_join_##T,           \
        .add = add_##T,                                         \
        .add_to_floats = add_to_floats_##T,                     \
        .copy_rows = copy_rows_##T,                             \
        .dropout = dropout_##T,                                 \
        .adamw = adamw_##T,                                     \
        .sum_squares = sum_squares,                             \
        .cast = cast,                                           \
        .round_to = round_to,                                   \
        .nf4_expand = nf4_expand_##T,                           \
        .magnitude_norms = magnitude_norms_##T,                 \
        .magnitude_forward = magnitude_forward_##T,             \
        .magnitude_backward = magnitude_backward_##T,           \
        .route = route_##T,                                     \
        .route_backward = route_backward_##T,                   \
        .route_sort = route_sort,                               \
        .route_spread = route_spread_##T,                       \
        .route_collect = route_collect_##T,                     \
        .weigh_forward = weigh_forward_##T,                     \
        .weigh_backward = weigh_backward_##T,                   \
        .sigmoid_forward = sigmoid_forward_##T,                 \
        .sigmoid_backward = sigmoid_backward_##T,               \
    }
/* clang-format on */

const struct dt_ops dt_cuda_ops_f32 = TABLE("cuda", f32, DT_F32);
const struct dt_ops dt_cuda_ops_bf16 = TABLE("cuda, bf16", bf16, DT_BF16);
