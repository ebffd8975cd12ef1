/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/examine.h"
#include "tests/preflight/judged.h"

#include <signal.h>
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
        {"dies", DT_PROBE_FAST, dies},
        {"silent", DT_PROBE_FAST, is_silent},
        {"finds", DT_PROBE_FAST, finds},
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
        {"hangs", DT_PROBE_FAST, hangs},
        {"too", DT_PROBE_FAST, hangs},
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

TEST(what_is_not_asked_for_does_not_run)
{
    static const struct dt_probe probes[] = {
        {"alone", DT_PROBE_ALONE, finds},
        {"full", DT_PROBE_FULL, finds},
        {"fast", DT_PROBE_FAST, finds},
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
