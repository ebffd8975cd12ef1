/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm and RMSNorm of rows, backward. With h = (x - mean) * rstd and g = dout * (weight +
 * plus),
 *   dx += rstd * (g - average(g) - h * average(g h)), the first average for LayerNorm only;
 *   dweight[C] += the sum over rows of dout * h; dbias[C] += that of dout.
 *
 * Rows are cut in parts by their number and width, and by the GPU's multiprocessors: as many parts
 * as run at once, since each costs sums of all columns. A block goes through the rows of a part
 * with one row in registers and the next one on its way, and adds up columns in shared memory,
 * where each thread has its own. The parts' sums go to scratch, and a second kernel joins them in
 * order. Rows too wide for that, or for the GPU's shared memory, are read twice for dx and once
 * more for the columns. */
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/norm_backward.cuh"

namespace
{

enum { KEPT = 16, MOST = 512 };      /* columns of a thread, threads of a row */
enum { KEPT_ALONE = 32 };            /* columns where only x and dout are kept, and of one row */
enum { TOGETHER = 32, SLICES = 16 }; /* columns of a block that joins parts; threads for each */
enum { PART_ROWS = 8 };              /* of a part, or more, to be worth its sums */

/* Sums of columns in shared memory: fours of a pack lie PACKS fours apart, so that what the threads
 * of a warp reach for is side by side. */
struct column_sums {
    float *weight, *bias;
    size_t packs;
};

template <class E>
__device__ inline void add_columns(const column_sums &s, size_t pack, const operands<E> &o,
                                   const moments &m, bool with_bias)
{
#pragma unroll
    for (int four = 0; four < dt_pack<E>::COUNT / 4; four++) {
        size_t at = (four * s.packs + pack) * 4;
        float weight[4], bias[4] = {};
        dt_load16(s.weight + at, weight);
        if (with_bias)
            dt_load16(s.bias + at, bias);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float d = dt_to_float(o.dout.at[four * 4 + i]);
            float h = (dt_to_float(o.x.at[four * 4 + i]) - m.mean) * m.rstd;
            weight[i] = fmaf(d, h, weight[i]);
            bias[i] += d;
        }
        dt_store16(s.weight + at, weight);
        if (with_bias)
            dt_store16(s.bias + at, bias);
    }
}

/* Column C of a pack is where in one of a group's sums. */
template <class E> __device__ inline size_t place_of(size_t c, size_t packs)
{
    constexpr size_t COUNT = dt_pack<E>::COUNT;
    return (c % COUNT / 4 * packs + c / COUNT) * 4 + c % 4;
}

/* What a block's groups have added up, in their order. */
template <class E, int LANES>
__device__ inline void put_partials(const dt_norm &n, const arrays<E> &a, const float *sums,
                                    size_t packs)
{
    using block = block_of<LANES>;
    size_t padded = packs * dt_pack<E>::COUNT;
    float *to = a.partials + blockIdx.x * 2 * n.width;
    __syncthreads();
    for (size_t c = threadIdx.x; c < n.width; c += block::THREADS) {
        float weight = 0, bias = 0;
        for (int group = 0; group < block::ROWS; group++) {
            const float *of = sums + group * 2 * padded + place_of<E>(c, packs);
            weight += of[0];
            bias += of[padded];
        }
        to[c] = weight;
        to[n.width + c] = bias;
    }
}

