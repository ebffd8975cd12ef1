/* SPDX-License-Identifier: Apache-2.0 */
/* A linear layer as products. With x [rows,in] and W [in,out], row-major:
 *
 *   out = x W + bias      dx = dout W'      dW += x' dout      dbias += sum of dout's rows
 *
 * Where W is stored [out,in], its gradient is the transpose of the above: dW += dout' x. cuBLASLt
 * adds the bias and takes GELU, or its slope, while it stores, where it offers to.
 *
 * The sum for dbias is bias.cu's. cuBLASLt can make it while it makes dW (BGRADA and BGRADB): it
 * then assigns, where we add, and rounds to the type of dW before; and as it says neither in which
 * order it sums nor whether such a product may still be cut in parts, as those of a GPT-2 want to
 * be, which have 36 to 144 tiles of 128 x 128, it is asked only where sums may be of any order. */
#include "cuda/kernels/kernels.h"
#include "cuda/linear.h"

#include <stdint.h>

static struct dt_cuda_product forward_product(enum dt_dtype elem, const struct dt_linear *l,
                                              void *out, const void *x)
{
    return (struct dt_cuda_product){
        .elem = elem,
        .rows = l->rows,
        .columns = l->out,
        .inner = l->in,
        .a = x,
        .b = l->weight,
        .b_transposed = l->layout == DT_WEIGHT_OUT_IN,
        .to = out,
        .to_stride = l->out_stride,
        .after = l->bias ? DT_CUDA_BIAS : DT_CUDA_NOTHING,
        .bias = l->bias,
    };
}

/* Tensor cores are fed by 16 bytes at a time, and cuBLASLt's fast kernels want not only rows to
 * begin at such, but extents of a product, too: with the 50257 words of GPT-2 an H100 reached a
 * fifth of its speed (docs/gpu.md). A layer that is wide and of such an extent is computed as two,
 * side by side: as many outputs as are whole, and the few that are left. */
enum { WHOLE = 8, WIDE = 256 };

static size_t whole_outputs(enum dt_dtype elem, const struct dt_linear *l)
{
    bool fed =
        l->layout == DT_WEIGHT_OUT_IN && l->in % WHOLE == 0 && dt_linear_stride(l) % WHOLE == 0;
    return elem == DT_BF16 && fed && l->out >= WIDE ? l->out / WHOLE * WHOLE : l->out;
}

static const void *behind(enum dt_dtype elem, const void *x, size_t count)
{
    return (const char *)x + count * dt_dtype_size(elem);
}

/* Outputs FIRST and on, up to END, of a layer whose weight is [out,in]. */
static struct dt_linear outputs(enum dt_dtype elem, const struct dt_linear *l, size_t first,
                                size_t end)
{
    struct dt_linear some = *l;
    some.out = end - first;
    some.out_stride = dt_linear_stride(l);
    some.weight = behind(elem, l->weight, first * l->in);
    some.bias = l->bias ? behind(elem, l->bias, first) : NULL;
    return some;
}

static cudaError_t forward(enum dt_dtype elem, const struct dt_linear *l, void *out, const void *x,
                           struct dt_stream *s)
{
    struct dt_cuda_product p = forward_product(elem, l, out, x);
    cudaError_t e = dt_cuda_multiply(&p, s);
    if (e != cudaErrorNotSupported || !l->bias)
        return e;
    p.after = DT_CUDA_NOTHING;
    e = dt_cuda_multiply(&p, s);
    return e == cudaSuccess ? dt_cuda_bias_forward(elem, l, out, s) : e;
}

cudaError_t dt_cuda_linear_forward(enum dt_dtype elem, const struct dt_linear *l, void *out,
                                   const void *x, struct dt_stream *s)
{
    size_t whole = whole_outputs(elem, l);
    struct dt_linear most = outputs(elem, l, 0, whole), rest = outputs(elem, l, whole, l->out);
    if (l->rows == 0)
        return cudaSuccess;
    if (rest.out == 0)
        return forward(elem, l, out, x, s);
    cudaError_t e = forward(elem, &most, out, x, s);
    return e == cudaSuccess ? forward(elem, &rest, (void *)behind(elem, out, whole), x, s) : e;
}

