/* SPDX-License-Identifier: Apache-2.0 */
/* e^x and what is made of it, without a branch: each loop over them becomes vector code. */
#ifndef DT_WORKER_RUNTIME_OPS_CPU_MATH_H
#define DT_WORKER_RUNTIME_OPS_CPU_MATH_H

#include <math.h>
#include <stddef.h>

#include "worker_runtime/ops/half.h"

/* e^x = 2^n e^r with n whole and |r| <= log(2)/2, and e^r = 1 + r + r^2 q(r), where q is the
 * polynomial of degree 4 whose largest relative error is least. Below 2 units in the last place.
 * n comes of adding 1.5 * 2^23, which leaves no bits after the point; log(2) is taken away in two
 * pieces, the first short enough for its product with n to be exact. Below -87, where floats lose
 * their precision, 0; above 88 infinity. */
static inline float dt_expf(float x)
{
    float shifted = x * 0x1.715476p+0f + 0x1.8p+23f;
    float n = shifted - 0x1.8p+23f;
    float r = x - n * 0x1.63p-1f;
    r = r - n * -0x1.bd0106p-13f;
    float q = 0x1.6a2430p-10f;
    q = q * r + 0x1.1239e4p-7f;
    q = q * r + 0x1.5558f2p-5f;
    q = q * r + 0x1.555492p-3f;
    q = q * r + 0x1.fffffcp-2f;
    float y = 1 + (r + r * r * q);
    y = y * dt_bits_float((dt_float_bits(shifted) << 23) + 0x3f800000);
    y = x < -87 ? 0 : y;
    return x > 88 ? INFINITY : y;
}

/* gelu(x) = x/2 (1 + tanh(u)) = x / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
static inline float dt_gelu(float x)
{
    return x / (1 + dt_expf(-0x1.988454p+0f * x * (1 + 0x1.6e4e26p-5f * x * x)));
}

/* With z = sigmoid(2u): gelu' = z + x z (1 - z) 2u'. Past 20 nothing changes any more, and smaller
 * numbers keep the powers finite; the exponent is kept where 1 - z = e^-2u z is a number. */
static inline float dt_gelu_slope(float x)
{
    x = x > 20 ? 20 : x;
    x = x < -20 ? -20 : x;
    float u2 = 0x1.988454p+0f * x * (1 + 0x1.6e4e26p-5f * x * x);
    u2 = u2 < -80 ? -80 : u2;
    float e = dt_expf(-u2), z = 1 / (1 + e);
    return z + x * z * z * e * (0x1.988454p+0f * (1 + 3 * 0x1.6e4e26p-5f * x * x));
}

static inline float dt_sigmoid(float x)
{
    return 1 / (1 + dt_expf(-x));
}

/* tanh(x) = 1 - 2 / (1 + e^2x), wrong in the last places of 1 and not of itself: near 0, where
 * these would be all that there is, by its series, whose next part is below them. */
static inline float dt_tanhf(float x)
{
    float far = 1 - 2 / (1 + dt_expf(2 * x)), square = x * x;
    float near =
        x * (1 + square * (-0x1.555556p-2f + square * (0x1.111112p-3f - square * 0x1.ba1ba2p-5f)));
    return square < 0.03f ? near : far;
}

/* cap * tanh(x / cap): never beyond CAP. */
static inline float dt_capped(float x, float cap)
{
    return cap * dt_tanhf(x / cap);
}

/* The slope of that, where it gave Y. */
static inline float dt_cap_slope(float y, float cap)
{
    float part = y / cap;
    return 1 - part * part;
}

/* The largest number of a row, -infinity where there is none. In lanes by hand: not every compiler
 * makes a vector of a maximum that is to pass by NaN. */
static inline float dt_largest(size_t n, const float *x)
{
    enum { LANES = 32 };
    float lanes[LANES], largest = -INFINITY;
    size_t i = 0;
    for (size_t lane = 0; lane < LANES; lane++)
        lanes[lane] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
    for (size_t lane = 0; i < n; i++, lane++)
        lanes[lane] = x[i] > lanes[lane] ? x[i] : lanes[lane];
    for (size_t lane = 0; lane < LANES; lane++)
        largest = lanes[lane] > largest ? lanes[lane] : largest;
    return largest;
}

#endif
