/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of attention share: which part of the work a block takes, and the arithmetic of
 * the plain ones, in float and for any head_dim.
 *
 * Every kernel has some rows of its own (queries, or keys on the way back to them), keeps them in
 * shared memory, and lets the other side's rows stream by in tiles; what exists of the T x T matrix
 * is one tile of it, in registers. A "head" is a query head, counted in its sequence; its key/value
 * head is then head / group.
 *
 * A grid has a launch's heads across, its sequences down, and tiles in the third place: so nobody
 * has to divide to know what is his, and blocks begin tile by tile, the same tile of all heads one
 * behind the other.
 *
 * Queries may be a part of a sequence: rows of queries and keys alike are counted by their
 * positions in it, whatever stands first in memory.
 *
 * Scores are kept as powers of 2: exp(x) = exp2(x * log2(e)), and the factor joins the scale. */
#ifndef DT_CUDA_ATTENTION_CUH
#define DT_CUDA_ATTENTION_CUH

#include "cuda/kernels/approximate.cuh"
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/kernels.h"

#include <type_traits>

/* Rows that partial results are padded to: a multiple of every kernel's tile. */
enum { DT_ATTENTION_PAD = 128 };

/* What the way back wants to know of a query: beyond the last position, what makes all weights 0.
 */
struct alignas(8) dt_attention_row {
    float logsum;  /* times log2(e) */
    float average; /* of dp under p: dout . out */
};

struct dt_attention_task {
    struct dt_attention a;
    int first_query, positions; /* of the first query, and behind the last one */
    int keys, head_dim;
    int group;  /* query heads of a key/value head */
    int window; /* 0: none */
    int pitch;  /* of the plain kernels' tiles in shared memory: odd, against bank conflicts */
    /* Of this launch: sequences, and of each so many query heads, from the first ones on. Whole
     * groups on the way back; and all heads where there is more than one sequence. */
    size_t first_sequence, sequences;
    int first_head, heads;
    float scale, factor; /* of products of queries and keys; times log2(e) */
    float cap;           /* of these products, before they are scaled; 0: none */
    /* On the way back: [sequences][heads][padded], of this launch's. */
    struct dt_attention_row *rows;
    size_t padded;
    /* And query heads, one behind the other, for which a block finds dk and dv. Less than a group:
     * these are parts then, in floats, [sequences][heads / together][dk,
     * dv][padded_keys][head_dim]. */
    int together;
    float *parts;
    size_t padded_keys;
};

/* What a grid has down and in the third place, and so the most sequences of one launch, and tiles
 * of a sequence; key/value heads take two each there (attention_backward_mma.cuh). */
enum { DT_ATTENTION_DOWN = 65535, DT_ATTENTION_HEADS = DT_ATTENTION_DOWN / 2 };

/* Of the host. Kernels count positions in int. */
inline cudaError_t dt_attention_begin(struct dt_attention_task *t, const struct dt_attention *a)
{
    size_t end = a->first + a->queries;
    if (end > a->keys || a->keys > (1u << 30) || a->head_dim > DT_GPU_HEAD_DIM_MOST ||
        a->heads > DT_ATTENTION_HEADS || a->heads % a->kv_heads != 0)
        return cudaErrorInvalidValue;
    *t = {};
    t->a = *a;
    t->first_query = static_cast<int>(a->first);
    t->positions = static_cast<int>(end);
    t->keys = static_cast<int>(a->keys);
    t->window = a->window < end ? static_cast<int>(a->window) : 0;
    t->head_dim = static_cast<int>(a->head_dim);
    t->pitch = t->head_dim | 1;
    t->group = static_cast<int>(a->heads / a->kv_heads);
    t->heads = static_cast<int>(a->heads);
    t->scale =
        a->scale > 0 ? a->scale : static_cast<float>(1 / sqrt(static_cast<double>(a->head_dim)));
    t->factor = t->scale * DT_LOG2_E;
    t->cap = a->cap / t->scale;
    t->padded = dt_divide_up(a->queries, DT_ATTENTION_PAD) * DT_ATTENTION_PAD;
    t->padded_keys = dt_divide_up(a->keys, DT_ATTENTION_PAD) * DT_ATTENTION_PAD;
    t->together = t->group;
    return cudaSuccess;
}

