/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding floats to 16 bits by chance: to one of the two numbers around it, up the more often the
 * nearer the upper one is, so that the mean of many roundings is what was rounded. A small update
 * that rounding to nearest would lose each time then arrives now and then in full.
 *
 * The chance is no state but a function of a number and of the element's index, so that any thread
 * and any device finds the same one. C and C++; a GPU's kernels use it too. */
#ifndef DT_WORKER_RUNTIME_OPS_BY_CHANCE_H
#define DT_WORKER_RUNTIME_OPS_BY_CHANCE_H

#include "worker_runtime/ops/half.h"

/* One to one, and each bit of the result hangs on all of z. The factors are the fractions of the
 * roots of 2 and 3. */
DT_HALF uint64_t dt_mix(uint64_t z)
{
    z = (z ^ z >> 32) * UINT64_C(0x6a09e667f3bcc909);
    z = (z ^ z >> 29) * UINT64_C(0xbb67ae8584caa73b);
    return z ^ z >> 32;
}

/* The bits for element i, where START is dt_mix() of struct dt_adamw_part's chance. */
DT_HALF uint32_t dt_chance_bits(uint64_t start, uint64_t i)
{
    return (uint32_t)(dt_mix(start + i) >> 32);
}

/* The number of element I where of each PITCH numbers the first WIDTH are here; WIDTH 0: all are.
 */
DT_HALF uint64_t dt_chance_place(uint64_t i, uint64_t width, uint64_t pitch)
{
    return width ? i / width * pitch + i % width : i;
}

/* A carry out of the 16 bits that fall away is as likely as they are large. Where they are 0, as
 * for infinity, there is none. */
DT_HALF uint16_t dt_float_to_bf16_by_chance(float x, uint32_t chance)
{
    uint32_t bits = dt_float_bits(x);
    uint32_t rounded = (bits + (chance & 0xffff)) >> 16;
    uint32_t quiet_nan = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

DT_HALF uint16_t dt_float_to_f16_by_chance(float x, uint32_t chance)
{
    uint32_t bits = dt_float_bits(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    uint32_t normal = (rest - (112u << 23) + (chance & 0x1fff)) >> 13;
    /* Below 2^-14 the last place is 2^-24: what is left of x in whole ones is the chance. */
    float places = dt_bits_float(rest < 0x38800000 ? rest : 0) * 0x1p24f;
    uint32_t whole = (uint32_t)(int32_t)places;
    uint32_t small =
        whole + ((float)(int32_t)(chance >> 8) * 0x1p-24f < places - (float)(int32_t)whole);
    uint32_t finite = rest < 0x38800000 ? small : normal;
    uint32_t nan = 0x7e00 | (rest >> 13 & 0x3ff);
    uint32_t large = rest > 0x7f800000 ? nan : 0x7c00;
    return (uint16_t)(sign | (rest >= 0x47800000 ? large : finite));
}

#endif
