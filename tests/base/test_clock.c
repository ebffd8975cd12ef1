/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "tests/lib/check.h"

#include <limits.h>

TEST(adding_does_not_overflow)
{
    /* clang-format off */
    static const struct { dt_ms now, wait, then; } rows[] = {
        {0, 0, 0},
        {5, 7, 12},
        {0, DT_FOREVER, DT_FOREVER},
        {123456, DT_FOREVER, DT_FOREVER},
        {DT_FOREVER, 0, DT_FOREVER},
        {DT_FOREVER - 1, 1, DT_FOREVER},
        {DT_FOREVER - 1, 2, DT_FOREVER},
        {DT_FOREVER, DT_FOREVER, DT_FOREVER},
        {10, -3, 7}, /* a wait that is over */
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%jd + %jd", (intmax_t)rows[i].now, (intmax_t)rows[i].wait);
        CHECK_EQ(dt_clock_after(rows[i].now, rows[i].wait), rows[i].then);
    }
}

TEST(seconds_for_a_sentence_are_rounded_and_fit)
{
    /* clang-format off */
    static const struct { dt_ms duration; int seconds; } rows[] = {
        {0, 0},
        {499, 0},
        {500, 1},
        {1499, 1},
        {30000, 30},
        {-1, 0}, /* over */
        {-DT_FOREVER, 0},
        {INT_MAX * DT_SECOND - 501, INT_MAX - 1},
        {INT_MAX * DT_SECOND - 1, INT_MAX},
        {INT_MAX * DT_SECOND + 1, INT_MAX},
        {DT_FOREVER - 123456, INT_MAX},
        {DT_FOREVER, INT_MAX},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%jd", (intmax_t)rows[i].duration);
        CHECK_EQ(dt_clock_seconds(rows[i].duration), rows[i].seconds);
    }
}

TEST(moments_are_written_in_utc_with_microseconds)
{
    /* clang-format off */
    static const struct { int64_t us; const char *text; } rows[] = {
        {0, "1970-01-01T00:00:00.000000Z"},
        {1, "1970-01-01T00:00:00.000001Z"},
        {1795261992123456, "2026-11-21T11:53:12.123456Z"},
        {951782400999999, "2000-02-29T00:00:00.999999Z"},
    };
    /* clang-format on */
    setenv("TZ", "Asia/Tokyo", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[DT_CLOCK_TEXT];
        dt_clock_format(rows[i].us, out);
        CHECK_STR(out, rows[i].text);
    }
}

TEST(for_tables_moments_have_no_fractions)
{
    /* clang-format off */
    static const struct { int64_t s; const char *text; } rows[] = {
        {1795261992, "2026-11-21 11:53:12Z"},
        {INT64_C(1) << 53, "285428751-11-12 07:36:32Z"},
        {INT64_MAX, "-"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[DT_CLOCK_TEXT];
        dt_clock_format_seconds(rows[i].s, out);
        CHECK_STR(out, rows[i].text);
    }
}

TEST(the_monotonic_clock_does_not_go_back)
{
    dt_ms before = dt_clock_monotonic();
    for (int i = 0; i < 1000; i++) {
        dt_ms now = dt_clock_monotonic();
        CHECK(now >= before);
        before = now;
    }
}

TEST(the_wall_clock_counts_microseconds_since_1970)
{
    CHECK(dt_clock_wall_us() > INT64_C(1600000000) * 1000000);
    CHECK(dt_clock_wall_us() < INT64_C(9000000000) * 1000000);
}
