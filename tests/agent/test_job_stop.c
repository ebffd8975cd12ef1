/* SPDX-License-Identifier: Apache-2.0 */
/* Whole jobs that are made to end: by signals, by SIGKILL, by failures; in every phase; and that
 * nothing of them is left. */
#include "base/fs.h"
#include "tests/lib/check.h"
#include "tests/lib/job.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define WORKER getenv("DT_MISBEHAVE")
#define NO_PYTHON "--no-python", WORKER

/* Descriptors of the processes whose pids stand in the job's output, a line each. */
static int open_pids(struct job *j, int count, int *pidfds)
{
    CHECK(job_says_lines(j, count));
    char *text = strdup(job_out(j));
    int n = 0;
    for (char *line = strtok(text, "\n"); line && n < count; line = strtok(NULL, "\n"))
        CHECK((pidfds[n++] = (int)syscall(SYS_pidfd_open, atoi(line), 0)) >= 0);
    free(text);
    return n;
}

static bool ends(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    bool is = poll(&p, 1, 60000) == 1;
    close(pidfd);
    return is;
}

TEST(each_handled_signal_goes_to_the_workers_and_dtrun_exits_with_1)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    for (int i = 0; i < 4; i++) {
        struct job j;
        char trap[32], line[64];
        CHECK_ROW("signal %d", signals[i]);
        snprintf(trap, sizeof trap, "trap:%d", signals[i]);
        JOB_START(&j, "--look-on-signal", "none", NO_PYTHON, trap, "line:up", "hang");
        CHECK(job_says(&j, JOB_OUT, "up\n"));
        CHECK_EQ(job_stop(&j, signals[i]), 1);
        snprintf(line, sizeof line, "Received %d death signal", signals[i]);
        CHECK(strstr(job_err(&j), line) != NULL);
        CHECK(strstr(job_err(&j), "closing signal SIG") != NULL);
        snprintf(line, sizeof line, " got signal: %d\n", signals[i]);
        CHECK(strstr(job_err(&j), "SignalException: Process ") != NULL);
        CHECK(strstr(job_err(&j), line) != NULL);
        CHECK(strstr(job_err(&j), "ChildFailedError") == NULL);
        job_finish(&j);
    }
}

TEST(with_root_cause_codes_a_signal_is_128_and_its_number)
{
    struct job j;
    JOB_START(&j, "--exit-code", "root-cause", NO_PYTHON, "line:up", "hang");
    CHECK(job_says(&j, JOB_OUT, "up\n"));
    CHECK_EQ(job_stop(&j, SIGTERM), 128 + SIGTERM);
    job_finish(&j);
}

TEST(a_signal_is_left_for_who_started_dtrun)
{
    char path[] = "/tmp/dtrun-test.XXXXXX", variable[64];
    struct job j;
    struct dt_buf left = {0};
    struct dt_err err = {0};
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    snprintf(variable, sizeof variable, "TORCHELASTIC_ERROR_FILE=%s", path);
    JOB_START(&j, variable, NO_PYTHON, "line:up", "hang");
    CHECK(job_says(&j, JOB_OUT, "up\n"));
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK_OK(dt_fs_read(path, 1000, &left, &err), err);
    unlink(path);
    CHECK(strstr(dt_buf_cstr(&left), "\"message\": \"SignalException: Process ") != NULL);
    CHECK(strstr(dt_buf_cstr(&left), " got signal: 15\", \"extraInfo\": {") != NULL);
    dt_buf_finish(&left);
    job_finish(&j);
}

TEST(who_ignores_the_signal_is_killed_when_the_time_is_over)
{
    struct job j;
    JOB_START(&j, "--shutdown-timeout", "1", NO_PYTHON, "ignore:15", "line:up", "hang");
    CHECK(job_says(&j, JOB_OUT, "up\n"));
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK(strstr(job_err(&j), "Unable to shutdown process ") != NULL);
    job_finish(&j);
}

