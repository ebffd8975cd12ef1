/* SPDX-License-Identifier: Apache-2.0 */
/* Attention forward on tensor cores: a block has 128 queries of one head, a warp 32 of them, which
 * makes each piece of a key or value read from shared memory good for two products. Keys and values
 * have one tile each in shared memory; while the one is multiplied, the other is on its way:
 *
 *   keys are there;    start values;     scores = q k', weights from scores
 *   values are there;  start next keys;  out += weights v
 *
 * What is not tried here are Hopper's own instructions (wgmma fed by the tensor memory
 * accelerator), which reach rates that mma.sync does not. */
#ifndef DT_CUDA_ATTENTION_FORWARD_MMA_CUH
#define DT_CUDA_ATTENTION_FORWARD_MMA_CUH

#include "cuda/kernels/attention_mma.cuh"

enum { DT_FORWARD_WARPS = 4, DT_FORWARD_GROUPS = 2, DT_FORWARD_KEYS = 64 };
enum {
    DT_FORWARD_THREADS = DT_FORWARD_WARPS * DT_WARP,
    DT_FORWARD_WARP_ROWS = DT_FORWARD_GROUPS * 16,
    DT_FORWARD_ROWS = DT_FORWARD_WARPS * DT_FORWARD_WARP_ROWS
};

/* Of a lane's rows: what was gathered so far. */
template <int D> struct dt_forward_state {
    float out[DT_FORWARD_GROUPS][D / 8][4];
    float largest[DT_FORWARD_GROUPS][2]; /* the same for the four lanes that have a row */
    float sum[DT_FORWARD_GROUPS][2];     /* this lane's part */
};

typedef float dt_forward_scores[DT_FORWARD_GROUPS][DT_FORWARD_KEYS / 8][4];

template <bool LIMITED>
__device__ inline void dt_forward_hide(dt_forward_scores &s, int query, int key,
                                       const struct dt_attention_past<LIMITED> &past)
{
#pragma unroll
    for (int g = 0; g < DT_FORWARD_GROUPS; g++)
#pragma unroll
        for (int below = 0; below < 2; below++) {
            int row = query + dt_tile_row(g, below), begin = past.begin(row);
#pragma unroll
            for (int n = 0; n < DT_FORWARD_KEYS / 8; n++)
#pragma unroll
                for (int i = 2 * below; i < 2 * below + 2; i++) {
                    int column = key + dt_tile_column(n, i);
                    if (column > row || column < begin)
                        s[g][n][i] = -INFINITY;
                }
        }
}

/* Scores become weights, and what was gathered shrinks where a score is the largest so far. A row
 * that has seen no key yet gathers nothing. */