/* One thread's share of a part's rows. */
template <class E, int LANES, int HELD, bool ALIGNED> struct share {
    static constexpr int COUNT = dt_pack<E>::COUNT, PACKS = HELD / COUNT;
    /* Whether dx, the weights and the next row are on their way before they are needed. */
    static constexpr bool AHEAD = HELD == KEPT;
    using packs = dt_pack<E>[PACKS];

    const dt_norm &n;
    const arrays<E> &a;
    column_sums columns;
    size_t lane;
    packs x, dout, dx, weight, next_x, next_dout;

    /* SUMS: of this thread's group. */
    __device__ share(const dt_norm &norm, const arrays<E> &of, float *sums, size_t packs_of_row)
        : n(norm), a(of), columns{sums, sums + packs_of_row * COUNT, packs_of_row},
          lane(threadIdx.x % LANES)
    {
    }

    __device__ size_t column(int p) const
    {
        return (lane + p * LANES) * COUNT;
    }

    __device__ dt_pack<E> one(const void *array, size_t row, int p) const
    {
        return take<E, ALIGNED>(static_cast<const E *>(array) + row * n.width, n.width, column(p));
    }

    __device__ void load(packs &to, const void *array, size_t row)
    {
#pragma unroll
        for (int p = 0; p < PACKS; p++)
            if (column(p) < n.width)
                to[p] = one(array, row, p);
    }

    __device__ operands<E> at(int p) const
    {
        return {x[p], dout[p], AHEAD ? weight[p] : one(n.weight, 0, p)};
    }

    __device__ void begin(size_t row, size_t last)
    {
        if constexpr (AHEAD) {
            load(weight, n.weight, 0);
            if (row < last) {
                load(next_x, a.x, row);
                load(next_dout, a.dout, row);
            }
        }
    }

    /* X and dout of ROW, and what is ahead. */
    __device__ void load_row(size_t row, size_t last)
    {
        if constexpr (AHEAD) {
#pragma unroll
            for (int p = 0; p < PACKS; p++) {
                x[p] = next_x[p];
                dout[p] = next_dout[p];
            }
            load(dx, a.dx, row);
            size_t next = row + block_of<LANES>::ROWS;
            if (next < last) {
                load(next_x, a.x, next);
                load(next_dout, a.dout, next);
            }
        } else {
            load(x, a.x, row);
            load(dout, a.dout, row);
        }
    }

    __device__ void do_row(size_t row)
    {
        moments m = moments_of(n, row);
        float averages[2] = {};
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            if (column(p) < n.width) {
                add_averages(at(p), m, averages);
                add_columns(columns, lane + p * LANES, at(p), m, a.with_bias);
            }
        }
        dt_block_sums<LANES>(averages);
        find_averages(n, averages, &m);
#pragma unroll
        for (int p = 0; p < PACKS; p++)
            if (column(p) < n.width)
                put<E, ALIGNED>(a.dx + row * n.width, n.width, column(p),
                                add_dx(at(p), m, AHEAD ? dx[p] : one(a.dx, row, p)));
    }
};

/* Registers for MOST threads of a multiprocessor; shared memory allows no more for wide rows. */
template <class E, int LANES, int HELD, bool ALIGNED>
__global__ void __launch_bounds__(block_of<LANES>::THREADS, MOST / block_of<LANES>::THREADS)
    norm_back(dt_norm n, arrays<E> a)
{
    constexpr size_t ROWS = block_of<LANES>::ROWS, COUNT = dt_pack<E>::COUNT;
    DT_SHARED_DYNAMIC(float, sums);
    size_t packs = (n.width + COUNT - 1) / COUNT, group = threadIdx.x / LANES;
    size_t row = blockIdx.x * a.part_rows + group, last = (blockIdx.x + 1) * a.part_rows;
    last = last < n.rows ? last : n.rows;
    for (size_t i = threadIdx.x; i < ROWS * 2 * packs * COUNT; i += block_of<LANES>::THREADS)
        sums[i] = 0;
    __syncthreads();
    share<E, LANES, HELD, ALIGNED> mine(n, a, sums + group * 2 * packs * COUNT, packs);
    mine.begin(row, last);
    for (; row < last; row += ROWS) {
        mine.load_row(row, last);
        mine.do_row(row);
    }
    put_partials<E, LANES>(n, a, sums, packs);
}

/* One of dweight and dbias (blockIdx.y): each thread adds up a slice of the parts for a column,
 * then the first of them the slices. */
