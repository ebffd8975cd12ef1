/* SPDX-License-Identifier: Apache-2.0 */
/* Run a second time by without_pidfd, where lives are watched in /proc. */
#include "tests/lib/check.h"
#include "worker_runtime/coll/life.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool without_pidfd(void)
{
    return getenv("DT_WITHOUT_PIDFD");
}

/* A process that ends when it is killed. */
static pid_t start(const char *name)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (name)
        prctl(PR_SET_NAME, name);
    for (;;)
        pause();
}

/* It has ended, and can still be reaped. */
static void end(pid_t pid)
{
    siginfo_t info;
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

TEST(a_life_is_over_when_its_process_ends_and_when_it_is_reaped)
{
    struct dt_life l;
    pid_t pid = start(NULL);
    CHECK_EQ(dt_life_open(&l, pid), 0);
    CHECK_EQ(l.by, without_pidfd() ? DT_LIFE_BY_STAT : DT_LIFE_BY_PIDFD);
    CHECK(!dt_life_is_over(&l) && !dt_life_was(pid));
    end(pid);
    CHECK(dt_life_is_over(&l) && dt_life_was(pid));
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    CHECK(dt_life_is_over(&l) && dt_life_was(pid));
    struct dt_life none;
    CHECK_EQ(dt_life_open(&none, pid), -1);
    CHECK_EQ(errno, ESRCH);
    CHECK(!dt_life_is_over(&none));
    dt_life_close(&none);
    dt_life_close(&l);
}

TEST(only_a_pidfd_wakes_those_who_wait)
{
    struct dt_life l;
    pid_t pid = start(NULL);
    CHECK_EQ(dt_life_open(&l, pid), 0);
    CHECK_EQ(dt_life_wait_fd(&l) < 0, without_pidfd());
    end(pid);
    struct pollfd p = {.fd = dt_life_wait_fd(&l), .events = POLLIN};
    CHECK_EQ(poll(&p, 1, 0), !without_pidfd());
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    dt_life_close(&l);
    CHECK(dt_life_wait_fd(&l) < 0);
}

TEST(nobody_is_watched_by_what_is_zeroed_and_nobody_has_number_0)
{
    struct dt_life l = {0};
    CHECK(!dt_life_is_over(&l) && dt_life_wait_fd(&l) < 0);
    dt_life_close(&l);
    CHECK(!dt_life_was(0) && !dt_life_was(getpid()));
}

/* Its name is between parentheses in /proc. */
TEST(a_name_is_no_state)
{
    static const char *const names[] = {") Z 1", "a) X (b", "((("};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_ROW("%s", names[i]);
        struct dt_life l;
        pid_t pid = start(names[i]);
        CHECK_EQ(dt_life_open(&l, pid), 0);
        CHECK(!dt_life_is_over(&l));
        end(pid);
        CHECK(dt_life_is_over(&l));
        CHECK_EQ(waitpid(pid, NULL, 0), pid);
        dt_life_close(&l);
    }
}

static void *wait_to_be_killed(void *ready)
{
    CHECK(write(*(int *)ready, "", 1) == 1);
    for (;;)
        pause();
    return NULL;
}

/* Its first thread is a zombie then, and the process is none. */
TEST(a_process_lives_as_long_as_its_last_thread)
{
    static int ready[2]; /* not on a stack, which the first thread's end frees */
    struct dt_life l;
    char byte;
    CHECK_EQ(pipe(ready), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        pthread_t other;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pthread_create(&other, NULL, wait_to_be_killed, &ready[1]);
        pthread_exit(NULL);
    }
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    CHECK_EQ(dt_life_open(&l, pid), 0);
    CHECK(!dt_life_is_over(&l));
    end(pid);
    CHECK(dt_life_is_over(&l));
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    dt_life_close(&l);
    close(ready[0]);
    close(ready[1]);
}
