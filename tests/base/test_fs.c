/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

BEFORE_ALL
{
    folder_make();
}

static int count_files(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

TEST(a_file_is_replaced_whole_and_read_back)
{
    struct dt_err err = {0};
    struct dt_buf b = {0};
    struct stat st;
    CHECK_OK(dt_fs_mkdir_p(at("r"), 0700, &err), err);
    CHECK_OK(dt_fs_replace(at("r/file"), "one", 3, 0640, &err), err);
    CHECK_OK(dt_fs_replace(at("r/file"), "second", 6, 0600, &err), err);
    CHECK_OK(dt_fs_read(at("r/file"), 100, &b, &err), err);
    CHECK_BYTES(b.at, b.len, "second", 6);
    CHECK_EQ(stat(at("r/file"), &st), 0);
    CHECK_EQ(st.st_mode & 07777, 0600);
    CHECK_EQ(count_files(at("r")), 1); /* no temporary one stays */
    dt_buf_finish(&b);
}

TEST(a_failed_replacement_leaves_nothing_behind)
{
    struct dt_err err = {0};
    CHECK_OK(dt_fs_mkdir_p(at("f/taken/x"), 0700, &err), err);
    CHECK_FAIL(dt_fs_replace(at("f/none/file"), "x", 1, 0600, &err), err, "/f/none/file");
    CHECK_FAIL(dt_fs_replace(at("f/taken"), "x", 1, 0600, &err), err, "cannot replace ");
    CHECK_EQ(count_files(at("f")), 1);
}

TEST(reading_is_capped)
{
    struct dt_err err = {0};
    struct dt_buf b = {0};
    static char big[200000];
    CHECK_OK(dt_fs_replace(at("big"), big, sizeof big, 0600, &err), err);
    CHECK_OK(dt_fs_read(at("big"), sizeof big, &b, &err), err);
    CHECK_EQ(b.len, sizeof big);
    dt_buf_finish(&b);
    CHECK_FAIL(dt_fs_read(at("big"), sizeof big - 1, &b, &err), err, "/big is larger than 199999");
    CHECK_EQ(err.code, DT_E_LIMIT);
    dt_buf_finish(&b);
    CHECK_FAIL(dt_fs_read_any("/dev/zero", 1 << 20, &b, &err), err, "/dev/zero is larger");
    dt_buf_finish(&b);
}

TEST(an_empty_file_and_files_of_proc_read_whole)
{
    struct dt_err err = {0};
    struct dt_buf b = {0};
    CHECK_OK(dt_fs_replace(at("empty"), NULL, 0, 0600, &err), err);
    CHECK_OK(dt_fs_read(at("empty"), 0, &b, &err), err);
    CHECK_EQ(b.len, 0);
    CHECK_OK(dt_fs_read("/proc/self/status", 1 << 20, &b, &err), err); /* stat says 0 bytes */
    CHECK(b.len > 100);
    dt_buf_finish(&b);
}

TEST(errors_name_the_file)
{
    struct dt_err err = {0};
    struct dt_buf b = {0};
    CHECK_FAIL(dt_fs_read("/nonexistent/x", 10, &b, &err), err,
               "cannot open /nonexistent/x: No such file or directory");
    CHECK_FAIL(dt_fs_read("/tmp", 10, &b, &err), err, "/tmp is no ordinary file");
    dt_buf_finish(&b);
    CHECK(!dt_fs_exists("/nonexistent"));
    CHECK(dt_fs_exists("/tmp"));
}

/* Nobody writes to this one: opening it as usual would wait for ever. */
TEST(a_pipe_is_read_only_where_one_is_expected)
{
    struct dt_buf b = {0};
    struct dt_err err;
    int ends[2];
    char path[32];
    CHECK_EQ(mkfifo(at("fifo"), 0600), 0);
    CHECK_FAIL(dt_fs_read(at("fifo"), 10, &b, &err), err, "fifo is no ordinary file");
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(write(ends[1], "piped", 5), 5);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    CHECK_OK(dt_fs_read_any(path, 10, &b, &err), err);
    CHECK_STR(dt_buf_cstr(&b), "piped");
    close(ends[0]);
    dt_buf_finish(&b);
}

TEST(folders_are_made_with_their_parents)
{
    struct dt_err err = {0};
    static const char *const names[] = {"a/b/c", "a/b/c", "a//d/", "a/./e"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_ROW("%s", names[i]);
        CHECK_OK(dt_fs_mkdir_p(at(names[i]), 0755, &err), err);
        CHECK(dt_fs_exists(at(names[i])));
    }
    CHECK_OK(dt_fs_mkdir_p("/", 0755, &err), err);
    CHECK_OK(dt_fs_replace(at("plain"), "", 0, 0600, &err), err);
    CHECK_FAIL(dt_fs_mkdir_p(at("plain"), 0755, &err), err, "is there and is no folder");
    CHECK_FAIL(dt_fs_mkdir_p(at("plain/x"), 0755, &err), err, "is there and is no folder");
    CHECK_FAIL(dt_fs_mkdir_p("", 0755, &err), err, "is no path");
}

/* Runs FILL in a child whose standard input and error are closed. Its answer has a bit for each of
 * descriptors 0 to 2 that is open then, and eight times that for what it executes. */
static int open_after(void (*fill)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        close(0);
        close(2);
        fill();
        int now = 0;
        for (int fd = 0; fd < 3; fd++)
            now |= (fcntl(fd, F_GETFD) >= 0) << fd;
        int kept = 0;
        for (int fd = 0; fd < 3; fd++)
            kept |= (fcntl(fd, F_GETFD) == 0) << fd;
        _exit(now | kept << 3 | (fcntl(3, F_GETFD) >= 0) << 6);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(the_folder_for_temporary_files_is_pythons)
{
    static const struct {
        const char *tmpdir, *temp, *tmp, *chosen;
    } rows[] = {
        {"one", "two", "three", "one"},   {"gone", "two", "three", "two"},
        {NULL, "gone", "three", "three"}, {"", "", "", NULL}, /* the system's */
        {"file", NULL, "three", "three"}, {"locked", NULL, "three", "three"},
        {"gone", "gone", "gone", NULL},
    };
    static const char *const names[] = {"TMPDIR", "TEMP", "TMP"};
    struct dt_err err = {0};
    CHECK_OK(dt_fs_mkdir_p(at("one"), 0700, &err), err);
    CHECK_OK(dt_fs_mkdir_p(at("two"), 0700, &err), err);
    CHECK_OK(dt_fs_mkdir_p(at("three"), 0700, &err), err);
    CHECK_OK(dt_fs_mkdir_p(at("locked"), 0500, &err), err);
    CHECK_OK(dt_fs_replace(at("file"), "x", 1, 0700, &err), err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *const values[] = {rows[i].tmpdir, rows[i].temp, rows[i].tmp};
        if (rows[i].tmpdir && strcmp(rows[i].tmpdir, "locked") == 0 && geteuid() == 0)
            continue; /* root may write anywhere */
        for (size_t n = 0; n < 3; n++)
            if (values[n])
                setenv(names[n], *values[n] ? at(values[n]) : "", 1);
            else
                unsetenv(names[n]);
        char *folder = dt_fs_temp_folder(&err);
        CHECK_ROW("%zu", i);
        CHECK_STR(folder, rows[i].chosen ? at(rows[i].chosen) : "/tmp");
        free(folder);
    }
    CHECK_EQ(chdir(dir), 0);
    setenv("TMPDIR", "one", 1);
    char *folder = dt_fs_temp_folder(&err);
    CHECK_STR(folder, at("one"));
    free(folder);
    setenv("TMPDIR", "/proc", 1); /* root may write there, and cannot */
    setenv("TEMP", at("two"), 1);
    folder = dt_fs_temp_folder(&err);
    CHECK_STR(folder, at("two"));
    free(folder);
    CHECK_EQ(chdir("/"), 0);
    for (size_t n = 0; n < 3; n++)
        unsetenv(names[n]);
}

TEST(closed_standard_descriptors_get_no_other_meaning)
{
    int beyond = (fcntl(3, F_GETFD) >= 0) << 6; /* the test's own */
    CHECK_EQ(open_after(dt_fs_fill_standard_fds), (7 | 7 << 3 | beyond));
    CHECK_EQ(open_after(dt_fs_reserve_standard_fds), (7 | 2 << 3 | beyond));
}