template <int D, bool LIMITED>
__device__ inline void dt_forward_soften(struct dt_forward_state<D> &state, dt_forward_scores &s,
                                         int g, int below, float factor)
{
    float before = state.largest[g][below], largest = before, sum = 0;
#pragma unroll
    for (int n = 0; n < DT_FORWARD_KEYS / 8; n++)
        largest = fmaxf(largest, fmaxf(s[g][n][2 * below], s[g][n][2 * below + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    state.largest[g][below] = largest;
    if (LIMITED && largest == -INFINITY)
        largest = 0;
    float shrink = dt_exp2((before - largest) * factor), less = largest * factor;
#pragma unroll
    for (int n = 0; n < DT_FORWARD_KEYS / 8; n++)
#pragma unroll
        for (int i = 2 * below; i < 2 * below + 2; i++)
            sum += s[g][n][i] = dt_exp2(s[g][n][i] * factor - less);
    state.sum[g][below] = state.sum[g][below] * shrink + sum;
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int i = 2 * below; i < 2 * below + 2; i++)
            state.out[g][n][i] *= shrink;
}

/* Of a tile of keys, the first of which is KEY. ROW: the warp's first in the block; QUERY: the
 * block's first; ALL: from there on all of the warp's queries read. */
template <int D, bool LIMITED>
__device__ inline void
dt_forward_weights(struct dt_forward_state<D> &state,
                   uint32_t (&w)[DT_FORWARD_GROUPS][DT_FORWARD_KEYS / 16][4], const dt_bf16 *q,
                   const dt_bf16 *k, int query, int row, int key, int all,
                   const struct dt_attention_past<LIMITED> &past, float factor)
{
    dt_forward_scores s;
    dt_tile_dots<D, DT_FORWARD_GROUPS, DT_FORWARD_KEYS>(s, q, row, k);
    if (key + DT_FORWARD_KEYS > query + row || key < all)
        dt_forward_hide(s, query + row, key, past);
#pragma unroll
    for (int g = 0; g < DT_FORWARD_GROUPS; g++) {
        dt_forward_soften<D, LIMITED>(state, s, g, 0, factor);
        dt_forward_soften<D, LIMITED>(state, s, g, 1, factor);
    }
    dt_tile_round<DT_FORWARD_GROUPS, DT_FORWARD_KEYS>(w, s);
}

template <int D>
__device__ inline void
dt_forward_finish(struct dt_forward_state<D> &state, dt_bf16 *out, dt_bf16 *tile, int query,
                  int row, const struct dt_attention_block &mine, const struct dt_attention_task &t)
{
#pragma unroll
    for (int g = 0; g < DT_FORWARD_GROUPS; g++)
#pragma unroll
        for (int below = 0; below < 2; below++) {
            float sum = state.sum[g][below];
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            int position = query + row + dt_tile_row(g, below);
            if (threadIdx.x % 4 == 0 && position < t.positions)
                dt_attention_logsum(t, mine.sequence, mine.head)[position] =
                    state.largest[g][below] * t.scale + logf(sum);
            float inverse = 1 / sum;
#pragma unroll
            for (int n = 0; n < D / 8; n++)
#pragma unroll
                for (int i = 2 * below; i < 2 * below + 2; i++)
                    state.out[g][n][i] *= inverse;
        }
    out = dt_attention_head(out, t, t.a.out_stride, mine.sequence, mine.head) +
          static_cast<size_t>(query) * t.a.out_stride;
    dt_tile_store<D, DT_FORWARD_GROUPS>(out, t.a.out_stride, t.positions - query, tile, row,
                                        state.out);
}

template <int D, bool LIMITED>
__global__ void __launch_bounds__(DT_FORWARD_THREADS, 2)
    dt_attention_forward_mma(struct dt_attention_task t, dt_bf16 *out)
{
    constexpr int ROWS = DT_FORWARD_ROWS, KEYS = DT_FORWARD_KEYS, THREADS = DT_FORWARD_THREADS;
    DT_SHARED_DYNAMIC(dt_bf16, q);
    dt_bf16 *k = q + ROWS * D, *v = k + KEYS * D;
    struct dt_attention_block mine(t);
    int query = dt_attention_tile(t, mine.tile, ROWS), kv = mine.head / t.group;
    int keys = query + ROWS < t.positions ? query + ROWS : t.positions;
    int row = static_cast<int>(threadIdx.x) / DT_WARP * DT_FORWARD_WARP_ROWS;
    const dt_bf16 *rows = dt_attention_q<dt_bf16>(t, mine.sequence, mine.head) +
                          static_cast<size_t>(query) * t.a.q_stride;
    const dt_bf16 *ks = dt_attention_k<dt_bf16>(t, mine.sequence, kv);
    const dt_bf16 *vs = dt_attention_v<dt_bf16>(t, mine.sequence, kv);
    struct dt_attention_past<LIMITED> past(t, mine.sequence);
    int first = past.begin(query) / KEYS * KEYS, some = past.begin(query + row);
    int all = past.begin(query + row + DT_FORWARD_WARP_ROWS - 1);
    struct dt_forward_state<D> state = {
    };
#pragma unroll
    for (int g = 0; g < DT_FORWARD_GROUPS; g++)
        state.largest[g][0] = state.largest[g][1] = -INFINITY;
    dt_tile_load<D, ROWS, THREADS>(q, rows, t.a.q_stride, t.positions - query);
    dt_tile_load<D, KEYS, THREADS>(k, ks + static_cast<size_t>(first) * t.a.k_stride, t.a.k_stride,
                                   t.positions - first);
    dt_copy_async_commit();
#pragma unroll 1
    for (int key = first; key < keys; key += KEYS) {
        uint32_t w[DT_FORWARD_GROUPS][KEYS / 16][4];
        /* Else all of it is future, or past that is not read. */
        bool seen = key < query + row + DT_FORWARD_WARP_ROWS && key + KEYS > some;
        dt_copy_async_wait<0>();
        __syncthreads(); /* the keys are there, and the last values have been read */
        dt_tile_load<D, KEYS, THREADS>(v, vs + static_cast<size_t>(key) * t.a.v_stride,
                                       t.a.v_stride, t.positions - key);
        dt_copy_async_commit();
        if (seen)
            dt_forward_weights(state, w, q, k, query, row, key, all, past, t.factor);
        dt_copy_async_wait<0>();
        __syncthreads(); /* the values are there, and the keys have been read */
        if (key + KEYS < keys)
            dt_tile_load<D, KEYS, THREADS>(k, ks + static_cast<size_t>(key + KEYS) * t.a.k_stride,
                                           t.a.k_stride, t.positions - key - KEYS);
        dt_copy_async_commit();
        if (seen)
            dt_tile_weigh<D, DT_FORWARD_GROUPS, KEYS>(state.out, w, v);
    }
    dt_forward_finish(state, out, q, query, row, mine, t);
}

#endif
