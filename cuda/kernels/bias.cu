/* SPDX-License-Identifier: Apache-2.0 */
/* dbias[columns] += the sum of dout[rows, stride]'s rows, in two steps: each block sums some rows
 * of some columns, and leaves floats in scratch; then the parts of each column are summed, and
 * added once. How rows are cut follows from the shape alone, and so does the order of additions. */
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/kernels.h"

namespace
{

/* A block is 32 threads across columns, and 8 down the rows. */
enum { ACROSS = 32, DOWN = 8, ROWS_EACH_LEAST = 64, BLOCKS_WANTED = 2048, ADDING = 256 };

/* What DOWN threads have found for one column, in their order. */
__device__ inline float sum_down(const float *sums, int stride)
{
    float sum = 0;
#pragma unroll
    for (int y = 0; y < DOWN; y++)
        sum += sums[y * stride];
    return sum;
}

template <class E> __device__ inline void load(const E *from, float (&x)[1])
{
    x[0] = dt_to_float(*from);
}

template <class E> __device__ inline void load(const E *from, float (&x)[dt_pack<E>::COUNT])
{
    dt_load16(from, x);
}

/* parts[gridDim.y, columns]. WIDE columns a thread: 1, or as many as 16 bytes hold. */
template <class E, int WIDE>
__global__ void __launch_bounds__(ACROSS *DOWN)
    sum_rows(size_t rows, size_t columns, size_t row_stride, size_t rows_each,
             float *__restrict__ parts, const E *__restrict__ dout)
{
    DT_SHARED(float, sums, [DOWN * WIDE * ACROSS]);
    size_t column = (static_cast<size_t>(blockIdx.x) * ACROSS + threadIdx.x) * WIDE;
    size_t first = blockIdx.y * rows_each;
    size_t last = first + rows_each < rows ? first + rows_each : rows;
    float sum[WIDE] = {}, x[WIDE];

    if (column < columns) {
#pragma unroll 4
        for (size_t row = first + threadIdx.y; row < last; row += DOWN) {
            load(dout + row * row_stride + column, x);
#pragma unroll
            for (int i = 0; i < WIDE; i++)
                sum[i] += x[i];
        }
    }
#pragma unroll
    for (int i = 0; i < WIDE; i++)
        sums[(threadIdx.y * WIDE + i) * ACROSS + threadIdx.x] = sum[i];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.y); column < columns && i < WIDE; i += DOWN)
        parts[blockIdx.y * columns + column + i] =
            sum_down(sums + i * ACROSS + threadIdx.x, WIDE * ACROSS);
}

template <class E>
__global__ void __launch_bounds__(ACROSS *DOWN)
    add_parts(size_t count, size_t columns, E *__restrict__ dbias, const float *__restrict__ parts)
{
    DT_SHARED(float, sums, [DOWN * ACROSS]);
    size_t column = static_cast<size_t>(blockIdx.x) * ACROSS + threadIdx.x;
    float sum = 0;

    if (column < columns) {
#pragma unroll 4
        for (size_t part = threadIdx.y; part < count; part += DOWN)
            sum += parts[part * columns + column];
    }
    sums[threadIdx.y * ACROSS + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < columns)
        dbias[column] =
            dt_from_float<E>(dt_to_float(dbias[column]) + sum_down(sums + threadIdx.x, ACROSS));
}

template <class E>
__global__ void __launch_bounds__(ADDING) add_bias(size_t n, size_t columns, size_t row_stride,
                                                   E *__restrict__ out, const E *__restrict__ bias)
{
    size_t stride = static_cast<size_t>(gridDim.x) * ADDING;
    for (size_t i = static_cast<size_t>(blockIdx.x) * ADDING + threadIdx.x; i < n; i += stride) {
        size_t row = i / columns, column = i - row * columns;
        E *at = out + row * row_stride + column;
        *at = dt_from_float<E>(dt_to_float(*at) + dt_to_float(bias[column]));
    }
}

/* Enough blocks to fill a device, but not so many that they sum little more than they write. */
size_t parts_for(size_t rows, size_t columns, int wide)
{
    size_t tiles = dt_divide_up(columns, static_cast<size_t>(ACROSS) * wide);
    size_t parts = dt_divide_up(rows, ROWS_EACH_LEAST);
    size_t most = tiles < BLOCKS_WANTED ? BLOCKS_WANTED / tiles : 1;
    size_t fit = DT_CUDA_SCRATCH / (columns * sizeof(float));
    most = most < fit ? most : fit;
    return parts < most ? parts : most;
}

template <class E>
cudaError_t backward(size_t rows, size_t columns, size_t row_stride, E *dbias, const E *dout,
                     struct dt_stream *s)
{
    constexpr int WIDE = dt_pack<E>::COUNT;
    bool wide = columns % WIDE == 0 && row_stride % WIDE == 0 && dt_aligned16(dout);
    size_t parts = parts_for(rows, columns, WIDE);
    if (parts == 0)
        return cudaErrorInvalidValue; /* wider than scratch */
    size_t rows_each = dt_divide_up(rows, parts);
    parts = dt_divide_up(rows, rows_each);

    dim3 block(ACROSS, DOWN);
    dim3 grid(dt_blocks(columns, static_cast<size_t>(ACROSS) * (wide ? WIDE : 1)),
              static_cast<unsigned>(parts));
    float *scratch = static_cast<float *>(s->scratch);
    cudaError_t e = dt_launch(wide ? sum_rows<E, WIDE> : sum_rows<E, 1>, grid, block, 0, s->compute,
                              rows, columns, row_stride, rows_each, scratch, dout);
    if (e != cudaSuccess)
        return e;
    return dt_launch(add_parts<E>, dim3(dt_blocks(columns, ACROSS)), block, 0, s->compute, parts,
                     columns, dbias, scratch);
}

} // namespace

cudaError_t dt_cuda_bias_forward(enum dt_dtype elem, const struct dt_linear *l, void *out,
                                 struct dt_stream *s)
{
    size_t n = l->rows * l->out;
    if (n == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [&](auto of) {
        using E = decltype(of);
        return dt_launch(add_bias<E>, dim3(dt_blocks(n, ADDING)), dim3(ADDING), 0, s->compute, n,
                         l->out, dt_linear_stride(l), static_cast<E *>(out),
                         static_cast<const E *>(l->bias));
    });
}

cudaError_t dt_cuda_bias_backward(enum dt_dtype elem, const struct dt_linear *l, void *dbias,
                                  const void *dout, struct dt_stream *s)
{
    if (l->rows == 0 || l->out == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [&](auto of) {
        using E = decltype(of);
        return backward(l->rows, l->out, dt_linear_stride(l), static_cast<E *>(dbias),
                        static_cast<const E *>(dout), s);
    });
}
