/* SPDX-License-Identifier: Apache-2.0 */
/* RMSNorm of single heads, rows of heads heads of head_dim numbers each, stride from row to row:
 *   out = x * rstd * (weight + plus); with h = x * rstd and g = dout * (weight + plus),
 *   dx = rstd * (g - h * average(g h)), dweight[head_dim] += the sum over all heads of dout * h.
 *
 * A warp has a head at a time, and each of its lanes the same columns of all of them. Backward,
 * rows are cut in parts by the shape alone: a block goes through a part, its warps add up dweight
 * in shared memory, each for itself, and a second kernel joins the parts' sums in their order. */
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/kernels.h"

namespace
{

enum { WARPS = 8, THREADS = WARPS * DT_WARP }; /* of a block */
enum { ACROSS = 32, DOWN = 8 };                /* columns of a block that joins; threads of each */
/* Floats of a block's shared memory; and enough parts for any GPU, each worth its sums. */
constexpr size_t SUMS = 8192, PART_HEADS_LEAST = 64, PARTS_MOST = 1024;

struct head {
    size_t heads, count, stride; /* all of them; in a row */
    int dim;
    float eps, plus;
};

__device__ inline size_t place_of(const head &h, size_t i)
{
    return i / h.count * h.stride + i % h.count * h.dim;
}

template <class E> __device__ inline float rstd_of(const head &h, const E *x)
{
    float squares = 0;
    for (int c = static_cast<int>(threadIdx.x) % DT_WARP; c < h.dim; c += DT_WARP)
        squares = fmaf(dt_to_float(x[c]), dt_to_float(x[c]), squares);
    return 1 / sqrtf(dt_warp_sum(squares) / static_cast<float>(h.dim) + h.eps);
}

template <class E>
__global__ void __launch_bounds__(THREADS) head_norms(head h, const E *weight, E *out, const E *x)
{
    size_t warp = static_cast<size_t>(blockIdx.x) * WARPS + threadIdx.x / DT_WARP;
    for (size_t i = warp; i < h.heads; i += static_cast<size_t>(gridDim.x) * WARPS) {
        size_t at = place_of(h, i);
        float rstd = rstd_of(h, x + at);
        for (int c = static_cast<int>(threadIdx.x) % DT_WARP; c < h.dim; c += DT_WARP)
            out[at + c] =
                dt_from_float<E>(dt_to_float(x[at + c]) * rstd * (dt_to_float(weight[c]) + h.plus));
    }
}

/* One head; SUMS are the warp's. */
template <class E>
__device__ inline void back_one(const head &h, const E *weight, E *dx, const E *x, const E *dout,
                                float *sums)
{
    int lane = static_cast<int>(threadIdx.x) % DT_WARP;
    float rstd = rstd_of(h, x), sum = 0;
    for (int c = lane; c < h.dim; c += DT_WARP) {
        float d = dt_to_float(dout[c]), normed = dt_to_float(x[c]) * rstd;
        sum = fmaf(d * (dt_to_float(weight[c]) + h.plus), normed, sum);
        sums[c] = fmaf(d, normed, sums[c]);
    }
    float average = dt_warp_sum(sum) / static_cast<float>(h.dim);
    for (int c = lane; c < h.dim; c += DT_WARP) {
        float normed = dt_to_float(x[c]) * rstd;
        float g = dt_to_float(dout[c]) * (dt_to_float(weight[c]) + h.plus);
        dx[c] = dt_from_float<E>(rstd * fmaf(-normed, average, g));
    }
}

/* EACH: heads of a part. partials[gridDim.x][dim]. */
template <class E>
__global__ void __launch_bounds__(THREADS)
    head_norms_back(head h, size_t each, const E *weight, E *dx, const E *x, const E *dout,
                    float *partials)
{
    DT_SHARED_DYNAMIC(float, sums);
    size_t warps = blockDim.x / DT_WARP, warp = threadIdx.x / DT_WARP;
    size_t first = blockIdx.x * each, last = first + each < h.heads ? first + each : h.heads;
    for (size_t c = threadIdx.x; c < warps * h.dim; c += blockDim.x)
        sums[c] = 0;
    __syncthreads();
    for (size_t i = first + warp; i < last; i += warps) {
        size_t at = place_of(h, i);
        back_one(h, weight, dx + at, x + at, dout + at, sums + warp * h.dim);
    }
    __syncthreads();
    for (size_t c = threadIdx.x; c < static_cast<size_t>(h.dim); c += blockDim.x) {
        float sum = 0;
        for (size_t w = 0; w < warps; w++)
            sum += sums[w * h.dim + c];
        partials[blockIdx.x * h.dim + c] = sum;
    }
}

template <class E>
__global__ void __launch_bounds__(ACROSS *DOWN)
    join_parts(size_t parts, size_t dim, const float *partials, E *dweight)
{
    DT_SHARED(float, sums, [DOWN * ACROSS]);
    size_t lane = threadIdx.x % ACROSS, slice = threadIdx.x / ACROSS;
    size_t c = static_cast<size_t>(blockIdx.x) * ACROSS + lane;
    float sum = 0;
    for (size_t part = slice; c < dim && part < parts; part += DOWN)
        sum += partials[part * dim + c];
    sums[slice * ACROSS + lane] = sum;
    __syncthreads();
    if (slice > 0 || c >= dim)
        return;
    for (size_t i = 1; i < DOWN; i++)
        sum += sums[i * ACROSS + lane];
    dweight[c] = dt_from_float<E>(dt_to_float(dweight[c]) + sum);
}

head head_of(const struct dt_head_norm *n)
{
    return {
        n->rows * n->heads, n->heads, n->stride, static_cast<int>(n->head_dim), n->eps, n->plus};
}

bool is_empty(const struct dt_head_norm *n)
{
    return n->rows == 0 || n->heads == 0 || n->head_dim == 0;
}

template <class E>
cudaError_t backward(const struct dt_head_norm *n, E *dx, E *dweight, const E *x, const E *dout,
                     struct dt_stream *s)
{
    head h = head_of(n);
    size_t most = WARPS, fit = SUMS / n->head_dim, warps = fit < most ? fit : most;
    size_t parts = dt_divide_up(h.heads, PART_HEADS_LEAST);
    parts = parts < PARTS_MOST ? parts : PARTS_MOST;
    size_t each = dt_divide_up(h.heads, parts);
    parts = dt_divide_up(h.heads, each);
    float *partials = static_cast<float *>(s->scratch);
    static_assert(sizeof(float) * PARTS_MOST * SUMS <= DT_CUDA_SCRATCH, "room for all parts");
    cudaError_t e =
        dt_launch(head_norms_back<E>, dim3(static_cast<unsigned>(parts)),
                  dim3(static_cast<unsigned>(warps * DT_WARP)), warps * n->head_dim * sizeof(float),
                  s->compute, h, each, static_cast<const E *>(n->weight), dx, x, dout, partials);
    if (e != cudaSuccess || !dweight)
        return e;
    return dt_launch(join_parts<E>, dim3(dt_blocks(n->head_dim, ACROSS)), dim3(ACROSS * DOWN), 0,
                     s->compute, parts, n->head_dim, partials, dweight);
}

} // namespace

cudaError_t dt_cuda_head_norm_forward(enum dt_dtype elem, const struct dt_head_norm *n, void *out,
                                      const void *x, struct dt_stream *s)
{
    if (is_empty(n))
        return cudaSuccess;
    if (n->head_dim > SUMS)
        return cudaErrorInvalidValue;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        head h = head_of(n);
        return dt_launch(head_norms<E>, dim3(dt_blocks(h.heads, WARPS)), dim3(THREADS), 0,
                         s->compute, h, static_cast<const E *>(n->weight), static_cast<E *>(out),
                         static_cast<const E *>(x));
    });
}

cudaError_t dt_cuda_head_norm_backward(enum dt_dtype elem, const struct dt_head_norm *n, void *dx,
                                       void *dweight, const void *x, const void *dout,
                                       struct dt_stream *s)
{
    if (is_empty(n))
        return cudaSuccess;
    if (n->head_dim > SUMS)
        return cudaErrorInvalidValue;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        return backward<E>(n, static_cast<E *>(dx), static_cast<E *>(dweight),
                           static_cast<const E *>(x), static_cast<const E *>(dout), s);
    });
}
