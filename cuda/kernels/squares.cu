/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of squares of n floats, in double: parts of fixed size to scratch, one a block, then all
 * parts in one block. Which thread adds which elements, and in which order, follows from n alone;
 * whether they are loaded 16 bytes at a time makes no difference. */
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/kernels.h"

namespace
{

enum { THREADS = 256, PART = 1 << 14, LANES = 4 };

/* Thread 0 gets the sum. THREADS is a power of two. */
__device__ inline double join(double x)
{
    DT_SHARED(double, sums, [THREADS]);
    sums[threadIdx.x] = x;
    for (unsigned first = THREADS / 2; first > 0; first /= 2) {
        __syncthreads();
        if (threadIdx.x < first)
            sums[threadIdx.x] += sums[threadIdx.x + first];
    }
    return sums[0];
}

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS) sum_part(size_t n, const float *x, double *sums)
{
    size_t from = static_cast<size_t>(blockIdx.x) * PART;
    size_t to = n - from < PART ? n : from + PART;
    double sum[LANES] = {};
#pragma unroll 4
    for (size_t i = from + threadIdx.x * LANES; i < to; i += THREADS * LANES) {
        float v[LANES] = {};
        if (ALIGNED && i + LANES <= to)
            dt_load16(x + i, v);
        else
            for (size_t lane = 0; lane < LANES && i + lane < to; lane++)
                v[lane] = x[i + lane];
#pragma unroll
        for (int lane = 0; lane < LANES; lane++)
            sum[lane] += static_cast<double>(v[lane]) * static_cast<double>(v[lane]);
    }
    double all = join((sum[0] + sum[1]) + (sum[2] + sum[3]));
    if (threadIdx.x == 0)
        sums[blockIdx.x] = all;
}

__global__ void __launch_bounds__(THREADS) sum_parts(size_t parts, const double *sums, double *out)
{
    double sum = 0;
    for (size_t i = threadIdx.x; i < parts; i += THREADS)
        sum += sums[i];
    sum = join(sum);
    if (threadIdx.x == 0)
        *out = sum;
}

} // namespace

/* The result's place in scratch is before the parts. OUT stays NaN when something fails. */
cudaError_t dt_cuda_sum_squares(size_t n, double *out, const float *x, struct dt_stream *s)
{
    size_t parts = dt_divide_up(n, PART);
    double *sums = static_cast<double *>(s->scratch);
    *out = n ? NAN : 0;
    if (n == 0)
        return cudaSuccess;
    if ((parts + 1) * sizeof *sums > s->scratch_bytes)
        return cudaErrorInvalidValue; /* more than any device holds */
    cudaError_t e =
        dt_launch(dt_aligned16(x) ? sum_part<true> : sum_part<false>,
                  dim3(static_cast<unsigned>(parts)), dim3(THREADS), 0, s->compute, n, x, sums + 1);
    if (e == cudaSuccess)
        e = dt_launch(sum_parts, dim3(1), dim3(THREADS), 0, s->compute, parts, sums + 1, sums);
    if (e == cudaSuccess)
        e = cudaMemcpyAsync(s->host, sums, sizeof *sums, cudaMemcpyDeviceToHost, s->compute);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(s->compute);
    if (e == cudaSuccess)
        *out = *s->host;
    return e;
}
