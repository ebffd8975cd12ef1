/* SPDX-License-Identifier: Apache-2.0 */
/* What is decided is decided by dt_comm_verdict(); here facts are gathered and its word is carried
 * out. The lock is held for a whole look, aborts included, so who removes a communicator can be
 * sure that nobody is at it any more. */
#include "cuda/nccl/watchdog.h"

#include "cuda/nccl/hints.h"
#include "cuda/nccl/verdict.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Between looks: a look costs a few microseconds of each communicator. */
#define IDLE ((dt_ms)250)
#define UNDER_WAY ((dt_ms)50)
#define SOON ((dt_ms)10)

struct dt_comm_watchdog {
    struct dt_comm_watchdog_of of;
    pthread_t thread;
    pthread_mutex_t lock;
    int news; /* an eventfd: somebody was added, or the end */
    bool end;
    struct dt_list watched;
    struct dt_comm_facts *facts; /* [count] */
    int count;
    struct pollfd *sleep; /* [room], the thread's own: news, and processes that have not ended */
    int room;
};

static const char *const kind_names[DT_COLL_KINDS] = {
    [DT_ALL_REDUCE] = "all-reduce", [DT_REDUCE_SCATTER] = "reduce-scatter",
    [DT_ALL_GATHER] = "all-gather", [DT_ALL_TO_ALL] = "all-to-all",
    [DT_BROADCAST] = "broadcast",   [DT_SEND] = "send",
    [DT_RECV] = "receive",          [DT_BARRIER] = "barrier",
};

/* -- facts ------------------------------------------------------------------------------------ */

static void look_for_error(struct dt_comm_watchdog *d, struct dt_watched *w,
                           struct dt_comm_facts *f, dt_ms now)
{
    ncclResult_t r = dt_comm_ask(w->comm);
    if (r != w->error) {
        struct dt_err e = {0};
        w->error = r;
        w->error_since = now;
        if (r != ncclSuccess)
            dt_nccl_fail(d->of.calls, r, "a communicator failed", &e);
        snprintf(w->error_is, sizeof w->error_is, "%.*s", (int)sizeof w->error_is - 1, e.text);
    }
    f->error = r;
    f->error_age = now - w->error_since;
    f->error_is = w->error_is;
}

static void look_for_failure(struct dt_watched *w, struct dt_comm_facts *f, dt_ms now)
{
    if (w->failed_since == 0) {
        w->failed_since = now;
        dt_comm_check(w->comm, &w->failed);
    }
    f->failed = &w->failed;
    f->error_age = now - w->failed_since;
}

static void look_for_flight(struct dt_watched *w, struct dt_comm_facts *f, dt_ms now)
{
    struct dt_flight_report r;
    f->under_way = dt_flights_oldest(w->flights, now, &r);
    if (!f->under_way)
        return;
    snprintf(w->call, sizeof w->call, "%s number %llu", kind_names[r.kind],
             (unsigned long long)r.sequence);
    f->call = w->call;
    f->waited = r.waited;
}

/* Not of one that has not begun, or is ended or being ended. */
static bool is_to_be_looked_at(enum dt_comm_state s)
{
    return s == DT_COMM_CONNECTING || s == DT_COMM_READY || s == DT_COMM_BUSY ||
           s == DT_COMM_FAILED;
}

/* False where only its processes were looked at. */
static bool look_at(struct dt_comm_watchdog *d, struct dt_watched *w, struct dt_comm_facts *f,
                    dt_ms now)
{
    const struct dt_coll_member *gone = dt_peers_gone(w->peers);
    enum dt_comm_state s = dt_comm_state(w->comm);
    if (!is_to_be_looked_at(s))
        return false;
    *f = (struct dt_comm_facts){.group = w->group, .connecting = s == DT_COMM_CONNECTING};
    f->timeout = atomic_load(&w->timeout);
    f->busy = dt_comm_busy(w->comm, now);
    look_for_flight(w, f, now);
    if (s == DT_COMM_FAILED)
        look_for_failure(w, f, now);
    else
        look_for_error(d, w, f, now);
    if (gone) {
        f->gone = gone->world_rank;
        f->gone_pid = gone->pid;
    }
    return true;
}

static int look(struct dt_comm_watchdog *d, dt_ms now)
{
    int n = 0;
    dt_list_each(&d->watched, node)
    {
        struct dt_watched *w = dt_container_of(node, struct dt_watched, in_watchdog);
        n += look_at(d, w, &d->facts[n], now);
    }
    bool round_over = n > 0 && d->of.round_over && d->of.round_over(d->of.round_over_arg);
    for (int i = 0; i < n; i++)
        d->facts[i].round_over = round_over;
    return n;
}

/* -- doing ------------------------------------------------------------------------------------ */

/* First all are told, so that who is inside one comes out; then they are stopped. That in one group
 * of calls: what NCCL frees behind an abort waits for the whole device, and so, one communicator
 * after the other, for the kernels of those whose turn has not come. (Before 2.22 each is aborted
 * where it stands, group or not.) */
