/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/since.h"
#include "tests/lib/check.h"

#define MORNING (INT64_C(1795417200) * 1000000) /* 2026-11-23T07:00:00Z */

BEFORE_ALL
{
    setenv("TZ", "UTC-1", 1); /* an hour ahead of UTC */
}

TEST(a_number_a_moment_or_how_long_ago)
{
    const struct {
        const char *text;
        struct dt_ctl_since since;
    } rows[] = {
        {"120", {.number = 120}},
        {"10m", {.ago = 600 * DT_SECOND}},
        {"1.5s", {.ago = 1500}},
        {"2d", {.ago = 2 * 24 * 3600 * DT_SECOND}},
        {"2026-11-23T07:00:00Z", {.at_us = MORNING}},
        {"2026-11-23T07:00Z", {.at_us = MORNING}},
        {"2026-11-23 08:00:00", {.at_us = MORNING}},
        {"2026-11-23T08:00", {.at_us = MORNING}},
        {"9999-01-01", {.at_us = INT64_C(1) << 53}},
        {"2026-11-23", {.at_us = MORNING - INT64_C(8) * 3600 * 1000000}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_ctl_since got;
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].text);
        CHECK_OK(dt_ctl_since_read(rows[i].text, &got, &err), err);
        CHECK_EQ(got.number, rows[i].since.number);
        CHECK_EQ(got.at_us, rows[i].since.at_us);
        CHECK_EQ(got.ago, rows[i].since.ago);
    }
}

TEST(what_is_no_time_is_refused)
{
    static const char *const rows[] = {
        "",          "0", "-1", "yesterday", "2026-13-40", "2026-11-23x", "99999999999999999999",
        "10 parsecs"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_ctl_since got;
        struct dt_err err = {0};
        CHECK_ROW("\"%s\"", rows[i]);
        CHECK_EQ(dt_ctl_since_read(rows[i], &got, &err), -1);
        CHECK_EQ(err.code, DT_E_USAGE);
    }
}
