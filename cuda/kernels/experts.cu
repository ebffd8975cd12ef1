/* SPDX-License-Identifier: Apache-2.0 */
/* Which experts a row goes through: softmax of a router's logits and the largest of it, a warp a
 * row; and what each expert and each weight means for logits on the way back. A weight counts by
 * what of it goes through its rows: x[N,C] *= weight[N], and back, a block a row.
 *
 * Of equal probabilities the first is picked, so a row of NaNs picks the first experts, and a pick
 * is never outside. */
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/row.cuh"

namespace
{

enum { WARPS = 8, THREADS = WARPS * DT_WARP, LANES = 128 /* threads that share a wide row */ };

/* An expert with its probability. */
struct pick {
    float prob;
    int expert;
};

/* Whether A is picked before B. With NaNs, which all of a row are where one is, by number alone. */
__device__ inline bool comes_before(const pick &a, const pick &b)
{
    return a.prob > b.prob || (!(b.prob > a.prob) && a.expert < b.expert);
}

__device__ inline pick first_of_warp(pick p)
{
#pragma unroll
    for (int lanes = DT_WARP / 2; lanes > 0; lanes /= 2) {
        pick other = {__shfl_xor_sync(0xffffffffu, p.prob, lanes),
                      __shfl_xor_sync(0xffffffffu, p.expert, lanes)};
        if (comes_before(other, p))
            p = other;
    }
    return p;
}

/* That of all behind LAST which is picked first. A lane reads what it wrote itself. */
__device__ inline pick next_pick(const float *probs, int experts, const pick &last)
{
    pick best = {-INFINITY, INT32_MAX};
    for (int e = static_cast<int>(threadIdx.x) % DT_WARP; e < experts; e += DT_WARP) {
        pick here = {probs[e], e};
        if (comes_before(last, here) && comes_before(here, best))
            best = here;
    }
    return first_of_warp(best);
}

/* Returns log sum exp. */
template <class E> __device__ inline float softmax(float *probs, const E *logits, int experts)
{
    int lane = static_cast<int>(threadIdx.x) % DT_WARP;
    float most = -INFINITY, sum = 0;
    for (int e = lane; e < experts; e += DT_WARP)
        most = fmaxf(most, dt_to_float(logits[e]));
    most = dt_warp_max(most);
    for (int e = lane; e < experts; e += DT_WARP) {
        probs[e] = expf(dt_to_float(logits[e]) - most);
        sum += probs[e];
    }
    sum = dt_warp_sum(sum);
    for (int e = lane; e < experts; e += DT_WARP)
        probs[e] /= sum;
    return most + logf(sum);
}

__device__ inline size_t first_row()
{
    return static_cast<size_t>(blockIdx.x) * WARPS + threadIdx.x / DT_WARP;
}

template <class E>
__global__ void __launch_bounds__(THREADS)
    pick_experts(dt_routes r, float *probs, int32_t *experts, float *weights, const E *logits)
{
    int lane = static_cast<int>(threadIdx.x) % DT_WARP;
    int count = static_cast<int>(r.experts), picks = static_cast<int>(r.picks);
    for (size_t n = first_row(); n < r.rows; n += static_cast<size_t>(gridDim.x) * WARPS) {
        float *own = probs + n * r.experts, *weight = weights + n * r.picks, sum = 0;
        float logsum = softmax(own, logits + n * r.experts, count);
        if (r.logsums && lane == 0)
            r.logsums[n] = logsum;
        pick p = {INFINITY, -1};
        for (int j = 0; j < picks; j++) {
            p = next_pick(own, count, p);
            sum += p.prob;
            if (lane == j % DT_WARP) {
                experts[n * r.picks + j] = p.expert;
                weight[j] = p.prob;
            }
        }
        for (int j = lane; r.to_one && j < picks; j += DT_WARP)
            weight[j] /= sum;
    }
}

/* A row on its way back: what it picked, and what the gradients of its weights are. */
struct back {
    const float *probs, *dweights, *dprobs;
    const int32_t *picked;
    int picks;
    float sum, mean; /* of what was picked, by which weights were divided; of w dw */
};

/* The gradient of the probability of expert E. */
__device__ inline float slope_of(const back &b, int e)
{
    float slope = b.dprobs ? b.dprobs[e] : 0;
    for (int j = 0; j < b.picks; j++)
        if (b.picked[j] == e)
            slope += (b.dweights[j] - b.mean) / b.sum;
    return slope;
}

__device__ inline back back_of(const dt_routes &r, size_t n, const float *probs,
                               const int32_t *experts, const float *dweights, const float *dprobs)
{
    int lane = static_cast<int>(threadIdx.x) % DT_WARP;
    back b = {probs + n * r.experts,
              dweights + n * r.picks,
              dprobs,
              experts + n * r.picks,
              static_cast<int>(r.picks),
              1,
              0};
    if (!r.to_one)
        return b;
    float sum = 0, mean = 0;
    for (int j = lane; j < b.picks; j += DT_WARP)
        sum += b.probs[b.picked[j]];
    b.sum = dt_warp_sum(sum);
    for (int j = lane; j < b.picks; j += DT_WARP)
        mean = fmaf(b.probs[b.picked[j]] / b.sum, b.dweights[j], mean);
    b.mean = dt_warp_sum(mean);
    return b;
}

template <class E>
__global__ void __launch_bounds__(THREADS)
    pick_experts_back(dt_routes r, E *dlogits, const float *probs, const int32_t *experts,
                      const float *dweights, const float *dprobs)
{
    int lane = static_cast<int>(threadIdx.x) % DT_WARP, count = static_cast<int>(r.experts);
    for (size_t n = first_row(); n < r.rows; n += static_cast<size_t>(gridDim.x) * WARPS) {
        back b = back_of(r, n, probs, experts, dweights, dprobs);
        float all = 0;
        for (int e = lane; e < count; e += DT_WARP)
            all = fmaf(b.probs[e], slope_of(b, e), all);
        all = dt_warp_sum(all);
        float own = r.logsums ? r.z_slope * r.logsums[n] : 0;
        for (int e = lane; e < count; e += DT_WARP)
            dlogits[n * r.experts + e] =
                dt_from_float<E>(b.probs[e] * (slope_of(b, e) - all + own));
    }
}

/* Rows by their weights, which are those of OF where there is one. */
struct weighed {
    size_t rows, width;
    const float *weights;
    const int32_t *of;
};

__device__ inline size_t weight_of(const weighed &w, size_t row)
{
    return w.of ? static_cast<size_t>(w.of[row]) : row;
}

template <class E> __device__ inline void scale(dt_pack<E> &p, float by)
{
#pragma unroll
    for (int i = 0; i < dt_pack<E>::COUNT; i++)
        p.at[i] = dt_from_float<E>(dt_to_float(p.at[i]) * by);
}

template <class E, bool ALIGNED> __global__ void __launch_bounds__(LANES) weigh(weighed w, E *x)
{
    constexpr int COUNT = dt_pack<E>::COUNT;
    for (size_t n = blockIdx.x; n < w.rows; n += gridDim.x) {
        float by = w.weights[weight_of(w, n)];
        E *row = x + n * w.width;
        for (size_t c = threadIdx.x * COUNT; c < w.width; c += LANES * COUNT) {
            dt_pack<E> p = take<E, ALIGNED>(row, w.width, c);
            scale(p, by);
            put<E, ALIGNED>(row, w.width, c, p);
        }
    }
}

template <class E, bool ALIGNED>
__global__ void __launch_bounds__(LANES) weigh_back(weighed w, E *x, E *dout, float *dweights)
{
    constexpr int COUNT = dt_pack<E>::COUNT;
    for (size_t n = blockIdx.x; n < w.rows; n += gridDim.x) {
        size_t of = weight_of(w, n);
        float by = w.weights[of], sum = 0;
        E *row = x + n * w.width, *drow = dout + n * w.width;
        for (size_t c = threadIdx.x * COUNT; c < w.width; c += LANES * COUNT) {
            dt_pack<E> p = take<E, ALIGNED>(row, w.width, c);
            dt_pack<E> d = take<E, ALIGNED>(drow, w.width, c);
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                sum = fmaf(dt_to_float(p.at[i]), dt_to_float(d.at[i]), sum);
            scale(p, by);
            scale(d, by);
            put<E, ALIGNED>(row, w.width, c, p);
            put<E, ALIGNED>(drow, w.width, c, d);
        }
        sum = dt_block_sum<LANES>(sum);
        if (threadIdx.x == 0)
            dweights[of] = sum;
    }
}

template <class E>
__global__ void __launch_bounds__(THREADS) sigmoids(size_t n, float *out, const E *x)
{
    size_t at = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x;
    for (; at < n; at += static_cast<size_t>(gridDim.x) * THREADS)
        out[at] = 1 / (1 + expf(-dt_to_float(x[at])));
}

template <class E>
__global__ void __launch_bounds__(THREADS)
    sigmoids_back(size_t n, E *dx, const float *out, const float *dout)
{
    size_t at = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x;
    for (; at < n; at += static_cast<size_t>(gridDim.x) * THREADS)
        dx[at] = dt_from_float<E>(dout[at] * out[at] * (1 - out[at]));
}

} // namespace

