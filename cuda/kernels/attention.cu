/* SPDX-License-Identifier: Apache-2.0 */
/* Causal attention, forward, without the T x T matrix: a block has the queries of one tile and one
 * head, and goes over the keys that they read, tile by tile. Of each query it carries the largest
 * score so far, the sum of exp(score - largest), and the values weighed alike; where a tile has a
 * larger score, what was gathered shrinks. At the end: out = gathered / sum, logsum = largest +
 * log(sum).
 *
 * Two ways: tensor cores for bfloat16 with a head_dim of 64 or 128 (attention_forward_mma.cuh),
 * which round the weights to bfloat16 before they meet the values; and plain arithmetic in float
 * for all else, scores with a cap among it, with head_dim up to 256. Late queries have the most
 * keys and start first.
 *
 * Shared memory, KiB: plain 25, 49 or 65 for a head_dim to 64, 128, 256; tensor cores 32 or 64. */
#include "cuda/kernels/attention.cuh"
#include "cuda/kernels/attention_forward_mma.cuh"

/* Over the sixteen threads that have a row. */
__device__ static float largest_of_row(float x)
{
#pragma unroll
    for (int lanes = DT_PLAIN_SIDE / 2; lanes > 0; lanes /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lanes));
    return x;
}

__device__ static float sum_of_row(float x)
{
#pragma unroll
    for (int lanes = DT_PLAIN_SIDE / 2; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

template <int COLUMNS> struct gathered {
    float out[DT_PLAIN_DOWN][COLUMNS];
    float largest[DT_PLAIN_DOWN], sum[DT_PLAIN_DOWN]; /* sum: this thread's part */
};

/* s becomes the weights of a tile whose key 0 is FIRST, and G shrinks where it has to. A row that
 * has seen no key yet gathers nothing. */
template <class N>
__device__ static void soften(struct gathered<N::COLUMNS> *g, float (&s)[DT_PLAIN_DOWN][N::ACROSS],
                              int query, int first, const struct dt_attention_past<true> &past,
                              float factor)
{
    struct dt_plain_thread at;
#pragma unroll
    for (int i = 0; i < DT_PLAIN_DOWN; i++) {
        float before = g->largest[i], largest = before;
        int row = query + at.row + i, begin = past.begin(row);
#pragma unroll
        for (int j = 0; j < N::ACROSS; j++) {
            int key = first + at.column + j * DT_PLAIN_SIDE;
            if (key > row || key < begin)
                s[i][j] = -INFINITY;
            largest = fmaxf(largest, s[i][j] * factor);
        }
        g->largest[i] = largest = largest_of_row(largest);
        if (largest == -INFINITY)
            largest = 0;
        float shrink = exp2f(before - largest);
        g->sum[i] *= shrink;
#pragma unroll
        for (int j = 0; j < N::ACROSS; j++)
            g->sum[i] += s[i][j] = exp2f(s[i][j] * factor - largest);
#pragma unroll
        for (int c = 0; c < N::COLUMNS; c++)
            g->out[i][c] *= shrink;
    }
}

template <class N, class E>
__device__ static void finish(struct gathered<N::COLUMNS> *g, E *out, int query,
                              const struct dt_attention_block &mine,
                              const struct dt_attention_task &t)
{
    struct dt_plain_thread at;
#pragma unroll
    for (int i = 0; i < DT_PLAIN_DOWN; i++) {
        float sum = sum_of_row(g->sum[i]);
#pragma unroll
        for (int c = 0; c < N::COLUMNS; c++)
            g->out[i][c] /= sum;
        int row = query + at.row + i;
        if (at.column == 0 && row < t.positions)
            dt_attention_logsum(t, mine.sequence, mine.head)[row] =
                g->largest[i] / DT_LOG2_E + logf(sum);
    }
    dt_plain_store(dt_attention_head(out, t, t.a.out_stride, mine.sequence, mine.head),
                   t.a.out_stride, query, t.positions, g->out, t);
}

template <class E, class N>
__global__ void __launch_bounds__(DT_PLAIN_THREADS, 1)
    attention_forward_plain(struct dt_attention_task t, E *out)
{
    DT_SHARED_DYNAMIC(float, q);
    float *k = q + DT_PLAIN_ROWS * t.pitch, *v = k + N::STREAM * t.pitch;
    struct dt_attention_block mine(t);
    int query = dt_attention_tile(t, mine.tile, DT_PLAIN_ROWS), kv = mine.head / t.group;
    const E *keys = dt_attention_k<E>(t, mine.sequence, kv);
    const E *values = dt_attention_v<E>(t, mine.sequence, kv);
    struct dt_attention_past<true> past(t, mine.sequence);
    struct gathered<N::COLUMNS> g = {
    };
    for (float &x : g.largest)
        x = -INFINITY;
    dt_plain_load(q, DT_PLAIN_ROWS, dt_attention_q<E>(t, mine.sequence, mine.head), t.a.q_stride,
                  query, t);
    for (int key = past.begin(query) / N::STREAM * N::STREAM;
         key < query + DT_PLAIN_ROWS && key < t.positions; key += N::STREAM) {
        float s[DT_PLAIN_DOWN][N::ACROSS];
        __syncthreads(); /* the last tile has been read */
        dt_plain_load(k, N::STREAM, keys, t.a.k_stride, key, t);
        dt_plain_load(v, N::STREAM, values, t.a.v_stride, key, t);
        __syncthreads();
        dt_plain_dots(s, q, k, t);
        dt_plain_cap(s, t);
        soften<N>(&g, s, query, key, past, t.factor);
        dt_plain_weigh(g.out, s, v, t);
    }
    finish<N>(&g, out, query, mine, t);
}

template <class E>
static cudaError_t plain(const struct dt_attention_task &t, E *out, cudaStream_t s)
{
    dim3 grid;
    cudaError_t e = dt_attention_grid(&grid, t, t.heads, dt_divide_up(t.a.queries, DT_PLAIN_ROWS));
    if (e != cudaSuccess)
        return e;
    return dt_plain_with_columns(t.a.head_dim, [&](auto columns) {
        using N = decltype(columns);
        size_t shared = sizeof(float) * (DT_PLAIN_ROWS + 2 * N::STREAM) * t.pitch;
        return dt_launch(attention_forward_plain<E, N>, grid, dim3(DT_PLAIN_THREADS), shared, s, t,
                         out);
    });
}

template <int D>
static cudaError_t on_tensor_cores(const struct dt_attention_task &t, void *out, cudaStream_t s)
{
    dim3 grid;
    size_t shared = sizeof(dt_bf16) * (DT_FORWARD_ROWS + 2 * DT_FORWARD_KEYS) * D;
    cudaError_t e =
        dt_attention_grid(&grid, t, t.heads, dt_divide_up(t.a.queries, DT_FORWARD_ROWS));
    if (e != cudaSuccess)
        return e;
    return dt_attention_with_past(t, [&](auto limited) {
        return dt_launch(dt_attention_forward_mma<D, decltype(limited)::value>, grid,
                         dim3(DT_FORWARD_THREADS), shared, s, t, static_cast<dt_bf16 *>(out));
    });
}

static cudaError_t start(enum dt_dtype elem, const struct dt_attention_task &t, void *out,
                         cudaStream_t s)
{
    const struct dt_attention *a = &t.a;
    bool vectors = elem == DT_BF16 && a->cap <= 0 && dt_attention_vectors(a) && dt_aligned16(out);
    if (vectors && a->head_dim == 64)
        return on_tensor_cores<64>(t, out, s);
    if (vectors && a->head_dim == 128)
        return on_tensor_cores<128>(t, out, s);
    return dt_with_elem(elem, [&](auto x) { return plain(t, static_cast<decltype(x) *>(out), s); });
}

cudaError_t dt_cuda_attention_forward(enum dt_dtype elem, const struct dt_attention *a, void *out,
                                      struct dt_stream *s)
{
    struct dt_attention_task t;
    if (a->batch == 0 || a->queries == 0)
        return cudaSuccess;
    cudaError_t e = dt_attention_begin(&t, a);
    while (e == cudaSuccess && dt_attention_next(&t, SIZE_MAX))
        e = start(elem, t, out, s->compute);
    return e;
}
