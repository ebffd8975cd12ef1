/* SPDX-License-Identifier: Apache-2.0 */
/* Powers and divisions that are one or two instructions on a GPU where the exact ones are ten or
 * more: for kernels that would otherwise have more to compute than to read. "A unit" is one of a
 * float's last place. tests/gpu/emulator computes them plainly, and so shows nothing of how far
 * they are off; tests allow what is said here.
 *
 *   dt_exp2(x)       within 2 units; what is below the smallest normal number is 0
 *   dt_exp(x)        within 2 + 1.2 |x| units: x times log2(e) is rounded first
 *   dt_divide(x, y)  within 2 units; 0 where |y| is above 2^126, and NaN if x is infinite then
 *
 * Infinities and NaN are as the exact ones have them, but for that last one. */
#ifndef DT_CUDA_APPROXIMATE_CUH
#define DT_CUDA_APPROXIMATE_CUH

#include "cuda/kernels/launch.cuh"

#include <float.h>
#include <math.h>

static constexpr float DT_LOG2_E = 1.4426950408889634f;

#ifdef __CUDACC__

__device__ inline float dt_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline float dt_divide(float x, float y)
{
    return __fdividef(x, y);
}

#else

__device__ inline float dt_exp2(float x)
{
    float y = exp2f(x);
    return y < FLT_MIN ? 0 : y;
}

__device__ inline float dt_divide(float x, float y)
{
    return x / y;
}

#endif

__device__ inline float dt_exp(float x)
{
    return dt_exp2(x * DT_LOG2_E);
}

#endif
