/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/telemetry.h"

#include "tests/lib/check.h"

#include <math.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

TEST(a_loss_goes_as_text_and_comes_back)
{
    static const struct {
        double loss;
        const char *text;
    } rows[] = {{2.3456, "2.3456"}, {-0.5, "-0.5"},          {0, "0"},
                {1e-9, "1e-09"},    {1.25e300, "1.25e+300"}, {NAN, "nan"},
                {-NAN, "nan"},      {INFINITY, "inf"},       {-INFINITY, "-inf"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[DT_LOSS_MAX];
        double back = 77;
        CHECK_ROW("%s", rows[i].text);
        CHECK_STR(dt_telemetry_put_loss(rows[i].loss, text), rows[i].text);
        CHECK(dt_telemetry_get_loss(text, &back));
        CHECK(isnan(rows[i].loss) ? isnan(back) : back == rows[i].loss);
    }
}

TEST(a_twentieth_of_a_disk_is_little_and_never_more_than_100_gib)
{
    static const struct {
        int64_t total_mib, little_mib;
    } rows[] = {{0, 0},           {19, 0},           {20, 1},
                {1 << 20, 52428}, {2048000, 102400}, {INT64_C(100) << 20, 102400}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("%lld MiB", (long long)rows[i].total_mib);
        CHECK_EQ(dt_disk_little_mib(rows[i].total_mib), rows[i].little_mib);
    }
}

TEST(what_is_no_loss_is_unknown)
{
    static const char *const rows[] = {"",      "1,5",      "0x10", "nanny", "1e",
                                       "1e999", "infinity", " 1",   "2.5\n"};
    double loss;
    CHECK(!dt_telemetry_get_loss(NULL, &loss));
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("\"%s\"", rows[i]);
        CHECK(!dt_telemetry_get_loss(rows[i], &loss));
    }
}

TEST(what_is_kept_has_strings_of_its_own_and_no_nonsense)
{
    char loss[] = "2.5", disk[] = "/logs", times[] = "812,809";
    static struct dt_telemetry_kept kept;
    struct dt_telemetry t = {
        .number = 3, .loss = loss, .disk = disk, .worker_ms = times, .compute = 900, .idle = 100};
    dt_telemetry_keep(&kept, &t);
    memset(loss, 'x', sizeof loss - 1);
    memset(disk, 'x', sizeof disk - 1);
    memset(times, 'x', sizeof times - 1);
    CHECK_STR(kept.is.loss, "2.5");
    CHECK_STR(kept.is.disk, "/logs");
    CHECK_STR(kept.is.worker_ms, "812,809");
    CHECK_EQ(kept.is.compute, 900);
    t.data = 1;
    dt_telemetry_keep(&kept, &t);
    CHECK_STR(kept.is.loss, "");
    CHECK_STR(kept.is.disk, "xxxxx");
    CHECK_STR(kept.is.worker_ms, "");
    CHECK_EQ(kept.is.compute + kept.is.data + kept.is.idle, 0);
    dt_telemetry_keep(&kept, &(struct dt_telemetry){0});
    CHECK_STR(kept.is.disk, "");
}

TEST(a_change_of_any_member_is_one_and_the_number_is_none)
{
    const struct dt_telemetry t = {.number = 1, .loss = "2.5", .gpu_busy = -1, .disk = NULL};
    struct dt_telemetry other = t;
    other.number = 9;
    other.disk = "";
    CHECK(!dt_telemetry_differs(&t, &other));
    other.loss = "2.6";
    CHECK(dt_telemetry_differs(&t, &other));
    other = t;
    other.gpu_busy = 0;
    CHECK(dt_telemetry_differs(&t, &other));
    other = t;
    other.worker_ms = "1";
    CHECK(dt_telemetry_differs(&t, &other));
}
