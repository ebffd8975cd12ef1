/* SPDX-License-Identifier: Apache-2.0 */
/* Words to rows and back. out[N,C] = token[id(n), C] + position[place(n), C]: a warp a row. A word
 * that is negative is none: sorted as the last one of all, and added to nothing.
 *
 * Backward, where many rows may add to one word, rows are sorted by word (sort.cuh) and the sorted
 * ones cut in segments of fixed length. A block takes some columns of a segment and adds up run by
 * run. What is all of a word's rows goes straight to its gradient; what has more of them before or
 * after the segment goes to scratch, and is joined by the block of the segment where the word
 * begins. So the order of additions follows from the ids alone, and a word that is everywhere is
 * shared among blocks. In float and where the order does not matter, atomic additions do it all.
 * dposition[T,C] adds up the rows of a position in their order; where rows have places of their
 * own, these are words, and their sums are made alike. */
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/sort.cuh"

#include <type_traits>

namespace
{

enum { THREADS = 256, COLUMNS = 128 /* threads of a block that adds up rows */ };
enum { AHEAD = 4 };                   /* rows that are loaded before they are needed */
constexpr size_t SEGMENT = 32;        /* rows; more where partial sums take too much scratch */
constexpr size_t CHUNK = 1 << 20;     /* rows that are sorted together, with 10 MiB of scratch */
constexpr size_t PARTIALS = 48 << 20; /* bytes of scratch for partial sums */

/* COUNT elements of an array, one or a pack. */
template <class E, int COUNT> __device__ inline void load(const E *from, float (&x)[COUNT])
{
    if constexpr (COUNT == 1)
        x[0] = dt_to_float(*from);
    else
        dt_load16(from, x);
}

template <class E, int COUNT> __device__ inline void store(E *to, const float (&x)[COUNT])
{
    if constexpr (COUNT == 1)
        *to = dt_from_float<E>(x[0]);
    else
        dt_store16(to, x);
}

template <class E, int COUNT> __device__ inline void add_to(E *to, const float (&x)[COUNT])
{
    float sum[COUNT];
    load<E, COUNT>(to, sum);
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        sum[i] += x[i];
    store<E, COUNT>(to, sum);
}

template <class E, int COUNT>
__global__ void __launch_bounds__(THREADS)
    embed(dt_embedding e, E *out, const E *token, const E *position)
{
    size_t lane = threadIdx.x % DT_WARP, warps = THREADS / DT_WARP;
    size_t row = blockIdx.x * warps + threadIdx.x / DT_WARP;
    for (; row < e.rows; row += gridDim.x * warps) {
        int32_t id = e.ids[row];
        const E *word = id < 0 ? nullptr : token + static_cast<size_t>(id) * e.width;
        size_t at = e.places ? static_cast<size_t>(e.places[row]) : row % e.positions;
        const E *place = position ? position + at * e.width : nullptr;
        for (size_t c = lane * COUNT; c < e.width; c += DT_WARP * COUNT) {
            float x[COUNT] = {}, y[COUNT] = {};
            if (word)
                load<E, COUNT>(word + c, x);
            if (place)
                load<E, COUNT>(place + c, y);
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                x[i] += y[i];
            store<E, COUNT>(out + row * e.width + c, x);
        }
    }
}

/* A thread has COUNT columns of one position. */
template <class E, int COUNT>
__global__ void __launch_bounds__(COLUMNS)
    add_positions(dt_embedding e, E *dposition, const E *dout)
{
    size_t packs = e.width / COUNT, all = (e.rows < e.positions ? e.rows : e.positions) * packs;
    size_t at = static_cast<size_t>(blockIdx.x) * COLUMNS + threadIdx.x;
    for (; at < all; at += static_cast<size_t>(gridDim.x) * COLUMNS) {
        size_t first = at / packs, c = at % packs * COUNT;
        float sum[COUNT] = {};
#pragma unroll AHEAD
        for (size_t row = first; row < e.rows; row += e.positions) {
            float x[COUNT];
            load<E, COUNT>(dout + row * e.width + c, x);
            for (int i = 0; i < COUNT; i++)
                sum[i] += x[i];
        }
        add_to<E, COUNT>(dposition + first * e.width + c, sum);
    }
}

__global__ void __launch_bounds__(THREADS)
    add_any_order(dt_embedding e, float *dtoken, const float *dout)
{
    size_t lane = threadIdx.x % DT_WARP, warps = THREADS / DT_WARP;
    size_t row = blockIdx.x * warps + threadIdx.x / DT_WARP;
    for (; row < e.rows; row += gridDim.x * warps) {
        if (e.ids[row] < 0)
            continue;
        float *word = dtoken + static_cast<size_t>(e.ids[row]) * e.width;
        for (size_t c = lane; c < e.width; c += DT_WARP)
            atomicAdd(word + c, dout[row * e.width + c]);
    }
}

/* Sorted rows in segments. Partial sums are [segments][2][width]: of the word that came in from the
 * segment before, and of another one that goes on in the next. */
struct segments {
    size_t rows, width, length, count;
    const int32_t *ids;
    const uint32_t *order;
    float *partials;
};

__device__ inline int32_t word_at(const segments &g, size_t at)
{
    return g.ids[g.order[at]];
}

/* Whether the word of the sorted row before AT is that of AT. */
__device__ inline bool goes_on(const segments &g, size_t at)
{
    return at > 0 && at < g.rows && word_at(g, at - 1) == word_at(g, at);
}

template <class E, int COUNT>
__global__ void __launch_bounds__(COLUMNS) add_runs(segments g, E *dtoken, const E *dout)
{
    size_t c = (static_cast<size_t>(blockIdx.y) * COLUMNS + threadIdx.x) * COUNT;
    if (c >= g.width)
        return;
    size_t from = blockIdx.x * g.length;
    size_t to = g.rows - from < g.length ? g.rows : from + g.length;
    bool came_in = goes_on(g, from), goes_out = goes_on(g, to);
    float sum[COUNT] = {}, ahead[AHEAD][COUNT];
    for (size_t at = from; at < to; at += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (at + i < to)
                load<E, COUNT>(dout + g.order[at + i] * g.width + c, ahead[i]);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (at + i >= to)
                break;
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                sum[e] += ahead[i][e];
            bool last = at + i + 1 == to;
            if (!last && goes_on(g, at + i + 1))
                continue;
            if (came_in || (last && goes_out)) {
                float *partial = g.partials + (blockIdx.x * 2 + !came_in) * g.width + c;
                for (int e = 0; e < COUNT; e++)
                    partial[e] = sum[e];
            } else if (word_at(g, at + i) >= 0) {
                add_to<E, COUNT>(dtoken + word_at(g, at + i) * g.width + c, sum);
            }
            came_in = false;
            for (int e = 0; e < COUNT; e++)
                sum[e] = 0;
        }
    }
}

