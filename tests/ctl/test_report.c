/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "ctl/report/folder.h"
#include "ctl/report/metrics.h"
#include "ctl/report/page.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

#include <math.h>
#include <sys/stat.h>

BEFORE_ALL
{
    folder_make();
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
}

/* A fresh folder of a run, and its name. */
static const char *make_run(const char *name)
{
    static char path[512], rounds[600];
    snprintf(path, sizeof path, "%s", at(name));
    snprintf(rounds, sizeof rounds, "%s/rounds", path);
    CHECK_EQ(mkdir(path, 0700), 0);
    CHECK_EQ(mkdir(rounds, 0700), 0);
    return path;
}

static void write_in(const char *folder, const char *name, const char *text)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_text(path, text);
}

static const char *page_of(struct dt_report *r)
{
    static struct dt_buf page;
    struct dt_err err = {0};
    dt_buf_clear(&page);
    dt_report_settle(r);
    CHECK_OK(dt_report_page_put(r, &page, &err), err);
    return dt_buf_cstr(&page);
}

static void read_run(struct dt_report *r, const char *folder)
{
    struct dt_err err = {0};
    *r = (struct dt_report){0};
    CHECK_OK(dt_report_folder_read(r, folder, NULL, NULL, &err), err);
}

/* -- metrics ---------------------------------------------------------------------------------- */

TEST(a_time_is_read_as_it_was_written)
{
    CHECK_EQ(dt_report_time("1970-01-01T00:00:01Z"), 1000000);
    CHECK_EQ(dt_report_time("2026-11-23T02:53:10.795345Z"), INT64_C(1795402390795345));
    CHECK_EQ(dt_report_time("2026-11-23T02:53:10.5Z"), INT64_C(1795402390500000));
    static const char *const none[] = {"",
                                       "soon",
                                       "2026-11-23",
                                       "2026-11-23T02:53:10",
                                       "2026-11-23T02:53:10.79534x",
                                       "9999999-11-23T02:53:10Z"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        CHECK_ROW("%s", none[i]);
        CHECK_EQ(dt_report_time(none[i]), DT_REPORT_UNKNOWN);
    }
}

TEST(lines_that_make_no_sense_are_counted)
{
    static const struct {
        const char *line;
        size_t steps, strange;
    } rows[] = {
        {"{\"step\":1,\"time\":\"2026-11-23T02:53:10Z\",\"loss\":2.5}", 1, 0},
        {"{\"step\":1,\"time\":\"2026-11-23T02:53:10Z\",\"round\":3,\"loss\":null}", 1, 0},
        {"{\"step\":1,\"time\":\"2026-11-23T02:53:10Z\",\"loss\":\"x\"}", 1, 0},
        {"", 0, 0},
        {"{\"step\":1,\"time\":\"2026-11-23T02:53:1", 0, 1},
        {"{\"step\":-1,\"time\":\"2026-11-23T02:53:10Z\"}", 0, 1},
        {"{\"step\":1}", 0, 1},
        {"{\"step\":1,\"time\":\"2026-11-23T02:53:10Z\",\"round\":-1}", 0, 1},
        {"[]", 0, 1},
        {"7", 0, 1},
        {"NaN", 0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].line);
        struct dt_report r = {0};
        struct dt_err err = {0};
        CHECK_OK(dt_report_metrics_line(&r, rows[i].line, strlen(rows[i].line), false, &err), err);
        CHECK_EQ(r.step_count, rows[i].steps);
        CHECK_EQ(r.strange_lines, rows[i].strange);
        dt_report_finish(&r);
    }
}

