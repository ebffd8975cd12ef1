/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/web/curve.h"
#include "tests/lib/check.h"

#include <math.h>

#define BEGAN 1763881200

static void add(struct dt_curve *c, int64_t second, int64_t step, const char *loss, int64_t tokens)
{
    dt_curve_add(c,
                 &(struct dt_curve_sample){
                     .at_s = BEGAN + second, .step = step, .loss = loss, .tokens_per_s = tokens});
}

static void check_text(const struct dt_curve *c, const char *wanted)
{
    struct dt_buf out = {0};
    dt_curve_put(c, &out);
    CHECK_STR(dt_buf_cstr(&out), wanted);
    dt_buf_finish(&out);
}

TEST(a_run_that_told_nothing_has_no_points)
{
    struct dt_curve c = {0};
    check_text(NULL, "{\"every_s\":2,\"points\":[]}");
    check_text(&c, "{\"every_s\":2,\"points\":[]}");
}

TEST(what_is_unknown_is_null_and_a_loss_that_is_no_number_is_told)
{
    static const struct {
        int64_t step;
        const char *loss;
        int64_t tokens;
        const char *wanted;
    } rows[] = {
        {7, "2.3456", 51200, "7,2.3456,2.3456,2.3456,51200"},
        {7, "", 0, "7,null,null,null,null"},
        {-1, "-0.5", 0, "null,-0.5,-0.5,-0.5,null"},
        {7, "nan", 1, "7,\"nan\",null,null,1"},
        {7, "-inf", 1, "7,\"nan\",null,null,1"},
        {7, "no number", 1, "7,null,null,null,1"},
        {123456789012, "1e-9", 123456789, "123456789012,1e-09,1e-09,1e-09,1.23457e+08"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].wanted);
        char wanted[256];
        struct dt_curve c = {0};
        add(&c, 0, rows[i].step, rows[i].loss, rows[i].tokens);
        snprintf(wanted, sizeof wanted, "{\"every_s\":2,\"points\":[[%d,%s]]}", BEGAN,
                 rows[i].wanted);
        check_text(&c, wanted);
    }
}

TEST(samples_of_one_stretch_are_one_point)
{
    struct dt_curve c = {0};
    add(&c, 0, 1, "3", 100);
    add(&c, 1, 2, "5", 200);
    add(&c, 1, 3, "", 0);
    check_text(&c, "{\"every_s\":2,\"points\":[[1763881201,3,5,3,5,150]]}");
    add(&c, 2, 4, "4", 400);
    CHECK_EQ(c.len, 2);
}

TEST(a_clock_that_is_set_back_does_not_turn_the_line)
{
    struct dt_curve c = {0};
    add(&c, 100, 1, "3", 100);
    add(&c, 50, 2, "2", 100);
    CHECK_EQ(c.len, 1);
    CHECK_EQ(c.at[0].at_s, BEGAN + 100);
    CHECK_EQ(c.at[0].step, 2);
}

/* A night with one loss that is high, one that is low, and one that is none. */
TEST(a_long_run_is_thinned_and_no_peak_is_lost)
{
    struct dt_curve c = {0};
    double low = INFINITY, high = -INFINITY;
    int broken = 0;
    for (int64_t step = 0; step < 18000; step++) {
        const char *loss = "2";
        if (step == 3500)
            loss = "99";
        else if (step == 4500)
            loss = "-1";
        else if (step == 5500)
            loss = "nan";
        add(&c, step * 2, step, loss, 1000);
    }
    CHECK(c.len > DT_CURVE_MOST / 2 - 1 && c.len <= DT_CURVE_MOST);
    CHECK_EQ(c.every_s, 256);
    for (size_t i = 0; i < c.len; i++) {
        CHECK(i == 0 || c.at[i].at_s > c.at[i - 1].at_s);
        CHECK(i == 0 || c.at[i].step > c.at[i - 1].step);
        CHECK_EQ((int64_t)(c.at[i].tokens / (double)c.at[i].rated), 1000);
        low = fmin(low, c.at[i].low);
        high = fmax(high, c.at[i].high);
        broken += c.at[i].broken;
    }
    CHECK_EQ((int)low, -1);
    CHECK_EQ((int)high, 99);
    CHECK_EQ(broken, 1);
    CHECK_EQ(c.at[c.len - 1].at_s, BEGAN + 35998);
}

/* A clock that jumps years ahead thins the curve, and does not end it. */
TEST(samples_that_lie_far_apart_are_all_taken)
{
    struct dt_curve c = {0};
    for (int64_t i = 0; i < 1000; i++)
        add(&c, i * 86400 * 365, i, "1", 1);
    CHECK(c.len > 1 && c.len <= DT_CURVE_MOST);
    CHECK_EQ(c.at[c.len - 1].step, 999);
}
