/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/report/scale.h"
#include "tests/lib/check.h"

#include <math.h>

/* All labels, with a space between them. */
static const char *labels(struct dt_scale s)
{
    static char text[400];
    double ticks[DT_SCALE_TICKS];
    char label[DT_SCALE_LABEL];
    size_t n = dt_scale_ticks(&s, ticks);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? "  " : "",
                 dt_scale_label(&s, ticks[i], label));
    return text;
}

TEST(values_get_round_ticks)
{
    static const struct {
        double low, high;
        const char *labels;
    } rows[] = {
        {0, 1, "0  0.2  0.4  0.6  0.8  1.0"},
        {0, 23456, "0  5k  10k  15k  20k  25k"},
        {2.1, 5.9, "2  3  4  5  6"},
        {0, 0.002, "0  0.0005  0.001  0.0015  0.002"},
        {0, 3e-6, "0  1e-06  2e-06  3e-06"},
        {-3, 4, "-4  -2  0  2  4"},
        {0, 2.5e9, "0  500M  1.0G  1.5G  2.0G  2.5G"},
        {7, 7, "6.0  6.5  7.0  7.5  8.0"},
        {0, 0, "-1.0  -0.5  0  0.5  1.0"},
        {NAN, 5, "0  0.2  0.4  0.6  0.8  1.0"},
        {0, INFINITY, "0  0.2  0.4  0.6  0.8  1.0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%g to %g", rows[i].low, rows[i].high);
        CHECK_STR(labels(dt_scale_linear(rows[i].low, rows[i].high, 5)), rows[i].labels);
    }
}

TEST(powers_of_ten_are_for_what_is_above_nothing)
{
    CHECK_STR(labels(dt_scale_log(0.2, 45, 5)), "0.1  1  10  100");
    CHECK_STR(labels(dt_scale_log(1, 1e12, 4)), "1  1k  1M  1G  1T");
    CHECK_STR(labels(dt_scale_log(0, 10, 5)), "0  2  4  6  8  10");
    struct dt_scale s = dt_scale_log(1, 100, 5);
    CHECK(fabs(dt_scale_place(&s, 10) - 0.5) < 1e-9);
    CHECK(isnan(dt_scale_place(&s, 0)));
}

TEST(time_has_the_ticks_of_clocks)
{
    static const struct {
        double seconds;
        const char *labels;
    } rows[] = {
        {0.4, "0  0.1 s  0.2 s  0.3 s  0.4 s"},
        {19.8, "0  5 s  10 s  15 s"},
        {100, "0  30 s  1:00 min  1:30 min"},
        {3500, "0  15 min  30 min  45 min"},
        {5000, "0  30 min  1:00 h"},
        {90000, "0  6 h  12 h  18 h  1 d"},
        {200000, "0  12 h  1 d  1 d 12 h  2 d"},
        {9e6, "0  50 d  100 d"},
        {0, "0  0.2 s  0.4 s  0.6 s  0.8 s  1.0 s"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%g s", rows[i].seconds);
        CHECK_STR(labels(dt_scale_time(rows[i].seconds, 5)), rows[i].labels);
    }
}

TEST(there_are_never_too_many_ticks)
{
    for (int e = -300; e < 300; e += 7) {
        double ticks[DT_SCALE_TICKS], high = pow(10, e);
        CHECK_ROW("1e%d", e);
        struct dt_scale all[] = {dt_scale_linear(0, high, 5), dt_scale_linear(-high, high * 1.7, 8),
                                 dt_scale_log(high, 1e300, 5), dt_scale_time(high, 8)};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            CHECK(dt_scale_ticks(&all[i], ticks) <= DT_SCALE_TICKS);
            CHECK(all[i].low < all[i].high);
        }
    }
}