TEST(a_second_ctrl_c_waits_no_longer)
{
    struct job j;
    JOB_START(&j, "--shutdown-timeout", "1000", NO_PYTHON, "ignore:2", "line:up", "hang");
    CHECK(job_says(&j, JOB_OUT, "up\n"));
    kill(j.pid, SIGINT);
    CHECK(job_says(&j, JOB_ERR, "closing signal SIGINT"));
    CHECK_EQ(job_stop(&j, SIGINT), 1);
    const char *received = strstr(job_err(&j), "Received 2 death signal, shutting down workers\n");
    CHECK(received != NULL);
    CHECK(strstr(received, "waiting up to 16.7 min for the workers to end; Ctrl-C again kills"));
    job_finish(&j);
}

TEST(who_gets_sigterm_is_told_nothing_of_ctrl_c)
{
    struct job j;
    JOB_START(&j, NO_PYTHON, "line:up", "hang");
    CHECK(job_says(&j, JOB_OUT, "up\n"));
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK(strstr(job_err(&j), "Ctrl-C") == NULL);
    job_finish(&j);
}

TEST(what_a_crashed_worker_started_ends_with_it)
{
    struct job j;
    int pidfds[3];
    char dir[64], await[128], file[96];
    snprintf(file, sizeof file, "%s/go", tmp_make(dir));
    snprintf(await, sizeof await, "await:%s", file);
    JOB_START(&j, NO_PYTHON, "child", "orphan", "daemon", await, "exit:1");
    open_pids(&j, 3, pidfds);
    fclose(fopen(file, "w"));
    CHECK_EQ(job_wait(&j), 1);
    for (int i = 0; i < 3; i++)
        CHECK(ends(pidfds[i]));
    job_finish(&j);
    tmp_remove(dir);
}

TEST(what_a_worker_leaves_behind_after_success_is_told_to_go)
{
    struct job j;
    int pidfds[2];
    char dir[64], await[128], file[96];
    snprintf(file, sizeof file, "%s/go", tmp_make(dir));
    snprintf(await, sizeof await, "await:%s", file);
    JOB_START(&j, NO_PYTHON, "child", "daemon", await);
    open_pids(&j, 2, pidfds);
    fclose(fopen(file, "w"));
    CHECK_EQ(job_wait(&j), 0);
    CHECK(strstr(job_err(&j), "(misbehave)") != NULL);
    for (int i = 0; i < 2; i++)
        CHECK(ends(pidfds[i]));
    job_finish(&j);
    tmp_remove(dir);
}

/* Others wait for it, where there are any. */
TEST(what_left_its_worker_and_does_not_end_is_not_waited_for_as_a_worker_is)
{
    struct job j;
    int pidfd;
    JOB_START(&j, "--shutdown-timeout", "600", NO_PYTHON, "ignore:15", "daemon", "trap:15",
              "line:ready", "hang");
    open_pids(&j, 1, &pidfd);
    CHECK(job_says(&j, JOB_OUT, "ready"));
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK(strstr(job_err(&j), "all workers have exited but not what they started") != NULL);
    CHECK(ends(pidfd));
    job_finish(&j);
}

TEST(killing_dtrun_leaves_nothing)
{
    struct job j;
    int pidfds[4];
    JOB_START(&j, NO_PYTHON, "ignore:15", "ignore:1", "pid", "child", "orphan", "daemon", "hang");
    open_pids(&j, 4, pidfds);
    CHECK_EQ(job_stop(&j, SIGKILL), 128 + SIGKILL);
    for (int i = 0; i < 4; i++) {
        CHECK_ROW("process %d of worker, child, orphan, daemon", i);
        CHECK(ends(pidfds[i]));
    }
    job_finish(&j);
}

/* More than the socket between them takes, of which nothing is read. */
TEST(killing_dtrun_while_workers_are_started_leaves_nothing)
{
    struct job j;
    int guard = -1;
    char path[64];
    JOB_START(&j, "--log-dir", "/dev/null", "--nproc-per-node", "400", NO_PYTHON, "hang");
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", j.pid, j.pid);
    while (guard < 0) {
        const char *children = read_text(path);
        CHECK(children != NULL);
        if (atoi(children) > 0)
            CHECK((guard = (int)syscall(SYS_pidfd_open, atoi(children), 0)) >= 0);
    }
    kill(j.pid, SIGSTOP); /* so that nothing is read from now on */
    kill(j.pid, SIGKILL);
    CHECK_EQ(job_wait(&j), 128 + SIGKILL);
    CHECK(ends(guard));
    job_finish(&j);
}

