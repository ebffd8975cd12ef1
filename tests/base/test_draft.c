/* SPDX-License-Identifier: Apache-2.0 */
#include "base/draft.h"

#include "base/fs.h"
#include "tests/lib/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

BEFORE_ALL
{
    folder_make();
}

static void check_file(const char *path, const char *text)
{
    struct dt_err err = {0};
    struct dt_buf out = {0};
    CHECK_OK(dt_fs_read(path, 1000, &out, &err), err);
    CHECK_STR(dt_buf_cstr(&out), text);
    dt_buf_finish(&out);
}

static int names(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

TEST(a_file_has_its_name_when_it_is_whole)
{
    struct dt_err err = {0};
    struct dt_draft d;
    const char *path = at("whole");
    CHECK_OK(dt_fs_replace(path, "old", 3, 0600, &err), err);
    CHECK_OK(dt_draft_open(&d, path, &err), err);
    CHECK_OK(dt_draft_write(&d, "new ", 4, &err), err);
    check_file(path, "old");
    CHECK_OK(dt_draft_write(&d, "text", 4, &err), err);
    CHECK_OK(dt_draft_commit(&d, &err), err);
    check_file(path, "new text");
    dt_draft_close(&d);
    dt_draft_close(&d);
    check_file(path, "new text");
    CHECK_EQ(names(), 1);
}

TEST(what_is_given_up_leaves_what_was_there)
{
    struct dt_err err = {0};
    struct dt_draft d;
    CHECK_OK(dt_draft_open(&d, at("whole"), &err), err);
    CHECK_OK(dt_draft_write(&d, "half", 4, &err), err);
    CHECK_EQ(names(), d.temp[0] ? 2 : 1);
    dt_draft_close(&d);
    CHECK_EQ(names(), 1);
    check_file(at("whole"), "new text");
}

TEST(what_is_no_file_is_not_replaced)
{
    struct dt_err err = {0};
    struct dt_draft d;
    CHECK(dt_draft_open(&d, dir, &err) < 0);
    CHECK(strstr(err.text, "is there and is no ordinary file") != NULL);
    dt_draft_close(&d);
    CHECK(dt_draft_open(&d, at("no/such"), &err) < 0);
    CHECK(strstr(err.text, "cannot make a file beside") != NULL);
    dt_draft_close(&d);
    CHECK_EQ(names(), 1);
}

TEST(one_file_has_many_paths)
{
    char here[PATH_MAX];
    static const struct {
        const char *one, *other;
        bool same;
    } rows[] = {
        {"new", "new", true},          {"new", "./new", true},     {"new", "sub/../new", true},
        {"new", "link/../new", true},  {"new", "newer", false},    {"new", "sub/new", false},
        {"sub/new", "link/new", true}, {"new", "none/new", false}, {"old", "./old", true},
        {"old", "link/../old", true},  {"old", "new", false},      {"old", "to-old", false},
    };
    CHECK(getcwd(here, sizeof here));
    CHECK_EQ(chdir(dir), 0);
    CHECK_EQ(mkdir("sub", 0777), 0);
    CHECK_EQ(symlink("sub", "link"), 0);
    CHECK_EQ(close(open("old", O_CREAT | O_WRONLY, 0666)), 0);
    CHECK_EQ(symlink("old", "to-old"), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s and %s", rows[i].one, rows[i].other);
        CHECK_EQ(dt_draft_is_same(rows[i].one, rows[i].other), rows[i].same);
        CHECK_EQ(dt_draft_is_same(rows[i].other, rows[i].one), rows[i].same);
    }
    unlink("to-old");
    unlink("old");
    unlink("link");
    rmdir("sub");
    CHECK_EQ(chdir(here), 0);
}

/* In a process of its own. */
static int status_of(void (*story)(void))
{
    int status = -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        story();
        exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

static void die_in_the_middle(void)
{
    struct dt_err err = {0};
    struct dt_draft d;
    CHECK_OK(dt_draft_open(&d, at("whole"), &err), err);
    CHECK_OK(dt_draft_write(&d, "half", 4, &err), err);
    raise(SIGKILL);
}

TEST(a_process_that_is_killed_leaves_nothing_behind)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        SKIP("this file system has no files without a name");
    close(fd);
    int before = names();
    CHECK_EQ(status_of(die_in_the_middle), SIGKILL);
    CHECK_EQ(names(), before);
    check_file(at("whole"), "new text");
}

/* As on NFS: a file without a name cannot be made. */
static bool forbid_nameless(void)
{
    struct sock_filter rows[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rows / sizeof *rows, rows};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 &&
           openat(AT_FDCWD, dir, O_TMPFILE | O_RDWR, 0600) < 0;
}

TEST(what_cannot_get_its_name_says_why)
{
    struct dt_err err = {0};
    struct dt_draft d;
    CHECK_EQ(mkdir(at("folder"), 0777), 0);
    CHECK_OK(dt_draft_open(&d, at("folder/whole"), &err), err);
    if (d.temp[0])
        SKIP("each file has a name here");
    CHECK_EQ(rmdir(at("folder")), 0);
    CHECK(dt_draft_commit(&d, &err) < 0);
    CHECK(strstr(err.text, "cannot give what was written the name "));
    CHECK(strstr(err.text, "/folder/whole: No such file or directory"));
    dt_draft_close(&d);
}

#define NO_FILTER 77

static void write_beside(void)
{
    struct dt_err err = {0};
    struct dt_draft d;
    if (!forbid_nameless())
        exit(NO_FILTER);
    CHECK_OK(dt_draft_open(&d, at("whole"), &err), err);
    CHECK(d.temp[0]);
    dt_draft_close(&d);
    CHECK_EQ(names(), 1);
    CHECK_OK(dt_draft_open(&d, at("whole"), &err), err);
    CHECK_OK(dt_draft_write(&d, "beside", 6, &err), err);
    CHECK_EQ(names(), 2);
    CHECK_OK(dt_draft_commit(&d, &err), err);
    dt_draft_close(&d);
    CHECK_EQ(names(), 1);
}

TEST(where_each_file_has_a_name_it_stands_beside_the_one_that_is_to_be)
{
    int status = status_of(write_beside);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_FILTER)
        SKIP("this kernel takes no seccomp filter");
    CHECK_EQ(status, 0);
    check_file(at("whole"), "beside");
}
