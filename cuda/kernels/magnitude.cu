/* SPDX-License-Identifier: Apache-2.0 */
/* DoRA's magnitudes. What makes an output is W + s B A: its norm is found a tile at a time, with
 * the adapter's part made beside the weights, so that the sum of both is nowhere whole. Columns of
 * rows are then multiplied by g = magnitude / norm, and the magnitudes' gradients are sums of
 * columns. All that is between what is read and what is written is in float. */
#include "cuda/kernels/columns.cuh"
#include "cuda/kernels/kernels.h"

namespace
{

/* -- norms ------------------------------------------------------------------------------------ */

/* A block has OUTS outputs and goes through their inputs, INS at a time; of those it makes s B A in
 * steps of RANKS. A thread has one input of EACH outputs. */
enum { OUTS = 16, INS = 64, RANKS = 16, EACH = 4, NORM_THREADS = INS * OUTS / EACH };

struct sizes {
    size_t in, out, r;
};

/* As far as there are any, of A [r, in] and B [out, r]; 0 beyond. B is put in fours of a rank. */
template <class E>
__device__ inline void load_ranks(const sizes &z, size_t o, size_t i, size_t rank, const E *a,
                                  const E *b, float (&a_tile)[RANKS * INS],
                                  dt_pack<float> (&b_tile)[RANKS * OUTS / EACH])
{
    size_t t = threadIdx.x;
    for (size_t at = t; at < RANKS * INS; at += NORM_THREADS) {
        size_t k = rank + at / INS, input = i + at % INS;
        bool there = k < z.r && input < z.in;
        a_tile[at] = there ? dt_to_float(a[k * z.in + input]) : 0;
    }
    for (size_t at = t; at < RANKS * OUTS; at += NORM_THREADS) {
        size_t k = at % RANKS, output = at / RANKS;
        bool there = rank + k < z.r && o + output < z.out;
        b_tile[k * (OUTS / EACH) + output / EACH].at[output % EACH] =
            there ? dt_to_float(b[(o + output) * z.r + rank + k]) : 0;
    }
}

/* squares[EACH] += those of the thread's outputs, over all its inputs. */
template <class E>
__device__ inline void add_squares(const sizes &z, size_t o, bool rows_are_outputs, float scale,
                                   const E *weight, const E *a, const E *b, float (&squares)[EACH])
{
    DT_SHARED(float, a_tile, [RANKS * INS]);
    DT_SHARED(dt_pack<float>, b_tile, [RANKS * OUTS / EACH]);
    size_t column = threadIdx.x % INS, four = threadIdx.x / INS;
    for (size_t i = 0; i < z.in; i += INS) {
        float low[EACH] = {};
        for (size_t rank = 0; rank < z.r; rank += RANKS) {
            __syncthreads(); /* the tiles before these have been read */
            load_ranks(z, o, i, rank, a, b, a_tile, b_tile);
            __syncthreads();
#pragma unroll
            for (int k = 0; k < RANKS; k++) {
                const dt_pack<float> by = b_tile[k * (OUTS / EACH) + four];
                float x = a_tile[k * INS + column];
#pragma unroll
                for (int j = 0; j < EACH; j++)
                    low[j] = fmaf(by.at[j], x, low[j]);
            }
        }
        size_t input = i + column;
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            size_t output = o + four * EACH + j;
            if (input >= z.in || output >= z.out)
                continue;
            size_t at = rows_are_outputs ? output * z.in + input : input * z.out + output;
            float w = fmaf(scale, low[j], dt_to_float(weight[at]));
            squares[j] = fmaf(w, w, squares[j]);
        }
    }
}

