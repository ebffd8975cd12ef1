/* SPDX-License-Identifier: Apache-2.0 */
/* A row of any width among LANES threads, in packs of 16 bytes: lane l has packs l, l + LANES, and
 * so on. Where arrays are not aligned for it (or the width is no multiple) the elements of a pack
 * are read one by one, by the same thread: the order of sums, and so their bits, hang on the width
 * and not on where things lie. To that end a product that is added to something is written fmaf():
 * a compiler joins the two as it likes, in the kernel of one alignment and not in the other's. */
#ifndef DT_CUDA_ROW_CUH
#define DT_CUDA_ROW_CUH

#include "cuda/kernels/common.cuh"

#include <type_traits>

namespace
{

/* Columns from C on, zeros behind the end. */
template <class E, bool ALIGNED>
__device__ inline dt_pack<E> take(const E *row, size_t width, size_t c)
{
    dt_pack<E> p;
    if constexpr (ALIGNED) {
        p = *reinterpret_cast<const dt_pack<E> *>(row + c);
    } else {
#pragma unroll
        for (int i = 0; i < dt_pack<E>::COUNT; i++)
            p.at[i] = c + i < width ? row[c + i] : dt_from_float<E>(0.0f);
    }
    return p;
}

template <class E, bool ALIGNED>
__device__ inline void put(E *row, size_t width, size_t c, const dt_pack<E> &p)
{
    if constexpr (ALIGNED) {
        *reinterpret_cast<dt_pack<E> *>(row + c) = p;
    } else {
#pragma unroll
        for (int i = 0; i < dt_pack<E>::COUNT; i++)
            if (c + i < width)
                row[c + i] = p.at[i];
    }
}

/* Threads of a block: one row, or, where a warp is enough for it, several. */
template <int LANES> struct block_of {
    static constexpr int THREADS = LANES == DT_WARP ? 256 : LANES;
    static constexpr int ROWS = THREADS / LANES;
};

template <class E, class... P> bool can_pack(size_t width, const P *...p)
{
    return width % dt_pack<E>::COUNT == 0 && dt_aligned16(p...);
}

/* Calls F(LANES, KEPT, ALIGNED), all as types, with as few lanes as may have KEPT columns each.
 * Returns false when the row is too wide for any. */
template <int KEPT, int LANES, int MOST, class F> bool with_lanes(size_t width, bool aligned, F f)
{
    if constexpr (LANES > MOST) {
        return false;
    } else if (width > static_cast<size_t>(LANES) * KEPT) {
        return with_lanes < KEPT, LANES == DT_WARP ? 4 * LANES : 2 * LANES,
               MOST > (width, aligned, f);
    } else {
        if (aligned)
            f(std::integral_constant<int, LANES>(), std::integral_constant<int, KEPT>(),
              std::true_type());
        else
            f(std::integral_constant<int, LANES>(), std::integral_constant<int, KEPT>(),
              std::false_type());
        return true;
    }
}

} // namespace

#endif
