/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/train/balance.h"

#include <math.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))

static struct dt_balance *made(enum dt_balance_policy policy, int ranks, int total)
{
    struct dt_err err = {0};
    struct dt_balance *b = dt_balance_create(policy, ranks, total, &err);
    CHECK_STR(err.text, "");
    CHECK(b != NULL);
    return b;
}

/* Each rank takes SPEED seconds a micro-step; the step lasts as long as the slowest. */
static bool step(struct dt_balance *b, const double *speed, int ranks)
{
    double compute[8], longest = 0;
    for (int r = 0; r < ranks; r++) {
        compute[r] = speed[r] * dt_balance_deal(b)[r];
        longest = fmax(longest, compute[r]);
    }
    return dt_balance_step(b, compute, longest);
}

static double longest(const struct dt_balance *b, const double *speed, int ranks)
{
    double most = 0;
    for (int r = 0; r < ranks; r++)
        most = fmax(most, speed[r] * dt_balance_deal(b)[r]);
    return most;
}

TEST(the_first_deal_is_as_even_as_can_be)
{
    static const int want[] = {3, 3, 2, 2};
    struct dt_balance *b = made(DT_BALANCE_TIMES, 4, 10);
    CHECK_BYTES(dt_balance_deal(b), sizeof want, want, sizeof want);
    dt_balance_destroy(b);
    dt_balance_destroy(NULL);
}

TEST(fewer_micro_batches_than_ranks_are_refused)
{
    struct dt_err err;
    CHECK(dt_balance_create(DT_BALANCE_TIMES, 4, 3, &err) == NULL);
    CHECK_STR(err.text, "3 micro-batches a step are too few for 4 ranks");
    CHECK(dt_balance_create(DT_BALANCE_TIMES, 0, 3, &err) == NULL);
}

/* The shortest step that any deal of the total gives: ranks take one more as long as they can. */
static double best(const double *speed, int ranks, int total)
{
    int deal[8];
    for (int r = 0; r < ranks; r++)
        deal[r] = 1;
    for (int left = total - ranks; left > 0; left--) {
        int quick = 0;
        for (int r = 1; r < ranks; r++)
            if (speed[r] * (deal[r] + 1) < speed[quick] * (deal[quick] + 1))
                quick = r;
        deal[quick]++;
    }
    double most = 0;
    for (int r = 0; r < ranks; r++)
        most = fmax(most, speed[r] * deal[r]);
    return most;
}

TEST(times_come_to_the_best_deal_and_stay_there)
{
    static const double speeds[][4] = {
        {1, 1, 1, 1}, {1, 1, 1, 2}, {4, 1, 1, 1}, {1, 2, 3, 4}, {9, 1, 1, 1}, {0.3, 0.31, 0.9, 0.2},
    };
    for (size_t i = 0; i < ROWS(speeds); i++)
        for (int total = 4; total <= 40; total += 9) {
            CHECK_ROW("speeds %zu, %d micro-batches", i, total);
            struct dt_balance *b = made(DT_BALANCE_TIMES, 4, total);
            int moves = 0;
            while (moves <= total && step(b, speeds[i], 4)) {
                int sum = 0;
                for (int r = 0; r < 4; r++) {
                    CHECK(dt_balance_deal(b)[r] >= 1);
                    sum += dt_balance_deal(b)[r];
                }
                CHECK_EQ(sum, total);
                moves++;
            }
            CHECK(moves <= total); /* it comes to rest */
            CHECK(fabs(longest(b, speeds[i], 4) - best(speeds[i], 4, total)) < 1e-9);
            CHECK(!step(b, speeds[i], 4));
            dt_balance_destroy(b);
        }
}

TEST(utilisation_wants_three_low_steps_in_a_row)
{
    static const double low[] = {0.5, 0.95}, fine[] = {0.7, 0.95};
    static const int want[] = {3, 5};
    struct dt_balance *b = made(DT_BALANCE_UTILISATION, 2, 8);
    CHECK(!dt_balance_step(b, low, 1));
    CHECK(!dt_balance_step(b, low, 1));
    CHECK(!dt_balance_step(b, fine, 1)); /* not in a row */
    CHECK(!dt_balance_step(b, low, 1));
    CHECK(!dt_balance_step(b, low, 1));
    CHECK(dt_balance_step(b, low, 1));
    CHECK_BYTES(dt_balance_deal(b), sizeof want, want, sizeof want);
    CHECK(!dt_balance_step(b, low, 1)); /* it is counted anew */
    dt_balance_destroy(b);
}

TEST(utilisation_needs_a_taker_above_92_percent)
{
    static const double idle[] = {0.5, 0.91};
    struct dt_balance *b = made(DT_BALANCE_UTILISATION, 2, 8);
    for (int i = 0; i < 10; i++)
        CHECK(!dt_balance_step(b, idle, 1));
    dt_balance_destroy(b);
}

TEST(nobody_falls_below_one)
{
    static const double times[] = {1e-3, 1};
    static const double low[] = {0.1, 0.99};
    struct dt_balance *t = made(DT_BALANCE_TIMES, 2, 2), *u = made(DT_BALANCE_UTILISATION, 2, 3);
    for (int i = 0; i < 20; i++) {
        CHECK(!dt_balance_step(t, times, 1));
        dt_balance_step(u, low, 1);
    }
    CHECK_EQ(dt_balance_deal(u)[0], 1);
    CHECK_EQ(dt_balance_deal(u)[1], 2);
    dt_balance_destroy(t);
    dt_balance_destroy(u);
}

TEST(off_and_what_is_no_time_change_nothing)
{
    static const double times[] = {1, 9}, none[] = {0, 9}, bad[] = {NAN, 9};
    struct dt_balance *off = made(DT_BALANCE_OFF, 2, 8), *on = made(DT_BALANCE_TIMES, 2, 8);
    CHECK(!dt_balance_step(off, times, 9));
    CHECK(!dt_balance_step(on, none, 9));
    CHECK(!dt_balance_step(on, bad, 9));
    CHECK(!dt_balance_step(on, times, 0));
    CHECK(dt_balance_step(on, times, 9));
    dt_balance_destroy(off);
    dt_balance_destroy(on);
}

TEST(a_deal_from_elsewhere_is_checked)
{
    /* clang-format off */
    static const struct { int deal[3], ranks; const char *error; } rows[] = {
        {{1, 2, 3}, 3, NULL},
        {{4, 1, 1}, 3, NULL},
        {{3, 3, 0}, 3, "rank 2 is dealt 0 micro-batches"},
        {{7, -2, 1}, 3, "rank 1 is dealt -2 micro-batches"},
        {{2, 2, 3}, 3, "7 micro-batches are dealt; a step has 6"},
        {{INT32_MAX, INT32_MAX, 1}, 3, "4294967295 micro-batches are dealt"},
        {{3, 3, 0}, 2, "a deal of micro-batches to 2 ranks is none to 3"},
    };
    /* clang-format on */
    struct dt_balance *b = made(DT_BALANCE_TIMES, 3, 6);
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%zu", i);
        struct dt_err err;
        if (rows[i].error) {
            CHECK_FAIL(dt_balance_set(b, rows[i].deal, rows[i].ranks, &err), err, rows[i].error);
            continue;
        }
        CHECK_OK(dt_balance_set(b, rows[i].deal, rows[i].ranks, &err), err);
        CHECK_BYTES(dt_balance_deal(b), sizeof rows[i].deal, rows[i].deal, sizeof rows[i].deal);
    }
    CHECK_EQ(dt_balance_deal(b)[0], 4); /* what is refused changes nothing */
    dt_balance_destroy(b);
}
