/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/native.h"

#include "agent/look/native_walk.h"
#include "base/auto.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Who walks a process. It is a process itself: libdw waits for ever for a thread in a state D, and
 * need not survive each program that it meets. */
struct walker {
    pid_t pid;
    int records; /* then, with tid 0, why there are none */
};

static struct dt_look_task *task_of(struct dt_look_process *p, pid_t tid)
{
    for (size_t i = 0; i < p->len; i++)
        if (p->tasks[i].tid == tid)
            return &p->tasks[i];
    return NULL;
}

/* The threads that can be stopped. */
static size_t stoppable(const struct dt_look_process *p, pid_t tids[DT_NATIVE_THREADS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < p->len && count < DT_NATIVE_THREADS_MAX; i++)
        if (strchr("RS", p->tasks[i].state))
            tids[count++] = p->tasks[i].tid;
    return count;
}

static void walk_and_exit(const struct dt_native_walk_table *lib, const struct dt_look_process *p,
                          int fd)
{
    pid_t tids[DT_NATIVE_THREADS_MAX];
    struct dt_native_record last = {.tid = 0};
    struct dt_err err = {0};
    size_t count = stoppable(p, tids);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (lib->walk(p->pid, tids, count, fd, &err) < 0)
        snprintf(last.frame.function, sizeof last.frame.function, "%.*s",
                 (int)sizeof last.frame.function - 1, err.text);
    _exit(write(fd, &last, sizeof last) != (ssize_t)sizeof last);
}

static int start(struct walker *w, const struct dt_native_walk_table *lib,
                 const struct dt_look_process *p)
{
    int ends[2];
    if (pipe(ends) < 0)
        return -1;
    w->pid = fork();
    if (w->pid == 0) {
        close(ends[0]);
        walk_and_exit(lib, p, ends[1]);
    }
    close(ends[1]);
    w->records = ends[0];
    if (w->pid > 0)
        return 0;
    close(ends[0]);
    return -1;
}

static void keep(struct dt_look_entry *e, const struct dt_native_record *r)
{
    struct dt_look_task *t = task_of(&e->process, r->tid);
    if (!t || t->native_depth == DT_NATIVE_DEPTH_MAX)
        return;
    if (!t->native)
        t->native = calloc(DT_NATIVE_DEPTH_MAX, sizeof *t->native);
    if (t->native)
        t->native[t->native_depth++] = r->frame;
}

/* A record is smaller than what a pipe hands over whole. False: no further one comes in time. */
static bool next_record(const struct walker *w, dt_ms until, struct dt_native_record *r)
{
    struct pollfd polled = {.fd = w->records, .events = POLLIN};
    dt_ms left = until - dt_clock_monotonic();
    _Static_assert(sizeof *r <= 512, "POSIX's least PIPE_BUF");
    return left > 0 && poll(&polled, 1, (int)left) == 1 &&
           read(w->records, r, sizeof *r) == (ssize_t)sizeof *r;
}

/* A walker that is killed while it attaches leaves a signal to stop behind; SIGCONT takes it away.
 */
static void end(struct walker *w, const struct dt_look_process *p, bool done)
{
    close(w->records);
    if (!done)
        kill(w->pid, SIGKILL);
    while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (!done && dt_look_process_lives(p) && p->len > 0 && !strchr("Tt", p->tasks[0].state))
        kill(p->pid, SIGCONT);
}

static void add(const struct dt_native_walk_table *lib, struct dt_look_entry *e, dt_ms until)
{
    struct walker w;
    struct dt_native_record r = {0};
    bool done = false;
    if (start(&w, lib, &e->process) < 0) {
        snprintf(e->no_native, sizeof e->no_native, "no further process can be started");
        return;
    }
    while (!done && next_record(&w, until, &r)) {
        r.frame.function[sizeof r.frame.function - 1] = '\0';
        r.frame.object[sizeof r.frame.object - 1] = '\0';
        done = r.tid == 0;
        if (!done)
            keep(e, &r);
    }
    end(&w, &e->process, done);
    snprintf(e->no_native, sizeof e->no_native, "%s",
             done ? r.frame.function : "it takes too long, or is damaged");
}

int dt_native_add(struct dt_look *look, struct dt_err *err)
{
    const struct dt_native_walk_table *lib =
        dt_plugin_open("agent/native", DT_NATIVE_WALK_ABI, sizeof *lib, err);
    if (!lib)
        return dt_err_wrap(err, "--native takes libdw");
    dt_ms end = dt_clock_monotonic() + DT_LOOK_TIME_MAX;
    for (size_t i = 0; i < look->len; i++) {
        dt_ms now = dt_clock_monotonic(), until = now + DT_NATIVE_TIME_MAX;
        if (look->at[i].process.len > 0 && now < end)
            add(lib, &look->at[i], until < end ? until : end);
    }
    return 0;
}