TEST(an_unhandled_signal_ends_dtrun_by_itself_and_leaves_nothing)
{
    struct job j;
    int pidfds[1];
    JOB_START(&j, NO_PYTHON, "pid", "hang");
    open_pids(&j, 1, pidfds);
    CHECK_EQ(job_stop(&j, SIGUSR1), 128 + SIGUSR1);
    CHECK(ends(pidfds[0]));
    job_finish(&j);
}

TEST(signals_to_handle_can_be_chosen)
{
    struct job j;
    JOB_START(&j, "--signals-to-handle", "SIGUSR1,SIGTERM", NO_PYTHON, "line:up", "hang");
    CHECK(job_says(&j, JOB_OUT, "up\n"));
    CHECK_EQ(job_stop(&j, SIGUSR1), 1);
    CHECK(strstr(job_err(&j), "Received 10 death signal") != NULL);
    job_finish(&j);
}

TEST(a_forwarded_signal_reaches_the_workers_and_ends_nothing)
{
    struct job j;
    JOB_START(&j, "--forward-signals", "SIGUSR1", NO_PYTHON, "trap:10", "line:up", "hang");
    CHECK(job_says(&j, JOB_OUT, "up\n"));
    CHECK_EQ(job_stop(&j, SIGUSR1), 1); /* the worker exits with 3: an ordinary failure */
    CHECK(strstr(job_err(&j), "exitcode  : 3 ") != NULL);
    job_finish(&j);
}

TEST(a_hangup_that_was_ignored_stays_ignored)
{
    struct job j;
    signal(SIGHUP, SIG_IGN);
    JOB_START(&j, NO_PYTHON, "line:up", "mask", "hang");
    signal(SIGHUP, SIG_DFL);
    CHECK(job_says(&j, JOB_OUT, "SigIgn:\t0000000000000001\n"));
    kill(j.pid, SIGHUP);
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK(strstr(job_err(&j), "Received 1 death signal") == NULL);
    CHECK(strstr(job_err(&j), "Received 15 death signal") != NULL);
    job_finish(&j);
}

TEST(a_stopped_worker_is_continued_to_hear_of_its_end)
{
    struct job j;
    int pidfds[1];
    JOB_START(&j, NO_PYTHON, "pid", "stop", "hang");
    open_pids(&j, 1, pidfds);
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK(strstr(job_err(&j), "forcefully") == NULL);
    CHECK(ends(pidfds[0]));
    job_finish(&j);
}

TEST(leaders_first_lets_them_save_before_their_helpers_go)
{
    struct job j;
    /* The leader exits with 3 on SIGTERM, its child would have died of it. */
    JOB_START(&j, "--stop-order", "leader", NO_PYTHON, "trap:15", "child", "line:up", "hang");
    CHECK(job_says(&j, JOB_OUT, "up\n"));
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK(strstr(job_err(&j), "all workers have exited but not what they started") != NULL);
    job_finish(&j);
}

TEST(a_signal_ends_a_job_that_waits_for_its_peers)
{
    for (int rank = 0; rank < 2; rank++) {
        struct job j;
        char port[8];
        CHECK_ROW("node %d", rank);
        JOB_START(&j, "LOGLEVEL=INFO", "--nnodes", "2", "--node-rank", rank ? "1" : "0",
                  "--master-addr", "127.0.0.1", "--master-port", free_port(port), NO_PYTHON,
                  "hang");
        CHECK(job_says(&j, JOB_ERR, "joining"));
        CHECK_EQ(job_stop(&j, SIGTERM), 1);
        CHECK(strstr(job_err(&j), "got signal: 15") != NULL);
        job_finish(&j);
    }
}

/* A pager that stays on its first page. */
TEST(a_console_that_nobody_reads_does_not_keep_a_job_that_is_told_to_end)
{
    struct job j;
    int pidfds[1];
    JOB_START(&j, "--shutdown-timeout", "1000", NO_PYTHON, "pid", "blocks:4000");
    open_pids(&j, 1, pidfds); /* from here on nothing is read */
    kill(j.pid, SIGTERM);
    CHECK(ends(pidfds[0]));
    CHECK_EQ(waitpid(j.pid, &j.status, 0), j.pid);
    CHECK(WIFEXITED(j.status) && WEXITSTATUS(j.status) == 1);
    job_finish(&j);
}