cudaError_t dt_cuda_route(enum dt_dtype elem, const struct dt_routes *r, float *probs,
                          int32_t *experts, float *weights, const void *logits, struct dt_stream *s)
{
    if (r->rows == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        return dt_launch(pick_experts<E>, dim3(dt_blocks(r->rows, WARPS)), dim3(THREADS), 0,
                         s->compute, *r, probs, experts, weights, static_cast<const E *>(logits));
    });
}

cudaError_t dt_cuda_route_backward(enum dt_dtype elem, const struct dt_routes *r, void *dlogits,
                                   const float *probs, const int32_t *experts,
                                   const float *dweights, const float *dprobs, struct dt_stream *s)
{
    if (r->rows == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        return dt_launch(pick_experts_back<E>, dim3(dt_blocks(r->rows, WARPS)), dim3(THREADS), 0,
                         s->compute, *r, static_cast<E *>(dlogits), probs, experts, dweights,
                         dprobs);
    });
}

cudaError_t dt_cuda_weigh_forward(enum dt_dtype elem, size_t rows, size_t width, void *x,
                                  const float *weights, const int32_t *of, struct dt_stream *s)
{
    if (rows == 0 || width == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        auto kernel = can_pack<E>(width, x) ? weigh<E, true> : weigh<E, false>;
        return dt_launch(kernel, dim3(dt_blocks(rows, 1)), dim3(LANES), 0, s->compute,
                         weighed{rows, width, weights, of}, static_cast<E *>(x));
    });
}

