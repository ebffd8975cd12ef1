/* SPDX-License-Identifier: Apache-2.0 */
/* Attention's way back on tensor cores: the second and third kernel of attention_backward.cu, which
 * are alike. A block has 128 rows of its own in two tiles (queries and dout; or keys and values), a
 * warp some of them, and the other side's rows stream by in pairs of smaller tiles (keys and
 * values; or queries and dout), the next pair on its way while one is multiplied. For dk and dv the
 * scores are found the other way round, k q' and v dout', so that here too the weights of a warp's
 * own rows are in its registers, ready to be multiplied. */
#ifndef DT_CUDA_ATTENTION_BACKWARD_MMA_CUH
#define DT_CUDA_ATTENTION_BACKWARD_MMA_CUH

#include "cuda/kernels/attention_mma.cuh"

/* How a kernel for rows of D is cut: with registers for the sums of one output or of two. */
template <int D, int SUMS> struct dt_backward_shape {
    static constexpr int ROWS = 128, STREAM = 32;
    static constexpr int GROUPS = D * SUMS <= 128 ? 2 : 1;
    static constexpr int WARPS = ROWS / (16 * GROUPS), THREADS = WARPS * DT_WARP;
    /* Own pair; two pairs of the stream; two of the notes of STREAM queries. */
    static constexpr int OWN = ROWS * D, PART = STREAM * D;
    static constexpr size_t SHARED =
        sizeof(dt_bf16) * (2 * OWN + 4 * PART) + sizeof(struct dt_attention_row) * 2 * STREAM;
};

/* A score becomes the weight p, and dp becomes dscore; without MASK, the query reads the key. */
template <bool MASK>
__device__ inline void dt_backward_weigh(float *p, float *dp, int key, int query, int begin,
                                         struct dt_attention_row note, float factor)
{
    float weight = dt_exp2(*p * factor - note.logsum);
    *p = MASK && (key > query || key < begin) ? 0.0f : weight;
    *dp = *p * (*dp - note.average);
}

template <int D, int GROUPS>
__device__ inline void dt_backward_scale(float (&x)[GROUPS][D / 8][4], float scale)
{
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                x[g][n][i] *= scale;
}

/* Of tiles: KEY and QUERY are of element 0. */
template <class S, bool MASK, bool LIMITED>
__device__ inline void dt_backward_queries(float (&p)[S::GROUPS][S::STREAM / 8][4],
                                           float (&dp)[S::GROUPS][S::STREAM / 8][4], int query,
                                           int key, const struct dt_attention_past<LIMITED> &past,
                                           const struct dt_attention_row (&notes)[S::GROUPS][2],
                                           float factor)
{
#pragma unroll
    for (int g = 0; g < S::GROUPS; g++)
#pragma unroll
        for (int below = 0; below < 2; below++) {
            int row = query + dt_tile_row(g, below), begin = MASK ? past.begin(row) : 0;
#pragma unroll
            for (int n = 0; n < S::STREAM / 8; n++)
#pragma unroll
                for (int i = 2 * below; i < 2 * below + 2; i++)
                    dt_backward_weigh<MASK>(&p[g][n][i], &dp[g][n][i], key + dt_tile_column(n, i),
                                            row, begin, notes[g][below], factor);
        }
}

