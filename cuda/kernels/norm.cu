/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm and RMSNorm of rows, forward: sum = x + add, out = (sum - mean) * rstd * (weight +
 * plus) + bias.
 * A row is read once and kept in registers, as it is stored: backward finds the same numbers again.
 * Moments are taken in two steps, the mean first. A row too wide for that is read three times. */
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/row.cuh"

namespace
{

enum { KEPT = 32, MOST = 512, WIDE = 512 /* threads for rows too wide for MOST */ };

template <class E> struct arrays {
    E *out, *sum;
    const E *x, *add;
};

/* The sum as it is stored; X where nothing is added. */
template <class E, bool ALIGNED>
__device__ inline dt_pack<E> add_up(const arrays<E> &a, size_t at, size_t width, size_t c)
{
    dt_pack<E> x = take<E, ALIGNED>(a.x + at, width, c);
    if (!a.add)
        return x;
    dt_pack<E> add = take<E, ALIGNED>(a.add + at, width, c);
#pragma unroll
    for (int i = 0; i < dt_pack<E>::COUNT; i++)
        x.at[i] = dt_from_float<E>(dt_to_float(x.at[i]) + dt_to_float(add.at[i]));
    return x;
}

template <class E> __device__ inline float sum_of(const dt_pack<E> &p)
{
    float sum = 0;
#pragma unroll
    for (int i = 0; i < dt_pack<E>::COUNT; i++)
        sum += dt_to_float(p.at[i]);
    return sum;
}

/* LEFT: columns from the pack's first to the end of the row. */
template <class E> __device__ inline float squares_of(const dt_pack<E> &p, float mean, size_t left)
{
    float sum = 0;
#pragma unroll
    for (int i = 0; i < dt_pack<E>::COUNT; i++) {
        float off = static_cast<size_t>(i) < left ? dt_to_float(p.at[i]) - mean : 0;
        sum = fmaf(off, off, sum);
    }
    return sum;
}

template <class E, bool ALIGNED>
__device__ inline void put_normed(const dt_norm &n, E *out, const dt_pack<E> &x, size_t c,
                                  float mean, float rstd)
{
    dt_pack<E> weight = take<E, ALIGNED>(static_cast<const E *>(n.weight), n.width, c), bias, y;
    if (n.bias)
        bias = take<E, ALIGNED>(static_cast<const E *>(n.bias), n.width, c);
#pragma unroll
    for (int i = 0; i < dt_pack<E>::COUNT; i++) {
        float h = (dt_to_float(x.at[i]) - mean) * rstd;
        y.at[i] = dt_from_float<E>(
            fmaf(h, dt_to_float(weight.at[i]) + n.plus, n.bias ? dt_to_float(bias.at[i]) : 0));
    }
    put<E, ALIGNED>(out, n.width, c, y);
}

__device__ inline float rstd_of(const dt_norm &n, float squares)
{
    return 1 / sqrtf(squares / static_cast<float>(n.width) + n.eps);
}

__device__ inline void keep_moments(const dt_norm &n, size_t row, float mean, float rstd)
{
    if (n.mean)
        n.mean[row] = mean;
    n.rstd[row] = rstd;
}

template <class E, int LANES, bool ALIGNED>
__global__ void __launch_bounds__(block_of<LANES>::THREADS) norm_rows(dt_norm n, arrays<E> a)
{
    constexpr int COUNT = dt_pack<E>::COUNT, PACKS = KEPT / COUNT;
    constexpr size_t ROWS = block_of<LANES>::ROWS;
    size_t lane = threadIdx.x % LANES, row = blockIdx.x * ROWS + threadIdx.x / LANES;
    for (; row < n.rows; row += gridDim.x * ROWS) {
        dt_pack<E> x[PACKS];
        float sum = 0, squares = 0, mean = 0;
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            size_t c = (lane + p * LANES) * COUNT;
            if (c < n.width)
                x[p] = add_up<E, ALIGNED>(a, row * n.width, n.width, c);
        }
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            size_t c = (lane + p * LANES) * COUNT;
            if (c < n.width && a.sum)
                put<E, ALIGNED>(a.sum + row * n.width, n.width, c, x[p]);
            if (c < n.width)
                sum += sum_of(x[p]);
        }
        if (n.mean)
            mean = dt_block_sum<LANES>(sum) / static_cast<float>(n.width);
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            size_t c = (lane + p * LANES) * COUNT;
            if (c < n.width)
                squares += squares_of(x[p], mean, n.width - c);
        }
        float rstd = rstd_of(n, dt_block_sum<LANES>(squares));
        if (lane == 0)
            keep_moments(n, row, mean, rstd);
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            size_t c = (lane + p * LANES) * COUNT;
            if (c < n.width)
                put_normed<E, ALIGNED>(n, a.out + row * n.width, x[p], c, mean, rstd);
        }
    }
}