/* The next launch, of at most MOST heads: the first one where T has just begun. False: there is
 * none. */
inline bool dt_attention_next(struct dt_attention_task *t, size_t most)
{
    constexpr size_t MOST_DOWN = DT_ATTENTION_DOWN;
    size_t all = t->a.heads, down = most / all;
    if (t->sequences > 0)
        t->first_head += t->heads;
    if (static_cast<size_t>(t->first_head) == all) {
        t->first_head = 0;
        t->first_sequence += t->sequences;
    }
    size_t sequences = t->a.batch - t->first_sequence;
    size_t heads = all - static_cast<size_t>(t->first_head);
    down = down < 1 ? 1 : down < MOST_DOWN ? down : MOST_DOWN;
    t->sequences = sequences < down ? sequences : down;
    t->heads = static_cast<int>(heads < most ? heads : most);
    return t->sequences > 0;
}

/* Of a launch's sequences: UNITS across, a head or some of them each, and so many tiles. */
inline cudaError_t dt_attention_grid(dim3 *grid, const struct dt_attention_task &t, int units,
                                     size_t tiles)
{
    if (tiles > DT_ATTENTION_DOWN)
        return cudaErrorInvalidValue;
    *grid = dim3(static_cast<unsigned>(units), static_cast<unsigned>(t.sequences),
                 static_cast<unsigned>(tiles));
    return cudaSuccess;
}

/* Whether 16 bytes at a time can be read at every row and head: what tensor cores are fed by. */
inline bool dt_attention_vectors(const struct dt_attention *a)
{
    return (a->q_stride | a->k_stride | a->v_stride | a->out_stride) % 8 == 0 &&
           dt_aligned16(a->q, a->k, a->v);
}

/* What a block has: of a sequence, a query head, or TOGETHER of them from there on, which are one
 * unit of the launch's. */
struct dt_attention_block {
    size_t sequence, unit;
    int head, tile;

    __device__ explicit dt_attention_block(const struct dt_attention_task &t, int together = 1)
        : sequence(t.first_sequence + blockIdx.y),
          unit(static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x),
          head(t.first_head + static_cast<int>(blockIdx.x) * together),
          tile(static_cast<int>(blockIdx.z))
    {
    }
};

/* Where position 0 of a query head is in an array whose rows are those of queries, or would be: the
 * first one there is may be further on. */
template <class E>
__device__ inline E *dt_attention_head(E *x, const struct dt_attention_task &t, size_t stride,
                                       size_t sequence, int head)
{
    ptrdiff_t row = static_cast<ptrdiff_t>(sequence * t.a.queries) - t.first_query;
    return x + row * static_cast<ptrdiff_t>(stride) + head * t.head_dim;
}

/* Position 0 of a key/value head, in an array whose rows are those of keys. */
template <class E>
__device__ inline E *dt_attention_kv_head(E *x, const struct dt_attention_task &t, size_t stride,
                                          size_t sequence, int kv)
{
    return x + sequence * t.a.keys * stride + kv * t.head_dim;
}

template <class E>
__device__ inline const E *dt_attention_q(const struct dt_attention_task &t, size_t sequence,
                                          int head)
{
    return dt_attention_head(static_cast<const E *>(t.a.q), t, t.a.q_stride, sequence, head);
}

template <class E>
__device__ inline const E *dt_attention_k(const struct dt_attention_task &t, size_t sequence,
                                          int kv)
{
    return dt_attention_kv_head(static_cast<const E *>(t.a.k), t, t.a.k_stride, sequence, kv);
}

template <class E>
__device__ inline const E *dt_attention_v(const struct dt_attention_task &t, size_t sequence,
                                          int kv)
{
    return dt_attention_kv_head(static_cast<const E *>(t.a.v), t, t.a.v_stride, sequence, kv);
}

/* Where the logsum of a head's query at position 0 is, or would be. */
__device__ inline float *dt_attention_logsum(const struct dt_attention_task &t, size_t sequence,
                                             int head)
{
    size_t row = (sequence * t.a.heads + static_cast<size_t>(head)) * t.a.queries;
    return t.a.logsum + static_cast<ptrdiff_t>(row) - t.first_query;
}

