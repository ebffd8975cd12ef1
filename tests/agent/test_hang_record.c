/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/record.h"
#include "base/fs.h"
#include "base/json.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

BEFORE_ALL
{
    folder_make();
}

static const struct dt_hang_finding finding = {
    .class = DT_HANG_OUTSIDE,
    .guilty = true,
    .culprit = 0,
    .waiting = -1,
    .sentence = "rank 1 sleeps at a.py:5",
    .advice = "wake it",
};

/* The file NAME in the folder of D holds WORDS. */
static bool holds(const struct dt_log_dir *d, const char *name, const char *words)
{
    char path[PATH_MAX];
    struct dt_buf text = {0};
    snprintf(path, sizeof path, "%s/%s", d->attempt, name);
    bool does = dt_fs_read(path, 1 << 20, &text, NULL) == 0 && strstr(dt_buf_cstr(&text), words);
    dt_buf_finish(&text);
    return does;
}

static void write_one(const struct dt_log_dir *d, int number, char path[PATH_MAX])
{
    struct dt_stances all = {0};
    struct dt_stance s = {.doing = DT_DOING_SLEEP, .where = "a.py:5", .sequence = -1, .step = 7};
    struct dt_buf stacks = {0};
    struct dt_err err;
    dt_buf_printf(&stacks, "stacks of hang %d\n", number);
    CHECK_OK(dt_stances_add(&all, &s, 1, &err), err);
    CHECK_OK(dt_hang_record_write(d, number, 0, &all, &finding, &stacks, path, &err), err);
    dt_stances_finish(&all);
    dt_buf_finish(&stacks);
}

TEST(each_hang_of_an_attempt_keeps_its_own_evidence)
{
    struct dt_log_dir d;
    struct dt_err err;
    char first[PATH_MAX], second[PATH_MAX];
    CHECK_OK(dt_log_dir_open(&d, dir, "job", &err), err);
    CHECK_OK(dt_log_dir_begin(&d, 0, 0, 1, &err), err);
    write_one(&d, 1, first);
    write_one(&d, 2, second);
    CHECK_STR(strrchr(first, '/'), "/verdict.json");
    CHECK_STR(strrchr(second, '/'), "/verdict.2.json");
    CHECK(holds(&d, "verdict.json", "\"class\": \"outside\""));
    CHECK(holds(&d, "verdict.json", "\"sentence\": \"rank 1 sleeps at a.py:5\""));
    CHECK(holds(&d, "verdict.json", "\"where\": \"a.py:5\""));
    CHECK(holds(&d, "stacks.txt", "stacks of hang 1\n"));
    CHECK(holds(&d, "stacks.2.txt", "stacks of hang 2\n"));
    CHECK_OK(dt_log_dir_remove(&d, &err), err);
}

TEST(without_files_there_is_no_path)
{
    struct dt_log_dir none = {0};
    char path[PATH_MAX];
    write_one(&none, 1, path);
    CHECK_STR(path, "");
}