/* dq of one tile of queries and one head. */
template <int D, bool LIMITED>
__global__ void __launch_bounds__(dt_backward_shape<D, 1>::THREADS)
    dt_attention_dq_mma(struct dt_attention_task t, dt_bf16 *dq, const dt_bf16 *dout)
{
    using S = dt_backward_shape<D, 1>;
    DT_SHARED_DYNAMIC(dt_bf16, q);
    dt_bf16 *dx = q + S::OWN, *stream = dx + S::OWN;
    struct dt_attention_block mine(t);
    size_t sequence = mine.sequence;
    int head = mine.head, kv = head / t.group, query = dt_attention_tile(t, mine.tile, S::ROWS);
    int keys = query + S::ROWS < t.positions ? query + S::ROWS : t.positions;
    int row = static_cast<int>(threadIdx.x) / DT_WARP * 16 * S::GROUPS;
    struct dt_attention_past<LIMITED> past(t, sequence);
    /* The buffers take turns, and the first begins. */
    int first = past.begin(query) / (2 * S::STREAM) * (2 * S::STREAM);
    int some = past.begin(query + row), all = past.begin(query + row + 16 * S::GROUPS - 1);
    const dt_bf16 *ks =
        dt_attention_k<dt_bf16>(t, sequence, kv) + static_cast<size_t>(first) * t.a.k_stride;
    const dt_bf16 *vs =
        dt_attention_v<dt_bf16>(t, sequence, kv) + static_cast<size_t>(first) * t.a.v_stride;
    size_t q_at = static_cast<size_t>(query) * t.a.q_stride;
    struct dt_attention_row notes[S::GROUPS][2];
    float sum[S::GROUPS][D / 8][4] = {};
    dt_tile_load<D, S::ROWS, S::THREADS>(q, dt_attention_q<dt_bf16>(t, sequence, head) + q_at,
                                         t.a.q_stride, t.positions - query);
    dt_tile_load<D, S::ROWS, S::THREADS>(
        dx,
        dt_attention_head(dout, t, t.a.out_stride, sequence, head) +
            static_cast<size_t>(query) * t.a.out_stride,
        t.a.out_stride, t.positions - query);
    dt_tile_load<D, S::STREAM, S::THREADS>(stream, ks, t.a.k_stride, t.positions - first);
    dt_tile_load<D, S::STREAM, S::THREADS>(stream + S::PART, vs, t.a.v_stride, t.positions - first);
    dt_copy_async_commit();
#pragma unroll
    for (int g = 0; g < S::GROUPS; g++)
#pragma unroll
        for (int below = 0; below < 2; below++)
            notes[g][below] = dt_attention_notes(t, mine.unit)[query + row + dt_tile_row(g, below)];
#pragma unroll 1
    for (int key = first; key < keys; key += S::STREAM) {
        float p[S::GROUPS][S::STREAM / 8][4], dp[S::GROUPS][S::STREAM / 8][4];
        uint32_t w[S::GROUPS][S::STREAM / 16][4];
        dt_bf16 *k = stream + key / S::STREAM % 2 * 2 * S::PART, *v = k + S::PART;
        dt_bf16 *next = stream + (key / S::STREAM + 1) % 2 * 2 * S::PART;
        dt_copy_async_wait<0>();
        __syncthreads(); /* this pair is there, and the one before has been read */
        ks += S::STREAM * t.a.k_stride;
        vs += S::STREAM * t.a.v_stride;
        if (key + S::STREAM < keys) {
            int valid = t.positions - key - S::STREAM;
            dt_tile_load<D, S::STREAM, S::THREADS>(next, ks, t.a.k_stride, valid);
            dt_tile_load<D, S::STREAM, S::THREADS>(next + S::PART, vs, t.a.v_stride, valid);
        }
        dt_copy_async_commit();
        if (key >= query + row + 16 * S::GROUPS || key + S::STREAM <= some)
            continue; /* all of it is future to this warp, or past that it does not read */
        dt_tile_dots<D, S::GROUPS, S::STREAM>(p, q, row, k);
        dt_tile_dots<D, S::GROUPS, S::STREAM>(dp, dx, row, v);
        if (key + S::STREAM > query + row || key < all)
            dt_backward_queries<S, true, LIMITED>(p, dp, query + row, key, past, notes, t.factor);
        else
            dt_backward_queries<S, false, LIMITED>(p, dp, query + row, key, past, notes, t.factor);
        dt_tile_round<S::GROUPS, S::STREAM>(w, dp);
        dt_tile_weigh<D, S::GROUPS, S::STREAM>(sum, w, k);
    }
    dt_backward_scale<D, S::GROUPS>(sum, t.scale);
    dt_tile_store<D, S::GROUPS>(dt_attention_head(dq, t, t.a.q_stride, sequence, head) + q_at,
                                t.a.q_stride, t.positions - query, q, row, sum);
}

template <class S, bool MASK, bool LIMITED>
__device__ inline void dt_backward_keys(float (&p)[S::GROUPS][S::STREAM / 8][4],
                                        float (&dp)[S::GROUPS][S::STREAM / 8][4], int query,
                                        int key, const struct dt_attention_past<LIMITED> &past,
                                        const struct dt_attention_row *notes, float factor)
{
#pragma unroll
    for (int n = 0; n < S::STREAM / 8; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int column = dt_tile_column(n, i);
            struct dt_attention_row note = notes[column];
            int begin = MASK ? past.begin(query + column) : 0;
#pragma unroll
            for (int g = 0; g < S::GROUPS; g++)
#pragma unroll
                for (int below = 0; below < 2; below++)
                    dt_backward_weigh<MASK>(&p[g][n][2 * below + i], &dp[g][n][2 * below + i],
                                            key + dt_tile_row(g, below), query + column, begin,
                                            note, factor);
        }
}

