/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels share: elements to and from float, 16 bytes at a time; sums and maxima over a warp
 * and a block; how many blocks a launch gets. All arithmetic is in float, an element is only how a
 * number is stored.
 *
 * Orders of summation are fixed: lanes and warps are joined by one tree, so that every thread gets
 * the same bits, and each run too. */
#ifndef DT_CUDA_COMMON_CUH
#define DT_CUDA_COMMON_CUH

#include "cuda/kernels/launch.cuh"

#include <dtrun/dtype.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { DT_WARP = 32 };

__device__ inline float dt_to_float(float x)
{
    return x;
}

__device__ inline float dt_to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

/* To nearest, ties to even. */
template <class E> __device__ inline E dt_from_float(float x);

template <> __device__ inline float dt_from_float<float>(float x)
{
    return x;
}

template <> __device__ inline __nv_bfloat16 dt_from_float<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}

/* 16 bytes, the most that one instruction loads: 4 floats or 8 bfloat16. */
template <class E> struct alignas(16) dt_pack {
    static constexpr int COUNT = 16 / sizeof(E);
    E at[COUNT];
};

/* FROM and TO are 16-byte aligned. */
template <class E> __device__ inline void dt_load16(const E *from, float (&x)[dt_pack<E>::COUNT])
{
    dt_pack<E> p = *reinterpret_cast<const dt_pack<E> *>(from);
#pragma unroll
    for (int i = 0; i < dt_pack<E>::COUNT; i++)
        x[i] = dt_to_float(p.at[i]);
}

template <class E> __device__ inline void dt_store16(E *to, const float (&x)[dt_pack<E>::COUNT])
{
    dt_pack<E> p;
#pragma unroll
    for (int i = 0; i < dt_pack<E>::COUNT; i++)
        p.at[i] = dt_from_float<E>(x[i]);
    *reinterpret_cast<dt_pack<E> *>(to) = p;
}

__device__ inline float dt_warp_sum(float x)
{
#pragma unroll
    for (int lanes = DT_WARP / 2; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

/* Passes by NaN where there is a number, as fmaxf() does. */
__device__ inline float dt_warp_max(float x)
{
#pragma unroll
    for (int lanes = DT_WARP / 2; lanes > 0; lanes /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lanes));
    return x;
}

/* N sums at once over a block of THREADS (whole warps, in x): every thread gets them. All of the
 * block call, and may call again at once. */
template <int THREADS, int N> __device__ inline void dt_block_sums(float (&x)[N])
{
    constexpr int WARPS = THREADS / DT_WARP;
    static_assert(THREADS % DT_WARP == 0 && WARPS >= 1 && WARPS <= DT_WARP, "whole warps");
    DT_SHARED(float, parts, [N * WARPS]);
    int lane = static_cast<int>(threadIdx.x) % DT_WARP;
    int warp = static_cast<int>(threadIdx.x) / DT_WARP;
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = dt_warp_sum(x[i]);
    if (WARPS == 1)
        return;
    __syncthreads(); /* the last call's parts have been read */
#pragma unroll
    for (int i = 0; i < N; i++)
        if (lane == 0)
            parts[i * WARPS + warp] = x[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = dt_warp_sum(lane < WARPS ? parts[i * WARPS + lane] : 0.0f);
}

template <int THREADS> __device__ inline float dt_block_sum(float x)
{
    float one[1] = {x};
    dt_block_sums<THREADS>(one);
    return one[0];
}

template <int THREADS> __device__ inline float dt_block_max(float x)
{
    constexpr int WARPS = THREADS / DT_WARP;
    static_assert(THREADS % DT_WARP == 0 && WARPS >= 1 && WARPS <= DT_WARP, "whole warps");
    DT_SHARED(float, parts, [WARPS]);
    int lane = static_cast<int>(threadIdx.x) % DT_WARP;
    int warp = static_cast<int>(threadIdx.x) / DT_WARP;
    x = dt_warp_max(x);
    if (WARPS == 1)
        return x;
    __syncthreads(); /* the last call's parts have been read */
    if (lane == 0)
        parts[warp] = x;
    __syncthreads();
    return dt_warp_max(lane < WARPS ? parts[lane] : -INFINITY);
}

/* Of the host. Whether 16 bytes at a time may be read from and written to all of P; a NULL is not
 * looked at. */
template <class... P> inline bool dt_aligned16(const P *...p)
{
    return (... && (reinterpret_cast<uintptr_t>(p) % 16 == 0));
}

inline size_t dt_divide_up(size_t n, size_t by)
{
    return n / by + (n % by != 0);
}

/* Blocks for N things, EACH of them a block, but no more than MOST: kernels stride by the grid. */
inline unsigned dt_blocks(size_t n, size_t each, size_t most = 1u << 20)
{
    size_t blocks = dt_divide_up(n, each);
    return static_cast<unsigned>(blocks < most ? blocks : most);
}

/* Calls F with a number of the type that ELEM stands for: its type is what counts. */
template <class F> inline cudaError_t dt_with_elem(enum dt_dtype elem, F f)
{
    if (elem == DT_F32)
        return f(float());
    if (elem == DT_BF16)
        return f(__nv_bfloat16());
    return cudaErrorInvalidValue;
}

#endif
