/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions, in place: rows of heads heads of head_dim numbers each, stride from row to row;
 * pairs (i, i + head_dim/2) are turned by position * speeds[i] and multiplied by the scale.
 *
 * A block takes several rows: first their sines and cosines go to shared memory, each found once,
 * then all heads are turned by them. */
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/kernels.h"

namespace
{

enum { THREADS = 256 };

struct heads {
    size_t rows, positions, first, stride;
    int count, dim, half;
    int together; /* rows of a block at a time */
    const float *speeds;
    float scale;
};

/* turns[row][i % COUNT][i / COUNT] = cosine, sine, for ROWS rows from FIRST on: in this order, what
 * neighbouring threads read is side by side. */
template <int COUNT>
__device__ inline void find_turns(const heads &h, size_t first, int rows, bool backward,
                                  float2 *turns)
{
    for (int at = static_cast<int>(threadIdx.x); at < rows * h.half; at += THREADS) {
        int row = at / h.half, i = at % h.half;
        size_t position = h.first + (first + static_cast<size_t>(row)) % h.positions;
        float angle = static_cast<float>(position) * h.speeds[i], sine = sinf(angle) * h.scale;
        float2 *to = turns + row * h.half + i % COUNT * (h.half / COUNT) + i / COUNT;
        to->x = cosf(angle) * h.scale;
        to->y = backward ? -sine : sine;
    }
}

/* COUNT pairs: a of the first half of a head, b of the second. */
template <class E, int COUNT> __device__ inline void turn(E *a, E *b, const float2 *by, int apart)
{
    float x[COUNT], y[COUNT];
    if constexpr (COUNT == 1) {
        x[0] = dt_to_float(*a);
        y[0] = dt_to_float(*b);
    } else {
        dt_load16(a, x);
        dt_load16(b, y);
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        float was = x[i], cosine = by[i * apart].x, sine = by[i * apart].y;
        x[i] = was * cosine - y[i] * sine;
        y[i] = y[i] * cosine + was * sine;
    }
    if constexpr (COUNT == 1) {
        *a = dt_from_float<E>(x[0]);
        *b = dt_from_float<E>(y[0]);
    } else {
        dt_store16(a, x);
        dt_store16(b, y);
    }
}

template <class E, int COUNT>
__global__ void __launch_bounds__(THREADS) rope(heads h, bool backward, E *x)
{
    DT_SHARED_DYNAMIC(float2, turns);
    int packs = h.half / COUNT, of_row = packs * h.count;
    size_t step = static_cast<size_t>(gridDim.x) * h.together;
    for (size_t first = static_cast<size_t>(blockIdx.x) * h.together; first < h.rows;
         first += step) {
        size_t left = h.rows - first, most = static_cast<size_t>(h.together);
        int rows = static_cast<int>(left < most ? left : most);
        find_turns<COUNT>(h, first, rows, backward, turns);
        __syncthreads();
        for (int at = static_cast<int>(threadIdx.x); at < rows * of_row; at += THREADS) {
            int row = at / of_row, head = at % of_row / packs, pack = at % packs;
            E *a = x + (first + static_cast<size_t>(row)) * h.stride +
                   static_cast<size_t>(head) * h.dim + pack * COUNT;
            turn<E, COUNT>(a, a + h.half, turns + row * h.half + pack, packs);
        }
        __syncthreads();
    }
}

template <class E>
cudaError_t run(const struct dt_rope *r, E *x, bool backward, struct dt_stream *s)
{
    constexpr int COUNT = dt_pack<E>::COUNT;
    heads h = {};
    h.rows = r->rows;
    h.positions = r->positions;
    h.first = r->first;
    h.stride = r->stride;
    h.count = static_cast<int>(r->heads);
    h.dim = static_cast<int>(r->head_dim);
    h.half = h.dim / 2;
    h.speeds = r->speeds;
    h.scale = r->scale;
    h.together = h.half < THREADS ? THREADS / h.half : 1;
    bool aligned = dt_aligned16(x) && r->stride % COUNT == 0 && h.dim % (2 * COUNT) == 0;
    size_t shared = static_cast<size_t>(h.together) * h.half * sizeof(float2);
    return dt_launch(aligned ? rope<E, COUNT> : rope<E, 1>, dim3(dt_blocks(r->rows, h.together)),
                     dim3(THREADS), shared, s->compute, h, backward, x);
}

} // namespace

cudaError_t dt_cuda_rope(enum dt_dtype elem, const struct dt_rope *r, void *x, bool backward,
                         struct dt_stream *s)
{
    enum { DIM = 8192, ROW = 1 << 22 }; /* at most, so that a block can count in ints */
    if (r->rows == 0 || r->heads == 0 || r->head_dim < 2)
        return cudaSuccess;
    if (r->head_dim > DIM || r->heads > ROW / r->head_dim)
        return cudaErrorInvalidValue;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        return run<E>(r, static_cast<E *>(x), backward, s);
    });
}
