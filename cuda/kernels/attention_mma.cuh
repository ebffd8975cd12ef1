/* SPDX-License-Identifier: Apache-2.0 */
/* What the tensor-core kernels of attention share: bfloat16 tiles in shared memory, and products of
 * them whose results stay in registers.
 *
 * A tile has rows of D bfloat16 (64 or 128) in pieces of 16 bytes; piece c of row r lies at place
 * c ^ (r % 8), so that eight rows' pieces of one number lie in eight different groups of banks: the
 * reads of ldmatrix, the copies in and the stores out are all free of conflicts. A warp has 16 *
 * GROUPS rows of its own side; what it computes of N streamed rows or of D columns is float
 * [GROUPS][N / 8 or D / 8][4], in the order of mma.m16n8k16: of each 16 x 8 part, a lane has
 * columns 2 (lane % 4) and the next, in rows lane / 4 (elements 0, 1) and 8 further (2, 3). Two
 * such parts side by side, rounded to bfloat16, are just the first operand of the next product:
 * weights never pass through shared memory. */
#ifndef DT_CUDA_ATTENTION_MMA_CUH
#define DT_CUDA_ATTENTION_MMA_CUH

#include "cuda/kernels/attention.cuh"
#include "cuda/kernels/mma.cuh"

typedef __nv_bfloat16 dt_bf16;

/* Another eight rows further it is D * 8 more, and from an even piece to the next but one it
 * differs in the bits of 16: what follows from one offset costs next to nothing. */
template <int D> __device__ inline int dt_tile_offset(int row, int piece)
{
    return row * D + (piece ^ (row & 7)) * 8;
}

/* Starts copies of ROWS rows by THREADS threads; from VALID on, zeros. */
template <int D, int ROWS, int THREADS>
__device__ inline void dt_tile_load(dt_bf16 *tile, const dt_bf16 *from, size_t stride, int valid)
{
    constexpr int PIECES = D / 8;
    static_assert(ROWS * PIECES % THREADS == 0 && THREADS % (8 * PIECES) == 0, "all copy alike");
    int thread = dt_unforeseen(static_cast<int>(threadIdx.x));
    int row = thread / PIECES, piece = thread % PIECES, at = dt_tile_offset<D>(row, piece);
    from += static_cast<size_t>(row) * stride + piece * 8;
#pragma unroll
    for (int r = 0; r < ROWS; r += THREADS / PIECES) {
        dt_copy_async16(tile + at + r * D, from, row + r < valid);
        from += THREADS / PIECES * stride;
    }
}

/* s = A B': rows of A from ROW on with the first N rows of B. */
template <int D, int GROUPS, int N>
__device__ inline void dt_tile_dots(float (&s)[GROUPS][N / 8][4], const dt_bf16 *a, int row,
                                    const dt_bf16 *b)
{
    int lane = dt_unforeseen(static_cast<int>(threadIdx.x) % DT_WARP);
    int a_at = dt_tile_offset<D>(row + lane % 16, lane / 16);
    int b_at = dt_tile_offset<D>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[g][n][i] = 0;
#pragma unroll 2
    for (int k = 0; k < D / 8; k += 2) {
        uint32_t x[GROUPS][4];
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
            dt_ldmatrix_x4(x[g], a + (a_at ^ k * 8) + 16 * g * D);
#pragma unroll
        for (int n = 0; n < N / 8; n += 2) {
            uint32_t y[4];
            dt_ldmatrix_x4(y, b + (b_at ^ k * 8) + 8 * n * D);
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                dt_mma_m16n8k16_bf16(s[g][n], x[g], y);
                dt_mma_m16n8k16_bf16(s[g][n + 1], x[g], y + 2);
            }
        }
    }
}

/* W rounded to bfloat16, as first operand of a product. */
template <int GROUPS, int N>
__device__ inline void dt_tile_round(uint32_t (&to)[GROUPS][N / 16][4],
                                     const float (&w)[GROUPS][N / 8][4])
{
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int k = 0; k < N / 16; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                to[g][k][i] = dt_pack_bf16(w[g][2 * k + i / 2][i % 2 * 2],
                                           w[g][2 * k + i / 2][i % 2 * 2 + 1]);
}

/* sum += W B: the first N rows of B, weighed. */
template <int D, int GROUPS, int N>
__device__ inline void dt_tile_weigh(float (&sum)[GROUPS][D / 8][4],
                                     const uint32_t (&w)[GROUPS][N / 16][4], const dt_bf16 *b)
{
    int lane = dt_unforeseen(static_cast<int>(threadIdx.x) % DT_WARP);
    int b_at = dt_tile_offset<D>(lane % 16, lane / 16);
#pragma unroll
    for (int k = 0; k < N / 16; k++) {
#pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
            uint32_t y[4];
            dt_ldmatrix_x4_trans(y, b + (b_at ^ n * 8) + 16 * k * D);
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                dt_mma_m16n8k16_bf16(sum[g][n], w[g][k], y);
                dt_mma_m16n8k16_bf16(sum[g][n + 1], w[g][k], y + 2);
            }
        }
    }
}

/* X, to rows of TO from ROW on, but none from VALID on; by way of this warp's rows of TILE, which
 * no other warp reads any more, so that 16 bytes are written at a time. */
template <int D, int GROUPS>
__device__ inline void dt_tile_store(dt_bf16 *to, size_t stride, int valid, dt_bf16 *tile, int row,
                                     const float (&x)[GROUPS][D / 8][4])
{
    constexpr int PIECES = D / 8;
    int lane = static_cast<int>(threadIdx.x) % DT_WARP;
    int at = dt_tile_offset<D>(row + lane / 4, 0) + lane % 4 * 2;
    __syncwarp(); /* what ldmatrix read for one lane another overwrites */
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int n = 0; n < PIECES; n++)
#pragma unroll
            for (int i = 0; i < 4; i += 2)
                *reinterpret_cast<uint32_t *>(tile + (at ^ n * 8) + (16 * g + 4 * i) * D) =
                    dt_pack_bf16(x[g][n][i], x[g][n][i + 1]);
    __syncwarp();
#pragma unroll
    for (int i = lane; i < 16 * GROUPS * PIECES; i += DT_WARP) {
        int r = row + i / PIECES, piece = i % PIECES;
        if (r < valid)
            *reinterpret_cast<dt_pack<dt_bf16> *>(to + static_cast<size_t>(r) * stride +
                                                  piece * 8) =
                *reinterpret_cast<const dt_pack<dt_bf16> *>(tile + dt_tile_offset<D>(r, piece));
    }
}

/* X, to rows of TO from ROW on, D numbers each. */
template <int D, int GROUPS>
__device__ inline void dt_tile_put(float *to, int row, const float (&x)[GROUPS][D / 8][4])
{
    int lane = static_cast<int>(threadIdx.x) % DT_WARP;
    to += (row + lane / 4) * D + lane % 4 * 2;
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i += 2)
                *reinterpret_cast<float2 *>(to + (16 * g + 4 * i) * D + 8 * n) =
                    float2{x[g][n][i], x[g][n][i + 1]};
}

/* Row of this lane's elements 2 * BELOW and 2 * BELOW + 1 in group G, counted from the warp's
 * first; and column of element I in part N. */
__device__ inline int dt_tile_row(int g, int below)
{
    return 16 * g + 8 * below + static_cast<int>(threadIdx.x) % DT_WARP / 4;
}

__device__ inline int dt_tile_column(int n, int i)
{
    return 8 * n + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
}

#endif