template <class E>
__global__ void __launch_bounds__(NORM_THREADS, 4)
    norms(sizes z, bool rows_are_outputs, float scale, const E *__restrict__ weight,
          const E *__restrict__ a, const E *__restrict__ b, float *__restrict__ rnorms)
{
    constexpr int WARPS = INS / DT_WARP; /* that have the same outputs */
    DT_SHARED(float, sums, [WARPS * OUTS]);
    size_t o = static_cast<size_t>(blockIdx.x) * OUTS, four = threadIdx.x / INS;
    size_t warp = threadIdx.x % INS / DT_WARP;
    float squares[EACH] = {};
    add_squares(z, o, rows_are_outputs, scale, weight, a, b, squares);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        float sum = dt_warp_sum(squares[j]);
        if (threadIdx.x % DT_WARP == 0)
            sums[warp * OUTS + four * EACH + j] = sum;
    }
    __syncthreads();
    if (threadIdx.x < OUTS && o + threadIdx.x < z.out) {
        float square = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            square += sums[w * OUTS + threadIdx.x];
        rnorms[o + threadIdx.x] = square <= 0 ? 0 : 1 / sqrtf(square);
    }
}

/* -- columns ---------------------------------------------------------------------------------- */

/* Arrays of rows may be the same one, so that none of them is __restrict__: a thread reads all that
 * it wants of a place before it writes there. */
template <class E> struct arrays {
    size_t rows, width, stride;
    const E *magnitudes, *bias;
    const float *rnorms;
    const E *base, *sum, *dout;
    E *out, *dbase;
};

template <class E>
arrays<E> arrays_of(const struct dt_magnitude *m, const void *base, const void *sum)
{
    arrays<E> a = {};
    a.rows = m->rows;
    a.width = m->width;
    a.stride = m->stride;
    a.magnitudes = static_cast<const E *>(m->magnitudes);
    a.bias = static_cast<const E *>(m->bias);
    a.rnorms = m->rnorms;
    a.base = static_cast<const E *>(base);
    a.sum = static_cast<const E *>(sum);
    return a;
}

/* Whether all of it can be gone through 16 bytes at a time. */
template <class E> bool is_wide(const arrays<E> &a)
{
    constexpr size_t WIDE = dt_pack<E>::COUNT;
    return a.width % WIDE == 0 && a.stride % WIDE == 0 &&
           dt_aligned16(a.base, a.sum, a.dout, a.out, a.dbase);
}

/* The rows of a block, of which a thread takes every DT_DOWNth. */
struct rows_of_block {
    size_t first, last;
};

__device__ inline rows_of_block rows_for(size_t rows, size_t rows_each)
{
    size_t first = blockIdx.y * rows_each;
    return {first + threadIdx.y, first + rows_each < rows ? first + rows_each : rows};
}

template <class E, int WIDE>
__device__ inline void load_gains(const arrays<E> &a, size_t column, float (&g)[WIDE])
{
#pragma unroll
    for (int i = 0; i < WIDE; i++)
        g[i] = dt_to_float(a.magnitudes[column + i]) * a.rnorms[column + i];
}

template <class E, int WIDE>
__global__ void __launch_bounds__(DT_ACROSS *DT_DOWN) forward(arrays<E> a, size_t rows_each)
{
    size_t column = (static_cast<size_t>(blockIdx.x) * DT_ACROSS + threadIdx.x) * WIDE;
    const rows_of_block rows = rows_for(a.rows, rows_each);
    float g[WIDE], bias[WIDE] = {}, out[WIDE], base[WIDE], sum[WIDE];
    if (column >= a.width)
        return;
    load_gains(a, column, g);
#pragma unroll
    for (int i = 0; i < WIDE; i++)
        if (!a.base && a.bias)
            bias[i] = dt_to_float(a.bias[column + i]);
    for (size_t row = rows.first; row < rows.last; row += DT_DOWN) {
        size_t at = row * a.stride + column;
        dt_load_columns(a.out + at, out);
        dt_load_columns((a.base ? a.base : a.out) + at, base);
        dt_load_columns(a.sum + at, sum);
#pragma unroll
        for (int i = 0; i < WIDE; i++)
            out[i] += (g[i] - 1) * (base[i] - bias[i]) + g[i] * sum[i];
        dt_store_columns(a.out + at, out);
    }
}