TEST(a_file_may_have_a_torn_end_and_lines_without_one)
{
    struct dt_report r = {0};
    struct dt_err err = {0};
    const char *path = at("torn.jsonl");
    FILE *f = fopen(path, "w");
    fputs("{\"step\":1,\"time\":\"2026-11-23T02:53:10Z\"}\n", f);
    for (int i = 0; i < 3 * DT_REPORT_LINE_MAX; i++)
        putc('x', f);
    fputs("\n{\"step\":2,\"time\":\"2026-11-23T02:53:11Z\"}\n{\"step\":3,\"time\":\"2026-1", f);
    fclose(f);
    CHECK_OK(dt_report_metrics_read(&r, path, false, &err), err);
    CHECK_EQ(r.step_count, 2);
    CHECK_EQ(r.strange_lines, 2);
    CHECK_EQ(r.steps[1].step, 2);
    dt_report_finish(&r);
    CHECK_EQ(mkfifo(at("pipe"), 0600), 0);
    CHECK_FAIL(dt_report_metrics_read(&r, at("pipe"), false, &err), err, "no ordinary file");
    CHECK_FAIL(dt_report_metrics_read(&r, at("none"), false, &err), err, "cannot read");
}

TEST(a_report_that_is_full_says_that_steps_are_missing)
{
    struct dt_report r = {.step_count = DT_REPORT_STEPS_MAX}; /* as if: none is looked at */
    struct dt_err err = {0};
    write_text(at("full.jsonl"), "{\"step\":1,\"time\":\"2026-11-23T02:53:10Z\"}\n");
    CHECK_OK(dt_report_metrics_read(&r, at("full.jsonl"), false, &err), err);
    CHECK_EQ(r.step_count, DT_REPORT_STEPS_MAX);
    CHECK(r.too_many);
}

/* -- what it all cost ------------------------------------------------------------------------- */

#define SECOND INT64_C(1000000)
#define ZERO (INT64_C(1795402390) * SECOND)

/* A step that ends AT seconds behind the beginning and took one. */
static void add_step(struct dt_report *r, double at, int64_t step, int round, bool redone,
                     double checkpoint_s)
{
    char line[300], time[DT_CLOCK_TEXT];
    struct dt_err err = {0};
    dt_clock_format(ZERO + (int64_t)(at * 1e6), time);
    snprintf(line, sizeof line,
             "{\"step\":%d,\"time\":\"%s\",\"round\":%d,\"loss\":%d,\"ms\":1000,"
             "\"checkpoint_ms\":%g}",
             (int)step, time, round, (int)step, checkpoint_s * 1e3);
    CHECK_OK(dt_report_metrics_line(r, line, strlen(line), redone, &err), err);
}

/* Steps 1 to 4, of which the last two are done again in another round, after a second without. */
static void tell_story(struct dt_report *r)
{
    *r = (struct dt_report){.rounds = calloc(2, sizeof *r->rounds), .round_count = 2};
    r->rounds[1] = (struct dt_report_round){.round = 0,
                                            .began_us = ZERO,
                                            .ended_us = ZERO + 7 * SECOND,
                                            .cause = strdup("boom"),
                                            .decided = strdup("restart 1 of 1")};
    r->rounds[0] = (struct dt_report_round){.round = 1,
                                            .began_us = ZERO + 8 * SECOND,
                                            .ended_us = ZERO + 13 * SECOND,
                                            .decided = strdup("the job succeeded")};
    add_step(r, 3, 1, 0, false, 0);
    add_step(r, 4, 2, 0, false, 0);
    add_step(r, 5.5, 3, 0, true, 0.5);
    add_step(r, 6.5, 4, 0, true, 0);
    add_step(r, 12.5, 4, 1, false, 0);
    add_step(r, 11.5, 3, 1, false, 0); /* not in order */
    add_step(r, -60, 9, 0, false, 0);  /* of another job */
}

