/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/folders.h"
#include "tests/preflight/judged.h"

#include <dirent.h>
#include <errno.h>

BEFORE_ALL
{
    folder_make();
}

#define GIB ((uint64_t)1 << 30)
#define PLENTY .free = 500 * GIB, .size = 1000 * GIB, .files_left = 100000

TEST(what_is_said_of_one)
{
    /* clang-format off */
    static const struct { struct dt_folder f; const char *words; } rows[] = {
        {{.path = "/ckpt", .there = true, PLENTY}, "ok: /ckpt has 500 GiB of 1000 GiB left"},
        {{.path = "/ckpt", .there = true, PLENTY, .written = 100 << 20, .took_ns = 100000000}, "left, takes 1049 MB/s"},
        {{.path = "/ckpt", .there = true, PLENTY, .written = 1 << 20, .took_ns = 1000000000}, "warn: /ckpt takes 1.0 MB/s"},
        {{.path = "/ckpt", .there = false}, "fail: there is no folder /ckpt"},
        {{.path = "/ckpt", .there = true, .refused = EROFS, PLENTY}, "fail: nothing can be written to /ckpt: Read-only"},
        {{.path = "/ckpt", .there = true, .free = GIB, .size = 4 * GIB, .files_left = 9999}, "warn: /ckpt has only 1 GiB of 4 GiB left; 8 GiB would"},
        {{.path = "/ckpt", .there = true, .free = 9 * GIB, .size = 9 * GIB, .files_left = 7}, "warn: /ckpt has room for 7 more files"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_sheet *s = fresh_sheet();
        CHECK_ROW("row %zu", i);
        dt_folders_judge(&rows[i].f, 8 * GIB, s);
        check_said(s, rows[i].words);
        CHECK_EQ(s->remark_count, 1);
    }
}

static int count_entries(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    CHECK(d != NULL);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

TEST(real_ones)
{
    struct dt_sheet *s = fresh_sheet();
    char later[256], missing[256], *folders[] = {missing, NULL};
    snprintf(later, sizeof later, "%s/not/yet/there", dir);
    snprintf(missing, sizeof missing, "%s/missing", dir);
    struct dt_checkup c = {.root = "", .thorough = true, .log_dir = later, .folders = folders};
    int before = count_entries(dir);
    dt_folders_probe(&c, s);
    CHECK_EQ(s->remark_count, 2);
    CHECK(strstr(s->remarks[0].sentence, dir) != NULL); /* it will be made there */
    CHECK(s->remarks[0].grade != DT_GRADE_FAIL);
    check_said(s, "fail: there is no folder");
    CHECK_EQ(count_entries(dir), before);
}

TEST(a_folder_that_is_not_ours)
{
    struct dt_sheet *s = fresh_sheet();
    char *folders[] = {(char[]){"/proc"}, NULL};
    dt_folders_probe(
        &(struct dt_checkup){.root = "", .log_dir = dir, .thorough = true, .folders = folders}, s);
    check_said(s, "fail: nothing can be written to /proc: ");
}
