/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/guard_post.h"

#include "agent/process/fork_limits.h"
#include "base/loop/watch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* -- reports ---------------------------------------------------------------------------------- */

/* A guard that leaves without having read an order resets the connection. That is told before its
 * last reports, and once. */
static ssize_t receive(const struct dt_guard_post *p, struct dt_guard_report *r)
{
    ssize_t n;
    do
        n = recv(p->sock, r, sizeof *r, MSG_DONTWAIT);
    while (n < 0 && (errno == ECONNRESET || errno == EINTR));
    return n;
}

void dt_guard_post_read(struct dt_guard_post *p)
{
    struct dt_guard_report r;
    ssize_t n;
    if (p->silent)
        return;
    while ((n = receive(p, &r)) > 0)
        p->on_report(p->arg, p, &r);
    if (n == 0 || errno != EAGAIN) {
        p->silent = true;
        uv_poll_stop(&p->reports);
    }
}

static void send_orders(struct dt_guard_post *p);

static void on_reports(uv_poll_t *poll, int status, int events)
{
    struct dt_guard_post *p = dt_container_of(poll, struct dt_guard_post, reports);
    if (status == 0)
        dt_guard_post_read(p);
    if (events & UV_WRITABLE)
        send_orders(p);
}

static void listen_to(struct dt_guard_post *p)
{
    int writable = p->unsent_count ? UV_WRITABLE : 0;
    if (!p->silent)
        uv_poll_start(&p->reports, UV_READABLE | UV_DISCONNECT | writable, on_reports);
}

/* -- orders ----------------------------------------------------------------------------------- */

/* What the guard has no room for waits until it has: while it still forks it reads nothing, and who
 * waited for it here would not take what it tells, so that neither went on. */
static void send_orders(struct dt_guard_post *p)
{
    int sent = 0;
    while (sent < p->unsent_count &&
           (send(p->sock, &p->unsent[sent], sizeof p->unsent[0], MSG_NOSIGNAL | MSG_DONTWAIT) > 0 ||
            errno != EAGAIN))
        sent++; /* also when it is dead, which SIGCHLD tells */
    p->unsent_count -= sent;
    memmove(p->unsent, p->unsent + sent, (size_t)p->unsent_count * sizeof p->unsent[0]);
    listen_to(p);
}

void dt_guard_post_order(struct dt_guard_post *p, enum dt_guard_order_kind kind, int index,
                         int signum)
{
    struct dt_guard_order o = {.kind = kind, .index = index, .signum = signum};
    for (int i = 0; i < p->unsent_count; i++)
        if (memcmp(&p->unsent[i], &o, sizeof o) == 0)
            return;
    if (p->silent || p->unsent_count == DT_GUARD_MOST_UNSENT)
        return;
    p->unsent[p->unsent_count++] = o;
    send_orders(p);
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

static int open_sockets(int pair[2], struct dt_err *err)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0)
        return 0;
    return dt_err_errno(err, DT_E_RUNTIME, errno,
                        "cannot open a socket pair for the guard process");
}

static struct dt_guard_post *make(int count)
{
    struct dt_guard_post *p = calloc(1, sizeof *p);
    struct dt_guard_charge *charges = calloc((size_t)count, sizeof *charges);
    if (!p || !charges) {
        free(p);
        free(charges);
        return NULL;
    }
    dt_node_init(&p->in_guard);
    p->charges = charges;
    p->count = count;
    return p;
}

/* One without a handle. */
static void unmake(struct dt_guard_post *p)
{
    free(p->charges);
    free(p);
}

static int watch(struct dt_guard_post *p, uv_loop_t *loop, struct dt_err *err)
{
    if (dt_watch_init(loop, &p->reports, p->sock, "the guard process", err) < 0)
        return -1;
    listen_to(p);
    return 0;
}

/* PIDS: room for the guard, which is a copy of us as we are now. */
static struct dt_guard_post *open_with(pid_t *pids, uv_loop_t *loop, const struct dt_spawn *workers,
                                       int count, const struct dt_spawn_inherited *inherited,
                                       struct dt_err *err)
{
    int pair[2];
    struct dt_guard_post *p = pids ? make(count) : NULL;
    if (!p) {
        dt_err_set(err, DT_E_MEMORY, "no memory for %d workers", count);
        return NULL;
    }
    if (open_sockets(pair, err) < 0) {
        unmake(p);
        return NULL;
    }
    p->sock = pair[0];
    for (int i = 0; i < count; i++)
        p->charges[i].due = workers[i].path != NULL;
    if (watch(p, loop, err) < 0) {
        close(pair[0]);
        close(pair[1]);
        unmake(p);
        return NULL;
    }
    p->pid = fork_guard(pair, workers, pids, count, inherited);
    int errnum = errno;
    close(pair[1]);
    if (p->pid > 0)
        return p;
    dt_fork_limits_err(err, errnum, "cannot fork the guard process");
    dt_guard_post_close(p, NULL, NULL);
    return NULL;
}

struct dt_guard_post *dt_guard_post_open(uv_loop_t *loop, const struct dt_spawn *workers, int count,
                                         const struct dt_spawn_inherited *inherited,
                                         dt_guard_post_report_fn *on_report, void *arg,
                                         struct dt_err *err)
{
    pid_t *pids = calloc(2 * (size_t)count, sizeof *pids);
    struct dt_guard_post *p = open_with(pids, loop, workers, count, inherited, err);
    free(pids);
    if (p) {
        p->on_report = on_report;
        p->arg = arg;
    }
    return p;
}

static void on_poll_closed(uv_handle_t *h)
{
    struct dt_guard_post *p = dt_container_of((uv_poll_t *)h, struct dt_guard_post, reports);
    void (*on_closed)(void *) = p->on_closed;
    void *arg = p->closed_arg;
    close(p->sock);
    free(p->charges);
    free(p); /* the only free of one that has a handle */
    if (on_closed)
        on_closed(arg);
}

void dt_guard_post_close(struct dt_guard_post *p, void (*on_closed)(void *arg), void *arg)
{
    dt_list_remove(&p->in_guard);
    p->on_closed = on_closed;
    p->closed_arg = arg;
    p->silent = true;
    uv_close((uv_handle_t *)&p->reports, on_poll_closed);
}
