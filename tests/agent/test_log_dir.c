/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/log_dir.h"
#include "base/fs.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

BEFORE_ALL
{
    folder_make();
    umask(022);
}

static unsigned mode_of(const char *path)
{
    struct stat st;
    CHECK_EQ(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static bool is_there(const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return dt_fs_exists(path);
}

static void leave(struct dt_log_dir *d, const char *text)
{
    struct dt_err err = {0};
    char *path = dt_log_dir_file(d, 1, "stdout.log");
    CHECK_OK(dt_fs_replace(path, text, strlen(text), 0600, &err), err);
    free(path);
}

TEST(a_run_has_a_folder_per_attempt_and_rank)
{
    struct dt_log_dir d = {0};
    struct dt_err err = {0};
    char *path;
    CHECK_OK(dt_log_dir_open(&d, at("given/deep"), "none", &err), err);
    CHECK_STR(d.base, at("given/deep"));
    CHECK(!d.base_is_ours);
    CHECK_EQ(mode_of(d.base), 0755);
    CHECK_EQ(mode_of(d.run), 0700);
    CHECK_EQ(strncmp(d.run, at("given/deep/none_"), strlen(at("given/deep/none_"))), 0);
    CHECK_EQ(strlen(d.run), strlen(at("given/deep/none_")) + 8);
    CHECK(dt_log_dir_file(&d, 0, "stdout.log") == NULL); /* no attempt yet */
    CHECK_OK(dt_log_dir_begin(&d, 0, 0, 3, &err), err);
    CHECK(is_there(d.attempt, "0") && is_there(d.attempt, "2") && !is_there(d.attempt, "3"));
    path = dt_log_dir_file(&d, 2, "error.json");
    CHECK_EQ(strncmp(path, d.run, strlen(d.run)), 0);
    CHECK_STR(path + strlen(d.run), "/attempt_0/2/error.json");
    free(path);
    CHECK_OK(dt_log_dir_begin(&d, 1, 1, 1, &err), err);
    CHECK(is_there(d.run, "attempt_0/2") && is_there(d.run, "attempt_1/0"));
    dt_log_dir_finish(&d);
    CHECK(d.run == NULL);
}

TEST(without_a_base_one_is_made_for_us_alone)
{
    struct dt_log_dir d = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_fs_mkdir_p(at("tmp"), 0755, &err), err);
    setenv("TMPDIR", at("tmp"), 1);
    CHECK_OK(dt_log_dir_open(&d, NULL, "none", &err), err);
    CHECK(d.base_is_ours);
    CHECK_EQ(strncmp(d.base, at("tmp/torchelastic_"), strlen(at("tmp/torchelastic_"))), 0);
    CHECK_EQ(mode_of(d.base), 0700);
    CHECK_OK(dt_log_dir_begin(&d, 0, 0, 2, &err), err);
    leave(&d, "x");
    char base[512];
    snprintf(base, sizeof base, "%s", d.base);
    CHECK_OK(dt_log_dir_remove(&d, &err), err);
    CHECK(!dt_fs_exists(base));
    CHECK(dt_fs_exists(at("tmp")));
    unsetenv("TMPDIR");
    dt_log_dir_finish(&d);
}

/* A run of two attempts, in which a worker left TEXT, if that is not NULL; its base in BASE. */
static void run_once(const char *given, const char *text, char base[512])
{
    struct dt_log_dir d = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_log_dir_open(&d, given, "none", &err), err);
    CHECK_OK(dt_log_dir_begin(&d, 0, 0, 2, &err), err);
    CHECK_OK(dt_log_dir_begin(&d, 1, 1, 2, &err), err);
    if (text)
        leave(&d, text);
    snprintf(base, 512, "%s", d.base);
    CHECK_OK(dt_log_dir_remove_empty(&d, &err), err);
    dt_log_dir_finish(&d);
}

TEST(folders_that_nobody_named_go_when_they_are_empty)
{
    char base[512];
    setenv("TMPDIR", dir, 1);
    run_once(NULL, NULL, base);
    CHECK_EQ(strncmp(base, at("torchelastic_"), strlen(at("torchelastic_"))), 0);
    CHECK(!dt_fs_exists(base));
    run_once(NULL, "", base); /* an empty file may be what somebody wants to see */
    CHECK(dt_fs_exists(base));
    run_once(at("empty"), NULL, base);
    CHECK(dt_fs_exists(base)); /* a person named it */
    CHECK_EQ(rmdir(base), -1);
    unsetenv("TMPDIR");
}

