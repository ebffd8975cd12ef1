/* SPDX-License-Identifier: Apache-2.0 */
/* The way back through a norm, a pack of columns at a time; and rows that are too wide to be kept
 * in registers: read twice for dx, and once more for the sums of columns. */
#ifndef DT_CUDA_NORM_BACKWARD_CUH
#define DT_CUDA_NORM_BACKWARD_CUH

#include "cuda/kernels/row.cuh"
#include "worker_runtime/ops/ops.h"

namespace
{

enum { WIDE = 512, COLUMNS = 128 }; /* threads for a wide row; that add up columns */

template <class E> struct arrays {
    E *dx;
    const E *x, *dout;
    float *partials; /* [parts][2][width]: of dweight, of dbias */
    size_t part_rows;
    bool with_bias;
};

template <class E> struct operands {
    dt_pack<E> x, dout, weight;
};

/* Averages are sums as yet. */
struct moments {
    float mean, rstd, plus, average_g, average_gh;
};

__device__ inline moments moments_of(const dt_norm &n, size_t row)
{
    return {n.mean ? n.mean[row] : 0, n.rstd[row], n.plus, 0, 0};
}

/* Adds a pack's part of the averages to SUMS. */
template <class E>
__device__ inline void add_averages(const operands<E> &o, const moments &m, float (&sums)[2])
{
#pragma unroll
    for (int i = 0; i < dt_pack<E>::COUNT; i++) {
        float d = dt_to_float(o.dout.at[i]), weight = dt_to_float(o.weight.at[i]) + m.plus;
        sums[0] = fmaf(d, weight, sums[0]);
        sums[1] = fmaf(d * weight, (dt_to_float(o.x.at[i]) - m.mean) * m.rstd, sums[1]);
    }
}

__device__ inline void find_averages(const dt_norm &n, const float (&sums)[2], moments *m)
{
    m->average_g = n.mean ? sums[0] / static_cast<float>(n.width) : 0;
    m->average_gh = sums[1] / static_cast<float>(n.width);
}

template <class E>
__device__ inline dt_pack<E> add_dx(const operands<E> &o, const moments &m, dt_pack<E> dx)
{
#pragma unroll
    for (int i = 0; i < dt_pack<E>::COUNT; i++) {
        float h = (dt_to_float(o.x.at[i]) - m.mean) * m.rstd;
        float weight = dt_to_float(o.weight.at[i]) + m.plus;
        float g = fmaf(dt_to_float(o.dout.at[i]), weight, -m.average_g);
        float d = fmaf(-h, m.average_gh, g);
        dx.at[i] = dt_from_float<E>(fmaf(m.rstd, d, dt_to_float(dx.at[i])));
    }
    return dx;
}

template <class E, bool ALIGNED>
__device__ inline operands<E> operands_at(const dt_norm &n, const arrays<E> &a, size_t row,
                                          size_t c)
{
    return {take<E, ALIGNED>(a.x + row * n.width, n.width, c),
            take<E, ALIGNED>(a.dout + row * n.width, n.width, c),
            take<E, ALIGNED>(static_cast<const E *>(n.weight), n.width, c)};
}

template <class E, bool ALIGNED>
__global__ void __launch_bounds__(WIDE) norm_back_wide_rows(dt_norm n, arrays<E> a)
{
    constexpr size_t COUNT = dt_pack<E>::COUNT;
    for (size_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
        moments m = moments_of(n, row);
        float averages[2] = {};
        E *dx = a.dx + row * n.width;
        for (size_t c = threadIdx.x * COUNT; c < n.width; c += WIDE * COUNT)
            add_averages(operands_at<E, ALIGNED>(n, a, row, c), m, averages);
        dt_block_sums<WIDE>(averages);
        find_averages(n, averages, &m);
        for (size_t c = threadIdx.x * COUNT; c < n.width; c += WIDE * COUNT)
            put<E, ALIGNED>(
                dx, n.width, c,
                add_dx(operands_at<E, ALIGNED>(n, a, row, c), m, take<E, ALIGNED>(dx, n.width, c)));
    }
}

/* A thread has a column of a part. */
template <class E>
__global__ void __launch_bounds__(COLUMNS) add_wide_columns(dt_norm n, arrays<E> a)
{
    size_t c = static_cast<size_t>(blockIdx.x) * COLUMNS + threadIdx.x;
    size_t row = blockIdx.y * a.part_rows, last = row + a.part_rows;
    float weight = 0, bias = 0;
    if (c >= n.width)
        return;
#pragma unroll 4
    for (; row < (last < n.rows ? last : n.rows); row++) {
        moments m = moments_of(n, row);
        float d = dt_to_float(a.dout[row * n.width + c]);
        weight = fmaf(d, (dt_to_float(a.x[row * n.width + c]) - m.mean) * m.rstd, weight);
        bias += d;
    }
    a.partials[blockIdx.y * 2 * n.width + c] = weight;
    a.partials[(blockIdx.y * 2 + 1) * n.width + c] = bias;
}

template <class E>
cudaError_t back_wide(const struct dt_norm *n, const arrays<E> &a, bool aligned, size_t parts,
                      cudaStream_t s)
{
    cudaError_t e =
        dt_launch(aligned ? norm_back_wide_rows<E, true> : norm_back_wide_rows<E, false>,
                  dim3(dt_blocks(n->rows, 1)), dim3(WIDE), 0, s, *n, a);
    if (e != cudaSuccess)
        return e;
    return dt_launch(add_wide_columns<E>,
                     dim3(dt_blocks(n->width, COLUMNS), static_cast<unsigned>(parts)),
                     dim3(COLUMNS), 0, s, *n, a);
}

} // namespace

#endif