TEST(each_second_is_charged_once)
{
    struct dt_report r;
    tell_story(&r);
    dt_report_settle(&r);
    const struct dt_report_costs *c = &r.costs;
    CHECK_EQ(r.earlier_steps, 1);
    CHECK_EQ(llround(c->all * 10), 130);
    CHECK_EQ(llround(c->useful * 10), 40);
    CHECK_EQ(llround(c->redone * 10), 20);
    CHECK_EQ(llround(c->saving * 10), 5);
    CHECK_EQ(llround(c->starting * 10), 20 + 25);
    CHECK_EQ(llround(c->between * 10), 10);
    CHECK_EQ(llround(c->other * 10), 10); /* from the last step of a round to its end */
    CHECK_EQ(c->steps, 4);
    CHECK_EQ(c->redone_steps, 2);
    CHECK_EQ(r.rounds[0].first_step, 1);
    CHECK_EQ(r.rounds[0].last_step, 4);
    CHECK_EQ(r.rounds[0].redone_steps, 2);
    CHECK_EQ(llround(r.rounds[0].back_s * 10), 45);
    CHECK_EQ(llround(r.rounds[0].gap_s * 10), 10);
    CHECK(r.rounds[1].back_s < 0);
    CHECK_STR(r.rounds[1].decided, "the job succeeded");
    CHECK_EQ(r.rounds[0].end, DT_REPORT_FAILED);
    CHECK_EQ(r.rounds[1].end, DT_REPORT_WELL);
    dt_report_finish(&r);
}

TEST(a_step_that_is_told_late_is_not_the_first_of_a_round)
{
    struct dt_report r;
    tell_story(&r);
    add_step(&r, 8.5, 5, 1, false, 0); /* done before that round began, as it took a second */
    dt_report_settle(&r);
    CHECK_EQ(r.rounds[1].first_step, 5);
    CHECK_EQ(llround(r.costs.starting * 10), 20 + 25);
    CHECK_EQ(llround(r.rounds[0].back_s * 10), 45);
    dt_report_finish(&r);
}

/* -- folders ---------------------------------------------------------------------------------- */

TEST(a_folder_of_nothing_is_a_page_that_says_so)
{
    struct dt_report r;
    CHECK_EQ(mkdir(at("nothing"), 0700), 0);
    read_run(&r, at("nothing"));
    CHECK(strstr(page_of(&r), "Nothing is known of this run") != NULL);
    dt_report_finish(&r);
}

TEST(a_run_without_metrics_has_rounds_and_causes)
{
    struct dt_report r;
    const char *folder = make_run("plain");
    write_in(folder, "rounds/0.json",
             "{\"round\":0,\"began\":\"2026-11-23T02:53:10Z\",\"ended\":\"2026-11-23T02:53:20Z\","
             "\"nodes\":2,\"ranks\":8,\"step\":null,\"cause\":\"rank 1 <b>boomed</b>\","
             "\"decided\":\"restart 1 of 3\",\"failed_here\":[{\"rank\":1,\"pid\":77,"
             "\"exit_code\":-9,\"class\":\"killed\",\"place\":null,\"text\":\"was killed\"}]}");
    write_in(folder, "rounds/1.json",
             "{\"round\":1,\"began\":\"2026-11-23T02:53:22Z\",\"ended\":null,\"nodes\":2,"
             "\"ranks\":8,\"step\":null,\"cause\":null,\"decided\":null,\"failed_here\":[]}");
    write_in(folder, "rounds/2.json", "{\"round\":");
    write_in(folder, "rounds/x.json", "{}");
    write_in(folder, "rounds/-3.json", "{}");
    read_run(&r, folder);
    CHECK_EQ(r.round_count, 2);
    const char *page = page_of(&r);
    CHECK(strstr(page, "<h1>Run plain</h1>") != NULL);
    CHECK(strstr(page, "8 ranks on 2 nodes") != NULL);
    CHECK(strstr(page, "rank 1 &lt;b&gt;boomed&lt;/b&gt;") != NULL);
    CHECK(strstr(page, "(pid 77, SIGKILL)") != NULL);
    CHECK(strstr(page, "2 s to the next round") != NULL);
    CHECK(strstr(page, "it has not ended") != NULL);
    CHECK(strstr(page, "<script") == NULL);
    dt_report_finish(&r);
}

TEST(the_folder_of_log_dir_will_do_where_it_holds_one_run)
{
    struct dt_report r = {0};
    struct dt_err err = {0};
    char base[512];
    snprintf(base, sizeof base, "%s", at("logs"));
    CHECK_EQ(mkdir(base, 0700), 0);
    make_run("logs/job_1");
    read_run(&r, base);
    CHECK_STR(r.name, "job_1");
    dt_report_finish(&r);
    make_run("logs/job_2");
    CHECK_FAIL(dt_report_folder_read(&r, base, NULL, NULL, &err), err, "holds several runs");
    dt_report_finish(&r);
    CHECK_FAIL(dt_report_folder_read(&r, at("none"), NULL, NULL, &err), err, "cannot read");
    dt_report_finish(&r);
}