/* cuBLASLt's rule: rows of what is kept begin at multiples of 8 elements, and of 16 bytes. */
static bool may_keep(const void *pre, size_t out)
{
    return !pre || ((uintptr_t)pre % 16 == 0 && out % 8 == 0);
}

static enum dt_cuda_after with_gelu(const void *bias, const void *pre)
{
    if (bias)
        return pre ? DT_CUDA_BIAS_GELU_KEEP : DT_CUDA_BIAS_GELU;
    return pre ? DT_CUDA_GELU_KEEP : DT_CUDA_GELU;
}

/* What cuBLASLt keeps as PRE is rounded to ELEM, as the gelu kernel would find it; its own GELU it
 * takes before that rounding. */
cudaError_t dt_cuda_linear_gelu_forward(enum dt_dtype elem, const struct dt_linear *l, void *out,
                                        void *pre, const void *x, struct dt_stream *s)
{
    struct dt_cuda_product p = forward_product(elem, l, out, x);
    cudaError_t e = cudaErrorNotSupported;

    if (l->rows == 0)
        return cudaSuccess;
    if (dt_linear_stride(l) != l->out)
        return cudaErrorInvalidValue;
    if (dt_cuda_linear_fuses_gelu(s->linear) && may_keep(pre, l->out)) {
        p.after = with_gelu(l->bias, pre);
        p.keep = pre;
        e = dt_cuda_multiply(&p, s);
    }
    if (e != cudaErrorNotSupported)
        return e;
    void *before = pre ? pre : out;
    e = dt_cuda_linear_forward(elem, l, before, x, s);
    return e == cudaSuccess ? dt_cuda_gelu_forward(elem, l->rows * l->out, out, before, s) : e;
}

static struct dt_cuda_product x_product(enum dt_dtype elem, const struct dt_linear *l, void *dx,
                                        bool add, const void *dout)
{
    return (struct dt_cuda_product){
        .elem = elem,
        .rows = l->rows,
        .columns = l->in,
        .inner = l->out,
        .a = dout,
        .a_stride = l->out_stride,
        .b = l->weight,
        .b_transposed = l->layout == DT_WEIGHT_IN_OUT,
        .to = dx,
        .add = add,
    };
}

static struct dt_cuda_product weight_product(enum dt_dtype elem, const struct dt_linear *l,
                                             void *dweight, const void *x, const void *dout)
{
    bool in_out = l->layout == DT_WEIGHT_IN_OUT;
    return (struct dt_cuda_product){
        .elem = elem,
        .rows = in_out ? l->in : l->out,
        .columns = in_out ? l->out : l->in,
        .inner = l->rows,
        .a = in_out ? x : dout,
        .a_transposed = true,
        .b = in_out ? dout : x,
        .a_stride = in_out ? 0 : l->out_stride,
        .b_stride = in_out ? l->out_stride : 0,
        .to = dweight,
        .add = true,
    };
}

/* dweight, and the sums of dout's rows in scratch. */
static cudaError_t backward_sums(enum dt_dtype elem, const struct dt_linear *l, void *dweight,
                                 const void *x, const void *dout, struct dt_stream *s)
{
    struct dt_cuda_product p = weight_product(elem, l, dweight, x, dout);
    p.after = l->layout == DT_WEIGHT_IN_OUT ? DT_CUDA_SUM_B : DT_CUDA_SUM_A;
    p.sums = s->scratch;
    if (!dt_cuda_linear_is_fast(s->linear) || l->out * dt_dtype_size(elem) > s->scratch_bytes)
        return cudaErrorNotSupported;
    return dt_cuda_multiply(&p, s);
}

