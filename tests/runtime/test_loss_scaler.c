/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/optim/loss_scaler.h"

/* Steps of a run: "." went well, "!" overflowed. */
static int run(struct dt_loss_scaler *s, const char *steps, struct dt_err *err)
{
    for (; *steps; steps++)
        if (dt_loss_scaler_update(s, *steps == '!', err) < 0)
            return -1;
    return 0;
}

static const struct row {
    const char *what;
    int hysteresis;
    bool consecutive;
    double floor;
    const char *steps;
    double scale;
    int left;
} rows[] = {
    /* clang-format off */
    {"nothing happened", 1, false, 1, "", 64, 1},
    {"less than a window", 1, false, 1, "...", 64, 1},
    {"a window", 1, false, 1, "....", 64, 1},
    {"one more: the first step does not count", 1, false, 1, ".....", 128, 1},
    {"two windows", 1, false, 1, ".........", 256, 1},
    {"an overflow", 1, false, 1, "!", 32, 1},
    {"an overflow that is tolerated", 2, false, 1, "!", 64, 1},
    {"and one that is not", 2, false, 1, "!!", 32, 1},
    {"and each further one", 2, false, 1, "!!!", 16, 1},
    {"a clean step does not forgive", 2, false, 1, "!.!", 32, 1},
    {"but does when asked to", 2, true, 1, "!.!", 64, 1},
    {"and refills", 2, true, 1, "!.", 64, 2},
    {"a raise refills too", 2, false, 1, "!.....", 128, 2},
    {"an overflow starts the window anew", 2, false, 1, "...!....", 64, 1},
    {"and it ends later", 2, false, 1, "...!.....", 128, 2},
    {"it stops at the floor", 1, false, 40, "!", 40, 1},
    /* clang-format on */
};

TEST(the_scale_follows_overflows)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        struct dt_loss_scaler s = {.window = 4,
                                   .hysteresis = r->hysteresis,
                                   .consecutive_hysteresis = r->consecutive,
                                   .min_scale = r->floor};
        struct dt_err err = {0};
        dt_loss_scaler_dynamic(&s, 64);
        CHECK_ROW("%s: scale %g, %d left", r->what, s.scale, s.hysteresis_left);
        CHECK_OK(run(&s, r->steps, &err), err);
        CHECK_EQ((long)s.scale, (long)r->scale);
        CHECK_EQ(s.hysteresis_left, r->left);
        CHECK_EQ(s.iteration, (int64_t)strlen(r->steps));
    }
}

TEST(an_overflow_at_the_floor_ends_the_run)
{
    struct dt_loss_scaler s = {.window = 4, .hysteresis = 2, .min_scale = 1};
    struct dt_err err = {0};
    dt_loss_scaler_dynamic(&s, 2);
    CHECK_OK(run(&s, "!!", &err), err);
    CHECK_EQ((int)s.scale, 1);
    CHECK_FAIL(run(&s, "!", &err), err, "smallest loss scale, 1");
}

TEST(at_the_floor_hysteresis_still_tolerates)
{
    struct dt_loss_scaler s = {.window = 4, .hysteresis = 2, .min_scale = 1};
    struct dt_err err = {0};
    dt_loss_scaler_dynamic(&s, 1);
    CHECK_OK(run(&s, "!", &err), err);
    CHECK_FAIL(run(&s, "!", &err), err, "overflow");
}

TEST(a_fixed_scale_stays)
{
    struct dt_loss_scaler s;
    struct dt_err err = {0};
    dt_loss_scaler_fixed(&s, 128);
    CHECK_OK(run(&s, "!!!!........!", &err), err);
    CHECK_EQ((int)s.scale, 128);
    CHECK_EQ(s.iteration, 13);
    CHECK_EQ(s.last_overflow, 12);
}
