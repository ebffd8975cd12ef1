/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/log_dir.h"
#include "agent/log_runs.h"
#include "base/fs.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#define NOW 1800000000
#define DAY 86400

BEFORE_ALL
{
    folder_make();
}

/* -- which go --------------------------------------------------------------------------------- */

/* Runs as "c-" for one that goes, "a" for one that stays, in the order they were put into: letters
 * of TEXT stand for runs, a is of now, b of a day before, and so on, an upper case one is alive;
 * each has 100 bytes. */
static const char *chosen(const char *text, struct dt_log_limits limits)
{
    static char out[128];
    struct dt_log_run runs[16] = {0};
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) {
        int age = (text[i] | 0x20) - 'a';
        runs[i] = (struct dt_log_run){.ended = NOW - age * DAY, .size = 100};
        runs[i].name[0] = text[i];
        runs[i].alive = text[i] < 'a';
    }
    dt_log_runs_choose(runs, n, &limits, NOW);
    char *at = out;
    for (size_t i = 0; i < n; i++) {
        *at++ = runs[i].name[0];
        if (runs[i].goes)
            *at++ = '-';
    }
    *at = '\0';
    return out;
}

TEST(runs_go_that_are_too_many_too_old_or_too_large)
{
    static const struct {
        const char *runs;
        struct dt_log_limits limits;
        const char *chosen;
    } rows[] = {
        {"cab", {0}, "abc"},
        {"cab", {.runs = 2}, "abc-"},
        {"cab", {.runs = 9}, "abc"},
        {"", {.runs = 1}, ""},
        {"abcd", {.days = 2}, "abcd-"},
        {"dcba", {.size = 250}, "abc-d-"},
        {"dcba", {.size = 400}, "abcd"},
        {"dcba", {.size = 99}, "a-b-c-d-"},
        {"dCba", {.runs = 1}, "ab-Cd-"}, /* one that is alive stays, and counts */
        {"abCd", {.runs = 3, .size = 150}, "ab-Cd-"},
        {"ABCD", {.runs = 1, .days = 1, .size = 1}, "ABCD"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s to %s", rows[i].runs, rows[i].chosen);
        CHECK_STR(chosen(rows[i].runs, rows[i].limits), rows[i].chosen);
    }
}

TEST(sizes_that_are_lies_do_not_wrap_around)
{
    struct dt_log_run runs[2] = {{.ended = 2, .size = UINT64_MAX}, {.ended = 1, .size = 2}};
    dt_log_runs_choose(runs, 2, &(struct dt_log_limits){.size = 10}, NOW);
    CHECK(runs[0].goes && runs[1].goes);
}

/* -- what is there ---------------------------------------------------------------------------- */

/* As dt_log_dir_keep(), but nothing goes. */
static void begin_run(struct dt_log_dir *d)
{
    struct dt_err err = {0};
    d->mark = dt_log_runs_mark(d->run, &err);
    CHECK_OK(d->mark > 0 ? 0 : -1, err);
    CHECK_OK(dt_log_runs_link(d->base, d->run, &err), err);
}

/* A run that ended DAYS ago, with a file in it; its name. */
static void leave_run(const char *base, int days, char name[256])
{
    struct dt_log_dir d;
    struct dt_err err = {0};
    CHECK_OK(dt_log_dir_open(&d, base, "job", &err), err);
    begin_run(&d);
    CHECK_OK(dt_log_dir_begin(&d, 0, 0, 1, &err), err);
    char *path = dt_log_dir_file(&d, 0, "stdout.log");
    CHECK_OK(dt_fs_replace(path, "x", 1, 0600, &err), err);
    free(path);
    snprintf(name, 256, "%s", d.run);
    dt_log_dir_finish(&d);
    char mark[512];
    snprintf(mark, sizeof mark, "%s/" DT_LOG_MARK, name);
    struct timespec when = {.tv_sec = NOW - days * DAY};
    CHECK_EQ(utimensat(AT_FDCWD, mark, (struct timespec[2]){when, when}, 0), 0);
}

TEST(old_runs_go_and_what_is_no_run_of_ours_stays)
{
    char runs[3][256], path[600];
    struct dt_err err = {0};
    struct dt_log_dir alive;
    char base[128];
    snprintf(base, sizeof base, "%s", at("kept"));
    CHECK_OK(dt_fs_mkdir_p(at("kept/mine/attempt_0"), 0755, &err), err);
    CHECK_OK(dt_fs_replace(at("outside"), "precious", 8, 0600, &err), err);
    CHECK_OK(dt_log_dir_open(&alive, base, "alive", &err), err);
    begin_run(&alive);
    for (int i = 0; i < 3; i++)
        leave_run(base, i, runs[i]);
    /* Links in a run, and one to a run that stays elsewhere. */
    snprintf(path, sizeof path, "%s/link", runs[2]);
    CHECK_EQ(symlink(at("outside"), path), 0);
    CHECK_OK(dt_fs_mkdir_p(at("elsewhere"), 0755, &err), err);
    char moved[256];
    leave_run(at("elsewhere"), 9, moved);
    CHECK_EQ(symlink(moved, at("kept/through")), 0);
    /* One of another host. */
    CHECK_OK(dt_fs_mkdir_p(at("kept/theirs"), 0755, &err), err);
    CHECK_OK(dt_fs_replace(at("kept/theirs/" DT_LOG_MARK), "a run of dtrun on other.host\n", 29,
                           0600, &err),
             err);
    dt_log_runs_tidy(base, &(struct dt_log_limits){.days = 1}, NOW + 1);
    CHECK(dt_fs_exists(runs[0]) && !dt_fs_exists(runs[1]) && !dt_fs_exists(runs[2]));
    CHECK(dt_fs_exists(at("outside")) && dt_fs_exists(at("kept/mine/attempt_0")));
    CHECK(dt_fs_exists(at("kept/theirs")) && dt_fs_exists(moved) && dt_fs_exists(alive.run));
    dt_log_runs_tidy(base, &(struct dt_log_limits){.runs = 1, .size = 1}, NOW);
    CHECK(!dt_fs_exists(runs[0]) && dt_fs_exists(alive.run));
    dt_log_dir_finish(&alive);
}

static const char *latest(const char *base)
{
    static char to[256];
    char path[512];
    snprintf(path, sizeof path, "%s/" DT_LOG_LATEST, base);
    ssize_t n = readlink(path, to, sizeof to - 1);
    to[n > 0 ? n : 0] = '\0';
    return to;
}

TEST(latest_leads_to_the_run_that_began_last)
{
    char one[256], two[256], base[128];
    snprintf(base, sizeof base, "%s", at("linked"));
    leave_run(base, 0, one);
    CHECK_STR(latest(base), strrchr(one, '/') + 1);
    leave_run(base, 0, two);
    CHECK_STR(latest(base), strrchr(two, '/') + 1);
    dt_log_runs_unlink(base, one); /* another run's */
    CHECK_STR(latest(base), strrchr(two, '/') + 1);
    dt_log_runs_unlink(base, two);
    CHECK_STR(latest(base), "");
}

TEST(a_folder_that_is_called_latest_is_left_as_it_is)
{
    struct dt_err err = {0};
    CHECK_OK(dt_fs_mkdir_p(at("taken/" DT_LOG_LATEST), 0755, &err), err);
    CHECK_FAIL(dt_log_runs_link(at("taken"), at("taken/run"), &err), err, "is no link");
    CHECK_EQ(rmdir(at("taken/" DT_LOG_LATEST)), 0);
}

TEST(a_run_without_files_goes_when_it_ends_and_so_does_its_link)
{
    struct dt_log_dir d;
    struct dt_err err = {0};
    char run[256];
    CHECK_OK(dt_log_dir_open(&d, at("bare"), "job", &err), err);
    CHECK_OK(dt_log_dir_keep(&d, &(struct dt_log_limits){.runs = 5}, &err), err);
    CHECK_OK(dt_log_dir_begin(&d, 0, 0, 2, &err), err);
    snprintf(run, sizeof run, "%s", d.run);
    CHECK_OK(dt_log_dir_remove_empty(&d, &err), err);
    CHECK(!dt_fs_exists(run));
    CHECK_STR(latest(at("bare")), "");
    CHECK(dt_fs_exists(at("bare")));
}