/* The last segment that begins with WORD, as segment FIRST does. */
__device__ inline size_t last_with(const segments &g, size_t first, int32_t word)
{
    size_t behind = g.count;
    while (behind - first > 1) {
        size_t middle = first + (behind - first) / 2;
        if (word_at(g, middle * g.length) == word)
            first = middle;
        else
            behind = middle;
    }
    return first;
}

/* The word that begins in this segment and goes on: its partial sums, in order. */
template <class E> __global__ void __launch_bounds__(COLUMNS) join_runs(segments g, E *dtoken)
{
    size_t c = static_cast<size_t>(blockIdx.y) * COLUMNS + threadIdx.x, first = blockIdx.x;
    size_t from = first * g.length, to = from + g.length;
    if (c >= g.width || !goes_on(g, to))
        return;
    int32_t word = word_at(g, to);
    if (word < 0 || (goes_on(g, from) && word_at(g, from) == word))
        return; /* none at all, or it only passes through */
    size_t last = last_with(g, first + 1, word);
    float sum = g.partials[(first * 2 + 1) * g.width + c];
#pragma unroll 8
    for (size_t segment = first + 1; segment <= last; segment++)
        sum += g.partials[segment * 2 * g.width + c];
    E *at = dtoken + word * g.width + c;
    *at = dt_from_float<E>(dt_to_float(*at) + sum);
}

template <class E> bool in_packs(const struct dt_embedding *e, bool aligned)
{
    return aligned && e->width % dt_pack<E>::COUNT == 0;
}

/* Kernels count positions from the first one's row of the table on. */
template <class E, class T> E *first_position(const struct dt_embedding *e, T *table)
{
    return table ? static_cast<E *>(table) + e->first * e->width : nullptr;
}

