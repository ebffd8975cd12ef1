/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/generate/sampling.h"

#include "tests/lib/check.h"

#include <math.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))
#define CHANCES 10000
#define WORDS 500

TEST(without_temperature_the_likeliest_is_taken)
{
    static const struct {
        float logits[4];
        int32_t id;
    } rows[] = {
        {{1, 2, 3, 2}, 2},
        {{-1, -2, -3, -2}, 0},
        {{1, 5, 5, 2}, 1},
        {{NAN, 1, INFINITY, 0}, 1},
        {{-INFINITY, -INFINITY, -7, -INFINITY}, 2},
        {{NAN, NAN, NAN, NAN}, -1},
        {{NAN, INFINITY, -INFINITY, NAN}, -1},
    };
    const struct dt_sampling greedy = {.top_p = 1};
    struct dt_candidate room[4];
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("row %zu", i);
        CHECK_EQ(dt_sampling_pick(&greedy, rows[i].logits, 4, 0.99, room), rows[i].id);
    }
}

/* How often each word comes when all chances come equally often. */
static void find_shares(const struct dt_sampling *s, const float *logits, size_t words,
                        double *shares)
{
    struct dt_candidate room[WORDS];
    memset(shares, 0, words * sizeof *shares);
    for (int i = 0; i < CHANCES; i++) {
        int32_t id = dt_sampling_pick(s, logits, words, (i + 0.5) / CHANCES, room);
        CHECK(id >= 0 && (size_t)id < words);
        shares[id] += 1.0 / CHANCES;
    }
}

TEST(words_come_as_often_as_they_should)
{
    /* Of words with the shares 0.15, 0.5, 0.1 and 0.25. */
    static const struct {
        struct dt_sampling s;
        double shares[4];
    } rows[] = {
        {{.temperature = 1, .top_p = 1}, {0.15, 0.5, 0.1, 0.25}},
        {{.temperature = 1, .top_p = 1, .top_k = 4}, {0.15, 0.5, 0.1, 0.25}},
        {{.temperature = 1, .top_p = 1, .top_k = 9}, {0.15, 0.5, 0.1, 0.25}},
        {{.temperature = 1, .top_p = 1, .top_k = 2}, {0, 2 / 3.0, 0, 1 / 3.0}},
        {{.temperature = 1, .top_p = 1, .top_k = 1}, {0, 1, 0, 0}},
        {{.temperature = 1, .top_p = 0}, {0, 1, 0, 0}},
        {{.temperature = 1, .top_p = 0.49}, {0, 1, 0, 0}},
        {{.temperature = 1, .top_p = 0.51}, {0, 2 / 3.0, 0, 1 / 3.0}},
        {{.temperature = 1, .top_p = 0.76}, {0.15 / 0.9, 0.5 / 0.9, 0, 0.25 / 0.9}},
        {{.temperature = 1, .top_p = 0.95}, {0.15, 0.5, 0.1, 0.25}},
        /* Of the two that are left, the first has 2/3. */
        {{.temperature = 1, .top_p = 0.6, .top_k = 2}, {0, 1, 0, 0}},
        {{.temperature = 1, .top_p = 0.7, .top_k = 2}, {0, 2 / 3.0, 0, 1 / 3.0}},
        /* Squares: 0.0225, 0.25, 0.01, 0.0625; sum 0.345. */
        {{.temperature = 0.5, .top_p = 1},
         {0.0225 / 0.345, 0.25 / 0.345, 0.01 / 0.345, 0.0625 / 0.345}},
        {{.temperature = 0.5, .top_p = 0.72}, {0, 1, 0, 0}},
        {{.temperature = 1e-6, .top_p = 1}, {0, 1, 0, 0}},
    };
    const float logits[] = {logf(0.15f) + 3, logf(0.5f) + 3, logf(0.1f) + 3, logf(0.25f) + 3};
    double shares[4];
    for (size_t i = 0; i < ROWS(rows); i++) {
        find_shares(&rows[i].s, logits, 4, shares);
        for (size_t k = 0; k < 4; k++) {
            CHECK_ROW("row %zu, word %zu: %g, expected %g", i, k, shares[k], rows[i].shares[k]);
            CHECK(fabs(shares[k] - rows[i].shares[k]) < 2.0 / CHANCES);
        }
    }
}

static int by_logit(const void *a, const void *b)
{
    const struct dt_candidate *x = a, *y = b;
    return x->weight > y->weight ? -1 : x->weight < y->weight ? 1 : x->id - y->id;
}

/* What there is to choose among, by sorting all. */
static size_t sort_and_cut(const struct dt_sampling *s, const float *logits,
                           struct dt_candidate *out)
{
    double sum = 0, share = 0;
    for (int i = 0; i < WORDS; i++)
        out[i] = (struct dt_candidate){.weight = (double)logits[i], .id = i};
    qsort(out, WORDS, sizeof *out, by_logit);
    size_t n = s->top_k ? s->top_k : WORDS, kept = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp(out[i].weight / s->temperature);
    while (kept < n && (kept == 0 || share < s->top_p * sum))
        share += exp(out[kept++].weight / s->temperature);
    return kept;
}

/* Two in a row are equal now and then, so that ties are there too. */
TEST(many_words_are_cut_as_if_all_were_sorted)
{
    static const struct dt_sampling rows[] = {
        {1, 0.3, 0}, {1, 0.9, 0}, {0.7, 0.95, 40}, {2, 0.99, 0}, {1, 0.5, 7}, {1, 0.999, 499},
    };
    float logits[WORDS];
    uint32_t seed = 1;
    for (size_t i = 0; i < WORDS; i++) {
        seed = seed * 1664525u + 1013904223u;
        logits[i] = (float)(seed >> 26) / 8;
    }
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_candidate expected[WORDS];
        double shares[WORDS];
        size_t n = sort_and_cut(&rows[i], logits, expected), found = 0;
        find_shares(&rows[i], logits, WORDS, shares);
        for (size_t k = 0; k < n; k++) {
            CHECK_ROW("row %zu: word %d is one of %zu", i, (int)expected[k].id, n);
            CHECK(shares[expected[k].id] > 0 || rows[i].top_p > 0.98);
        }
        for (size_t k = 0; k < WORDS; k++)
            found += shares[k] > 0;
        CHECK_ROW("row %zu", i);
        CHECK(found <= n);
    }
}

TEST(chances_follow_from_the_seed_and_are_spread_evenly)
{
    int tenths[10] = {0};
    for (uint64_t n = 0; n < 10000; n++) {
        double x = dt_sampling_chance(7, n);
        CHECK(x >= 0 && x < 1);
        CHECK(x == dt_sampling_chance(7, n));
        CHECK(x != dt_sampling_chance(8, n));
        tenths[(int)(x * 10)]++;
    }
    for (int i = 0; i < 10; i++) {
        CHECK_ROW("tenth %d: %d", i, tenths[i]);
        CHECK(tenths[i] > 900 && tenths[i] < 1100);
    }
}
