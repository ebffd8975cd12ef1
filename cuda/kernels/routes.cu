/* SPDX-License-Identifier: Apache-2.0 */
/* The way of rows to their experts and back. Picks are put in the order of experts, and for one
 * expert in their own, in three steps as sort.cuh has them: each part of the picks counts those of
 * each expert, the counts are added up so that they become places, and the picks go there. One
 * thread stands for one expert and walks through a part from its first pick to the last, so no two
 * take the same place and the order is the same each time.
 *
 * Then out[picks, C] = x[N, C], a warp a pick, and out[N, C] = the sum of x over the row's picks,
 * first to last, in float and rounded once, a warp a row. */
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/row.cuh"
#include "cuda/kernels/sort.cuh"

namespace
{

enum { WARPS = 8, THREADS = WARPS * DT_WARP };
constexpr size_t EXPERTS_MOST = 1024, PARTS_MOST = 1024; /* the threads of a block; their places */

/* Picks in parts of so many, which are whole tiles. */
struct parts {
    size_t picks, each, count, experts;
    const int32_t *of; /* [picks]: whose */
};

/* Calls F(the pick's number) for this thread's expert, in order. */
template <class F> __device__ inline void walk(const parts &p, F f)
{
    DT_SHARED(int32_t, tile, [TILE]);
    size_t from = blockIdx.x * p.each, end = from + p.each < p.picks ? from + p.each : p.picks;
    for (; from < end; from += TILE) {
        int here = end - from < TILE ? static_cast<int>(end - from) : TILE;
        __syncthreads(); /* the tile before has been read */
        for (int i = static_cast<int>(threadIdx.x); i < here; i += static_cast<int>(blockDim.x))
            tile[i] = p.of[from + i];
        __syncthreads();
        for (int i = 0; i < here; i++)
            if (tile[i] == static_cast<int32_t>(threadIdx.x))
                f(from + i);
    }
}

/* places[expert][part]: at first counts. */
__global__ void __launch_bounds__(EXPERTS_MOST) count_picks(parts p, uint32_t *places)
{
    uint32_t count = 0;
    walk(p, [&](size_t) { count++; });
    if (threadIdx.x < p.experts)
        places[threadIdx.x * p.count + blockIdx.x] = count;
}

__global__ void __launch_bounds__(EXPERTS_MOST)
    place_picks(parts p, const uint32_t *places, dt_route_order to)
{
    bool is_expert = threadIdx.x < p.experts;
    uint32_t place = is_expert ? places[threadIdx.x * p.count + blockIdx.x] : 0;
    if (blockIdx.x == 0 && is_expert)
        to.first[threadIdx.x] = static_cast<int32_t>(place);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        to.first[p.experts] = static_cast<int32_t>(p.picks);
    walk(p, [&](size_t i) {
        to.picks[place] = static_cast<int32_t>(i);
        to.places[i] = static_cast<int32_t>(place++);
    });
}

__device__ inline size_t first_of_warp()
{
    return static_cast<size_t>(blockIdx.x) * WARPS + threadIdx.x / DT_WARP;
}

__device__ inline size_t first_column(int count)
{
    return threadIdx.x % DT_WARP * count;
}

template <class E, bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    spread(dt_routes r, const int32_t *picks, size_t width, E *out, const E *x)
{
    constexpr int COUNT = dt_pack<E>::COUNT;
    size_t all = r.rows * r.picks, warps = static_cast<size_t>(gridDim.x) * WARPS;
    for (size_t i = first_of_warp(); i < all; i += warps) {
        const E *row = x + static_cast<size_t>(picks[i]) / r.picks * width;
        for (size_t c = first_column(COUNT); c < width; c += DT_WARP * COUNT)
            put<E, ALIGNED>(out + i * width, width, c, take<E, ALIGNED>(row, width, c));
    }
}

template <class E>
__device__ inline void add_to(float (&sum)[dt_pack<E>::COUNT], const dt_pack<E> &p)
{
#pragma unroll
    for (int i = 0; i < dt_pack<E>::COUNT; i++)
        sum[i] += dt_to_float(p.at[i]);
}

template <class E, bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    collect(dt_routes r, const int32_t *places, size_t width, E *out, bool add, const E *x)
{
    constexpr int COUNT = dt_pack<E>::COUNT;
    size_t warps = static_cast<size_t>(gridDim.x) * WARPS;
    for (size_t n = first_of_warp(); n < r.rows; n += warps) {
        E *to = out + n * width;
        for (size_t c = first_column(COUNT); c < width; c += DT_WARP * COUNT) {
            float sum[COUNT] = {};
            if (add)
                add_to(sum, take<E, ALIGNED>(to, width, c));
            for (size_t j = 0; j < r.picks; j++) {
                size_t place = static_cast<size_t>(places[n * r.picks + j]);
                add_to(sum, take<E, ALIGNED>(x + place * width, width, c));
            }
            dt_pack<E> p;
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                p.at[i] = dt_from_float<E>(sum[i]);
            put<E, ALIGNED>(to, width, c, p);
        }
    }
}

} // namespace

