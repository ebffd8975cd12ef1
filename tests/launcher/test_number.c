/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/number.h"
#include "tests/lib/check.h"

#include <math.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))

TEST(whole_numbers_as_python_reads_them)
{
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {
        {"0", 0},    {"007", 7},      {"+3", 3},        {"-3", -3},
        {" 4\t", 4}, {"1_000", 1000}, {"\n12\r\n", 12}, {"9223372036854775807", INT64_MAX},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_err err = {0};
        int64_t v = -99;
        CHECK_OK(dt_number_int(rows[i].text, &v, &err), err);
        CHECK_EQ(v, rows[i].value);
    }
}

TEST(what_is_no_whole_number)
{
    static const char *const rows[] = {"",
                                       " ",
                                       "x",
                                       "1x",
                                       "1.0",
                                       "0x1",
                                       "1e3",
                                       "_1",
                                       "1_",
                                       "1__0",
                                       "- 1",
                                       "+-1",
                                       "--1",
                                       "1 2",
                                       "true",
                                       "9223372036854775808",
                                       ("0000000000000000000000000000000000000000000000000000000001"
                                        "00000000000000")};
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i]);
        struct dt_err err = {0};
        int64_t v = -99;
        CHECK_FAIL(dt_number_int(rows[i], &v, &err), err, "is not a whole number");
        CHECK_EQ(err.code, DT_E_USAGE);
        CHECK_EQ(v, -99);
    }
}

TEST(numbers_with_a_point)
{
    static const struct {
        const char *text;
        double value;
    } rows[] = {{"0.5", 0.5}, {" 1 ", 1}, {"-.5", -0.5}, {"1e-3", 1e-3}, {"1_0.2_5", 10.25}};
    static const char *const bad[] = {"", "x", "0x1p3", "1,5", "nan(3)", "1 2", "e5"};
    struct dt_err err = {0};
    double v;
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        CHECK_OK(dt_number_float(rows[i].text, &v, &err), err);
        CHECK(v == rows[i].value);
    }
    for (size_t i = 0; i < ROWS(bad); i++) {
        CHECK_ROW("%s", bad[i]);
        CHECK_FAIL(dt_number_float(bad[i], &v, &err), err, "is not a number");
    }
    CHECK_OK(dt_number_float("-inf", &v, &err), err);
    CHECK(isinf(v) && v < 0);
    CHECK_OK(dt_number_float("NaN", &v, &err), err);
    CHECK(isnan(v));
}
