/* SPDX-License-Identifier: Apache-2.0 */
/* Causal attention, the way back, without the T x T matrix. With the weights found again as
 * p = exp(score - logsum), dp = dout . v and dscore = p (dp - average), where average = dout . out
 * is the sum of p dp over a query's keys:
 *   dq = sum over keys of dscore k / sqrt(D),  dk = sum over queries of dscore q / sqrt(D),
 *   dv = sum over queries of p dout.
 *
 * Three kernels, without atomics, so that bits do not vary. The first notes logsum and average of
 * each query in the stream's scratch, 8 bytes a query and head. The second has the queries of a
 * tile and goes over the keys up to them: dq. The third has the keys of a tile and goes over the
 * queries from them on, of all heads that read them, one behind the other: dk and dv. Scores are
 * thus found twice: 7 products of matrices, where adding to dq with atomics would take 5.
 *
 * Where few heads of keys are read by many, the third kernel has too few blocks, of which the first
 * take longest. On tensor cores several then share these heads, each leaves its part of dk and dv
 * in scratch, and a fourth kernel adds these up in their order.
 *
 * Two ways each, as forward. Shared memory, KiB: plain 33, 65 or 97 for a head_dim to 64, 128, 256;
 * tensor cores 49 or 97. */
#include "cuda/kernels/attention.cuh"
#include "cuda/kernels/attention_backward_mma.cuh"
#include "cuda/kernels/row.cuh"

/* Lanes that have a row together, and so rows of a block. */
enum { NOTE_THREADS = 256, NOTE_LANES = 8, NOTE_ROWS = NOTE_THREADS / NOTE_LANES };
static_assert(DT_ATTENTION_PAD % NOTE_ROWS == 0, "blocks have whole rows");