/* Of some heads that read one key/value head: where pairs of queries and dout come from, in order:
 * tile by tile from the first that sees the block's keys to the last, head by head. */
template <int D> struct dt_backward_stream {
    using S = dt_backward_shape<D, 2>;
    const dt_bf16 *q, *dx; /* of the head at hand */
    const struct dt_attention_row *notes;
    int first, end, query; /* of the block, and behind its last; of the pair to be read next */

    __device__ void load(dt_bf16 *pair, struct dt_attention_row *rows,
                         const struct dt_attention_task &t)
    {
        constexpr int NOTES = 16 / sizeof *notes;
        size_t at = static_cast<size_t>(query);
        int thread = static_cast<int>(threadIdx.x), valid = t.positions - query;
        dt_tile_load<D, S::STREAM, S::THREADS>(pair, q + at * t.a.q_stride, t.a.q_stride, valid);
        dt_tile_load<D, S::STREAM, S::THREADS>(pair + S::PART, dx + at * t.a.out_stride,
                                               t.a.out_stride, valid);
        if (thread < S::STREAM / NOTES)
            dt_copy_async16(rows + thread * NOTES, notes + at + thread * NOTES, true);
    }

    __device__ void advance(const struct dt_attention_task &t)
    {
        query += S::STREAM;
        if (query < end)
            return;
        query = first;
        q += t.head_dim;
        dx += t.head_dim;
        notes += t.padded;
    }
};