static cudaError_t backward_weight(enum dt_dtype elem, const struct dt_linear *l, void *dweight,
                                   void *dbias, const void *x, const void *dout,
                                   struct dt_stream *s)
{
    struct dt_cuda_product p = weight_product(elem, l, dweight, x, dout);
    cudaError_t e = cudaErrorNotSupported;
    if (dweight && dbias)
        e = backward_sums(elem, l, dweight, x, dout, s);
    if (e != cudaErrorNotSupported)
        return e == cudaSuccess ? dt_cuda_add(elem, l->out, dbias, s->scratch, s) : e;
    e = dweight ? dt_cuda_multiply(&p, s) : cudaSuccess;
    return e == cudaSuccess && dbias ? dt_cuda_bias_backward(elem, l, dbias, dout, s) : e;
}

static cudaError_t backward(enum dt_dtype elem, const struct dt_linear *l, void *dx, bool add,
                            void *dweight, void *dbias, const void *x, const void *dout,
                            struct dt_stream *s)
{
    struct dt_cuda_product p = x_product(elem, l, dx, add, dout);
    cudaError_t e = dx ? dt_cuda_multiply(&p, s) : cudaSuccess;
    return e == cudaSuccess ? backward_weight(elem, l, dweight, dbias, x, dout, s) : e;
}

/* The few outputs first: what they come to in dx is rounded once more than the rest, and is the
 * smaller part of it. */
static cudaError_t backward_parts(enum dt_dtype elem, const struct dt_linear *l, size_t whole,
                                  void *dx, bool add, void *dweight, void *dbias, const void *x,
                                  const void *dout, struct dt_stream *s)
{
    struct dt_linear most = outputs(elem, l, 0, whole), rest = outputs(elem, l, whole, l->out);
    void *dweight_of_rest = dweight ? (void *)behind(elem, dweight, whole * l->in) : NULL;
    void *dbias_of_rest = dbias ? (void *)behind(elem, dbias, whole) : NULL;
    cudaError_t e = backward(elem, &rest, dx, add, dweight_of_rest, dbias_of_rest, x,
                             behind(elem, dout, whole), s);
    return e == cudaSuccess ? backward(elem, &most, dx, true, dweight, dbias, x, dout, s) : e;
}

cudaError_t dt_cuda_linear_backward(enum dt_dtype elem, const struct dt_linear *l, void *dx,
                                    bool add, void *dweight, void *dbias, const void *x,
                                    const void *dout, struct dt_stream *s)
{
    size_t whole = whole_outputs(elem, l);
    if (l->rows == 0)
        return cudaSuccess;
    return whole < l->out ? backward_parts(elem, l, whole, dx, add, dweight, dbias, x, dout, s)
                          : backward(elem, l, dx, add, dweight, dbias, x, dout, s);
}

/* cuBLASLt takes the slope of a product before that is rounded, the gelu kernel after. */
cudaError_t dt_cuda_linear_gelu_backward(enum dt_dtype elem, const struct dt_linear *l, void *dpre,
                                         void *dweight, void *dbias, const void *x, const void *pre,
                                         const void *dout, struct dt_stream *s)
{
    struct dt_cuda_product p = x_product(elem, l, dpre, false, dout);
    cudaError_t e = cudaErrorNotSupported;

    if (l->rows == 0)
        return cudaSuccess;
    if (dt_linear_stride(l) != l->out)
        return cudaErrorInvalidValue;
    if (dt_cuda_linear_fuses_gelu(s->linear) && may_keep(pre, l->in)) {
        p.after = DT_CUDA_GELU_SLOPE;
        p.kept = pre;
        e = dt_cuda_multiply(&p, s);
    }
    if (e == cudaSuccess)
        return dt_cuda_linear_backward(elem, l, NULL, false, dweight, dbias, x, dout, s);
    if (e != cudaErrorNotSupported)
        return e;
    e = dt_cuda_linear_backward(elem, l, dpre, false, dweight, dbias, x, dout, s);
    return e == cudaSuccess ? dt_cuda_gelu_backward(elem, l->rows * l->in, dpre, pre, dpre, s) : e;
}