/* a.out is dsum. Leaves parts of the sums of (base + sum) dout. */
template <class E, int WIDE>
__global__ void __launch_bounds__(DT_ACROSS *DT_DOWN)
    backward(arrays<E> a, size_t rows_each, float *__restrict__ parts)
{
    size_t column = (static_cast<size_t>(blockIdx.x) * DT_ACROSS + threadIdx.x) * WIDE;
    const rows_of_block rows = rows_for(a.rows, rows_each);
    float all[WIDE] = {}, g[WIDE], base[WIDE], sum[WIDE], dout[WIDE];
    if (column < a.width) {
        load_gains(a, column, g);
        for (size_t row = rows.first; row < rows.last; row += DT_DOWN) {
            size_t at = row * a.stride + column;
            dt_load_columns(a.base + at, base);
            dt_load_columns(a.sum + at, sum);
            dt_load_columns(a.dout + at, dout);
#pragma unroll
            for (int i = 0; i < WIDE; i++) {
                all[i] = fmaf(dout[i], base[i] + sum[i], all[i]);
                sum[i] = g[i] * dout[i];
                base[i] = (g[i] - 1) * dout[i];
            }
            dt_store_columns(a.out + at, sum);
            if (a.dbase)
                dt_store_columns(a.dbase + at, base);
        }
    }
    dt_put_parts<WIDE>(parts, a.width, column, all);
}

template <class E> cudaError_t launch_forward(const arrays<E> &a, struct dt_stream *s)
{
    constexpr int WIDE = dt_pack<E>::COUNT;
    bool wide = is_wide(a);
    const dt_column_parts p = dt_cut_columns(a.rows, a.width, wide ? WIDE : 1, WIDE);
    if (p.count == 0)
        return cudaErrorInvalidValue;
    return dt_launch(wide ? forward<E, WIDE> : forward<E, 1>, p.grid, p.block, 0, s->compute, a,
                     p.rows_each);
}

template <class E>
cudaError_t launch_backward(const arrays<E> &a, E *dmagnitudes, struct dt_stream *s)
{
    constexpr int WIDE = dt_pack<E>::COUNT;
    bool wide = is_wide(a);
    const dt_column_parts p = dt_cut_columns(a.rows, a.width, wide ? WIDE : 1, WIDE);
    if (p.count == 0)
        return cudaErrorInvalidValue; /* wider than scratch */
    cudaError_t e = dt_launch(wide ? backward<E, WIDE> : backward<E, 1>, p.grid, p.block, 0,
                              s->compute, a, p.rows_each, static_cast<float *>(s->scratch));
    return e == cudaSuccess ? dt_join_parts<E>(p, a.width, dmagnitudes, a.rnorms, s) : e;
}

} // namespace

cudaError_t dt_cuda_magnitude_norms(enum dt_dtype elem, const struct dt_linear *l, size_t r,
                                    float scale, const void *a, const void *b, float *rnorms,
                                    struct dt_stream *s)
{
    if (l->out == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        /* No more blocks than outputs have: a model's are below the limit of a grid. */
        dim3 grid(static_cast<unsigned>(dt_divide_up(l->out, OUTS)));
        return dt_launch(norms<E>, grid, dim3(NORM_THREADS), 0, s->compute, sizes{l->in, l->out, r},
                         l->layout == DT_WEIGHT_OUT_IN, scale, static_cast<const E *>(l->weight),
                         static_cast<const E *>(a), static_cast<const E *>(b), rnorms);
    });
}

cudaError_t dt_cuda_magnitude_forward(enum dt_dtype elem, const struct dt_magnitude *m, void *out,
                                      const void *base, const void *sum, struct dt_stream *s)
{
    if (m->rows == 0 || m->width == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        arrays<E> a = arrays_of<E>(m, base, sum);
        a.out = static_cast<E *>(out);
        return launch_forward(a, s);
    });
}

cudaError_t dt_cuda_magnitude_backward(enum dt_dtype elem, const struct dt_magnitude *m, void *dsum,
                                       void *dbase, void *dmagnitudes, const void *base,
                                       const void *sum, const void *dout, struct dt_stream *s)
{
    if (m->rows == 0 || m->width == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        arrays<E> a = arrays_of<E>(m, base, sum);
        a.dout = static_cast<const E *>(dout);
        a.out = static_cast<E *>(dsum);
        a.dbase = static_cast<E *>(dbase);
        return launch_backward(a, static_cast<E *>(dmagnitudes), s);
    });
}
