/* SPDX-License-Identifier: Apache-2.0 */
/* Rows in the order of their words, and of equal words in their own: by digits of 8 bits, the last
 * one first, each time in three steps: count each digit in each tile of rows, add the counts up
 * so that they become places, put the rows there. One thread stands for one digit and walks through
 * its tile from the first row to the last, so that the order is the same each time and nothing has
 * to be taken by two. */
#ifndef DT_CUDA_SORT_CUH
#define DT_CUDA_SORT_CUH

#include "cuda/kernels/common.cuh"

namespace
{

enum { DIGITS = 256, TILE = 512, SCANNERS = 1024 };

struct tiles {
    size_t rows;
    const int32_t *ids;
    const uint32_t *order; /* [rows]: so far; NULL: as they are */
    int shift;             /* of the digit */
    size_t count;
};

/* The digits of a tile's rows, and the rows. Returns how many there are. */
__device__ inline int read_tile(const tiles &t, size_t tile, uint8_t *digits, uint32_t *rows)
{
    size_t first = tile * TILE;
    int here = t.rows - first < TILE ? static_cast<int>(t.rows - first) : TILE;
    for (int i = static_cast<int>(threadIdx.x); i < here; i += DIGITS) {
        uint32_t row = t.order ? t.order[first + i] : static_cast<uint32_t>(first + i);
        rows[i] = row;
        digits[i] = static_cast<uint8_t>(static_cast<uint32_t>(t.ids[row]) >> t.shift);
    }
    __syncthreads();
    return here;
}

/* counts[digit][tile] */
__global__ void __launch_bounds__(DIGITS) count_digits(tiles t, uint32_t *counts)
{
    DT_SHARED(uint8_t, digits, [TILE]);
    DT_SHARED(uint32_t, rows, [TILE]);
    int here = read_tile(t, blockIdx.x, digits, rows);
    uint32_t count = 0;
    for (int i = 0; i < here; i++)
        count += digits[i] == threadIdx.x;
    counts[threadIdx.x * t.count + blockIdx.x] = count;
}

/* The sum of x over this thread and those before it, in a block of SCANNERS. */
__device__ inline uint32_t sum_before(uint32_t x)
{
    DT_SHARED(uint32_t, warps, [SCANNERS / DT_WARP]);
    unsigned lane = threadIdx.x % DT_WARP, warp = threadIdx.x / DT_WARP;
    for (unsigned by = 1; by < DT_WARP; by *= 2) {
        uint32_t more = __shfl_up_sync(0xffffffffu, x, by);
        x += lane >= by ? more : 0;
    }
    if (lane == DT_WARP - 1)
        warps[warp] = x;
    __syncthreads();
    for (unsigned w = 0; w < warp; w++)
        x += warps[w];
    return x;
}

/* Each of N numbers becomes the sum of those before it. One block: each thread has a stretch. */
__global__ void __launch_bounds__(SCANNERS) add_up(size_t n, uint32_t *x)
{
    size_t each = (n + SCANNERS - 1) / SCANNERS, from = threadIdx.x * each;
    size_t to = from + each < n ? from + each : n;
    uint32_t sum = 0;
    for (size_t i = from; i < to; i++)
        sum += x[i];
    sum = sum_before(sum) - sum;
    for (size_t i = from; i < to; i++) {
        uint32_t here = x[i];
        x[i] = sum;
        sum += here;
    }
}

__global__ void __launch_bounds__(DIGITS)
    place_rows(tiles t, const uint32_t *places, uint32_t *order)
{
    DT_SHARED(uint8_t, digits, [TILE]);
    DT_SHARED(uint32_t, rows, [TILE]);
    int here = read_tile(t, blockIdx.x, digits, rows);
    uint32_t place = places[threadIdx.x * t.count + blockIdx.x];
    for (int i = 0; i < here; i++)
        if (digits[i] == threadIdx.x)
            order[place++] = rows[i];
}

/* What sort_rows() needs of scratch, in bytes: two orders, and the counts. */
inline size_t sort_bytes(size_t rows)
{
    return (2 * rows + DIGITS * dt_divide_up(rows, TILE)) * sizeof(uint32_t);
}

/* *ORDER: rows sorted by IDS, which are below VOCABULARY, somewhere in SCRATCH. ROWS is less than
 * 2^31. An id may also be -1 where none is VOCABULARY - 1: it comes last. */
inline cudaError_t sort_rows(size_t rows, const int32_t *ids, size_t vocabulary, uint32_t *scratch,
                             const uint32_t **order, cudaStream_t s)
{
    tiles t = {rows, ids, nullptr, 0, dt_divide_up(rows, TILE)};
    uint32_t *to = scratch, *other = scratch + rows, *counts = scratch + 2 * rows;
    dim3 grid(static_cast<unsigned>(t.count));
    cudaError_t e = cudaSuccess;
    do {
        e = dt_launch(count_digits, grid, dim3(DIGITS), 0, s, t, counts);
        if (e == cudaSuccess)
            e = dt_launch(add_up, dim3(1), dim3(SCANNERS), 0, s, DIGITS * t.count, counts);
        if (e == cudaSuccess)
            e = dt_launch(place_rows, grid, dim3(DIGITS), 0, s, t, counts, to);
        t.order = to;
        to = other;
        other = const_cast<uint32_t *>(t.order);
        t.shift += 8;
    } while (e == cudaSuccess && t.shift < 32 && (vocabulary - 1) >> t.shift != 0);
    *order = t.order;
    return e;
}

} // namespace

#endif