TEST(a_tmpdir_that_is_not_there_is_passed_over)
{
    struct dt_log_dir d = {0};
    struct dt_err err = {0};
    setenv("TMPDIR", at("nowhere"), 1);
    CHECK_OK(dt_log_dir_open(&d, NULL, "none", &err), err);
    CHECK_EQ(strncmp(d.base, "/tmp/torchelastic_", 18), 0);
    CHECK_OK(dt_log_dir_remove_empty(&d, &err), err);
    unsetenv("TMPDIR");
}

TEST(a_base_without_a_root_is_made_absolute)
{
    struct dt_log_dir d = {0};
    struct dt_err err = {0};
    CHECK_EQ(chdir(dir), 0);
    CHECK_OK(dt_log_dir_open(&d, "relative", "none", &err), err);
    CHECK_STR(d.base, at("relative"));
    CHECK_EQ(chdir("/"), 0);
    CHECK_OK(dt_log_dir_remove(&d, &err), err);
    CHECK(dt_fs_exists(at("relative"))); /* not ours to remove */
    dt_log_dir_finish(&d);
}

TEST(detours_of_a_base_are_not_shown)
{
    static const struct {
        const char *given, *shown;
    } rows[] = {
        {"detours/b/../c", "detours/c"},
        {"detours/./b//", "detours/b"},
        {"detours/b/.././../detours/.b/..c", "detours/.b/..c"},
        {"detours/link/../d", "detours/link/../d"}, /* which is detours/b/d */
    };
    struct dt_err err = {0};
    CHECK_OK(dt_fs_mkdir_p(at("detours/b/in"), 0755, &err), err);
    CHECK_EQ(symlink("b/in", at("detours/link")), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_log_dir d = {0};
        CHECK_ROW("%s", rows[i].given);
        CHECK_OK(dt_log_dir_open(&d, at(rows[i].given), "none", &err), err);
        CHECK_STR(d.base, at(rows[i].shown));
        dt_log_dir_finish(&d);
    }
    CHECK(is_there(at("detours/b"), "d"));
}

TEST(any_run_id_becomes_a_name)
{
    char euros[1000] = "";
    for (int i = 0; i < 300; i++)
        strcat(euros, "\xe2\x82\xac");
    const struct {
        const char *id, *name;
        size_t name_len;
    } rows[] = {
        {"job7", "job7_", 5},
        {"a/b/../c", "a_b_.._c_", 9},
        {"..", ".._", 3},
        {"tab\there\x7f\n", "tab_here___", 11},
        {"gr\xc3\xb6\xc3\x9f", "gr\xc3\xb6\xc3\x9f_", 7},
        {euros, "\xe2\x82\xac\xe2\x82\xac", 199},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_log_dir d = {0};
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].id);
        CHECK_OK(dt_log_dir_open(&d, at("ids"), rows[i].id, &err), err);
        const char *name = strrchr(d.run, '/') + 1;
        CHECK_EQ(strncmp(d.run, at("ids/"), strlen(at("ids/"))), 0);
        CHECK_EQ(name - d.run, strlen(at("ids/")));
        CHECK_EQ(strncmp(name, rows[i].name, strlen(rows[i].name)), 0);
        CHECK_EQ(strlen(name), rows[i].name_len + 8);
        dt_log_dir_finish(&d);
    }
}

TEST(an_attempt_of_a_round_before_is_set_aside)
{
    struct dt_log_dir d = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_log_dir_open(&d, at("rounds"), "none", &err), err);
    CHECK_OK(dt_log_dir_begin(&d, 0, 0, 2, &err), err);
    leave(&d, "first");
    CHECK_OK(dt_log_dir_begin(&d, 0, 1, 2, &err), err);
    CHECK(is_there(d.run, "attempt_0.round_0/1/stdout.log"));
    CHECK(!is_there(d.run, "attempt_0/1/stdout.log"));
    leave(&d, "second");
    CHECK_OK(dt_log_dir_begin(&d, 0, 2, 3, &err), err);
    CHECK(is_there(d.run, "attempt_0.round_1/1/stdout.log") && is_there(d.run, "attempt_0/2"));
    CHECK_OK(dt_log_dir_begin(&d, 1, 3, 2, &err), err);
    CHECK(is_there(d.run, "attempt_0/2") && is_there(d.run, "attempt_1/1"));
    CHECK_OK(dt_log_dir_begin(&d, 1, 7, 2, &err), err); /* it was not in the rounds between */
    CHECK(is_there(d.run, "attempt_1.round_3/1") && is_there(d.run, "attempt_1/1"));
    CHECK_OK(dt_log_dir_remove(&d, &err), err);
    CHECK(d.run == NULL);
}

