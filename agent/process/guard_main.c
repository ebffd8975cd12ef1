/* SPDX-License-Identifier: Apache-2.0 */
/* The guard's side: a process with one thread and one loop over two descriptors. */
#include "agent/process/guard_wire.h"

#include "agent/process/reap.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* While it kills: a process that was being forked shows up in the next look at the latest. Looks
 * get rarer, for a process that the kernel does not let go may stay for hours. */
#define LOOK_AGAIN_MS 20
#define LOOK_RARELY_MS 2000

struct guard {
    int sock, signals;
    pid_t dtrun;
    int count;
    pid_t *pids; /* of the workers; 0 once reaped */
    bool ending;
};

static void report(const struct guard *g, enum dt_guard_report_kind kind, int index, int value,
                   int errnum, int64_t at_ns)
{
    struct dt_guard_report r = {
        .kind = kind, .index = index, .value = value, .errnum = errnum, .at_ns = at_ns};
    /* When nobody listens any more, the next receive says so. */
    while (send(g->sock, &r, sizeof r, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

/* -- beginning -------------------------------------------------------------------------------- */

/* Handlers are dtrun's, and would run on a copy of its memory. What is ignored stays so: the
 * workers are to inherit it. */
static void forget_handlers(void)
{
    for (int s = 1; s < NSIG; s++) {
        struct sigaction a;
        if (sigaction(s, NULL, &a) == 0 && a.sa_handler != SIG_IGN && a.sa_handler != SIG_DFL)
            signal(s, SIG_DFL);
    }
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM); /* our own death signal */
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A worker that is being started, for what it says itself. */
struct beginner {
    const struct guard *guard;
    int index;
    int64_t at_ns;
};

/* The guard says this too, but may be kept from its processor until the worker has done much that
 * dtrun has to know it for. */
static void begin(void *arg)
{
    const struct beginner *b = arg;
    report(b->guard, DT_GUARD_STARTED, b->index, getpid(), 0, b->at_ns);
}

static void refuse(void *arg, enum dt_spawn_step step, int errnum)
{
    const struct beginner *b = arg;
    report(b->guard, DT_GUARD_REFUSED, b->index, (int)step, errnum, 0);
}

/* The next ones need not even close it. */
static void let_go_of_kept(const struct dt_spawn *w)
{
    for (int i = 0; i < DT_SPAWN_KEEP; i++)
        if (w->keep[i] > 2)
            close(w->keep[i]);
}

static void spawn_all(struct guard *g, const struct dt_spawn *workers,
                      const struct dt_spawn_inherited *inherited)
{
    for (int i = 0; i < g->count; i++) {
        if (!workers[i].path)
            continue;
        struct beginner b = {g, i, dt_clock_monotonic_ns()};
        g->pids[i] = dt_spawn_worker(&workers[i], inherited, begin, refuse, &b);
        if (g->pids[i] > 0) {
            report(g, DT_GUARD_STARTED, i, g->pids[i], 0, b.at_ns);
            let_go_of_kept(&workers[i]);
        } else {
            report(g, DT_GUARD_REFUSED, i, DT_SPAWN_FORK, errno, 0);
            g->pids[i] = 0;
            return; /* no more of them would do any good */
        }
    }
}

static void close_between(unsigned from, unsigned to)
{
    if (from <= to && syscall(SYS_close_range, from, to, 0) < 0)
        for (unsigned fd = from; fd <= to && fd < 65536; fd++)
            close((int)fd);
}

/* Listeners, files and the user's own pipes must not stay open because of us. */
static void let_go_of_everything_else(const struct guard *g)
{
    unsigned low = (unsigned)(g->sock < g->signals ? g->sock : g->signals);
    unsigned high = (unsigned)(g->sock < g->signals ? g->signals : g->sock);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2 && null >= 0; fd++)
        dup2(null, fd);
    close_between(3, low - 1);
    close_between(low + 1, high - 1);
    close_between(high + 1, ~0u);
    if (chdir("/") < 0)
        return; /* then the folder we stand in stays busy, which is no reason to stop */
}

/* -- life ------------------------------------------------------------------------------------- */

static int index_of(const struct guard *g, pid_t pid)
{
    for (int i = 0; i < g->count; i++)
        if (g->pids[i] == pid)
            return i;
    return -1;
}

/* False: nobody is left. */
static bool reap(struct guard *g)
{
    pid_t pid;
    int status;
    enum dt_reaped what;
    while ((what = dt_reap_next(&pid, &status)) == DT_REAP_ONE) {
        int i = index_of(g, pid);
        if (i < 0)
            continue;
        g->pids[i] = 0;
        report(g, DT_GUARD_EXITED, i, status, 0, dt_clock_monotonic_ns());
    }
    return what != DT_REAP_NO_CHILDREN;
}

/* The signal comes before SIGCONT: a stopped process that is continued has it then, and does not go
 * on with its work for a moment. Only SIGSTOP is to stay. While we have not reaped the leader its
 * number is nobody else's. Afterwards only processes that are known to be below us are signalled.
 */
static void signal_group(const struct guard *g, int i, pid_t group, int signum)
{
    if (g->pids[i] == 0) {
        dt_reap_signal(group, signum);
        return;
    }
    /* Just forked, it may not have made its group yet. */
    pid_t to = -group;
    if (kill(to, signum) < 0 && errno == ESRCH) {
        to = group;
        kill(to, signum);
    }
    if (signum != SIGSTOP)
        kill(to, SIGCONT);
}

static void signal_leader(const struct guard *g, int i, int signum)
{
    if (g->pids[i] == 0)
        return;
    kill(g->pids[i], signum);
    kill(g->pids[i], SIGCONT);
}

/* INDEX -1 means those that have not exited. */
static bool means(const struct guard *g, const struct dt_guard_order *o, int i)
{
    return o->index < 0 ? g->pids[i] != 0 : o->index == i;
}

static void obey(struct guard *g, const struct dt_guard_order *o, const pid_t *groups)
{
    switch (o->kind) {
    case DT_GUARD_GROUP:
        for (int i = 0; i < g->count; i++)
            if (means(g, o, i) && groups[i])
                signal_group(g, i, groups[i], o->signum);
        break;
    case DT_GUARD_LEADER:
        for (int i = 0; i < g->count; i++)
            if (means(g, o, i))
                signal_leader(g, i, o->signum);
        break;
    case DT_GUARD_REST:
        for (int i = 0; i < g->count; i++)
            if (means(g, o, i) && groups[i] && !g->pids[i])
                dt_reap_signal_session(groups[i], o->signum);
        break;
    case DT_GUARD_ALL:
        dt_reap_signal(0, o->signum);
        break;
    case DT_GUARD_END:
        g->ending = true;
        break;
    }
}

static void read_orders(struct guard *g, const pid_t *groups)
{
    struct dt_guard_order o;
    ssize_t n;
    while ((n = recv(g->sock, &o, sizeof o, MSG_DONTWAIT)) > 0)
        if (n == (ssize_t)sizeof o && o.index < g->count)
            obey(g, &o, groups);
    if (n == 0)
        g->ending = true; /* dtrun is gone */
}

/* Whoever sends SIGTERM to every process of a job (service managers and schedulers do) wants the
 * workers to end in their own time, which dtrun sees to. It is our death signal only once dtrun is
 * not our parent any more. */
static void read_signals(struct guard *g)
{
    struct signalfd_siginfo s;
    while (read(g->signals, &s, sizeof s) == (ssize_t)sizeof s)
        if (s.ssi_signo == SIGTERM && getppid() != g->dtrun)
            g->ending = true;
}

/* The workers by their groups too: without /proc (a bare chroot) or memory nobody else is found. */
static void kill_all(const struct guard *g, const pid_t *groups)
{
    for (int i = 0; i < g->count; i++)
        if (g->pids[i])
            signal_group(g, i, groups[i], SIGKILL);
    dt_reap_signal(0, SIGKILL);
}

static void serve(struct guard *g, const pid_t *groups)
{
    struct pollfd fds[2] = {{.fd = g->sock, .events = POLLIN},
                            {.fd = g->signals, .events = POLLIN}};
    int wait = LOOK_AGAIN_MS;
    while (reap(g)) {
        if (g->ending)
            kill_all(g, groups);
        if (poll(fds, 2, g->ending ? wait : -1) == 0 && wait < LOOK_RARELY_MS)
            wait *= 2;
        read_signals(g);
        if (fds[0].revents)
            read_orders(g, groups);
        if (g->ending)
            fds[0].fd = -1; /* an end of file would be there again and again */
    }
}

_Noreturn void dt_guard_main(int sock, const struct dt_spawn *workers, pid_t *pids, int count,
                             const struct dt_spawn_inherited *inherited)
{
    struct guard g = {
        .sock = sock, .signals = open_signals(), .dtrun = getppid(), .count = count, .pids = pids};
    pid_t *groups = pids + count;
    if (g.signals < 0) {
        report(&g, DT_GUARD_REFUSED, 0, DT_SPAWN_FORK, errno, 0);
        _exit(0); /* nobody is left: nobody was started */
    }
    prctl(PR_SET_NAME, "dtrun-guard");
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setsid(); /* what the terminal sends is for dtrun to decide on */
    dt_reap_adopt();
    forget_handlers();
    spawn_all(&g, workers, inherited);
    for (int i = 0; i < count; i++)
        groups[i] = pids[i];
    let_go_of_everything_else(&g);
    serve(&g, groups);
    _exit(0);
}
