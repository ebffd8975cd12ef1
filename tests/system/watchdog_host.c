/* SPDX-License-Identifier: Apache-2.0 */
/* watchdog_host COMMAND...: serves file timers to one process as an agent does, prints what it does
 * to it and how it ended. For tests with PyTorch's own client. */
#include "agent/watch/watchdog.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct host {
    uv_loop_t loop;
    uv_signal_t child;
    struct dt_watchdog *dog;
    pid_t pid;
};

static bool belongs(void *arg, pid_t pid)
{
    return pid == ((struct host *)arg)->pid;
}

static void on_expired(void *arg, pid_t pid, const char *scope, int signum)
{
    (void)arg, (void)pid;
    printf("expired %s signal %d\n", scope, signum);
}

static void on_child(uv_signal_t *s, int signum)
{
    struct host *h = s->data;
    int status;
    (void)signum;
    if (waitpid(h->pid, &status, WNOHANG) != h->pid)
        return;
    if (WIFSIGNALED(status))
        printf("ended by signal %d\n", WTERMSIG(status));
    else
        printf("exited with %d\n", WEXITSTATUS(status));
    uv_close((uv_handle_t *)s, NULL);
    dt_watchdog_close(h->dog, NULL, NULL);
}

int main(int argc, char **argv)
{
    struct host h = {0};
    struct dt_err err;
    if (argc < 2)
        return 2;
    uv_loop_init(&h.loop);
    uv_signal_init(&h.loop, &h.child);
    h.child.data = &h;
    uv_signal_start(&h.child, on_child, SIGCHLD);
    h.dog = dt_watchdog_open(&h.loop, NULL, belongs, on_expired, &h, &err);
    if (!h.dog) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    setenv("TORCHELASTIC_TIMER_FILE", dt_watchdog_path(h.dog), 1);
    h.pid = fork();
    if (h.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    uv_run(&h.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&h.loop) == 0 ? 0 : 1;
}
