/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of elements are folded in a scratch that stays in the first-level cache: each buffer is
 * read once and the result written once, whatever the number of ranks. */
#include "worker_runtime/coll/host/reduce.h"

#include <string.h>

/* The default -O2 of gcc 12 does not vectorize loops whose length it does not know. */
#ifndef __clang__
#pragma GCC optimize("O3")
#endif

/* OUT may be A itself: the loops carry nothing from one element to the next, which compilers cannot
 * know and would otherwise check, and then take the slow loop for all sums in place. */
#ifdef __clang__
#define EACH_ALONE _Pragma("clang loop vectorize(assume_safety)")
#else
#define EACH_ALONE _Pragma("GCC ivdep")
#endif

#define BLOCK 1024 /* elements: 4 to 8 KiB of scratch */

#define SUM(a, b) ((a) + (b))
#define MAX(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define MIN(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))

typedef void (*pair_fn)(void *out, const void *a, const void *b, size_t n);
typedef void (*fold_fn)(float *acc, const uint16_t *b, size_t n);

#define PAIR(name, T, OP)                                                                          \
    static void name(void *out_v, const void *a_v, const void *b_v, size_t n)                      \
    {                                                                                              \
        T *out = out_v;                                                                            \
        const T *a = a_v, *b = b_v;                                                                \
        EACH_ALONE for (size_t i = 0; i < n; i++) out[i] = (T)OP(a[i], b[i]);                      \
    }

/* Sums of integers are taken without a sign: they may wrap. */
PAIR(sum_f32, float, SUM)
PAIR(max_f32, float, MAX)
PAIR(min_f32, float, MIN)
PAIR(sum_f64, double, SUM)
PAIR(max_f64, double, MAX)
PAIR(min_f64, double, MIN)
PAIR(sum_32, uint32_t, SUM)
PAIR(max_i32, int32_t, MAX)
PAIR(min_i32, int32_t, MIN)
PAIR(sum_64, uint64_t, SUM)
PAIR(max_i64, int64_t, MAX)
PAIR(min_i64, int64_t, MIN)
PAIR(sum_u8, uint8_t, SUM)
PAIR(max_u8, uint8_t, MAX)
PAIR(min_u8, uint8_t, MIN)
PAIR(sum_u16, uint16_t, SUM)
PAIR(max_u16, uint16_t, MAX)
PAIR(min_u16, uint16_t, MIN)

static inline float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float f32_of_bf16(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

static inline uint16_t bf16_of_f32(float f)
{
    uint32_t x = bits_of(f), even = x >> 16 & 1;
    uint32_t nan = x >> 16 | 0x40, rounded = (x + 0x7fff + even) >> 16;
    return (uint16_t)((x & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* Moving the bits up and multiplying sets the exponent right for all, subnormal ones too, but for
 * infinity and NaN. */
static inline float f32_of_f16(uint16_t h)
{
    uint32_t moved = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t finite = bits_of(float_of(moved) * 0x1p112f), special = moved | 0x7f800000;
    return float_of(sign | ((h & 0x7c00) == 0x7c00 ? special : finite));
}

/* What is subnormal as f16 is rounded by adding 0.5, whose last bit is worth the smallest f16. */
static inline uint16_t f16_of_f32(float f)
{
    uint32_t x = bits_of(f), sign = x >> 16 & 0x8000, a = x & 0x7fffffff;
    uint32_t tiny = bits_of(float_of(a < 0x38800000 ? a : 0) + 0.5f) - 0x3f000000;
    uint32_t normal = (a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13;
    uint32_t big = a > 0x7f800000 ? 0x7e00 : 0x7c00;
    return (uint16_t)(sign | (a < 0x38800000 ? tiny : a < 0x47800000 ? normal : big));
}

#define HALF(format)                                                                               \
    static void widen_##format(float *acc, const uint16_t *b, size_t n)                            \
    {                                                                                              \
        EACH_ALONE for (size_t i = 0; i < n; i++) acc[i] = f32_of_##format(b[i]);                  \
    }                                                                                              \
    static void narrow_##format(uint16_t *out, const float *acc, size_t n)                         \
    {                                                                                              \
        EACH_ALONE for (size_t i = 0; i < n; i++) out[i] = format##_of_f32(acc[i]);                \
    }                                                                                              \
    HALF_FOLD(sum_##format, f32_of_##format, SUM)                                                  \
    HALF_FOLD(max_##format, f32_of_##format, MAX)                                                  \
    HALF_FOLD(min_##format, f32_of_##format, MIN)

#define HALF_FOLD(name, of, OP)                                                                    \
    static void name(float *acc, const uint16_t *b, size_t n)                                      \
    {                                                                                              \
        EACH_ALONE for (size_t i = 0; i < n; i++)                                                  \
        {                                                                                          \
            float v = of(b[i]);                                                                    \
            acc[i] = OP(acc[i], v);                                                                \
        }                                                                                          \
    }

HALF(bf16)
HALF(f16)

static const pair_fn pairs[DT_DTYPES][3] = {
    [DT_F32] = {sum_f32, max_f32, min_f32}, [DT_F64] = {sum_f64, max_f64, min_f64},
    [DT_I32] = {sum_32, max_i32, min_i32},  [DT_I64] = {sum_64, max_i64, min_i64},
    [DT_U8] = {sum_u8, max_u8, min_u8},     [DT_U16] = {sum_u16, max_u16, min_u16},
};

static const struct half {
    void (*widen)(float *acc, const uint16_t *b, size_t n);
    void (*narrow)(uint16_t *out, const float *acc, size_t n);
    fold_fn fold[3];
} halves[DT_DTYPES] = {
    [DT_BF16] = {widen_bf16, narrow_bf16, {sum_bf16, max_bf16, min_bf16}},
    [DT_F16] = {widen_f16, narrow_f16, {sum_f16, max_f16, min_f16}},
};

static void reduce_half(const struct half *h, enum dt_coll_op op, uint16_t *out,
                        const void *const *in, int n, size_t count)
{
    float acc[BLOCK];
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t len = count - at < BLOCK ? count - at : BLOCK;
        h->widen(acc, (const uint16_t *)in[0] + at, len);
        for (int k = 1; k < n; k++)
            h->fold[op](acc, (const uint16_t *)in[k] + at, len);
        h->narrow(out + at, acc, len);
    }
}

/* Three buffers and more: N is at least 3. */
static void reduce_many(pair_fn pair, size_t element, char *out, const void *const *in, int n,
                        size_t count)
{
    uint64_t acc[BLOCK];
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t len = count - at < BLOCK ? count - at : BLOCK, from = at * element;
        pair(acc, (const char *)in[0] + from, (const char *)in[1] + from, len);
        for (int k = 2; k < n - 1; k++)
            pair(acc, acc, (const char *)in[k] + from, len);
        pair(out + from, acc, (const char *)in[n - 1] + from, len);
    }
}

void dt_reduce(enum dt_dtype type, enum dt_coll_op op, void *out, const void *const *in, int n,
               size_t count)
{
    if (count == 0)
        return;
    if (n == 1) {
        if (out != in[0])
            memcpy(out, in[0], count * dt_dtype_size(type));
    } else if (halves[type].widen) {
        reduce_half(&halves[type], op, out, in, n, count);
    } else if (n == 2) {
        pairs[type][op](out, in[0], in[1], count);
    } else {
        reduce_many(pairs[type][op], dt_dtype_size(type), out, in, n, count);
    }
}