static void carry_out(struct dt_comm_watchdog *d, const struct dt_err *why)
{
    d->of.lose(d->of.lose_arg, why);
    dt_list_each(&d->watched, n)
        dt_comm_fail(dt_container_of(n, struct dt_watched, in_watchdog)->comm, why);
    d->of.calls->group_start();
    dt_list_each(&d->watched, n)
        dt_comm_abort(dt_container_of(n, struct dt_watched, in_watchdog)->comm, why);
    d->of.calls->group_end();
}

/* How long until the next look. */
static dt_ms look_and_act(struct dt_comm_watchdog *d)
{
    struct dt_err why = {0};
    int n = look(d, dt_clock_monotonic());
    enum dt_comm_verdict v = dt_comm_verdict(d->facts, n, &why);
    if (v == DT_COMM_VERDICT_LOST)
        carry_out(d, &why);
    if (v == DT_COMM_VERDICT_SOON)
        return SOON;
    for (int i = 0; i < n; i++)
        if (d->facts[i].under_way || d->facts[i].connecting || d->facts[i].busy > 0)
            return UNDER_WAY;
    return IDLE;
}

/* What to sleep on: how many. Where there is no memory for all, some are seen later. */
static int gather(struct dt_comm_watchdog *d)
{
    int n = 1, all = 1;
    dt_list_each(&d->watched, node) all +=
        dt_container_of(node, struct dt_watched, in_watchdog)->peers->count;
    struct pollfd *more = all > d->room ? realloc(d->sleep, (size_t)all * sizeof *more) : NULL;
    if (more) {
        d->sleep = more;
        d->room = all;
    }
    d->sleep[0] = (struct pollfd){.fd = d->news, .events = POLLIN};
    dt_list_each(&d->watched, node)
    {
        const struct dt_peers *p = dt_container_of(node, struct dt_watched, in_watchdog)->peers;
        for (int i = 0; i < p->count && n < d->room; i++)
            if (p->fd[i].fd >= 0)
                d->sleep[n++] = p->fd[i];
    }
    return n;
}

/* Who is removed meanwhile closes what is polled here, which wakes us for nothing at the worst. */
static void wait_for(struct dt_comm_watchdog *d, dt_ms pause)
{
    uint64_t told;
    int n = gather(d);
    pthread_mutex_unlock(&d->lock);
    poll(d->sleep, (nfds_t)n, (int)pause);
    pthread_mutex_lock(&d->lock);
    if (read(d->news, &told, sizeof told) < 0)
        return; /* there were none */
}

static void *watch(void *d_v)
{
    struct dt_comm_watchdog *d = d_v;
    d->of.calls->set_device(d->of.ordinal);
    pthread_mutex_lock(&d->lock);
    while (!d->end)
        wait_for(d, look_and_act(d));
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* -- beginning and ending --------------------------------------------------------------------- */

static void destroy(struct dt_comm_watchdog *d)
{
    if (d->news >= 0)
        close(d->news);
    pthread_mutex_destroy(&d->lock);
    free(d->facts);
    free(d->sleep);
    free(d);
}

static void tell(struct dt_comm_watchdog *d)
{
    if (eventfd_write(d->news, 1) < 0)
        return; /* it is full of news */
}

/* Signals are for the threads of the program. */
static int start_thread(struct dt_comm_watchdog *d)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&d->thread, NULL, watch, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_setname_np(d->thread, "dtrun-nccl");
    return rc;
}

struct dt_comm_watchdog *dt_comm_watchdog_open(const struct dt_comm_watchdog_of *of,
                                               struct dt_err *err)
{
    struct dt_comm_watchdog *d = calloc(1, sizeof *d);
    if (!d) {
        dt_err_set(err, DT_E_MEMORY, "no memory for the watchdog of NCCL");
        return NULL;
    }
    d->of = *of;
    dt_list_init(&d->watched);
    pthread_mutex_init(&d->lock, NULL);
    d->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    d->sleep = calloc(1, sizeof *d->sleep);
    d->room = 1;
    int rc = d->news < 0 ? errno : d->sleep ? start_thread(d) : ENOMEM;
    if (rc == 0)
        return d;
    dt_err_errno(err, DT_E_RUNTIME, rc, "no watchdog for NCCL");
    destroy(d);
    return NULL;
}

void dt_comm_watchdog_close(struct dt_comm_watchdog *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->end = true;
    tell(d);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    destroy(d);
}

int dt_comm_watchdog_add(struct dt_comm_watchdog *d, struct dt_watched *w, struct dt_err *err)
{
    w->error = ncclSuccess;
    w->failed_since = 0;
    pthread_mutex_lock(&d->lock);
    struct dt_comm_facts *more = realloc(d->facts, (size_t)(d->count + 1) * sizeof *more);
    if (more) {
        d->facts = more;
        d->count++;
        dt_list_append(&d->watched, &w->in_watchdog);
        tell(d);
    }
    pthread_mutex_unlock(&d->lock);
    return more ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory to watch one more group");
}

bool dt_comm_watchdog_remove(struct dt_comm_watchdog *d, struct dt_watched *w)
{
    pthread_mutex_lock(&d->lock);
    dt_list_remove(&w->in_watchdog);
    bool last = --d->count == 0;
    pthread_mutex_unlock(&d->lock);
    return last;
}
