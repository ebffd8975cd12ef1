/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of ops share: arrays of exact size (a byte past the end is the sanitizer's to find)
 * that end with the test, numbers from a seed, comparison. */
#ifndef DT_TESTS_RUNTIME_OPS_KIT_H
#define DT_TESTS_RUNTIME_OPS_KIT_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"

enum { KIT_ARRAYS = 4096 };

struct kit {
    void *arrays[KIT_ARRAYS];
    size_t used;
    uint64_t state;
};

static inline void *kit_alloc(struct kit *k, size_t bytes)
{
    if (k->used == KIT_ARRAYS)
        abort();
    void *at = calloc(1, bytes ? bytes : 1);
    k->arrays[k->used++] = at;
    return at;
}

static inline void kit_free(struct kit *k)
{
    while (k->used > 0)
        free(k->arrays[--k->used]);
}

static inline uint32_t kit_random(struct kit *k)
{
    k->state = k->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(k->state >> 33);
}

/* About -1.7 to 1.7, of variance 1. */
static inline float kit_number(struct kit *k)
{
    return ((float)kit_random(k) * 0x1p-31f - 0.5f) * 3.4641f;
}

static inline float *kit_numbers(struct kit *k, size_t n)
{
    float *x = kit_alloc(k, n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = kit_number(k);
    return x;
}

/* Of a plain rotation whose base is 10000. */
static inline float *kit_speeds(struct kit *k, size_t head_dim)
{
    float *speeds = kit_alloc(k, head_dim / 2 * sizeof *speeds);
    for (size_t i = 0; i < head_dim / 2; i++)
        speeds[i] = (float)pow(10000, -2.0 * (double)i / (double)head_dim);
    return speeds;
}

static inline float *kit_copy(struct kit *k, size_t n, const float *from)
{
    float *x = kit_alloc(k, n * sizeof *x);
    if (n)
        memcpy(x, from, n * sizeof *x);
    return x;
}

static inline int32_t *kit_ids(struct kit *k, size_t n, size_t below)
{
    int32_t *ids = kit_alloc(k, n * sizeof *ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(kit_random(k) % below);
    return ids;
}

/* X[rows,width] with its rows STRIDE apart and NaNs between them. The array ends with the last
 * row. */
static inline size_t kit_spread_size(size_t rows, size_t width, size_t stride)
{
    return rows ? (rows - 1) * stride + width : 0;
}

static inline float *kit_spread(struct kit *k, size_t rows, size_t width, size_t stride,
                                const float *x)
{
    size_t n = kit_spread_size(rows, width, stride);
    float *to = kit_alloc(k, n * sizeof *to);
    for (size_t i = 0; i < n; i++)
        to[i] = i % stride < width ? x[i / stride * width + i % stride] : NAN;
    return to;
}

/* The rows again, packed, after a look at what is between them. */
static inline float *kit_gather(struct kit *k, size_t rows, size_t width, size_t stride,
                                const float *x)
{
    size_t n = kit_spread_size(rows, width, stride);
    float *to = kit_alloc(k, rows * width * sizeof *to);
    for (size_t i = 0; i < n; i++) {
        if (i % stride < width)
            to[i / stride * width + i % stride] = x[i];
        else
            CHECK(isnan(x[i]));
    }
    return to;
}

/* Each element is as near as ERROR times the largest wanted one (1 where all are smaller). */
static inline void kit_near(const char *what, size_t n, const float *is, const float *wanted,
                            double error)
{
    double largest = 1;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)wanted[i]));
    CHECK_ROW("%s, %zu elements", what, n);
    for (size_t i = 0; i < n; i++) {
        double off = fabs((double)is[i] - (double)wanted[i]);
        if (!(off <= error * largest)) {
            CHECK_ROW("[%zu] is %.9g, wanted %.9g, largest %g", i, (double)is[i], (double)wanted[i],
                      largest);
            CHECK(off <= error * largest);
        }
    }
    CHECK(true);
}

#endif
