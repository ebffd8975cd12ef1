/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/config/config.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

TEST(what_is_not_written_follows)
{
    /* clang-format off */
    static const struct { struct dt_config_batch written; int world; struct dt_batch is; } rows[] = {
        /* train, micro, accumulation */
        {{32, 4, 2}, 4,  {32, 4, 2}},
        {{32, 4, 0}, 4,  {32, 4, 2}},
        {{32, 0, 2}, 4,  {32, 4, 2}},
        {{0,  4, 2}, 4,  {32, 4, 2}},
        {{32, 0, 0}, 4,  {32, 8, 1}},
        {{0,  4, 0}, 4,  {16, 4, 1}},
        {{1,  0, 0}, 1,  {1, 1, 1}},
        {{0,  1, 0}, 7,  {7, 1, 1}},
        {{24, 2, 0}, 3,  {24, 2, 4}}, /* the same batch in worlds of other sizes */
        {{24, 2, 0}, 4,  {24, 2, 3}},
        {{24, 2, 0}, 12, {24, 2, 1}},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%zu", i);
        struct dt_batch b;
        struct dt_err err;
        CHECK_OK(dt_batch_resolve(&b, &rows[i].written, rows[i].world, &err), err);
        CHECK_EQ(b.train, rows[i].is.train);
        CHECK_EQ(b.micro, rows[i].is.micro);
        CHECK_EQ(b.accumulation, rows[i].is.accumulation);
    }
}

TEST(what_does_not_come_out_even_is_refused_with_numbers_that_do)
{
    /* clang-format off */
    static const struct { struct dt_config_batch written; int world; const char *error; } rows[] = {
        {{32, 3, 1}, 2, "train_batch_size 32 is not micro 3 x accumulation 1 x 2 ranks = 6"},
        {{32, 4, 1}, 2, "gradient_accumulation_steps 4 would make it so"},
        {{32, 3, 4}, 2, "train_micro_batch_size_per_gpu 4 would make it so"},
        {{32, 3, 0}, 2, "train_batch_size 32 is no multiple of train_micro_batch_size_per_gpu 3 x 2 ranks, nor of"},
        {{32, 3, 0}, 2, "train_batch_size 30 or 36 would do"},
        {{32, 2, 0}, 5, "worlds of 1, 2, 4, 8, 16 ranks divide it"},
        {{32, 2, 0}, 5, "train_batch_size 30 or 40 would do"},
        {{4,  8, 0}, 1, "train_batch_size 8 would do"},
        {{32, 0, 0}, 5, "train_batch_size 32 is not divided by 5 ranks; train_batch_size 30 or 35 would do, or 1, 2, 4, 8, 16, 32 ranks"},
        {{32, 0, 3}, 2, "not divided by 3 accumulation steps x 2 ranks"},
        {{3,  0, 0}, 4, "train_batch_size 4 would do"},
        {{0,  0, 0}, 4, "neither train_batch_size nor train_micro_batch_size_per_gpu is written"},
        {{0,  0, 2}, 4, "neither train_batch_size nor train_micro_batch_size_per_gpu is written"},
        {{-1, 0, 0}, 1, "above 0"},
        {{0, 1 << 30, 1 << 30}, 4, "larger than"},
        {{1, 1 << 30, 1 << 30}, 4, "larger than"},
        {{INT64_MAX, 1, 0}, 1, "larger than"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%zu: %s", i, rows[i].error);
        struct dt_batch b;
        struct dt_err err;
        CHECK_FAIL(dt_batch_resolve(&b, &rows[i].written, rows[i].world, &err), err, rows[i].error);
    }
}

/* Whatever is written, what comes out obeys the equation or is refused. */
TEST(the_equation_always_holds)
{
    for (int64_t train = 0; train <= 24; train++)
        for (int64_t micro = 0; micro <= 6; micro++)
            for (int64_t steps = 0; steps <= 6; steps++)
                for (int world = 1; world <= 8; world++) {
                    struct dt_config_batch w = {train, micro, steps};
                    struct dt_batch b;
                    if (dt_batch_resolve(&b, &w, world, NULL) < 0)
                        continue;
                    CHECK_ROW("%d %d %d, %d ranks", (int)train, (int)micro, (int)steps, world);
                    CHECK_EQ(b.micro * b.accumulation * world, b.train);
                    CHECK(b.micro > 0 && b.accumulation > 0);
                    CHECK(!train || b.train == train);
                    CHECK(!micro || b.micro == micro);
                    CHECK(!steps || b.accumulation == steps);
                }
}
