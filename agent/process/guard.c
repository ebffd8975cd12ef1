/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/guard.h"

#include "agent/process/fork_limits.h"
#include "agent/process/guard_wire.h"
#include "agent/process/reap.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/ending.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_AGAIN_MS 20
#define LOOK_RARELY_MS 2000
#define MOST_UNSENT 256 /* each is another one: more than there are signals to send to all */

struct dt_guard {
    uv_poll_t reports;
    uv_signal_t child;
    uv_timer_t look; /* while we kill in the guard's place */
    struct dt_ending ending;
    int sock;
    struct dt_guard_order unsent[MOST_UNSENT];
    int unsent_count;
    pid_t pid;     /* of the guard; 0 once reaped */
    bool silent;   /* its end of the socket is closed */
    bool done;     /* it left of itself, which it does when nobody is left */
    bool orphaned; /* it died before its workers did: they are ours now */
    int quiet;     /* looks in a row that found nobody */
    uint64_t wait; /* until the next look; rarer and rarer, as in the guard */
    bool over;
    int count;
    const struct dt_guard_events *events;
    void *arg;
    pid_t *pids;      /* of workers that are not known to be over; 0 otherwise */
    pid_t *strangers; /* children of a shell that became us: not ours to end */
    size_t stranger_count;
};

/* -- what the guard tells --------------------------------------------------------------------- */

static void worker_exited(struct dt_guard *g, int index, int status, int64_t at_ns)
{
    g->pids[index] = 0;
    g->events->on_exited(g->arg, index, status, at_ns);
}

static void take_report(struct dt_guard *g, const struct dt_guard_report *r)
{
    switch (r->kind) {
    case DT_GUARD_STARTED: /* by the worker itself and by the guard, in whichever order */
        if (g->pids[r->index] == r->value)
            break;
        g->pids[r->index] = r->value;
        g->events->on_started(g->arg, r->index, r->value, r->at_ns);
        break;
    case DT_GUARD_REFUSED:
        g->events->on_refused(g->arg, r->index, (enum dt_spawn_step)r->value, r->errnum);
        break;
    case DT_GUARD_EXITED:
        worker_exited(g, r->index, r->value, r->at_ns);
        break;
    }
}

static void read_reports(struct dt_guard *g)
{
    struct dt_guard_report r;
    ssize_t n;
    while ((n = recv(g->sock, &r, sizeof r, MSG_DONTWAIT)) > 0)
        take_report(g, &r);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        g->silent = true;
        uv_poll_stop(&g->reports);
    }
}

/* -- deaths ----------------------------------------------------------------------------------- */

static void child_gone(struct dt_guard *g, pid_t pid, int status)
{
    if (pid == g->pid) {
        g->pid = 0;
        read_reports(g); /* its last words */
        g->silent = true;
        g->done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (!g->done)
            dt_error("the guard process (pid %d) was killed, and with it the workers go", pid);
        return;
    }
    for (size_t i = 0; i < g->stranger_count; i++)
        if (g->strangers[i] == pid)
            g->strangers[i] = 0; /* the number may be a worker's next */
    for (int i = 0; i < g->count; i++)
        if (g->pids[i] == pid)
            worker_exited(g, i, status, dt_clock_monotonic_ns());
}

/* A worker that the guard had reaped and could not tell of any more has ended somehow; nobody will
 * ever know that it was well. */
static void over(struct dt_guard *g)
{
    for (int i = 0; i < g->count; i++)
        if (g->pids[i])
            worker_exited(g, i, W_EXITCODE(0, SIGKILL), dt_clock_monotonic_ns());
    g->over = true;
    uv_timer_stop(&g->look);
    g->events->on_over(g->arg);
}

/* In the guard's place: all that is below us now was below it, but for strangers. Where there are
 * some the kernel cannot tell when nobody else is left; who forks while we look is seen next time.
 */
static void on_look(uv_timer_t *t)
{
    struct dt_guard *g = dt_container_of(t, struct dt_guard, look);
    bool found = dt_reap_kill_but(g->strangers, g->stranger_count) > 0;
    g->quiet = found ? 0 : g->quiet + 1;
    g->wait = g->wait < LOOK_RARELY_MS ? 2 * g->wait : g->wait;
    if (g->quiet > 1)
        over(g);
    else
        uv_timer_start(t, on_look, g->quiet ? LOOK_AGAIN_MS : g->wait, 0);
}

static void reap(struct dt_guard *g)
{
    pid_t pid;
    int status;
    enum dt_reaped what;
    while ((what = dt_reap_next(&pid, &status)) == DT_REAP_ONE)
        child_gone(g, pid, status);
    if (g->over)
        return;
    if (g->done || what == DT_REAP_NO_CHILDREN) {
        over(g);
    } else if (g->pid == 0 && !g->orphaned) {
        g->orphaned = true;
        g->wait = LOOK_AGAIN_MS;
        uv_timer_start(&g->look, on_look, 0, 0);
    }
}

static void on_child(uv_signal_t *s, int signum)
{
    (void)signum;
    struct dt_guard *g = dt_container_of(s, struct dt_guard, child);
    /* Deaths that it reported come before its own. */
    if (!g->silent)
        read_reports(g);
    reap(g);
}