cudaError_t dt_cuda_weigh_backward(enum dt_dtype elem, size_t rows, size_t width, void *x,
                                   void *dout, float *dweights, const float *weights,
                                   const int32_t *of, struct dt_stream *s)
{
    if (rows == 0 || width == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        auto kernel = can_pack<E>(width, x, dout) ? weigh_back<E, true> : weigh_back<E, false>;
        return dt_launch(kernel, dim3(dt_blocks(rows, 1)), dim3(LANES), 0, s->compute,
                         weighed{rows, width, weights, of}, static_cast<E *>(x),
                         static_cast<E *>(dout), dweights);
    });
}

cudaError_t dt_cuda_sigmoid_forward(enum dt_dtype elem, size_t n, float *out, const void *x,
                                    struct dt_stream *s)
{
    if (n == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        return dt_launch(sigmoids<E>, dim3(dt_blocks(n, THREADS)), dim3(THREADS), 0, s->compute, n,
                         out, static_cast<const E *>(x));
    });
}

cudaError_t dt_cuda_sigmoid_backward(enum dt_dtype elem, size_t n, void *dx, const float *out,
                                     const float *dout, struct dt_stream *s)
{
    if (n == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        return dt_launch(sigmoids_back<E>, dim3(dt_blocks(n, THREADS)), dim3(THREADS), 0,
                         s->compute, n, static_cast<E *>(dx), out, dout);
    });
}