/* dk and dv of one tile of keys, by heads that read one key/value head: all of them or a part. */
template <int D, bool LIMITED>
__global__ void __launch_bounds__(dt_backward_shape<D, 2>::THREADS)
    dt_attention_dkv_mma(struct dt_attention_task t, dt_bf16 *dk, dt_bf16 *dv, const dt_bf16 *dout)
{
    using S = dt_backward_shape<D, 2>;
    DT_SHARED_DYNAMIC(dt_bf16, k);
    dt_bf16 *v = k + S::OWN, *pairs = v + S::OWN;
    struct dt_attention_row *notes =
        reinterpret_cast<struct dt_attention_row *>(pairs + 4 * S::PART);
    struct dt_attention_block mine(t, t.together);
    size_t sequence = mine.sequence;
    int head = mine.head, kv = head / t.group, key = mine.tile * S::ROWS;
    int row = static_cast<int>(threadIdx.x) / DT_WARP * 16 * S::GROUPS;
    size_t k_at = static_cast<size_t>(key) * t.a.k_stride;
    size_t v_at = static_cast<size_t>(key) * t.a.v_stride;
    struct dt_backward_stream<D> stream = {
    };
    stream.q = dt_attention_q<dt_bf16>(t, sequence, head);
    stream.dx = dt_attention_head(dout, t, t.a.out_stride, sequence, head);
    stream.notes = dt_attention_notes(t, mine.unit * static_cast<size_t>(t.together));
    struct dt_attention_past<LIMITED> past(t, sequence);
    struct dt_attention_span seen(t, past, key, key + S::ROWS - 1, S::STREAM);
    stream.first = stream.query = seen.first;
    stream.end = seen.end;
    float dks[S::GROUPS][D / 8][4] = {}, dvs[S::GROUPS][D / 8][4] = {};
    dt_tile_load<D, S::ROWS, S::THREADS>(k, dt_attention_k<dt_bf16>(t, sequence, kv) + k_at,
                                         t.a.k_stride, t.positions - key);
    dt_tile_load<D, S::ROWS, S::THREADS>(v, dt_attention_v<dt_bf16>(t, sequence, kv) + v_at,
                                         t.a.v_stride, t.positions - key);
    stream.load(pairs, notes, t);
    dt_copy_async_commit();
    int steps = (stream.end - stream.first + S::STREAM - 1) / S::STREAM * t.together;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        float p[S::GROUPS][S::STREAM / 8][4], dp[S::GROUPS][S::STREAM / 8][4];
        uint32_t w[S::GROUPS][S::STREAM / 16][4];
        int query = stream.query, now = step % 2, next = 1 - now;
        dt_bf16 *q = pairs + now * 2 * S::PART, *dx = q + S::PART;
        dt_copy_async_wait<0>();
        __syncthreads(); /* this pair is there, and the one before has been read */
        stream.advance(t);
        if (step + 1 < steps)
            stream.load(pairs + next * 2 * S::PART, notes + next * S::STREAM, t);
        dt_copy_async_commit();
        if (query + S::STREAM <= key + row || past.begin(query) >= key + row + 16 * S::GROUPS)
            continue; /* this warp's keys are future to all of them, or past that none reads */
        dt_tile_dots<D, S::GROUPS, S::STREAM>(p, k, row, q);
        dt_tile_dots<D, S::GROUPS, S::STREAM>(dp, v, row, dx);
        if (query < key + row + 16 * S::GROUPS || past.begin(query + S::STREAM - 1) > key + row)
            dt_backward_keys<S, true, LIMITED>(p, dp, query, key + row, past,
                                               notes + now * S::STREAM, t.factor);
        else
            dt_backward_keys<S, false, LIMITED>(p, dp, query, key + row, past,
                                                notes + now * S::STREAM, t.factor);
        dt_tile_round<S::GROUPS, S::STREAM>(w, p);
        dt_tile_weigh<D, S::GROUPS, S::STREAM>(dvs, w, dx);
        dt_tile_round<S::GROUPS, S::STREAM>(w, dp);
        dt_tile_weigh<D, S::GROUPS, S::STREAM>(dks, w, q);
    }
    dt_backward_scale<D, S::GROUPS>(dks, t.scale);
    size_t at = static_cast<size_t>(key);
    if (t.together < t.group) {
        float *part = t.parts + (2 * mine.unit * t.padded_keys + at) * D;
        dt_tile_put<D, S::GROUPS>(part, row, dks);
        dt_tile_put<D, S::GROUPS>(part + t.padded_keys * D, row, dvs);
        return;
    }
    dt_tile_store<D, S::GROUPS>(dt_attention_kv_head(dk, t, t.a.k_stride, sequence, kv) +
                                    at * t.a.k_stride,
                                t.a.k_stride, t.keys - key, k, row, dks);
    dt_tile_store<D, S::GROUPS>(dt_attention_kv_head(dv, t, t.a.v_stride, sequence, kv) +
                                    at * t.a.v_stride,
                                t.a.v_stride, t.keys - key, v, row, dvs);
}

enum { DT_JOIN_THREADS = 256 };

/* dk or dv of a key/value head as the sum of its parts, the first heads' first: across the rows of
 * one, eight numbers a thread; down the launch's key/value heads, dk and dv of each; and its
 * sequences. */
template <int D>
__global__ void __launch_bounds__(DT_JOIN_THREADS)
    dt_attention_join_parts(struct dt_attention_task t, dt_bf16 *dk, dt_bf16 *dv)
{
    constexpr int PIECES = D / 8;
    int at = static_cast<int>(blockIdx.x) * DT_JOIN_THREADS + static_cast<int>(threadIdx.x);
    int row = at / PIECES, column = at % PIECES * 8, parts = t.group / t.together;
    int unit = static_cast<int>(blockIdx.y) / 2, kv = t.first_head / t.group + unit;
    bool is_dv = blockIdx.y % 2 == 1;
    size_t n = static_cast<size_t>(blockIdx.z) * (gridDim.y / 2) + unit, whole = t.padded_keys * D;
    if (row >= t.keys)
        return;
    const float *from = t.parts + (2 * n * parts + is_dv) * whole + row * D + column;
    size_t stride = is_dv ? t.a.v_stride : t.a.k_stride, sequence = t.first_sequence + blockIdx.z;
    dt_bf16 *to = dt_attention_kv_head(is_dv ? dv : dk, t, stride, sequence, kv);
    float sum[8] = {};
    for (int part = 0; part < parts; part++, from += 2 * whole) {
        float x[4], y[4];
        dt_load16(from, x);
        dt_load16(from + 4, y);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sum[i] += x[i];
            sum[4 + i] += y[i];
        }
    }
    dt_store16(to + static_cast<size_t>(row) * stride + column, sum);
}

#endif