/* Rows that are at most CHUNK. */
template <class E>
cudaError_t add_words(const struct dt_embedding *e, E *dtoken, const E *dout, struct dt_stream *s)
{
    constexpr int COUNT = dt_pack<E>::COUNT;
    segments g = {e->rows, e->width, SEGMENT, 0, e->ids, nullptr, nullptr};
    size_t row_bytes = 2 * e->width * sizeof(float);
    while (g.length < e->rows && dt_divide_up(e->rows, g.length) > PARTIALS / row_bytes)
        g.length *= 2;
    g.count = dt_divide_up(e->rows, g.length);
    size_t partial_bytes = dt_divide_up(g.count * row_bytes, 16) * 16;
    if (partial_bytes + sort_bytes(e->rows) > s->scratch_bytes)
        return cudaErrorInvalidValue; /* rows of millions of columns */
    g.partials = static_cast<float *>(s->scratch);
    uint32_t *rest =
        reinterpret_cast<uint32_t *>(static_cast<unsigned char *>(s->scratch) + partial_bytes);
    cudaError_t err = sort_rows(e->rows, e->ids, e->vocabulary + 1, rest, &g.order, s->compute);
    if (err != cudaSuccess)
        return err;
    bool packs = in_packs<E>(e, dt_aligned16(dtoken, dout));
    unsigned across = dt_blocks(e->width, COLUMNS * (packs ? COUNT : 1));
    err = dt_launch(packs ? add_runs<E, COUNT> : add_runs<E, 1>,
                    dim3(static_cast<unsigned>(g.count), across), dim3(COLUMNS), 0, s->compute, g,
                    dtoken, dout);
    if (err != cudaSuccess)
        return err;
    return dt_launch(join_runs<E>,
                     dim3(static_cast<unsigned>(g.count), dt_blocks(e->width, COLUMNS)),
                     dim3(COLUMNS), 0, s->compute, g, dtoken);
}

template <class E>
cudaError_t add_positions_of(const struct dt_embedding *e, E *dposition, const E *dout,
                             cudaStream_t s)
{
    constexpr int COUNT = dt_pack<E>::COUNT;
    bool packs = in_packs<E>(e, dt_aligned16(dposition, dout));
    size_t positions = e->rows < e->positions ? e->rows : e->positions;
    size_t all = positions * (e->width / (packs ? COUNT : 1));
    return dt_launch(packs ? add_positions<E, COUNT> : add_positions<E, 1>,
                     dim3(dt_blocks(all, COLUMNS)), dim3(COLUMNS), 0, s, *e, dposition, dout);
}

template <class E>
cudaError_t add_chunks(const struct dt_embedding *e, E *dtoken, const E *dout, struct dt_stream *s)
{
    cudaError_t err = cudaSuccess;
    for (size_t first = 0; first < e->rows && err == cudaSuccess; first += CHUNK) {
        struct dt_embedding chunk = *e;
        chunk.rows = e->rows - first < CHUNK ? e->rows - first : CHUNK;
        chunk.ids = e->ids + first;
        err = add_words<E>(&chunk, dtoken, dout + first * e->width, s);
    }
    return err;
}

template <class E>
cudaError_t add_places(const struct dt_embedding *e, E *dposition, const E *dout,
                       struct dt_stream *s)
{
    struct dt_embedding places = *e;
    places.ids = e->places;
    places.vocabulary = e->positions;
    return add_chunks<E>(&places, dposition, dout, s);
}

template <class E>
cudaError_t backward(const struct dt_embedding *e, E *dtoken, E *dposition, const E *dout,
                     struct dt_stream *s)
{
    cudaError_t err = cudaSuccess;
    if (dposition && e->places)
        err = add_places<E>(e, dposition, dout, s);
    else if (dposition)
        err = add_positions_of<E>(e, dposition, dout, s->compute);
    if (std::is_same<E, float>::value && s->fast && err == cudaSuccess)
        return dt_launch(add_any_order, dim3(dt_blocks(e->rows, THREADS / DT_WARP)), dim3(THREADS),
                         0, s->compute, *e, reinterpret_cast<float *>(dtoken),
                         reinterpret_cast<const float *>(dout));
    return err == cudaSuccess ? add_chunks<E>(e, dtoken, dout, s) : err;
}

} // namespace

cudaError_t dt_cuda_embedding_forward(enum dt_dtype elem, const struct dt_embedding *e, void *out,
                                      const void *token, const void *position, struct dt_stream *s)
{
    if (e->rows == 0 || e->width == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        constexpr int COUNT = dt_pack<E>::COUNT;
        const E *place = first_position<const E>(e, position);
        bool packs = in_packs<E>(e, dt_aligned16(out, token, place));
        return dt_launch(packs ? embed<E, COUNT> : embed<E, 1>,
                         dim3(dt_blocks(e->rows, THREADS / DT_WARP)), dim3(THREADS), 0, s->compute,
                         *e, static_cast<E *>(out), static_cast<const E *>(token), place);
    });
}

cudaError_t dt_cuda_embedding_backward(enum dt_dtype elem, const struct dt_embedding *e,
                                       void *dtoken, void *dposition, const void *dout,
                                       struct dt_stream *s)
{
    if (e->rows == 0 || e->width == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        return backward<E>(e, static_cast<E *>(dtoken), first_position<E>(e, dposition),
                           static_cast<const E *>(dout), s);
    });
}
