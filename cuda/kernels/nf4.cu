/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers out of NF4: count of them, 8 to a thread, whose codes are one word. Blocks have 64, so
 * all of a thread's have one scale. */
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/kernels.h"
#include "worker_runtime/ops/nf4.h"

namespace
{

enum { TOGETHER = 8, THREADS = 256 };

/* By value, as where a kernel's parameters are an index is no detour. */
struct codebook {
    float at[DT_NF4_CODES];
};

__device__ inline float rounded(float x, dt_dtype type)
{
    if (type == DT_BF16)
        return dt_bf16_to_float(dt_float_to_bf16(x));
    if (type == DT_F16)
        return dt_f16_to_float(dt_float_to_f16(x));
    return x;
}

template <class E>
__global__ void expand(size_t count, E *out, const void *packed, dt_dtype type, codebook numbers)
{
    const dt_nf4_parts p = dt_nf4_parts_of(packed, count);
    size_t first = (static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * TOGETHER;
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x * TOGETHER;
    for (size_t at = first; at < count; at += stride) {
        float scale = dt_nf4_scale(&p, at / DT_NF4_BLOCK);
        for (size_t i = at; i < count && i < at + TOGETHER; i++)
            out[i] = dt_from_float<E>(rounded(numbers.at[dt_nf4_code(&p, i)] * scale, type));
    }
}

} // namespace

cudaError_t dt_cuda_nf4_expand(enum dt_dtype elem, const struct dt_nf4 *q, void *out,
                               struct dt_stream *s)
{
    const codebook numbers = {DT_NF4_CODEBOOK};
    if (q->count == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        return dt_launch(expand<E>, dim3(dt_blocks(q->count, THREADS * TOGETHER)), dim3(THREADS), 0,
                         s->compute, q->count, static_cast<E *>(out), q->packed, q->type, numbers);
    });
}
