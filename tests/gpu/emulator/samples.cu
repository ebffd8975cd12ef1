/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/emulator/samples.h"
#include "cuda/kernels/launch.cuh"

static __global__ void axpy(size_t n, float *__restrict__ out, float a, const float *__restrict__ x,
                            const float *__restrict__ y)
{
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = a * x[i] + y[i];
}

cudaError_t sample_axpy(size_t n, float *out, float a, const float *x, const float *y,
                        cudaStream_t s)
{
    return dt_launch(axpy, dim3(unsigned((n + 127) / 128)), dim3(128), 0, s, n, out, a, x, y);
}

template <bool BARRIER>
static __global__ void __launch_bounds__(256) block_sums(float *out, const float *x)
{
    DT_SHARED(float, part, [256]);
    part[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    for (unsigned apart = 128; apart > 0; apart /= 2) {
        if (BARRIER)
            __syncthreads();
        if (threadIdx.x < apart)
            part[threadIdx.x] += part[threadIdx.x + apart];
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = part[0];
}

cudaError_t sample_block_sums(size_t blocks, float *out, const float *x, bool barrier,
                              cudaStream_t s)
{
    dim3 grid(static_cast<unsigned>(blocks));
    if (barrier)
        return dt_launch(block_sums<true>, grid, dim3(256), 0, s, out, x);
    return dt_launch(block_sums<false>, grid, dim3(256), 0, s, out, x);
}

static __device__ float warp_sum(float x)
{
    for (int by = 16; by > 0; by /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, by);
    return x;
}

static __global__ void warp_sums(float *out, const float *x)
{
    DT_SHARED_DYNAMIC(float, part);
    float sum = warp_sum(x[blockIdx.x * blockDim.x + threadIdx.x]);
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0)
        part[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = warp_sum(lane < blockDim.x / 32 ? part[lane] : 0);
        if (lane == 0)
            out[blockIdx.x] = sum;
    }
}

cudaError_t sample_warp_sums(size_t blocks, float *out, const float *x, cudaStream_t s)
{
    return dt_launch(warp_sums, dim3(unsigned(blocks)), dim3(256), 8 * sizeof(float), s, out, x);
}

static __global__ void shuffles(int *up, int *down, int *at, unsigned *odd)
{
    int i = int(threadIdx.x);
    up[i] = __shfl_up_sync(0xffffffffu, i, 3);
    down[i] = __shfl_down_sync(0xffffffffu, i, 5, 16);
    at[i] = __shfl_sync(0xffffffffu, i, 9, 8);
    odd[i] = __ballot_sync(0xffffffffu, i & 1);
}

cudaError_t sample_shuffles(int *up, int *down, int *at, unsigned *odd, cudaStream_t s)
{
    return dt_launch(shuffles, dim3(1), dim3(64), 0, s, up, down, at, odd);
}

static __global__ void divergent_barrier(unsigned limit)
{
    if (threadIdx.x < limit)
        __syncthreads();
}

cudaError_t sample_divergent_barrier(unsigned limit, cudaStream_t s)
{
    return dt_launch(divergent_barrier, dim3(2), dim3(64), 0, s, limit);
}

static __global__ void two_barriers()
{
    if (threadIdx.x & 1)
        __syncthreads();
    else
        __syncthreads();
}

cudaError_t sample_two_barriers(cudaStream_t s)
{
    return dt_launch(two_barriers, dim3(1), dim3(64), 0, s);
}

static __global__ void divergent_shuffle(unsigned limit)
{
    if (threadIdx.x < limit)
        __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}

cudaError_t sample_divergent_shuffle(unsigned limit, cudaStream_t s)
{
    return dt_launch(divergent_shuffle, dim3(1), dim3(32), 0, s, limit);
}

static __global__ void lanes_exchange(float *out, bool barrier)
{
    DT_SHARED(float, all, [32]);
    all[threadIdx.x] = float(threadIdx.x);
    if (barrier)
        __syncwarp();
    else
        __shfl_xor_sync(0xffffffffu, 1.0f, 1);
    out[threadIdx.x] = all[31 - threadIdx.x];
}

cudaError_t sample_lanes_exchange(float *out, bool barrier, cudaStream_t s)
{
    return dt_launch(lanes_exchange, dim3(1), dim3(32), 0, s, out, barrier);
}

static __global__ void shared_overrun(unsigned at)
{
    DT_SHARED(float, array, [64]);
    volatile float *there = array;
    there[at] = 1;
}

cudaError_t sample_shared_overrun(unsigned at, cudaStream_t s)
{
    return dt_launch(shared_overrun, dim3(1), dim3(1), 0, s, at);
}

static __global__ void unwritten_shared(float *out)
{
    DT_SHARED_DYNAMIC(float, array);
    out[blockIdx.x] = array[threadIdx.x];
    __syncthreads();
    array[threadIdx.x] = 1;
}

cudaError_t sample_unwritten_shared(float *out, cudaStream_t s)
{
    return dt_launch(unwritten_shared, dim3(2), dim3(1), 4, s, out);
}

static __global__ void read(float *out, const float *x, size_t at)
{
    *out = x[at];
}

cudaError_t sample_read(float *out, const float *x, size_t at, cudaStream_t s)
{
    return dt_launch(read, dim3(1), dim3(1), 0, s, out, x, at);
}

static __global__ void read16(float *out, const float *x, size_t at)
{
    *out = reinterpret_cast<const float4 *>(x + at)->w;
}

cudaError_t sample_read16(float *out, const float *x, size_t at, cudaStream_t s)
{
    return dt_launch(read16, dim3(1), dim3(1), 0, s, out, x, at);
}

/* One warp. A row of 16 bfloat16 is two copies. A register holds what ldmatrix gives of 8 x 8: of
 * A its rows; of B its columns, which are rows where it is stored turned over. */
static __global__ void product(float *d, const uint16_t *a, const uint16_t *b, bool turned,
                               bool valid, bool wait)
{
    DT_SHARED(uint4, sa, [32]);
    DT_SHARED(uint4, sb, [32]);
    uint16_t *ha = reinterpret_cast<uint16_t *>(sa), *hb = reinterpret_cast<uint16_t *>(sb);
    unsigned lane = threadIdx.x;
    dt_copy_async16(ha + lane * 8, a + lane * 8, valid);
    if (lane < 16)
        dt_copy_async16(hb + lane * 8, b + lane * 8, true);
    dt_copy_async_commit();
    if (wait)
        dt_copy_async_wait<0>();
    else
        dt_copy_async_wait<1>();
    __syncwarp();
    uint32_t ra[4], rb[4];
    unsigned matrix = lane / 8, row = lane % 8;
    dt_ldmatrix_x4(ra, ha + (row + matrix % 2 * 8) * 16 + matrix / 2 * 8);
    if (turned)
        dt_ldmatrix_x4(rb, hb + row * 16 + matrix % 2 * 8);
    else
        dt_ldmatrix_x4_trans(rb, hb + (row + matrix % 2 * 8) * 8);
    float sum[4];
    for (int i = 0; i < 4; i++)
        sum[i] = d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2];
    dt_mma_m16n8k16_bf16(sum, ra, rb);
    for (int i = 0; i < 4; i++)
        d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum[i];
}

cudaError_t sample_product(float *d, const uint16_t *a, const uint16_t *b, bool turned, bool valid,
                           bool wait, cudaStream_t s)
{
    return dt_launch(product, dim3(1), dim3(32), 0, s, d, a, b, turned, valid, wait);
}
