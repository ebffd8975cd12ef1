/* SPDX-License-Identifier: Apache-2.0 */
/* First weights: what they are like, and that nobody's cut shows in them. */
#include "tests/lib/check.h"
#include "worker_runtime/train/init.h"

#include <math.h>

#define COUNT ((size_t)200000)

static float *make(const struct dt_tensor *t, size_t tensor, uint64_t seed)
{
    float *v = calloc(COUNT, sizeof *v);
    CHECK(v != NULL);
    dt_init_tensor(t, tensor, seed, 0, COUNT, v);
    return v;
}

/* The sum of products of V's elements and those APART places on, over COUNT. */
static double moment(const float *v, size_t apart)
{
    double sum = 0;
    for (size_t i = 0; i + apart < COUNT; i++)
        sum += (double)v[i] * (double)v[i + apart];
    return sum / (double)COUNT;
}

TEST(they_are_normal_with_the_deviation_that_was_asked_for)
{
    struct dt_tensor t = {.init_std = 0.5f};
    float *v = make(&t, 3, 42);
    double mean = 0, third = 0, fourth = 0;
    size_t beyond_two = 0;
    for (size_t i = 0; i < COUNT; i++) {
        double x = (double)v[i] / 0.5;
        CHECK(isfinite(x) && fabs(x) < 9);
        mean += x / (double)COUNT;
        third += x * x * x / (double)COUNT;
        fourth += x * x * x * x / (double)COUNT;
        beyond_two += fabs(x) > 2;
    }
    /* Five deviations of each estimate: 1, sqrt(2), sqrt(15), sqrt(96) over sqrt(COUNT). */
    double five = 5 / sqrt((double)COUNT);
    CHECK(fabs(mean) < five);
    CHECK(fabs(moment(v, 0) / 0.25 - 1) < five * sqrt(2));
    CHECK(fabs(third) < five * sqrt(15));
    CHECK(fabs(fourth - 3) < five * sqrt(96));
    CHECK(fabs((double)beyond_two / (double)COUNT - 0.0455) < five * 0.21);
    free(v);
}

TEST(neighbours_tensors_and_seeds_have_nothing_to_do_with_each_other)
{
    struct dt_tensor t = {.init_std = 1};
    float *v = make(&t, 3, 42), *tensor = make(&t, 4, 42), *seed = make(&t, 3, 43);
    double five = 5 / sqrt((double)COUNT), with_tensor = 0, with_seed = 0, crossed = 0;
    for (size_t apart = 1; apart <= 4; apart++) {
        CHECK_ROW("%zu apart", apart);
        CHECK(fabs(moment(v, apart)) < five);
    }
    for (size_t i = 0; i < COUNT; i++) {
        with_tensor += (double)v[i] * (double)tensor[i] / (double)COUNT;
        with_seed += (double)v[i] * (double)seed[i] / (double)COUNT;
        crossed += (double)tensor[i] * (double)seed[i] / (double)COUNT; /* 42 and 4, 43 and 3 */
    }
    CHECK(fabs(with_tensor) < five);
    CHECK(fabs(with_seed) < five);
    CHECK(fabs(crossed) < five);
    free(v);
    free(tensor);
    free(seed);
}

TEST(a_range_has_the_bits_of_the_whole_however_it_is_cut)
{
    struct dt_tensor t = {.init_std = 0.02f};
    float *v = make(&t, 7, UINT64_MAX), *cut = calloc(COUNT, sizeof *cut);
    size_t widths[] = {1, 2, 3, 16, 1001};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        CHECK_ROW("pieces of %zu", widths[w]);
        memset(cut, 0, COUNT * sizeof *cut);
        for (size_t i = 0; i < COUNT; i += widths[w])
            dt_init_tensor(&t, 7, UINT64_MAX, i, i + widths[w] < COUNT ? widths[w] : COUNT - i,
                           cut + i);
        CHECK(memcmp(v, cut, COUNT * sizeof *v) == 0);
    }
    free(v);
    free(cut);
}

TEST(what_has_no_deviation_is_its_constant)
{
    struct dt_tensor t = {.init_value = 1.5f};
    float v[3];
    dt_init_tensor(&t, 0, 1, 10, 3, v);
    for (int i = 0; i < 3; i++)
        CHECK(v[i] >= 1.5f && v[i] <= 1.5f);
}
