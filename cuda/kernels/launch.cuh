/* SPDX-License-Identifier: Apache-2.0 */
/* The one door to the device's language. Kernels use what CUDA C++ has and stand in .cu files; what
 * has no meaning to a C++ compiler for the host is written with the names below, so that the same
 * files can also be compiled for tests/gpu/emulator, which has a cuda/kernels/launch.cuh of its own
 * and runs a kernel's threads one after another on a CPU. What a kernel may use beside plain C++17
 * and these names: __global__, __device__, __launch_bounds__, __grid_constant__, __restrict__,
 * threadIdx, blockIdx, blockDim, gridDim, __syncthreads(), __syncwarp(),
 * __shfl_{xor,down,up,}_sync(), __ballot_sync(), atomicAdd() of int and float, the math functions
 * of <math.h> (expf, exp2f, tanhf, rsqrtf, fmaxf,
 * ...), and <cuda_bf16.h>'s conversions __bfloat162float(), __float2bfloat16_rn(). All threads of a
 * block call __syncthreads(), and all 32 of a warp each shuffle.
 *
 *   DT_SHARED(type, name, [count]);   shared memory of a fixed size, in a kernel or what it calls
 *   DT_SHARED_DYNAMIC(type, name);    as much as dt_launch() was told, 16-byte aligned
 *   dt_launch(kernel, grid, block, shared, stream, arguments...)      a cudaError_t
 */
#ifndef DT_CUDA_LAUNCH_CUH
#define DT_CUDA_LAUNCH_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#define DT_SHARED(type, name, count) __shared__ type name count
#define DT_SHARED_DYNAMIC(type, name)                                                              \
    extern __shared__ __align__(16) unsigned char dt_dynamic_shared[];                             \
    type *name = reinterpret_cast<type *>(dt_dynamic_shared)

/* More than 48 KiB of shared memory a kernel has to ask for first, what it has of a fixed size
 * included, which is not known here. */
template <class... P, class... A>
cudaError_t dt_launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t s,
                      A... arguments)
{
    if (shared > 24 * 1024) {
        cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             static_cast<int>(shared));
        if (e != cudaSuccess)
            return e;
    }
    kernel<<<grid, block, shared, s>>>(static_cast<P>(arguments)...);
    return cudaGetLastError();
}

#endif