TEST(two_nodes_tell_of_the_same_rounds)
{
    struct dt_report r = {0};
    struct dt_err err = {0};
    char one[512];
    snprintf(one, sizeof one, "%s", make_run("node-a"));
    write_in(one, "rounds/0.json",
             "{\"began\":\"2026-11-23T02:53:10Z\",\"ended\":\"2026-11-23T02:53:20Z\",\"step\":7}");
    write_in(one, "train.json", "{\"metrics\":\"/nonexistent/moved.jsonl\"}");
    write_in(one, "metrics.jsonl", "{\"step\":1,\"time\":\"2026-11-23T02:53:12Z\"}\n");
    const char *other = make_run("node-b");
    write_in(other, "rounds/0.json",
             "{\"began\":\"2026-11-23T02:53:09Z\",\"ended\":\"2026-11-23T02:53:21Z\",\"step\":6}");
    write_in(other, "metrics.jsonl", "{\"step\":1,\"time\":\"2026-11-23T02:53:12Z\"}\n");
    CHECK_OK(dt_report_folder_read(&r, one, NULL, NULL, &err), err);
    CHECK_OK(dt_report_folder_read(&r, other, NULL, NULL, &err), err);
    dt_report_settle(&r);
    CHECK_EQ(r.round_count, 1);
    CHECK_EQ(r.step_count, 1); /* which both have */
    CHECK_EQ(r.rounds[0].told_step, 7);
    CHECK_EQ(r.rounds[0].ended_us - r.rounds[0].began_us, 12 * SECOND);
    CHECK_EQ(r.rounds[0].end, DT_REPORT_CUT); /* nobody said that the job succeeded */
    dt_report_finish(&r);
}

/* -- the page --------------------------------------------------------------------------------- */

TEST(a_page_has_what_a_run_was_like)
{
    static const char *const wanted[] = {
        ("The run came to step 4 in 13 s. 30.8 % of that went into steps that count. 1 of 2 rounds "
         "failed. 2 steps had to be done again."),
        "id=\"steps\"",
        "id=\"loss\"",
        "id=\"split\"",
        "<title id=\"loss-title\">Loss</title>",
        "From 1 to 4 over time; the lowest is 1, the highest 4.",
        "class=\"line redone\"",
        "href=\"#round-1\"",
        "id=\"round-1\"",
        "2 steps, 4.5 s to the next step",
        "prefers-color-scheme:dark",
        "@media print",
        "1 step of the metrics were done before",
    };
    struct dt_report r;
    tell_story(&r);
    const char *page = page_of(&r);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        CHECK_ROW("%s", wanted[i]);
        CHECK(strstr(page, wanted[i]) != NULL);
    }
    CHECK(strstr(page, "http://") == strstr(page, "http://www.w3.org/2000/svg"));
    CHECK(strstr(page, "https://") == NULL);
    CHECK(strstr(page, "nan") == NULL);
    dt_report_finish(&r);
}

TEST(numbers_that_are_none_leave_gaps)
{
    struct dt_report r = {0};
    for (int i = 1; i <= 9; i++)
        add_step(&r, i, i, 0, false, 0);
    for (size_t i = 0; i < r.step_count; i++) {
        r.steps[i].v[DT_REPORT_LOSS] = i == 4 ? NAN : i == 6 ? INFINITY : 3;
        r.steps[i].v[DT_REPORT_LR] = NAN;
        r.steps[i].v[DT_REPORT_MS] = i == 2 ? 1e300 : NAN;
    }
    const char *page = page_of(&r);
    CHECK(strstr(page, "id=\"loss\"") != NULL);
    CHECK(strstr(page, "id=\"rate\"") == NULL);
    CHECK(strstr(page, ",null,") != NULL);
    CHECK(strstr(page, "inf") == NULL);
    dt_report_finish(&r);
}