/* Rows across, heads down. */
template <class E, bool ALIGNED>
__global__ void __launch_bounds__(NOTE_THREADS)
    note_rows(struct dt_attention_task t, const E *out, const E *dout)
{
    constexpr int COUNT = dt_pack<E>::COUNT;
    int lane = static_cast<int>(threadIdx.x) % NOTE_LANES;
    size_t row = static_cast<size_t>(blockIdx.x) * NOTE_ROWS + threadIdx.x / NOTE_LANES;
    size_t n = static_cast<size_t>(blockIdx.z) * gridDim.y + blockIdx.y;
    size_t sequence = t.first_sequence + blockIdx.z, width = static_cast<size_t>(t.head_dim);
    int head = t.first_head + static_cast<int>(blockIdx.y);
    size_t position = t.a.first + row, at = position * t.a.out_stride;
    const E *x = dt_attention_head(out, t, t.a.out_stride, sequence, head) + at;
    const E *dx = dt_attention_head(dout, t, t.a.out_stride, sequence, head) + at;
    bool real = row < t.a.queries;
    float sum = 0;
    for (size_t c = lane * COUNT; real && c < width; c += NOTE_LANES * COUNT) {
        dt_pack<E> a = take<E, ALIGNED>(x, width, c), b = take<E, ALIGNED>(dx, width, c);
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            sum = fmaf(dt_to_float(a.at[i]), dt_to_float(b.at[i]), sum);
    }
#pragma unroll
    for (int lanes = NOTE_LANES / 2; lanes > 0; lanes /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (lane > 0)
        return;
    struct dt_attention_row note = {INFINITY, 0};
    if (real)
        note = {dt_attention_logsum(t, sequence, head)[position] * DT_LOG2_E, sum};
    t.rows[n * t.padded + row] = note;
}

/* p and then dscore of one query, whose keys begin at BEGIN, and key; beyond the last position a
 * query's note makes p 0. Where DOT was capped, dscore is smaller by the slope that the cap has
 * there. */
struct weight {
    float p, dscore;
};

__device__ static struct weight weigh(float dot, float dp, int query, int key, int begin,
                                      struct dt_attention_row note,
                                      const struct dt_attention_task &t)
{
    float p = key > query || key < begin ? 0.0f : exp2f(dot * t.factor - note.logsum);
    float part = t.cap > 0 ? dot / t.cap : 0.0f;
    return {p, p * (dp - note.average) * (1 - part * part)};
}

template <int COLUMNS>
__device__ static void scale_all(float (&x)[DT_PLAIN_DOWN][COLUMNS], float scale)
{
    for (auto &row : x)
        for (float &one : row)
            one *= scale;
}

template <class E, class N>
__global__ void __launch_bounds__(DT_PLAIN_THREADS, 1)
    attention_dq_plain(struct dt_attention_task t, E *dq, const E *dout)
{
    DT_SHARED_DYNAMIC(float, q);
    float *dx = q + DT_PLAIN_ROWS * t.pitch, *k = dx + DT_PLAIN_ROWS * t.pitch;
    float *v = k + N::STREAM * t.pitch;
    struct dt_plain_thread at;
    struct dt_attention_block mine(t);
    size_t sequence = mine.sequence;
    int head = mine.head, kv = head / t.group;
    int query = dt_attention_tile(t, mine.tile, DT_PLAIN_ROWS);
    const struct dt_attention_row *notes = dt_attention_notes(t, mine.unit) + query + at.row;
    const E *rows = dt_attention_q<E>(t, sequence, head);
    const E *keys = dt_attention_k<E>(t, sequence, kv);
    const E *values = dt_attention_v<E>(t, sequence, kv);
    struct dt_attention_past<true> past(t, sequence);
    float sum[DT_PLAIN_DOWN][N::COLUMNS] = {};
    dt_plain_load(q, DT_PLAIN_ROWS, rows, t.a.q_stride, query, t);
    dt_plain_load(dx, DT_PLAIN_ROWS, dt_attention_head(dout, t, t.a.out_stride, sequence, head),
                  t.a.out_stride, query, t);
    for (int key = past.begin(query) / N::STREAM * N::STREAM;
         key < query + DT_PLAIN_ROWS && key < t.positions; key += N::STREAM) {
        float s[DT_PLAIN_DOWN][N::ACROSS], dp[DT_PLAIN_DOWN][N::ACROSS];
        __syncthreads(); /* the last tile has been read */
        dt_plain_load(k, N::STREAM, keys, t.a.k_stride, key, t);
        dt_plain_load(v, N::STREAM, values, t.a.v_stride, key, t);
        __syncthreads();
        dt_plain_dots(s, q, k, t);
        dt_plain_cap(s, t);
        dt_plain_dots(dp, dx, v, t);
#pragma unroll
        for (int i = 0; i < DT_PLAIN_DOWN; i++) {
            int row = query + at.row + i, begin = past.begin(row);
#pragma unroll
            for (int j = 0; j < N::ACROSS; j++)
                s[i][j] = weigh(s[i][j], dp[i][j], row, key + at.column + j * DT_PLAIN_SIDE, begin,
                                notes[i], t)
                              .dscore;
        }
        dt_plain_weigh(sum, s, k, t);
    }
    scale_all(sum, t.scale);
    dt_plain_store(dt_attention_head(dq, t, t.a.q_stride, sequence, head), t.a.q_stride, query,
                   t.positions, sum, t);
}

/* A launch's key/value heads, counted as query heads are. */
template <class E, class N>
__global__ void __launch_bounds__(DT_PLAIN_THREADS, 1)
    attention_dkv_plain(struct dt_attention_task t, E *dk, E *dv, const E *dout)
{
    DT_SHARED_DYNAMIC(float, k);
    float *v = k + DT_PLAIN_ROWS * t.pitch, *q = v + DT_PLAIN_ROWS * t.pitch;
    float *dx = q + N::STREAM * t.pitch;
    struct dt_plain_thread at;
    struct dt_attention_block mine(t, t.group);
    size_t sequence = mine.sequence;
    int kv = mine.head / t.group, key = mine.tile * DT_PLAIN_ROWS;
    struct dt_attention_past<true> past(t, sequence);
    struct dt_attention_span seen(t, past, key, key + DT_PLAIN_ROWS - 1, N::STREAM);
    float dks[DT_PLAIN_DOWN][N::COLUMNS] = {}, dvs[DT_PLAIN_DOWN][N::COLUMNS] = {};
    dt_plain_load(k, DT_PLAIN_ROWS, dt_attention_k<E>(t, sequence, kv), t.a.k_stride, key, t);
    dt_plain_load(v, DT_PLAIN_ROWS, dt_attention_v<E>(t, sequence, kv), t.a.v_stride, key, t);
    for (int h = 0; h < t.group; h++) {
        const E *rows = dt_attention_q<E>(t, sequence, mine.head + h);
        const E *drows = dt_attention_head(dout, t, t.a.out_stride, sequence, mine.head + h);
        const struct dt_attention_row *notes =
            dt_attention_notes(t, mine.unit * static_cast<size_t>(t.group) + h);
        for (int query = seen.first; query < seen.end; query += N::STREAM) {
            float p[DT_PLAIN_DOWN][N::ACROSS], ds[DT_PLAIN_DOWN][N::ACROSS];
            __syncthreads(); /* the last tile has been read */
            dt_plain_load(q, N::STREAM, rows, t.a.q_stride, query, t);
            dt_plain_load(dx, N::STREAM, drows, t.a.out_stride, query, t);
            __syncthreads();
            dt_plain_dots(p, k, q, t);
            dt_plain_cap(p, t);
            dt_plain_dots(ds, v, dx, t);
#pragma unroll
            for (int j = 0; j < N::ACROSS; j++) {
                int column = query + at.column + j * DT_PLAIN_SIDE, begin = past.begin(column);
#pragma unroll
                for (int i = 0; i < DT_PLAIN_DOWN; i++) {
                    struct weight w =
                        weigh(p[i][j], ds[i][j], column, key + at.row + i, begin, notes[column], t);
                    p[i][j] = w.p;
                    ds[i][j] = w.dscore;
                }
            }
            dt_plain_weigh(dvs, p, dx, t);
            dt_plain_weigh(dks, ds, q, t);
        }
    }
    scale_all(dks, t.scale);
    dt_plain_store(dt_attention_kv_head(dk, t, t.a.k_stride, sequence, kv), t.a.k_stride, key,
                   t.keys, dks, t);
    dt_plain_store(dt_attention_kv_head(dv, t, t.a.v_stride, sequence, kv), t.a.v_stride, key,
                   t.keys, dvs, t);
}

template <class E> struct gradients {
    E *dq, *dk, *dv;
    const E *out, *dout;
};

template <class E>
static cudaError_t plain(const struct dt_attention_task &t, const struct gradients<E> &g,
                         cudaStream_t s)
{
    dim3 queries, keys;
    cudaError_t e =
        dt_attention_grid(&queries, t, t.heads, dt_divide_up(t.a.queries, DT_PLAIN_ROWS));
    if (e == cudaSuccess)
        e = dt_attention_grid(&keys, t, t.heads / t.group, dt_divide_up(t.a.keys, DT_PLAIN_ROWS));
    if (e != cudaSuccess)
        return e;
    return dt_plain_with_columns(t.a.head_dim, [&](auto columns) {
        using N = decltype(columns);
        dim3 threads(DT_PLAIN_THREADS);
        size_t shared = sizeof(float) * 2 * (DT_PLAIN_ROWS + N::STREAM) * t.pitch;
        cudaError_t failed =
            dt_launch(attention_dq_plain<E, N>, queries, threads, shared, s, t, g.dq, g.dout);
        if (failed != cudaSuccess)
            return failed;
        return dt_launch(attention_dkv_plain<E, N>, keys, threads, shared, s, t, g.dk, g.dv,
                         g.dout);
    });
}

template <int D>
static cudaError_t join_parts(const struct dt_attention_task &t, const struct gradients<dt_bf16> &g,
                              cudaStream_t s)
{
    dim3 grid(dt_blocks(t.a.keys * D / 8, DT_JOIN_THREADS, INT32_MAX),
              static_cast<unsigned>(t.heads / t.group) * 2, static_cast<unsigned>(t.sequences));
    return dt_launch(dt_attention_join_parts<D>, grid, dim3(DT_JOIN_THREADS), 0, s, t, g.dk, g.dv);
}

template <int D>
static cudaError_t on_tensor_cores(const struct dt_attention_task &t,
                                   const struct gradients<dt_bf16> &g, cudaStream_t s)
{
    using Q = dt_backward_shape<D, 1>;
    using K = dt_backward_shape<D, 2>;
    dim3 queries, keys;
    cudaError_t e = dt_attention_grid(&queries, t, t.heads, dt_divide_up(t.a.queries, Q::ROWS));
    if (e == cudaSuccess)
        e = dt_attention_grid(&keys, t, t.heads / t.together, dt_divide_up(t.a.keys, K::ROWS));
    if (e != cudaSuccess)
        return e;
    return dt_attention_with_past(t, [&](auto limited) {
        constexpr bool LIMITED = decltype(limited)::value;
        cudaError_t failed = dt_launch(dt_attention_dq_mma<D, LIMITED>, queries, dim3(Q::THREADS),
                                       Q::SHARED, s, t, g.dq, g.dout);
        if (failed != cudaSuccess)
            return failed;
        failed = dt_launch(dt_attention_dkv_mma<D, LIMITED>, keys, dim3(K::THREADS), K::SHARED, s,
                           t, g.dk, g.dv, g.dout);
        if (failed != cudaSuccess || t.together == t.group)
            return failed;
        return join_parts<D>(t, g, s);
    });
}

static bool for_tensor_cores(const struct dt_attention_task &, const struct gradients<float> &)
{
    return false;
}

static bool for_tensor_cores(const struct dt_attention_task &t, const struct gradients<dt_bf16> &g)
{
    return t.cap <= 0 && (t.head_dim == 64 || t.head_dim == 128) && dt_attention_vectors(&t.a) &&
           dt_aligned16(g.dq, g.dk, g.dv, g.dout);
}

static cudaError_t start(const struct dt_attention_task &t, const struct gradients<float> &g,
                         cudaStream_t s)
{
    return plain(t, g, s);
}

static cudaError_t start(const struct dt_attention_task &t, const struct gradients<dt_bf16> &g,
                         cudaStream_t s)
{
    if (!for_tensor_cores(t, g))
        return plain(t, g, s);
    return t.head_dim == 64 ? on_tensor_cores<64>(t, g, s) : on_tensor_cores<128>(t, g, s);
}

/* Of scratch, what the query heads that read one key/value head take, for which so many blocks find
 * parts of dk and dv; one finds all. */
static size_t scratch_of_group(const struct dt_attention_task &t, int parts)
{
    size_t notes = static_cast<size_t>(t.group) * t.padded * sizeof *t.rows;
    size_t of_part = 2 * t.padded_keys * static_cast<size_t>(t.head_dim) * sizeof *t.parts;
    return notes + (parts > 1 ? static_cast<size_t>(parts) * of_part : 0);
}

/* By the shape and the kind of GPU alone: blocks enough to keep its multiprocessors busy to the
 * end, where there are heads enough, and what they leave is not more than scratch. */
static int heads_together(const struct dt_attention_task &t, int multiprocessors)
{
    constexpr size_t BLOCKS = 3; /* of a multiprocessor; two run at once with heads of 64 */
    size_t wanted = BLOCKS * static_cast<size_t>(multiprocessors);
    size_t blocks = t.a.batch * t.a.kv_heads * (t.padded_keys / DT_ATTENTION_PAD);
    int together = t.group;
    for (int parts = 1; parts <= t.group; parts++) {
        if (t.group % parts != 0)
            continue;
        if (scratch_of_group(t, parts) > DT_CUDA_SCRATCH)
            break;
        together = t.group / parts;
        if (blocks * static_cast<size_t>(parts) >= wanted)
            break;
    }
    return together;
}

template <class E>
static cudaError_t note(const struct dt_attention_task &t, const struct gradients<E> &g,
                        cudaStream_t s)
{
    bool aligned = dt_aligned16(g.out, g.dout) && t.a.out_stride % dt_pack<E>::COUNT == 0 &&
                   t.a.head_dim % dt_pack<E>::COUNT == 0;
    dim3 grid(static_cast<unsigned>(t.padded / NOTE_ROWS), static_cast<unsigned>(t.heads),
              static_cast<unsigned>(t.sequences));
    return dt_launch(aligned ? note_rows<E, true> : note_rows<E, false>, grid, dim3(NOTE_THREADS),
                     0, s, t, g.out, g.dout);
}

/* The heads of one launch: as many whole groups as scratch has room for. */
template <class E>
static cudaError_t in_parts(struct dt_attention_task *t, const struct gradients<E> &g,
                            struct dt_stream *s)
{
    if (for_tensor_cores(*t, g))
        t->together = heads_together(*t, s->multiprocessors);
    size_t most = s->scratch_bytes / scratch_of_group(*t, t->group / t->together) *
                  static_cast<size_t>(t->group);
    cudaError_t e = most == 0 ? cudaErrorMemoryAllocation : cudaSuccess;
    t->rows = static_cast<struct dt_attention_row *>(s->scratch);
    while (e == cudaSuccess && dt_attention_next(t, most)) {
        size_t heads = t->sequences * static_cast<size_t>(t->heads);
        t->parts = reinterpret_cast<float *>(t->rows + heads * t->padded);
        e = note(*t, g, s->compute);
        if (e == cudaSuccess)
            e = start(*t, g, s->compute);
    }
    return e;
}

cudaError_t dt_cuda_attention_backward(enum dt_dtype elem, const struct dt_attention *a, void *dq,
                                       void *dk, void *dv, const void *out, const void *dout,
                                       struct dt_stream *s)
{
    struct dt_attention_task t;
    if (a->batch == 0 || a->queries == 0)
        return cudaSuccess;
    cudaError_t e = dt_attention_begin(&t, a);
    if (e != cudaSuccess)
        return e;
    return dt_with_elem(elem, [&](auto x) {
        using E = decltype(x);
        struct gradients<E> g = {
            static_cast<E *>(dq), static_cast<E *>(dk), static_cast<E *>(dv),
                static_cast<const E *>(out), static_cast<const E *>(dout)
        };
        return in_parts(&t, g, s);
    });
}
