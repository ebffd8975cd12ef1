/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watch/meter.h"

#include "tests/lib/check.h"

#include <math.h>

#define MS INT64_C(1000000)
#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct dt_page_told page(int64_t step, int64_t at_ms)
{
    return (struct dt_page_told){.seen = true,
                                 .step = step,
                                 .saved = -1,
                                 .steps = -1,
                                 .updated_ns = at_ms * MS,
                                 .loss = NAN,
                                 .tokens_per_s = NAN,
                                 .utilisation = NAN,
                                 .mfu = NAN};
}

static struct dt_page_told busy(int64_t step, int64_t at_ms, int64_t own_ms, int64_t data_ms,
                                int64_t communication_ms)
{
    struct dt_page_told p = page(step, at_ms);
    p.own_ns = own_ms * MS;
    p.data_ns = data_ms * MS;
    p.communication_ns = communication_ms * MS;
    return p;
}

static struct dt_telemetry told_of(struct dt_meter *m, int64_t now_ms)
{
    struct dt_telemetry t = {0};
    dt_meter_tell(m, now_ms * MS, &t);
    return t;
}

TEST(steps_of_a_worker_are_shared_out)
{
    static const struct {
        int64_t own, data, communication; /* of a second with ten steps, ms */
        int compute, comm, of_data, idle;
        const char *worker_ms;
    } rows[] = {
        {800, 100, 150, 700, 150, 100, 50, "80"},
        {1000, 0, 0, 1000, 0, 0, 0, "100"},
        {1, 1, 0, 0, 0, 1, 999, "1"},
        {400, 500, 0, 0, 0, 400, 600, "40"},  /* a torn pair of numbers */
        {1500, 0, 700, 1000, 0, 0, 0, "100"}, /* another */
        {600, 0, 700, 600, 400, 0, 0, "60"},  /* another */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("row %zu", i);
        struct dt_meter *m = dt_meter_create(1);
        struct dt_page_told p = busy(5, 3000, 70, 60, 50);
        dt_meter_note(m, 0, &p);
        p = busy(15, 4000, 70 + rows[i].own, 60 + rows[i].data, 50 + rows[i].communication);
        dt_meter_note(m, 0, &p);
        struct dt_telemetry t = told_of(m, 4000);
        CHECK_EQ(t.compute, rows[i].compute);
        CHECK_EQ(t.comm, rows[i].comm);
        CHECK_EQ(t.data, rows[i].of_data);
        CHECK_EQ(t.idle, rows[i].idle);
        CHECK_EQ(t.step_ms, 100);
        CHECK_STR(t.worker_ms, rows[i].worker_ms);
        dt_meter_destroy(m);
    }
}

TEST(nothing_is_known_before_a_step_is_over)
{
    struct dt_meter *m = dt_meter_create(1);
    struct dt_page_told rows[] = {page(-1, 0), page(3, 1000), page(3, 9000), page(4, 1400)};
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("row %zu", i);
        dt_meter_note(m, 0, &rows[i]);
        struct dt_telemetry t = told_of(m, 9000);
        CHECK_EQ(t.step_ms, 0);
        CHECK_STR(t.worker_ms, "");
        CHECK_EQ(t.compute + t.comm + t.data + t.idle, 0);
    }
    dt_meter_destroy(m);
}

TEST(a_script_that_tells_steps_alone_has_a_time_of_a_step_and_no_shares)
{
    struct dt_meter *m = dt_meter_create(2);
    struct dt_page_told rows[] = {page(10, 1000), page(30, 3000)};
    for (size_t i = 0; i < COUNT(rows); i++)
        dt_meter_note(m, 1, &rows[i]);
    struct dt_telemetry t = told_of(m, 3000);
    CHECK_EQ(t.step_ms, 100);
    CHECK_STR(t.worker_ms, "0,100");
    CHECK_EQ(t.compute + t.comm + t.data + t.idle, 0);
    rows[0] = page(40, 5000);
    rows[0].utilisation = 0.25;
    dt_meter_note(m, 1, &rows[0]);
    t = told_of(m, 5000);
    CHECK_EQ(t.compute, 250);
    CHECK_EQ(t.idle, 750);
    dt_meter_destroy(m);
}

TEST(a_worker_that_was_started_anew_begins_anew)
{
    struct dt_meter *m = dt_meter_create(1);
    struct dt_page_told rows[] = {busy(10, 1000, 10, 0, 0), busy(20, 2000, 900, 0, 0),
                                  busy(12, 3000, 5, 0, 0)};
    dt_meter_note(m, 0, &rows[0]);
    dt_meter_note(m, 0, &rows[1]);
    CHECK_EQ(told_of(m, 2000).step_ms, 100);
    dt_meter_note(m, 0, &rows[2]);
    CHECK_EQ(told_of(m, 3000).step_ms, 0);
    dt_meter_destroy(m);
}

TEST(times_of_more_workers_than_fit_are_cut_and_the_slowest_counts_all_the_same)
{
    enum { WORKERS = 100 };
    struct dt_meter *m = dt_meter_create(WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        struct dt_page_told p = page(1, 1000);
        dt_meter_note(m, i, &p);
        p = page(2, i == WORKERS - 1 ? 8000 : 2234);
        dt_meter_note(m, i, &p);
    }
    struct dt_telemetry t = told_of(m, 8000);
    CHECK_EQ(t.step_ms, 7000);
    CHECK_EQ(strlen(t.worker_ms), 51 * 5 - 1);
    CHECK_STR(t.worker_ms + 50 * 5, "1234");
    dt_meter_destroy(m);
}

TEST(times_that_cannot_be_are_cut)
{
    static const struct {
        int64_t own_ns;
        double utilisation;
    } rows[] = {{INT64_MAX, NAN}, {0, 1}};
    enum { WORKERS = 3 };
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("row %zu", i);
        struct dt_meter *m = dt_meter_create(WORKERS);
        for (int w = 0; w < WORKERS; w++) {
            struct dt_page_told p = page(1, 0);
            dt_meter_note(m, w, &p);
            p = page(2, 0);
            p.updated_ns = INT64_MAX;
            p.own_ns = rows[i].own_ns;
            p.utilisation = rows[i].utilisation;
            dt_meter_note(m, w, &p);
        }
        struct dt_telemetry t = told_of(m, 0);
        CHECK(t.step_ms > 86400 * 1000);
        CHECK(t.compute >= DT_SHARE_WHOLE - 1); /* rounded down */
        CHECK(t.comm == 0 && t.data == 0 && t.idle == DT_SHARE_WHOLE - t.compute);
        dt_meter_destroy(m);
    }
}

TEST(loss_steps_and_uploads_are_told_of_all_workers)
{
    struct dt_meter *m = dt_meter_create(3);
    struct dt_page_told p = page(1, 1000);
    CHECK(told_of(m, 1000).loss == NULL);
    dt_meter_note(m, 0, &p);
    p.has_loss = true;
    p.mfu = 0.4;
    p.upload_since_ns = 4000 * MS;
    p.steps = 500;
    strcpy(p.folder, "/ckpt");
    dt_meter_note(m, 1, &p);
    p.loss = 2.5;
    p.mfu = 0.5;
    p.upload_since_ns = 9000 * MS;
    dt_meter_note(m, 2, &p);
    struct dt_telemetry t = told_of(m, 8500);
    CHECK_STR(t.loss, "nan");
    CHECK_EQ(t.steps, 500);
    CHECK_EQ(t.mfu, 450);
    CHECK_EQ(t.upload_behind_s, 4);
    CHECK_STR(dt_meter_folder(m), "/ckpt");
    dt_meter_destroy(m);
}