cudaError_t dt_cuda_route_sort(const struct dt_routes *r, const struct dt_route_order *to,
                               const int32_t *experts, struct dt_stream *s)
{
    parts p = {r->rows * r->picks, 0, 0, r->experts, experts};
    uint32_t *places = static_cast<uint32_t *>(s->scratch);
    static_assert(EXPERTS_MOST * PARTS_MOST * sizeof *places <= DT_CUDA_SCRATCH, "room for all");
    if (p.picks == 0)
        return cudaMemsetAsync(to->first, 0, (r->experts + 1) * sizeof *to->first, s->compute);
    if (r->experts > EXPERTS_MOST)
        return cudaErrorInvalidValue;
    size_t tiles = dt_divide_up(p.picks, TILE);
    p.each = dt_divide_up(tiles, PARTS_MOST) * TILE;
    p.count = dt_divide_up(p.picks, p.each);
    dim3 grid(static_cast<unsigned>(p.count));
    dim3 block(static_cast<unsigned>(dt_divide_up(r->experts, DT_WARP) * DT_WARP));
    cudaError_t e = dt_launch(count_picks, grid, block, 0, s->compute, p, places);
    if (e == cudaSuccess)
        e = dt_launch(add_up, dim3(1), dim3(SCANNERS), 0, s->compute, p.count * p.experts, places);
    if (e == cudaSuccess)
        e = dt_launch(place_picks, grid, block, 0, s->compute, p, places, *to);
    return e;
}

cudaError_t dt_cuda_route_spread(enum dt_dtype elem, const struct dt_routes *r,
                                 const struct dt_route_order *o, size_t width, void *out,
                                 const void *x, struct dt_stream *s)
{
    size_t all = r->rows * r->picks;
    if (all == 0 || width == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        auto kernel = can_pack<E>(width, out, x) ? spread<E, true> : spread<E, false>;
        return dt_launch(kernel, dim3(dt_blocks(all, WARPS)), dim3(THREADS), 0, s->compute, *r,
                         o->picks, width, static_cast<E *>(out), static_cast<const E *>(x));
    });
}

cudaError_t dt_cuda_route_collect(enum dt_dtype elem, const struct dt_routes *r,
                                  const struct dt_route_order *o, size_t width, void *out, bool add,
                                  const void *x, struct dt_stream *s)
{
    if (r->rows == 0 || width == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        auto kernel = can_pack<E>(width, out, x) ? collect<E, true> : collect<E, false>;
        return dt_launch(kernel, dim3(dt_blocks(r->rows, WARPS)), dim3(THREADS), 0, s->compute, *r,
                         o->places, width, static_cast<E *>(out), add, static_cast<const E *>(x));
    });
}
