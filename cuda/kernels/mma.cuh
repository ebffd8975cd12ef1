/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels on tensor cores are made of: 16-byte copies from global to shared memory that run
 * beside the arithmetic, 8 x 8 matrices from shared memory into the registers of a warp, and the
 * product of such matrices. Each is one PTX instruction, by its name there; PTX's documentation
 * says which lane holds what. tests/gpu/emulator has the same for a CPU.
 *
 *   dt_copy_async16(to, from, valid)   16 bytes, aligned to 16, cached past L1; zeros unless VALID
 *   dt_copy_async_commit()             closes a group of copies
 *   dt_copy_async_wait<N>()            until all but the last N groups of this thread are there
 *   dt_ldmatrix_x4(r, row)             four matrices, the rows of matrix i at lanes 8i..8i+7's ROW
 *   dt_ldmatrix_x4_trans(r, row)       the same, each matrix turned over
 *   dt_mma_m16n8k16_bf16(d, a, b)      d[16 x 8] += a[16 x 16] b[16 x 8], in float
 *
 * Below them, for both: what is as cheap on a GPU only if said in its own words. */
#ifndef DT_CUDA_MMA_CUH
#define DT_CUDA_MMA_CUH

#include "cuda/kernels/approximate.cuh"
#include "cuda/kernels/common.cuh"

#ifdef __CUDACC__

__device__ inline uint32_t dt_shared_address(const void *p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline void dt_copy_async16(void *shared, const void *global, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dt_shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "r"(valid ? 16 : 0)
                 : "memory");
}

__device__ inline void dt_copy_async_commit()
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

template <int N> __device__ inline void dt_copy_async_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

__device__ inline void dt_ldmatrix_x4(uint32_t r[4], const void *shared_row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(dt_shared_address(shared_row))
                 : "memory");
}

__device__ inline void dt_ldmatrix_x4_trans(uint32_t r[4], const void *shared_row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(dt_shared_address(shared_row))
                 : "memory");
}

__device__ inline void dt_mma_m16n8k16_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* X, of which the compiler is not to know that it is the same each time: what follows from it is
 * then found where it is wanted, and not ahead of a loop, where it would hold registers. */
__device__ inline int dt_unforeseen(int x)
{
    asm volatile("" : "+r"(x));
    return x;
}

/* Two bfloat16 in one register, LOW in the lower half. */
__device__ inline uint32_t dt_pack_bf16(float low, float high)
{
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

#else

__device__ inline int dt_unforeseen(int x)
{
    return x;
}

__device__ inline uint32_t dt_pack_bf16(float low, float high)
{
    union {
        __nv_bfloat16 part[2];
        uint32_t both;
    } u = {{__float2bfloat16_rn(low), __float2bfloat16_rn(high)}};
    return u.both;
}

#endif

#endif