template <class E>
__global__ void __launch_bounds__(TOGETHER *SLICES)
    join_parts(size_t parts, size_t width, const float *partials, E *dweight, E *dbias)
{
    DT_SHARED(float, slices, [SLICES][TOGETHER]);
    size_t lane = threadIdx.x % TOGETHER, slice = threadIdx.x / TOGETHER;
    size_t c = static_cast<size_t>(blockIdx.x) * TOGETHER + lane;
    size_t each = (parts + SLICES - 1) / SLICES, from = slice * each;
    size_t to = from + each < parts ? from + each : parts;
    const float *column = partials + blockIdx.y * width + c;
    float sum = 0;
    if (c < width) {
#pragma unroll 4
        for (size_t part = from; part < to; part++)
            sum += column[part * 2 * width];
    }
    slices[slice][lane] = sum;
    __syncthreads();
    if (slice > 0 || c >= width)
        return;
    for (int i = 1; i < SLICES; i++)
        sum += slices[i][lane];
    E *at = (blockIdx.y == 0 ? dweight : dbias) + c;
    *at = dt_from_float<E>(dt_to_float(*at) + sum);
}

/* Sets part_rows, a multiple of UNIT, for at most MOST_PARTS parts; returns how many there are. */
template <class E> size_t cut(const struct dt_norm *n, arrays<E> *a, size_t unit, size_t most_parts)
{
    size_t parts = dt_divide_up(n->rows, unit * PART_ROWS);
    size_t fit = DT_CUDA_SCRATCH / (2 * n->width * sizeof(float));
    most_parts = most_parts < fit ? most_parts : fit;
    parts = parts < most_parts ? parts : most_parts;
    if (parts == 0)
        return 0;
    a->part_rows = dt_divide_up(dt_divide_up(n->rows, parts), unit) * unit;
    return dt_divide_up(n->rows, a->part_rows);
}

/* Whether a block may have shared memory for two sums of each column, and a little beside: no more
 * than 99 KiB for all where GPUs are not made for data centers. */
bool sums_fit(size_t width)
{
    int device = 0, most = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
               cudaSuccess &&
           2 * width * sizeof(float) + 1024 <= static_cast<size_t>(most);
}

template <class E>
cudaError_t run(const struct dt_norm *n, arrays<E> a, E *dweight, E *dbias, struct dt_stream *s)
{
    size_t at_once = static_cast<size_t>(s->multiprocessors) * MOST; /* threads */
    bool aligned = can_pack<E>(n->width, a.dx, a.x, a.dout, n->weight);
    cudaError_t e = cudaSuccess;
    size_t parts = 0;
    auto launch = [&](auto lanes, auto held, auto is_aligned) {
        constexpr int LANES = decltype(lanes)::value;
        using block = block_of<LANES>;
        size_t padded = dt_divide_up(n->width, dt_pack<E>::COUNT) * dt_pack<E>::COUNT;
        parts = cut(n, &a, block::ROWS, at_once / block::THREADS);
        e = dt_launch(norm_back<E, LANES, decltype(held)::value, decltype(is_aligned)::value>,
                      dim3(static_cast<unsigned>(parts)), dim3(block::THREADS),
                      block::ROWS * 2 * padded * sizeof(float), s->compute, *n, a);
    };
    if (!with_lanes<KEPT, DT_WARP, MOST>(n->width, aligned, launch) &&
        !(sums_fit(n->width) && with_lanes<KEPT_ALONE, MOST, MOST>(n->width, aligned, launch))) {
        parts = cut(n, &a, 1, at_once / COLUMNS);
        e = parts ? back_wide(n, a, aligned, parts, s->compute) : cudaErrorInvalidValue;
    }
    if (e != cudaSuccess || !dweight)
        return e;
    return dt_launch(join_parts<E>, dim3(dt_blocks(n->width, TOGETHER), dbias ? 2 : 1),
                     dim3(TOGETHER * SLICES), 0, s->compute, parts, n->width, a.partials, dweight,
                     dbias);
}

} // namespace

cudaError_t dt_cuda_norm_backward(enum dt_dtype elem, const struct dt_norm *n, void *dx,
                                  void *dweight, void *dbias, const void *x, const void *dout,
                                  struct dt_stream *s)
{
    if (n->rows == 0 || n->width == 0)
        return cudaSuccess;
    return dt_with_elem(elem, [=](auto one) {
        using E = decltype(one);
        arrays<E> a = {static_cast<E *>(dx),
                       static_cast<const E *>(x),
                       static_cast<const E *>(dout),
                       static_cast<float *>(s->scratch),
                       0,
                       dbias != nullptr};
        return run<E>(n, a, static_cast<E *>(dweight), static_cast<E *>(dbias), s);
    });
}