static void send_orders(struct dt_guard *g);

static void on_reports(uv_poll_t *p, int status, int events)
{
    struct dt_guard *g = dt_container_of(p, struct dt_guard, reports);
    if (status == 0)
        read_reports(g);
    if (events & UV_WRITABLE)
        send_orders(g);
}

static void listen_to(struct dt_guard *g)
{
    int writable = g->unsent_count ? UV_WRITABLE : 0;
    if (!g->silent)
        uv_poll_start(&g->reports, UV_READABLE | UV_DISCONNECT | writable, on_reports);
}

/* -- orders ----------------------------------------------------------------------------------- */

/* What the guard has no room for waits until it has: while it still forks it reads nothing, and who
 * waited for it here would not take what it tells, so that neither went on. */
static void send_orders(struct dt_guard *g)
{
    int sent = 0;
    while (sent < g->unsent_count &&
           (send(g->sock, &g->unsent[sent], sizeof g->unsent[0], MSG_NOSIGNAL | MSG_DONTWAIT) > 0 ||
            errno != EAGAIN))
        sent++; /* also when it is dead, which on_child() hears of */
    g->unsent_count -= sent;
    memmove(g->unsent, g->unsent + sent, (size_t)g->unsent_count * sizeof g->unsent[0]);
    listen_to(g);
}

/* An order that waits already is not given twice, as the kernel does with signals. */
static void order(struct dt_guard *g, enum dt_guard_order_kind kind, int index, int signum)
{
    struct dt_guard_order o = {.kind = kind, .index = index, .signum = signum};
    for (int i = 0; i < g->unsent_count; i++)
        if (memcmp(&g->unsent[i], &o, sizeof o) == 0)
            return;
    if (g->silent || g->unsent_count == MOST_UNSENT)
        return;
    g->unsent[g->unsent_count++] = o;
    send_orders(g);
}

pid_t dt_guard_pid(const struct dt_guard *g)
{
    return g->pid;
}

void dt_guard_signal(struct dt_guard *g, int index, int signum, bool leader_only)
{
    order(g, leader_only ? DT_GUARD_LEADER : DT_GUARD_GROUP, index, signum);
}

void dt_guard_signal_all(struct dt_guard *g, int signum)
{
    order(g, DT_GUARD_ALL, 0, signum);
}

void dt_guard_end(struct dt_guard *g)
{
    order(g, DT_GUARD_END, 0, 0);
}

/* -- beginning and end ------------------------------------------------------------------------ */

/* Forks the guard with all signals blocked, so that none reaches a handler of ours in the child. */
static pid_t fork_guard(const int pair[2], const struct dt_spawn *workers, pid_t *pids, int count,
                        const struct dt_spawn_inherited *inherited)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        if (getppid() != parent)
            _exit(0);   /* dtrun is gone already, and nothing is started */
        close(pair[0]); /* else dtrun's death would not be its end, and we could wait for room in it
                         */
        dt_guard_main(pair[1], workers, pids, count, inherited);
    }
    int errnum = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = errnum;
    return pid;
}

static void guard_free(void *guard)
{
    struct dt_guard *g = guard;
    close(g->sock);
    free(g->strangers);
    free(g->pids);
    free(g); /* the only free of a guard that was started */
}

static void watch(struct dt_guard *g, uv_loop_t *loop)
{
    uv_poll_init(loop, &g->reports, g->sock);
    uv_signal_init(loop, &g->child);
    uv_timer_init(loop, &g->look);
    g->reports.data = g->child.data = g->look.data = g;
    listen_to(g);
    uv_signal_start(&g->child, on_child, SIGCHLD);
}

struct dt_guard *dt_guard_start(uv_loop_t *loop, const struct dt_spawn *workers, int count,
                                const struct dt_spawn_inherited *inherited,
                                const struct dt_guard_events *events, void *arg, struct dt_err *err)
{
    int pair[2];
    struct dt_guard *g = calloc(1, sizeof *g);
    pid_t *pids = g ? calloc(2 * (size_t)count, sizeof *pids) : NULL;
    if (!pids) {
        free(g);
        dt_err_set(err, DT_E_MEMORY, "no memory for %d workers", count);
        return NULL;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open a socket pair for the guard process");
        free(pids);
        free(g);
        return NULL;
    }
    g->sock = pair[0];
    g->pids = pids;
    g->count = count;
    g->events = events;
    g->arg = arg;
    g->strangers = dt_reap_children(&g->stranger_count);
    watch(g, loop); /* before the fork: its death could come at once */
    g->pid = fork_guard(pair, workers, pids, count, inherited);
    int errnum = errno;
    close(pair[1]);
    if (g->pid < 0) {
        dt_fork_limits_err(err, errnum, "cannot fork the guard process");
        dt_guard_close(g, NULL, NULL);
        return NULL;
    }
    return g;
}

void dt_guard_close(struct dt_guard *g, void (*on_closed)(void *arg), void *arg)
{
    dt_ending_begin(&g->ending, guard_free, g, on_closed, arg);
    dt_ending_close(&g->ending, &g->reports);
    dt_ending_close(&g->ending, &g->child);
    dt_ending_close(&g->ending, &g->look);
}
