/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of each element alone, over arrays of one element type: a struct F has IN and OUT, how
 * many arrays are read and written, and of(x, y), which makes y[OUT] of x[IN]. An element is read
 * before it is written and by the same thread, so outputs may be inputs. 16 bytes at a time where
 * all arrays are aligned for it. Arrays are packed, or rows that lie apart. */
#ifndef DT_CUDA_MAP_CUH
#define DT_CUDA_MAP_CUH

#include "cuda/kernels/common.cuh"

template <class E, int IN, int OUT> struct dt_arrays {
    E *out[OUT];
    const E *in[IN];
};

/* COUNT elements from AT on: one, or a pack. */
template <class F, class E, int COUNT>
__device__ inline void dt_map_at(size_t at, const dt_arrays<E, F::IN, F::OUT> &a)
{
    float x[F::IN][COUNT], y[F::OUT][COUNT];
#pragma unroll
    for (int i = 0; i < F::IN; i++) {
        if constexpr (COUNT == 1)
            x[i][0] = dt_to_float(a.in[i][at]);
        else
            dt_load16(a.in[i] + at, x[i]);
    }
#pragma unroll
    for (int e = 0; e < COUNT; e++) {
        float of[F::IN], is[F::OUT];
        for (int i = 0; i < F::IN; i++)
            of[i] = x[i][e];
        F::of(of, is);
        for (int i = 0; i < F::OUT; i++)
            y[i][e] = is[i];
    }
#pragma unroll
    for (int i = 0; i < F::OUT; i++) {
        if constexpr (COUNT == 1)
            a.out[i][at] = dt_from_float<E>(y[i][0]);
        else
            dt_store16(a.out[i] + at, y[i]);
    }
}

template <class F, class E, int COUNT>
__global__ void dt_map_kernel(size_t n, dt_arrays<E, F::IN, F::OUT> a)
{
    size_t first = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x, packs = n / COUNT;
    for (size_t p = first; p < packs; p += stride)
        dt_map_at<F, E, COUNT>(p * COUNT, a);
    if (packs * COUNT + first < n)
        dt_map_at<F, E, 1>(packs * COUNT + first, a);
}

template <class F, class E>
inline cudaError_t dt_map(size_t n, const dt_arrays<E, F::IN, F::OUT> &a, cudaStream_t s)
{
    constexpr int THREADS = 256, COUNT = dt_pack<E>::COUNT;
    bool aligned = true;
    for (const E *in : a.in)
        aligned = aligned && dt_aligned16(in);
    for (const E *out : a.out)
        aligned = aligned && dt_aligned16(out);
    if (n == 0)
        return cudaSuccess;
    if (aligned)
        return dt_launch(dt_map_kernel<F, E, COUNT>, dim3(dt_blocks(n, THREADS * COUNT)),
                         dim3(THREADS), 0, s, n, a);
    return dt_launch(dt_map_kernel<F, E, 1>, dim3(dt_blocks(n, THREADS)), dim3(THREADS), 0, s, n,
                     a);
}

enum { DT_MAP_ROWS = 4096 }; /* at once: more than a GPU has blocks under way */

/* From row to row of each array. */
template <int IN, int OUT> struct dt_strides {
    size_t out[OUT], in[IN];
};

/* A grid row has every gridDim.y'th row. */
template <class F, class E, int COUNT>
__global__ void dt_map_rows_kernel(size_t rows, size_t width, dt_arrays<E, F::IN, F::OUT> a,
                                   dt_strides<F::IN, F::OUT> apart)
{
    size_t at = (static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * COUNT;
    if (at >= width)
        return;
    for (size_t row = blockIdx.y; row < rows; row += gridDim.y) {
        dt_arrays<E, F::IN, F::OUT> of = a;
#pragma unroll
        for (int i = 0; i < F::IN; i++)
            of.in[i] += row * apart.in[i];
#pragma unroll
        for (int i = 0; i < F::OUT; i++)
            of.out[i] += row * apart.out[i];
        dt_map_at<F, E, COUNT>(at, of);
    }
}

/* The same over rows of WIDTH that lie apart: 16 bytes at a time where each row of each array is
 * aligned for it, and of whole 16 bytes. */
template <class F, class E>
inline cudaError_t dt_map_rows(size_t rows, size_t width, const dt_arrays<E, F::IN, F::OUT> &a,
                               const dt_strides<F::IN, F::OUT> &apart, cudaStream_t s)
{
    constexpr size_t COUNT = dt_pack<E>::COUNT;
    bool aligned = width % COUNT == 0;
    for (int i = 0; i < F::IN; i++)
        aligned = aligned && dt_aligned16(a.in[i]) && apart.in[i] % COUNT == 0;
    for (int i = 0; i < F::OUT; i++)
        aligned = aligned && dt_aligned16(a.out[i]) && apart.out[i] % COUNT == 0;
    if (rows == 0 || width == 0)
        return cudaSuccess;
    size_t each = dt_divide_up(width, aligned ? COUNT : 1);
    unsigned threads = each < 256 ? static_cast<unsigned>(dt_divide_up(each, 32)) * 32 : 256;
    dim3 grid(static_cast<unsigned>(dt_divide_up(each, threads)), dt_blocks(rows, 1, DT_MAP_ROWS));
    return dt_launch(aligned ? dt_map_rows_kernel<F, E, COUNT> : dt_map_rows_kernel<F, E, 1>, grid,
                     dim3(threads), 0, s, rows, width, a, apart);
}

#endif
