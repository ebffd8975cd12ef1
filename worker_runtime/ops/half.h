/* SPDX-License-Identifier: Apache-2.0 */
/* The two 16-bit floats, to and from float: bits only, no branch that a compiler could not turn
 * into a select, so that loops over them become vector code.
 *
 * bfloat16 is the upper half of a float: sign, 8 bits of exponent, 7 of fraction. binary16 has 5
 * of exponent and 10 of fraction: its largest number is 65504, its smallest 2^-24. Rounding is to
 * nearest, ties to even; what is too large becomes infinite; a NaN stays one. */
#ifndef DT_WORKER_RUNTIME_OPS_HALF_H
#define DT_WORKER_RUNTIME_OPS_HALF_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define DT_HALF static inline __host__ __device__ /* a GPU's kernels round by the same code */
#else
#define DT_HALF static inline
#endif

DT_HALF uint32_t dt_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

DT_HALF float dt_bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

DT_HALF float dt_bf16_to_float(uint16_t h)
{
    return dt_bits_float((uint32_t)h << 16);
}

DT_HALF uint16_t dt_float_to_bf16(float x)
{
    uint32_t bits = dt_float_bits(x);
    /* Adding just under half of the last place, and one more where that place is odd, carries
     * exactly when the rounded value is the next one; past the largest the carry is infinity. */
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t quiet_nan = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

DT_HALF float dt_f16_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    /* The exponents' biases differ by 112. A product by 2^112 makes up for it and normalises
     * denormals on the way; exponent 31 is infinity or NaN and needs 112 more. */
    uint32_t finite = dt_float_bits(dt_bits_float(rest) * 0x1p112f);
    uint32_t special = rest | 0x7f800000;
    return dt_bits_float(sign | (rest >= 0x0f800000 ? special : finite));
}

DT_HALF uint16_t dt_float_to_f16(float x)
{
    uint32_t bits = dt_float_bits(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    /* Normal: rebias, and round as for bfloat16 above, 13 bits away. */
    uint32_t normal = (rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
    /* Below 2^-14: adding 0.5 puts the last place of binary16, 2^-24, at that of a float, and the
     * addition itself rounds. */
    uint32_t small = dt_float_bits(dt_bits_float(rest) + 0.5f) - dt_float_bits(0.5f);
    uint32_t finite = rest < 0x38800000 ? small : normal;
    uint32_t nan = 0x7e00 | (rest >> 13 & 0x3ff);
    uint32_t large = rest > 0x7f800000 ? nan : 0x7c00;
    /* 65520 is half-way from the largest number to the next, and that would be even. */
    return (uint16_t)(sign | (rest >= 0x477ff000 ? large : finite));
}

/* To float so that a second rounding, to 16 bits, comes out as one rounding would: what does not
 * fit leaves its trace in the last bit ("round to odd"). */
DT_HALF float dt_double_to_float_odd(double x)
{
    float f = (float)x;
    uint32_t bits = dt_float_bits(f);
    if ((double)f == x || x != x || (bits & 1))
        return f;
    double larger = f < 0 ? -(double)f : (double)f, exact = x < 0 ? -x : x;
    return dt_bits_float(larger > exact ? bits - 1 : bits + 1);
}

#endif
