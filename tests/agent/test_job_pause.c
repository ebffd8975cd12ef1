/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-Z and fg: a job that is stopped for a while with its workers. */
#include "tests/lib/check.h"
#include "tests/lib/job.h"
#include "tests/lib/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>

#define WORKER getenv("DT_MISBEHAVE")
#define NO_PYTHON "--no-python", WORKER

/* As in /proc/PID/stat: 'T' is stopped. */
static char state_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const char *text = read_text(path), *end = text ? strrchr(text, ')') : NULL;
    return end ? end[2] : '\0';
}

/* Nobody tells when another's child stops, so it is looked at again and again. */
static void await_stopped(pid_t pid, bool stopped)
{
    CHECK_ROW("process %d is to be %s", (int)pid, stopped ? "stopped" : "continued");
    for (int turn = 0; (state_of(pid) == 'T') != stopped; turn++) {
        CHECK(turn < 60000 && state_of(pid) != '\0');
        poll(NULL, 0, 1);
    }
}

/* A group whose parent is in another one of its session, as a shell makes it: one that nobody could
 * continue would not be stopped. */
static void lead_a_group(void *arg)
{
    (void)arg;
    setpgid(0, 0);
}

static void await_dtrun_stopped(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, WUNTRACED) == pid);
    CHECK(WIFSTOPPED(status));
    CHECK_EQ(WSTOPSIG(status), SIGTSTP);
}

TEST(a_stop_signal_stops_the_workers_and_what_they_started_too)
{
    struct job j;
    JOB_START_AS(&j, lead_a_group, NULL, "OMP_NUM_THREADS=1", "--nproc-per-node", "2", NO_PYTHON,
                 "pid", "child", "hang");
    CHECK(job_says_lines(&j, 4));
    for (int times = 0; times < 2; times++) {
        kill(j.pid, SIGTSTP);
        await_dtrun_stopped(j.pid);
        char *text = strdup(job_out(&j));
        for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;)
            await_stopped(atoi(line), true);
        kill(j.pid, SIGCONT);
        strcpy(text, job_out(&j));
        for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;)
            await_stopped(atoi(line), false);
        free(text);
    }
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK_EQ(count_words(job_err(&j), "SIGTSTP stops this dtrun and its workers"), 2);
    job_finish(&j);
}

TEST(a_stopped_job_that_is_killed_leaves_nothing)
{
    struct job j;
    JOB_START_AS(&j, lead_a_group, NULL, NO_PYTHON, "pid", "hang");
    CHECK(job_says_lines(&j, 1));
    kill(j.pid, SIGTSTP);
    await_dtrun_stopped(j.pid);
    await_stopped(atoi(job_out(&j)), true);
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, atoi(job_out(&j)), 0),
                         .events = POLLIN};
    CHECK(end.fd >= 0);
    CHECK_EQ(job_stop(&j, SIGKILL), 128 + SIGKILL);
    CHECK_EQ(poll(&end, 1, 60000), 1);
    close(end.fd);
    job_finish(&j);
}

/* As a job scheduler's: the kernel would not stop a group that nobody can continue, and dtrun alone
 * must not keep its workers stopped. */
static void lead_a_session(void *arg)
{
    (void)arg;
    setsid();
}

TEST(where_nobody_could_continue_it_a_stop_signal_changes_nothing)
{
    struct job j;
    JOB_START_AS(&j, lead_a_session, NULL, NO_PYTHON, "trap:15", "line:up", "hang");
    CHECK(job_says_lines(&j, 1));
    kill(j.pid, SIGTSTP);
    CHECK(job_says(&j, JOB_ERR, "SIGTSTP stops this dtrun"));
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK(strstr(job_err(&j), "forcefully") == NULL);
    job_finish(&j);
}

/* -- on a terminal ---------------------------------------------------------------------------- */

/* What a shell does with `dtrun ...`, Ctrl-Z, fg: exits with dtrun's status. */
_Noreturn static void be_shell(const char *terminal, const char *const *args)
{
    int status, stopped = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    int fd = open(terminal, O_RDWR);
    for (int i = 0; i < 3; i++)
        dup2(fd, i);
    signal(SIGTTOU, SIG_IGN);
    pid_t job = fork();
    if (job == 0) {
        setpgid(0, 0);
        tcsetpgrp(0, getpid());
        signal(SIGTTOU, SIG_DFL);
        execv(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
    while (waitpid(job, &status, WUNTRACED) == job && WIFSTOPPED(status)) {
        char line[16];
        stopped++;
        tcsetpgrp(0, getpgrp());
        dprintf(1, "[1]+ Stopped\n");
        if (!fgets(line, sizeof line, stdin)) /* "fg" */
            _exit(125);
        tcsetpgrp(0, job);
        kill(-job, SIGCONT);
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) + 10 * stopped : 126);
}

/* Reads what the terminal shows until WORDS; what came before them is in OUT too. */
static void await_words(int master, const char *words, char *out, size_t size)
{
    size_t n = strlen(out);
    while (!strstr(out, words)) {
        struct pollfd p = {.fd = master, .events = POLLIN};
        ssize_t got = poll(&p, 1, 60000) == 1 ? read(master, out + n, size - n - 1) : -1;
        CHECK(got > 0);
        n += (size_t)got;
        out[n] = '\0';
    }
}

TEST(ctrl_z_and_fg_on_a_terminal)
{
    char shown[16384] = "", dir[64], go[96], await[128];
    int master = terminal_open(), status;
    snprintf(go, sizeof go, "%s/go", tmp_make(dir));
    snprintf(await, sizeof await, "await:%s", go);
    pid_t shell = fork();
    if (shell == 0)
        be_shell(ptsname(master),
                 (const char *const[]){getenv("DT_RUN"), NO_PYTHON, "pid", "line:up", await, NULL});
    await_words(master, "up\r\n", shown, sizeof shown);
    pid_t worker = atoi(shown);
    CHECK(worker > 0 && write(master, "\x1a", 1) == 1);
    await_words(master, "Stopped", shown, sizeof shown);
    await_stopped(worker, true);
    CHECK_EQ(write(master, "fg\n", 3), 3);
    await_stopped(worker, false);
    fclose(fopen(go, "w"));
    CHECK_EQ(waitpid(shell, &status, 0), shell);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 10);
    close(master);
    tmp_remove(dir);
}
