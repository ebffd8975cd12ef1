/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of squares of many parts, each in double: pieces of fixed size to scratch, one a block,
 * then all pieces of a part in one block. Which thread adds which elements, and in which order,
 * follows from a part's count alone; whether they are loaded 16 bytes at a time makes no
 * difference, nor what stands beside it in the launch. The host waits once for all parts. */
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/parts.cuh"

#include <string.h>

namespace
{

/* What MOST parts take goes with the launch, within the 4 KiB that every driver takes. */
enum { THREADS = 256, PIECE = 1 << 14, LANES = 4, MOST = 128 };

template <class E> struct part {
    size_t n;
    const E *x;
    unsigned first; /* piece, of the launch */
    bool aligned;   /* for LANES at a time */
};

template <class E> struct table {
    unsigned parts, pieces;
    part<E> part_of[MOST];
};

template <class E> struct alignas(sizeof(E) * LANES) lanes {
    E at[LANES];
};

/* Thread 0 gets the sum. THREADS is a power of two. */
__device__ inline double join(double x)
{
    DT_SHARED(double, sums, [THREADS]);
    sums[threadIdx.x] = x;
    for (unsigned first = THREADS / 2; first > 0; first /= 2) {
        __syncthreads();
        if (threadIdx.x < first)
            sums[threadIdx.x] += sums[threadIdx.x + first];
    }
    return sums[0];
}

template <class E>
__global__ void __launch_bounds__(THREADS)
    sum_piece(const __grid_constant__ table<E> t, double *sums)
{
    const part<E> &p = t.part_of[dt_part_of_block(t)];
    size_t from = static_cast<size_t>(blockIdx.x - p.first) * PIECE;
    size_t to = p.n - from < PIECE ? p.n : from + PIECE;
    double sum[LANES] = {};
#pragma unroll 4
    for (size_t i = from + threadIdx.x * LANES; i < to; i += THREADS * LANES) {
        float v[LANES] = {};
        if (p.aligned && i + LANES <= to) {
            lanes<E> four = *reinterpret_cast<const lanes<E> *>(p.x + i);
#pragma unroll
            for (int lane = 0; lane < LANES; lane++)
                v[lane] = dt_to_float(four.at[lane]);
        } else {
            for (size_t lane = 0; lane < LANES && i + lane < to; lane++)
                v[lane] = dt_to_float(p.x[i + lane]);
        }
#pragma unroll
        for (int lane = 0; lane < LANES; lane++)
            sum[lane] += static_cast<double>(v[lane]) * static_cast<double>(v[lane]);
    }
    double all = join((sum[0] + sum[1]) + (sum[2] + sum[3]));
    if (threadIdx.x == 0)
        sums[blockIdx.x] = all;
}

/* A block for each part of the launch. */
template <class E>
__global__ void __launch_bounds__(THREADS)
    sum_pieces(const __grid_constant__ table<E> t, const double *sums, double *out)
{
    unsigned first = t.part_of[blockIdx.x].first;
    unsigned end = blockIdx.x + 1 < t.parts ? t.part_of[blockIdx.x + 1].first : t.pieces;
    double sum = 0;
    for (unsigned i = first + threadIdx.x; i < end; i += THREADS)
        sum += sums[i];
    sum = join(sum);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}

/* As many of the parts as go into one launch, with no more than MOST_PIECES. */
template <class E>
table<E> table_of(size_t parts, const struct dt_squares_part *p, size_t most_pieces)
{
    table<E> t = {};
    for (; t.parts < parts && t.parts < MOST; t.parts++) {
        size_t pieces = dt_divide_up(p[t.parts].count, PIECE);
        if (pieces > most_pieces - t.pieces)
            break;
        const E *x = static_cast<const E *>(p[t.parts].x);
        t.part_of[t.parts] = {p[t.parts].count, x, t.pieces,
                              reinterpret_cast<uintptr_t>(x) % sizeof(lanes<E>) == 0};
        t.pieces += static_cast<unsigned>(pieces);
    }
    return t;
}

/* Scratch is the results, and behind them the pieces' sums of one launch. */
template <class E>
cudaError_t start(size_t parts, const struct dt_squares_part *p, struct dt_stream *s)
{
    static_assert(sizeof(table<E>) + 2 * sizeof(double *) <= 4096, "what a launch takes along");
    double *results = static_cast<double *>(s->scratch), *sums = results + DT_PARTS_MOST;
    size_t most = s->scratch_bytes / sizeof *sums - DT_PARTS_MOST;
    for (size_t done = 0; done < parts;) {
        table<E> t = table_of<E>(parts - done, p + done, most);
        if (t.parts == 0)
            return cudaErrorInvalidValue; /* more than any device holds */
        cudaError_t e = cudaSuccess;
        if (t.pieces > 0)
            e = dt_launch(sum_piece<E>, dim3(t.pieces), dim3(THREADS), 0, s->compute, t, sums);
        if (e == cudaSuccess)
            e = dt_launch(sum_pieces<E>, dim3(t.parts), dim3(THREADS), 0, s->compute, t, sums,
                          results + done);
        if (e != cudaSuccess)
            return e;
        done += t.parts;
    }
    return cudaSuccess;
}

} // namespace

cudaError_t dt_cuda_sum_squares(enum dt_dtype elem, size_t parts, double *sums,
                                const struct dt_squares_part *part, struct dt_stream *s)
{
    size_t bytes = parts * sizeof *sums;
    if (parts == 0)
        return cudaSuccess;
    if (parts > DT_PARTS_MOST)
        return cudaErrorInvalidValue;
    cudaError_t e =
        dt_with_elem(elem, [=](auto one) { return start<decltype(one)>(parts, part, s); });
    if (e == cudaSuccess)
        e = cudaMemcpyAsync(s->host, s->scratch, bytes, cudaMemcpyDeviceToHost, s->compute);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(s->compute);
    if (e == cudaSuccess)
        memcpy(sums, s->host, bytes);
    return e;
}