/* A thread reads again only what it wrote itself. */
template <class E, bool ALIGNED>
__global__ void __launch_bounds__(WIDE) norm_wide_rows(dt_norm n, arrays<E> a)
{
    constexpr size_t COUNT = dt_pack<E>::COUNT;
    for (size_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
        size_t at = row * n.width;
        const E *x = (a.sum ? a.sum : a.x) + at;
        float sum = 0, squares = 0, mean = 0;
        for (size_t c = threadIdx.x * COUNT; c < n.width; c += WIDE * COUNT) {
            dt_pack<E> p = add_up<E, ALIGNED>(a, at, n.width, c);
            if (a.sum)
                put<E, ALIGNED>(a.sum + at, n.width, c, p);
            sum += sum_of(p);
        }
        if (n.mean)
            mean = dt_block_sum<WIDE>(sum) / static_cast<float>(n.width);
        for (size_t c = threadIdx.x * COUNT; c < n.width; c += WIDE * COUNT)
            squares += squares_of(take<E, ALIGNED>(x, n.width, c), mean, n.width - c);
        float rstd = rstd_of(n, dt_block_sum<WIDE>(squares));
        if (threadIdx.x == 0)
            keep_moments(n, row, mean, rstd);
        for (size_t c = threadIdx.x * COUNT; c < n.width; c += WIDE * COUNT)
            put_normed<E, ALIGNED>(n, a.out + at, take<E, ALIGNED>(x, n.width, c), c, mean, rstd);
    }
}

template <class E> cudaError_t run(const struct dt_norm *n, const arrays<E> &a, cudaStream_t s)
{
    bool aligned = can_pack<E>(n->width, a.out, a.sum, a.x, a.add, n->weight, n->bias);
    cudaError_t e = cudaSuccess;
    auto launch = [&](auto lanes, auto, auto is_aligned) {
        using block = block_of<decltype(lanes)::value>;
        e = dt_launch(norm_rows<E, decltype(lanes)::value, decltype(is_aligned)::value>,
                      dim3(dt_blocks(n->rows, block::ROWS)), dim3(block::THREADS), 0, s, *n, a);
    };
    if (with_lanes<KEPT, DT_WARP, MOST>(n->width, aligned, launch))
        return e;
    return dt_launch(aligned ? norm_wide_rows<E, true> : norm_wide_rows<E, false>,
                     dim3(dt_blocks(n->rows, 1)), dim3(WIDE), 0, s, *n, a);
}

} // namespace

cudaError_t dt_cuda_norm_forward(enum dt_dtype elem, const struct dt_norm *n, void *out, void *sum,
                                 const void *x, const void *add, struct dt_stream *s)
{
    if (n->rows == 0 || n->width == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        return run<E>(n,
                      {static_cast<E *>(out), static_cast<E *>(sum), static_cast<const E *>(x),
                       static_cast<const E *>(add)},
                      s->compute);
    });
}
