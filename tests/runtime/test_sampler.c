/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/data/sampler.h"

static bool epoch_is_permutation(const struct dt_sampler *s, uint64_t epoch)
{
    uint8_t *seen = calloc(s->samples, 1);
    bool all = seen != NULL;
    for (size_t i = 0; all && i < s->samples; i++) {
        size_t at = dt_sampler_at(s, epoch * s->samples + i);
        all = at < s->samples && !seen[at];
        if (all)
            seen[at] = 1;
    }
    free(seen);
    return all;
}

TEST(each_epoch_is_a_permutation_of_any_number_of_samples)
{
    for (size_t n = 1; n <= 2000; n++) {
        CHECK_ROW("%zu samples", n);
        struct dt_sampler s = {.samples = n, .seed = n * 31, .shuffle = true};
        CHECK(epoch_is_permutation(&s, n % 7));
    }
    static const size_t large[] = {4095, 4096, 4097, 65536, 65537, 99991, 262145};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        CHECK_ROW("%zu samples", large[i]);
        struct dt_sampler s = {.samples = large[i], .seed = 1, .shuffle = true};
        CHECK(epoch_is_permutation(&s, 3));
    }
}

TEST(a_number_of_samples_that_fills_the_machine_is_no_trouble)
{
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX / 2 + 2, (size_t)1 << 40};
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        struct dt_sampler s = {.samples = huge[i], .seed = 5, .shuffle = true};
        for (uint64_t k = 0; k < 100; k++)
            CHECK(dt_sampler_at(&s, k) < huge[i]);
    }
}

TEST(epochs_and_seeds_have_different_orders)
{
    struct dt_sampler one = {.samples = 1000, .seed = 1, .shuffle = true};
    struct dt_sampler two = {.samples = 1000, .seed = 2, .shuffle = true};
    size_t same_epoch = 0, same_seed = 0, same_place = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        same_epoch += dt_sampler_at(&one, i) == dt_sampler_at(&one, 1000 + i);
        same_seed += dt_sampler_at(&one, i) == dt_sampler_at(&two, i);
        same_place += dt_sampler_at(&one, i) == i;
    }
    /* Of two random orders about one sample is at the same place. */
    CHECK(same_epoch < 10);
    CHECK(same_seed < 10);
    CHECK(same_place < 10);
}

TEST(every_sample_comes_first_in_some_epoch)
{
    for (size_t n = 2; n <= 8; n++) {
        CHECK_ROW("%zu samples", n);
        struct dt_sampler s = {.samples = n, .seed = 7, .shuffle = true};
        unsigned firsts[8] = {0};
        for (uint64_t epoch = 0; epoch < 4000; epoch++)
            firsts[dt_sampler_at(&s, epoch * n)]++;
        for (size_t i = 0; i < n; i++) {
            CHECK(firsts[i] > 4000 / n * 8 / 10);
            CHECK(firsts[i] < 4000 / n * 12 / 10);
        }
    }
}

TEST(neighbours_in_the_file_are_no_neighbours_in_the_order)
{
    struct dt_sampler s = {.samples = 10007, .seed = 3, .shuffle = true};
    size_t neighbours = 0;
    for (uint64_t i = 0; i + 1 < s.samples; i++) {
        size_t a = dt_sampler_at(&s, i), b = dt_sampler_at(&s, i + 1);
        neighbours += a + 1 == b || b + 1 == a;
    }
    CHECK(neighbours < 20); /* about two are expected */
}

TEST(without_shuffle_it_is_the_order_of_the_file_again_and_again)
{
    struct dt_sampler s = {.samples = 7, .seed = 9, .shuffle = false};
    for (uint64_t i = 0; i < 30; i++)
        CHECK_EQ(dt_sampler_at(&s, i), i % 7);
}

TEST(of_no_samples_the_first_is_given_and_nothing_divides_by_zero)
{
    struct dt_sampler s = {.samples = 0, .shuffle = true};
    CHECK_EQ(dt_sampler_at(&s, 12), 0);
}

/* The samples that a step takes, as a deal of micro-steps to ranks has them, into OUT. */
static void step_of(const struct dt_sampler *s, uint64_t position, const int *deal, int ranks,
                    size_t micro, size_t *out)
{
    size_t n = 0;
    for (int rank = 0; rank < ranks; rank++)
        for (int m = 0; m < deal[rank]; m++)
            for (size_t i = 0; i < micro; i++)
                out[n++] = dt_sampler_at(s, position + dt_sampler_first(deal, rank, micro) +
                                                (uint64_t)m * micro + i);
}

TEST(a_step_takes_the_same_samples_in_any_world)
{
    struct dt_sampler s = {.samples = 50, .seed = 11, .shuffle = true};
    static const int one[] = {12}, two[] = {6, 6}, four[] = {3, 3, 3, 3}, uneven[] = {1, 7, 4};
    size_t a[24], b[24];
    for (uint64_t position = 0; position < 240; position += 24) {
        step_of(&s, position, one, 1, 2, a);
        step_of(&s, position, two, 2, 2, b);
        CHECK_BYTES(b, sizeof b, a, sizeof a);
        step_of(&s, position, four, 4, 2, b);
        CHECK_BYTES(b, sizeof b, a, sizeof a);
        step_of(&s, position, uneven, 3, 2, b);
        CHECK_BYTES(b, sizeof b, a, sizeof a);
    }
}
