/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that do a piece of work for this process. */
#include "base/child.h"
#include "base/fs.h"
#include "tests/lib/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

extern char **environ;

/* Runs SCRIPT in a shell, as O says else; what it prints, until nobody writes any more. */
static const char *said(const char *script, struct dt_child_order o)
{
    static char text[1000];
    struct dt_child c;
    size_t len = 0;
    ssize_t n;
    int status;
    char *const argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)(uintptr_t)script, NULL};
    o.path = "/bin/sh";
    o.argv = argv;
    o.env = o.env ? o.env : environ;
    CHECK_EQ(dt_child_start(&c, &o), 0);
    CHECK_EQ(getpgid(c.pid), c.pid);
    CHECK_EQ(getsid(c.pid), o.session ? c.pid : getsid(0));
    CHECK_EQ(fcntl(c.output, F_GETFD), FD_CLOEXEC);
    while ((n = read(c.output, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    close(c.output);
    CHECK_EQ(waitpid(c.pid, &status, 0), c.pid);
    CHECK_EQ(status, 0);
    return text;
}

TEST(what_it_prints_on_either_stream_comes_through_one_pipe)
{
    CHECK_STR(said("echo out; echo err >&2; cat", (struct dt_child_order){0}), "out\nerr\n");
}

TEST(it_leads_a_session_where_that_is_asked_for)
{
    CHECK_STR(said("echo there", (struct dt_child_order){.session = true}), "there\n");
}

TEST(it_works_where_it_is_told_to)
{
    CHECK_STR(said("pwd", (struct dt_child_order){.dir = "/usr"}), "/usr\n");
}

TEST(it_gets_the_descriptors_that_it_is_to_keep_and_no_others)
{
    char script[100];
    int kept = dt_fs_make_in_memory("kept"), other = dt_fs_make_in_memory("other");
    CHECK_EQ(write(kept, "here", 4), 4);
    snprintf(script, sizeof script, "cat /proc/self/fd/%d; test -e /proc/self/fd/%d || echo no",
             kept, other);
    struct dt_child_order o = {.keep = &kept, .keep_count = 1};
    CHECK_STR(said(script, o), "hereno\n");
    CHECK_EQ(fcntl(kept, F_GETFD), FD_CLOEXEC);
    close(kept);
    close(other);
}

/* The C library keeps two signals for itself. */
TEST(no_signal_is_blocked_or_ignored_as_it_is_here)
{
    sigset_t term, before;
    unsigned long long blocked, ignored;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before);
    signal(SIGUSR1, SIG_IGN);
    const char *masks =
        said("grep -E 'Sig(Blk|Ign)' /proc/self/status", (struct dt_child_order){0});
    signal(SIGUSR1, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    CHECK_EQ(sscanf(masks, "SigBlk: %llx SigIgn: %llx", &blocked, &ignored), 2);
    CHECK_EQ(blocked, 0);
    CHECK_EQ(ignored & 0x7fffffff, 0);
}

TEST(variables_take_the_place_of_those_that_are_there)
{
    char *variables[] = {(char[]){"CHILD_A=new"}, (char[]){"CHILD_B="}};
    setenv("CHILD_A", "old", 1);
    setenv("CHILD_AB", "stays", 1);
    char **env = dt_child_env(variables, 2);
    CHECK(env != NULL);
    CHECK_STR(said("env | grep ^CHILD_ | sort", (struct dt_child_order){.env = env}),
              "CHILD_A=new\nCHILD_AB=stays\nCHILD_B=\n");
    free(env);
}

TEST(a_program_that_is_not_there_is_an_error)
{
    char *const argv[] = {(char[]){"none"}, NULL};
    struct dt_child c;
    struct dt_child_order o = {.path = "/no/such/program", .argv = argv, .env = environ};
    CHECK_EQ(dt_child_start(&c, &o), ENOENT);
    CHECK_EQ(c.pid, 0);
    CHECK_EQ(c.output, -1);
}
