/* SPDX-License-Identifier: Apache-2.0 */
/* Several arrays in one launch: a table of parts, each with the block of the launch that is its
 * first. */
#ifndef DT_CUDA_KERNELS_PARTS_CUH
#define DT_CUDA_KERNELS_PARTS_CUH

/* The part that this block works on: the last one that begins with it, or before it. TABLE has its
 * count as .parts, and .part_of[i].first. */
template <class TABLE> __device__ inline unsigned dt_part_of_block(const TABLE &t)
{
    unsigned at = 0, end = t.parts;
    while (end - at > 1) {
        unsigned middle = (at + end) / 2;
        if (t.part_of[middle].first <= blockIdx.x)
            at = middle;
        else
            end = middle;
    }
    return at;
}

#endif