/* Where the note of the query at position 0 is, or would be, of a launch's head number N. */
__device__ inline struct dt_attention_row *dt_attention_notes(const struct dt_attention_task &t,
                                                              size_t n)
{
    return t.rows + static_cast<ptrdiff_t>(n * t.padded) - t.first_query;
}

/* The first query of tile number TILE of ROWS, from the last one on. */
__device__ inline int dt_attention_tile(const struct dt_attention_task &t, int tile, int rows)
{
    int last = (t.positions - t.first_query - 1) / rows;
    return t.first_query + (last - tile) * rows;
}

/* Where the keys of a sequence's queries begin: see dt_attention_begins(). Kernels that have all
 * registers in use are compiled for sequences without limits, too, as nothing is to be kept of such
 * ones. */
template <bool LIMITED> struct dt_attention_past {
    const int32_t *documents; /* the sequence's */
    int window, last;         /* the last position, which those behind it are taken for */

    __device__ dt_attention_past(const struct dt_attention_task &t, size_t sequence)
        : documents(t.a.documents), window(t.window), last(t.positions - 1)
    {
        if (documents)
            documents += sequence * t.a.keys;
    }

    __device__ int begin(int query) const
    {
        query = query < last ? query : last;
        int document = documents ? documents[query] : 0;
        return window > 0 && query + 1 - window > document ? query + 1 - window : document;
    }

    /* The first query from FIRST on that reads no key up to KEY any more; none behind it does. */
    __device__ int end(int first, int key) const
    {
        int end = last + 1;
        while (first < end) {
            int middle = first + (end - first) / 2;
            if (begin(middle) > key)
                end = middle;
            else
                first = middle + 1;
        }
        return end;
    }
};

template <> struct dt_attention_past<false> {
    int positions;

    __device__ dt_attention_past(const struct dt_attention_task &t, size_t) : positions(t.positions)
    {
    }

    __device__ int begin(int) const
    {
        return 0;
    }

    __device__ int end(int, int) const
    {
        return positions;
    }
};

/* The queries that see some of the keys from KEY up to LAST, and a few before them, as they are
 * counted in steps of STEP from the first of all; one where none sees any, as kernels wait in their
 * first step for what they have begun to load. */
struct dt_attention_span {
    int first, end;

    template <bool LIMITED>
    __device__ dt_attention_span(const struct dt_attention_task &t,
                                 const struct dt_attention_past<LIMITED> &past, int key, int last,
                                 int step)
        : first(t.first_query), end(t.first_query + 1)
    {
        if (key >= t.positions)
            return;
        if (key > first)
            first += (key - first) / step * step;
        int behind = past.end(key > first ? key : first, last);
        end = behind > first ? behind : first + 1;
    }
};

/* Of the host. Calls F with whether there are limits, as a type. */
template <class F> inline cudaError_t dt_attention_with_past(const struct dt_attention_task &t, F f)
{
    if (t.window > 0 || t.a.documents)
        return f(std::true_type());
    return f(std::false_type());
}

/* Plain kernels: 128 threads over 32 rows of their own and a streamed tile of 16 * ACROSS. A thread
 * has four rows and, of the tile, every 16th row from its own on; sixteen threads side by side have
 * whole rows. Tiles are floats in shared memory. */
enum { DT_PLAIN_THREADS = 128, DT_PLAIN_ROWS = 32, DT_PLAIN_DOWN = 4, DT_PLAIN_SIDE = 16 };

struct dt_plain_thread {
    int row, column, lane;
    __device__ dt_plain_thread()
        : row(static_cast<int>(threadIdx.x) / DT_PLAIN_SIDE * DT_PLAIN_DOWN),
          column(static_cast<int>(threadIdx.x) % DT_PLAIN_SIDE),
          lane(static_cast<int>(threadIdx.x) % DT_WARP)
    {
    }
};

