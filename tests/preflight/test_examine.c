/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/examine.h"
#include "tests/preflight/judged.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define LONG_ENOUGH (60 * DT_SECOND)

static void finds(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    dt_sheet_remark(sheet, "finds", DT_GRADE_WARN, "try", "%d workers", c->workers);
    dt_sheet_set(sheet, "kernel", "6.1");
}

static void hangs(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    (void)c;
    dt_sheet_remark(sheet, "hangs", DT_GRADE_OK, NULL, "half a remark");
    snprintf(sheet->doing, sizeof sheet->doing, "/nfs/data");
    for (;;)
        pause();
}

static void dies(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    (void)c;
    sheet->remark_count = 77777;
    signal(SIGTERM, SIG_DFL);
    raise(SIGTERM);
}

static void is_silent(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    (void)c;
    (void)sheet;
}

TEST(a_probe_that_dies_costs_only_itself)
{
    static const struct dt_probe probes[] = {
        {.name = "dies", .when = DT_PROBE_FAST, .run = dies},
        {.name = "silent", .when = DT_PROBE_FAST, .run = is_silent},
        {.name = "finds", .when = DT_PROBE_FAST, .run = finds},
    };
    struct dt_checkup c = {.root = "", .workers = 8};
    struct dt_sheet *s = fresh_sheet();
    struct dt_err err;
    CHECK_OK(dt_examine(&c, probes, 3, DT_PROBE_FAST, LONG_ENOUGH, s, &err), err);
    CHECK_STR(said(s), "fail: this probe died of signal 15|warn: 8 workers");
    CHECK_STR(dt_sheet_trait(s, "kernel"), "6.1");
    CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
}

TEST(probes_that_hang_are_killed_side_by_side)
{
    static const struct dt_probe probes[] = {
        {.name = "hangs", .when = DT_PROBE_FAST, .run = hangs},
        {.name = "too", .when = DT_PROBE_FAST, .run = hangs},
    };
    struct dt_checkup c = {.root = ""};
    struct dt_sheet *s = fresh_sheet();
    struct dt_err err;
    CHECK_OK(dt_examine(&c, probes, 2, DT_PROBE_FAST, 2 * DT_SECOND, s, &err), err);
    CHECK_EQ(s->remark_count, 2);
    CHECK_STR(s->remarks[0].sentence,
              "this probe did not end within 2 s, while it looked at /nfs/data");
    CHECK_EQ(s->remarks[0].grade, DT_GRADE_WARN); /* for the limit was short */
    CHECK_STR(s->remarks[1].probe, "too");
    CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
}

static int names[2]; /* a pipe */

static void hangs_by_name(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    pid_t own = getpid();
    CHECK_EQ(write(names[1], &own, sizeof own), sizeof own);
    hangs(c, sheet);
}

static void finds_when_the_other_is_dead(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    pid_t other;
    CHECK_EQ(read(names[0], &other, sizeof other), sizeof other);
    struct pollfd death = {.fd = (int)syscall(SYS_pidfd_open, other, 0), .events = POLLIN};
    if (death.fd >= 0)
        poll(&death, 1, -1);
    finds(c, sheet);
}

TEST(a_probe_may_need_more_time)
{
    static const struct dt_probe probes[] = {
        {.name = "finds",
         .when = DT_PROBE_FAST,
         .time = LONG_ENOUGH,
         .run = finds_when_the_other_is_dead},
        {.name = "hangs", .when = DT_PROBE_FAST, .run = hangs_by_name},
    };
    struct dt_checkup c = {.root = "", .workers = 8};
    struct dt_sheet *s = fresh_sheet();
    struct dt_err err;
    CHECK_EQ(pipe(names), 0);
    CHECK_OK(dt_examine(&c, probes, 2, DT_PROBE_FAST, DT_SECOND, s, &err), err);
    CHECK_STR(said(s), "warn: 8 workers|"
                       "warn: this probe did not end within 1 s, while it looked at /nfs/data");
    close(names[0]);
    close(names[1]);
}

TEST(what_is_not_asked_for_does_not_run)
{
    static const struct dt_probe probes[] = {
        {.name = "alone", .when = DT_PROBE_ALONE, .run = finds},
        {.name = "full", .when = DT_PROBE_FULL, .run = finds},
        {.name = "fast", .when = DT_PROBE_FAST, .run = finds},
    };
    struct dt_checkup c = {.root = ""};
    for (int when = DT_PROBE_FAST; when <= DT_PROBE_ALONE; when++) {
        struct dt_sheet *s = fresh_sheet();
        CHECK_ROW("%d", when);
        CHECK_EQ(dt_examine(&c, probes, 3, (enum dt_probe_when)when, LONG_ENOUGH, s, NULL), 0);
        CHECK_EQ(s->remark_count, when + 1);
    }
}

/* On whatever host this is. */
TEST(each_probe_of_the_table_says_something)
{
    char *folders[] = {NULL, NULL}, *files[] = {NULL, NULL};
    folders[0] = dir;
    files[0] = dir; /* a folder, which is no file */
    struct dt_checkup c = {.root = "",
                           .hosts = 2,
                           .workers = 1,
                           .thorough = true,
                           .compute = DT_COMPUTE_GPUS,
                           .python = "/nonexistent/python",
                           .log_dir = dir,
                           .meeting_host = "127.0.0.1",
                           .own_port = 1,
                           .folders = folders,
                           .files = files};
    struct dt_sheet *s = fresh_sheet();
    struct dt_err err;
    CHECK_OK(dt_examine(&c, dt_probes, dt_probe_count, DT_PROBE_ALONE, LONG_ENOUGH, s, &err), err);
    for (size_t i = 0; i < dt_probe_count; i++) {
        size_t k = 0;
        CHECK_ROW("%s", dt_probes[i].name);
        while (k < s->remark_count && strcmp(s->remarks[k].probe, dt_probes[i].name) != 0)
            k++;
        CHECK(k < s->remark_count);
    }
    check_advice(s);
    CHECK(!strstr(said(s), "did not end"));
    CHECK(!strstr(said(s), "died"));
}

BEFORE_ALL
{
    folder_make();
}