/* A rendezvous that was restarted without a journal counts anew for who comes as a new node. */
TEST(rounds_that_are_counted_anew_cost_no_files)
{
    struct dt_log_dir d = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_log_dir_open(&d, at("anew"), "none", &err), err);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(dt_log_dir_begin(&d, 0, 0, 2, &err), err);
        CHECK(!is_there(d.run, "attempt_0/1/stdout.log"));
        leave(&d, "it");
    }
    CHECK(is_there(d.run, "attempt_0.round_0/1/stdout.log"));
    CHECK(is_there(d.run, "attempt_0.round_0.2/1/stdout.log"));
    CHECK(is_there(d.run, "attempt_0.round_0.3/1/stdout.log"));
    dt_log_dir_finish(&d);
}

TEST(removing_follows_no_link_and_takes_nothing_else)
{
    struct dt_log_dir d = {0}, other = {0};
    struct dt_err err = {0};
    char link[1024], run[1024];
    CHECK_OK(dt_fs_mkdir_p(at("precious/x"), 0755, &err), err);
    CHECK_OK(dt_fs_replace(at("precious/file"), "x", 1, 0600, &err), err);
    CHECK_OK(dt_log_dir_open(&d, at("links"), "none", &err), err);
    CHECK_OK(dt_log_dir_open(&other, at("links"), "none", &err), err);
    CHECK_OK(dt_log_dir_begin(&d, 0, 0, 2, &err), err);
    leave(&d, "x");
    snprintf(link, sizeof link, "%s/0/folder", d.attempt);
    CHECK_EQ(symlink(at("precious"), link), 0);
    snprintf(link, sizeof link, "%s/0/file", d.attempt);
    CHECK_EQ(symlink(at("precious/file"), link), 0);
    snprintf(link, sizeof link, "%s/0/pipe", d.attempt);
    CHECK_EQ(mkfifo(link, 0600), 0);
    snprintf(run, sizeof run, "%s", d.run);
    CHECK_OK(dt_log_dir_remove(&d, &err), err);
    CHECK(!dt_fs_exists(run));
    CHECK(dt_fs_exists(at("precious/file")) && dt_fs_exists(at("precious/x")));
    CHECK(dt_fs_exists(other.run));
    /* The run itself was swapped for a link. */
    CHECK_EQ(rmdir(other.run), 0);
    CHECK_EQ(symlink(at("precious"), other.run), 0);
    CHECK_OK(dt_log_dir_remove(&other, &err), err);
    CHECK(dt_fs_exists(at("precious/file")));
}

TEST(a_base_of_ours_with_something_of_others_stays)
{
    struct dt_log_dir d = {0};
    struct dt_err err = {0};
    char base[512];
    setenv("TMPDIR", dir, 1);
    CHECK_OK(dt_log_dir_open(&d, NULL, "none", &err), err);
    unsetenv("TMPDIR");
    snprintf(base, sizeof base, "%s", d.base);
    char kept[600];
    snprintf(kept, sizeof kept, "%s/kept", base);
    CHECK_OK(dt_fs_replace(kept, "x", 1, 0600, &err), err);
    CHECK_OK(dt_log_dir_remove(&d, &err), err);
    CHECK(dt_fs_exists(kept));
}

TEST(no_files_are_kept_where_none_was_opened)
{
    struct dt_log_dir d = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_log_dir_begin(&d, 0, 0, 2, &err), err);
    CHECK(dt_log_dir_file(&d, 0, "stdout.log") == NULL);
    CHECK_OK(dt_log_dir_remove(&d, &err), err);
    CHECK_FAIL(dt_log_dir_open(&d, "/dev/null", "none", &err), err,
               "--log-dir: /dev/null is there and is no folder");
    dt_log_dir_finish(&d);
}
