/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of columns in two steps: each block goes down some rows of some columns, and leaves floats
 * in scratch, parts[parts, columns]; then the parts of each column are summed, and added once. How
 * rows are cut follows from the shape alone, and so does the order of additions. */
#ifndef DT_CUDA_COLUMNS_CUH
#define DT_CUDA_COLUMNS_CUH

#include "cuda/kernels/common.cuh"
#include "cuda/kernels/kernels.h"

/* A block is 32 threads across columns, and 8 down the rows. */
enum { DT_ACROSS = 32, DT_DOWN = 8 };

/* A thread has 1 column, or as many as 16 bytes hold. */
template <class E> __device__ inline void dt_load_columns(const E *from, float (&x)[1])
{
    x[0] = dt_to_float(*from);
}

template <class E>
__device__ inline void dt_load_columns(const E *from, float (&x)[dt_pack<E>::COUNT])
{
    dt_load16(from, x);
}

template <class E> __device__ inline void dt_store_columns(E *to, const float (&x)[1])
{
    *to = dt_from_float<E>(x[0]);
}

template <class E>
__device__ inline void dt_store_columns(E *to, const float (&x)[dt_pack<E>::COUNT])
{
    dt_store16(to, x);
}

/* What DT_DOWN threads have found for one column, in their order. */
__device__ inline float dt_sum_down(const float *sums, int stride)
{
    float sum = 0;
#pragma unroll
    for (int y = 0; y < DT_DOWN; y++)
        sum += sums[y * stride];
    return sum;
}

/* The last of a block's first step: COLUMN is its thread's first, whose sum is SUM. All of the
 * block call. */
template <int WIDE>
__device__ inline void dt_put_parts(float *parts, size_t columns, size_t column,
                                    const float (&sum)[WIDE])
{
    DT_SHARED(float, sums, [DT_DOWN * WIDE * DT_ACROSS]);
#pragma unroll
    for (int i = 0; i < WIDE; i++)
        sums[(threadIdx.y * WIDE + i) * DT_ACROSS + threadIdx.x] = sum[i];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.y); column < columns && i < WIDE; i += DT_DOWN)
        parts[blockIdx.y * columns + column + i] =
            dt_sum_down(sums + i * DT_ACROSS + threadIdx.x, WIDE * DT_ACROSS);
}

/* to[column] += the sum of its COUNT parts, or BY times that; BY NULL: 1. */
template <class E>
__global__ void __launch_bounds__(DT_ACROSS *DT_DOWN)
    dt_add_parts(size_t count, size_t columns, E *__restrict__ to, const float *__restrict__ by,
                 const float *__restrict__ parts)
{
    DT_SHARED(float, sums, [DT_DOWN * DT_ACROSS]);
    size_t column = static_cast<size_t>(blockIdx.x) * DT_ACROSS + threadIdx.x;
    float sum = 0;

    if (column < columns) {
#pragma unroll 4
        for (size_t part = threadIdx.y; part < count; part += DT_DOWN)
            sum += parts[part * columns + column];
    }
    sums[threadIdx.y * DT_ACROSS + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < columns) {
        sum = dt_sum_down(sums + threadIdx.x, DT_ACROSS);
        to[column] = dt_from_float<E>(dt_to_float(to[column]) + (by ? by[column] * sum : sum));
    }
}

/* How a first step is launched: parts are the grid's rows, ROWS_EACH rows each. */
struct dt_column_parts {
    size_t count, rows_each; /* count 0: the columns have no room in scratch */
    dim3 grid, block;
};

/* Enough blocks to fill a device, but not so many that they sum little more than they write. WIDE:
 * columns of a thread; parts are cut as for MOST_WIDE. */
inline dt_column_parts dt_cut_columns(size_t rows, size_t columns, int wide, int most_wide)
{
    constexpr size_t ROWS_EACH_LEAST = 64, BLOCKS_WANTED = 2048;
    size_t tiles = dt_divide_up(columns, static_cast<size_t>(DT_ACROSS) * most_wide);
    size_t parts = dt_divide_up(rows, ROWS_EACH_LEAST);
    size_t most = tiles < BLOCKS_WANTED ? BLOCKS_WANTED / tiles : 1;
    size_t fit = DT_CUDA_SCRATCH / (columns * sizeof(float));
    most = most < fit ? most : fit;
    parts = parts < most ? parts : most;
    if (parts == 0)
        return {};
    size_t rows_each = dt_divide_up(rows, parts);
    parts = dt_divide_up(rows, rows_each);
    return {parts, rows_each,
            dim3(dt_blocks(columns, static_cast<size_t>(DT_ACROSS) * wide),
                 static_cast<unsigned>(parts)),
            dim3(DT_ACROSS, DT_DOWN)};
}

template <class E>
inline cudaError_t dt_join_parts(const dt_column_parts &p, size_t columns, E *to, const float *by,
                                 struct dt_stream *s)
{
    return dt_launch(dt_add_parts<E>, dim3(dt_blocks(columns, DT_ACROSS)), p.block, 0, s->compute,
                     p.count, columns, to, by, static_cast<const float *>(s->scratch));
}

#endif