/* Rows from FIRST on; zeros beyond the last query's position, as no query sees keys there. */
template <class E>
__device__ inline void dt_plain_load(float *tile, int rows, const E *from, size_t stride, int first,
                                     const struct dt_attention_task &t)
{
    int lane = static_cast<int>(threadIdx.x) % DT_WARP;
    for (int r = static_cast<int>(threadIdx.x) / DT_WARP; r < rows;
         r += DT_PLAIN_THREADS / DT_WARP) {
        const E *row = from + static_cast<size_t>(first + r) * stride;
        for (int d = lane; d < t.head_dim; d += DT_WARP)
            tile[r * t.pitch + d] = first + r < t.positions ? dt_to_float(row[d]) : 0.0f;
    }
}

/* s[i][j] = own row i . streamed row j */
template <int ACROSS>
__device__ inline void dt_plain_dots(float (&s)[DT_PLAIN_DOWN][ACROSS], const float *own,
                                     const float *stream, const struct dt_attention_task &t)
{
    struct dt_plain_thread at;
    own += at.row * t.pitch;
    stream += at.column * t.pitch;
    for (auto &row : s)
        for (float &x : row)
            x = 0;
    for (int d = 0; d < t.head_dim; d++) {
#pragma unroll
        for (int j = 0; j < ACROSS; j++) {
            float y = stream[j * DT_PLAIN_SIDE * t.pitch + d];
#pragma unroll
            for (int i = 0; i < DT_PLAIN_DOWN; i++)
                s[i][j] += own[i * t.pitch + d] * y;
        }
    }
}

/* Where there is a cap, products of queries and keys become capped ones. */
template <int ACROSS>
__device__ inline void dt_plain_cap(float (&s)[DT_PLAIN_DOWN][ACROSS],
                                    const struct dt_attention_task &t)
{
    if (t.cap <= 0)
        return;
    for (auto &row : s)
        for (float &x : row)
            x = t.cap * tanhf(x / t.cap);
}

/* sum[i] += the streamed rows, each weighed by w of own row i: a thread has every 16th column. */
template <int ACROSS, int COLUMNS>
__device__ inline void dt_plain_weigh(float (&sum)[DT_PLAIN_DOWN][COLUMNS],
                                      const float (&w)[DT_PLAIN_DOWN][ACROSS], const float *stream,
                                      const struct dt_attention_task &t)
{
    struct dt_plain_thread at;
#pragma unroll
    for (int j = 0; j < ACROSS; j++) {
        for (int l = 0; l < DT_PLAIN_SIDE; l++, stream += t.pitch) {
            float x[DT_PLAIN_DOWN];
#pragma unroll
            for (int i = 0; i < DT_PLAIN_DOWN; i++)
                x[i] = __shfl_sync(0xffffffffu, w[i][j], (at.lane & DT_PLAIN_SIDE) | l);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                int d = at.column + c * DT_PLAIN_SIDE;
                float y = d < t.head_dim ? stream[d] : 0.0f;
#pragma unroll
                for (int i = 0; i < DT_PLAIN_DOWN; i++)
                    sum[i][c] += x[i] * y;
            }
        }
    }
}

/* Assigns this thread's part of its own rows, from FIRST on, but none from END on. */
template <class E, int COLUMNS>
__device__ inline void dt_plain_store(E *to, size_t stride, int first, int end,
                                      const float (&x)[DT_PLAIN_DOWN][COLUMNS],
                                      const struct dt_attention_task &t)
{
    struct dt_plain_thread at;
#pragma unroll
    for (int i = 0; i < DT_PLAIN_DOWN; i++) {
        int row = first + at.row + i;
        if (row >= end)
            break;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            int d = at.column + c * DT_PLAIN_SIDE;
            if (d < t.head_dim)
                to[static_cast<size_t>(row) * stride + d] = dt_from_float<E>(x[i][c]);
        }
    }
}

/* Of the host. Calls F with the columns of a thread, as the type of a number: those of 64, 128 or
 * 256 in a row. */
template <int N> struct dt_plain_columns {
    static constexpr int COLUMNS = N, ACROSS = N > 8 ? 1 : 2, STREAM = ACROSS * DT_PLAIN_SIDE;
};

template <class F> inline cudaError_t dt_plain_with_columns(size_t head_dim, F f)
{
    if (head_dim <= 64)
        return f(dt_plain_columns<4>());
    if (head_dim <= 128)
        return f(dt_plain_columns<8>());
    return f(dt_plain_columns<16>());
}

#endif
