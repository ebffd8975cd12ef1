/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/guard.h"

#include "agent/process/guard_post.h"
#include "agent/process/reap.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop/ending.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_AGAIN_MS 20
#define LOOK_RARELY_MS 2000

struct dt_guard {
    struct dt_list posts; /* whose workers, or what these started, are not known to be gone */
    uv_loop_t *loop;
    uv_signal_t child;
    uv_timer_t look; /* while we kill in the place of one that was killed */
    struct dt_ending ending;
    bool orphaned; /* one died before its workers did: they are ours now */
    int quiet;     /* looks in a row that found nobody */
    uint64_t wait; /* until the next look; rarer and rarer, as in the guard */
    bool over;
    int count;
    const struct dt_guard_events *events;
    void *arg;
    pid_t *strangers; /* children of a shell that became us: not ours to end */
    size_t stranger_count;
};

/* A callback may close the post that it is about. */
#define each_post(g, p)                                                                            \
    for (struct dt_node *n_ = (g)->posts.head.next, *next_ = n_->next;                             \
         n_ != &(g)->posts.head && ((p) = dt_container_of(n_, struct dt_guard_post, in_guard));    \
         n_ = next_, next_ = n_->next)

/* -- what the guard tells --------------------------------------------------------------------- */

static void worker_exited(struct dt_guard *g, struct dt_guard_post *p, int index, int status,
                          int64_t at_ns)
{
    p->charges[index].pid = 0;
    g->events->on_exited(g->arg, index, status, at_ns);
}

static void on_report(void *arg, struct dt_guard_post *p, const struct dt_guard_report *r)
{
    struct dt_guard *g = arg;
    struct dt_guard_charge *c = &p->charges[r->index];
    switch (r->kind) {
    case DT_GUARD_STARTED: /* by the worker itself and by the guard, in whichever order */
        if (c->pid == r->value)
            break;
        *c = (struct dt_guard_charge){.pid = r->value};
        g->events->on_started(g->arg, r->index, r->value, r->at_ns);
        break;
    case DT_GUARD_REFUSED:
        c->due = false;
        g->events->on_refused(g->arg, r->index, (enum dt_spawn_step)r->value, r->errnum);
        break;
    case DT_GUARD_EXITED:
        worker_exited(g, p, r->index, r->value, r->at_ns);
        break;
    }
}

/* -- deaths ----------------------------------------------------------------------------------- */

static void guard_gone(struct dt_guard_post *p, int status)
{
    dt_guard_post_read(p); /* its last words */
    p->silent = true;
    p->killed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (p->killed)
        dt_error("the guard process (pid %d) was killed, and with it the workers go", p->pid);
    p->pid = 0;
}

static void child_gone(struct dt_guard *g, pid_t pid, int status)
{
    struct dt_guard_post *p;
    for (size_t i = 0; i < g->stranger_count; i++)
        if (g->strangers[i] == pid)
            g->strangers[i] = 0; /* the number may be a worker's next */
    each_post(g, p)
    {
        if (p->pid == pid)
            guard_gone(p, status);
        for (int i = 0; i < g->count; i++)
            if (p->charges[i].pid == pid)
                worker_exited(g, p, i, status, dt_clock_monotonic_ns());
    }
}

static void on_post_closed(void *arg)
{
    struct dt_guard *g = arg;
    dt_ending_step(&g->ending);
}

/* A worker that the guard had reaped and could not tell of any more has ended somehow; nobody will
 * ever know that it was well. */
static void post_over(struct dt_guard *g, struct dt_guard_post *p)
{
    for (int i = 0; i < g->count; i++) {
        if (p->charges[i].pid)
            worker_exited(g, p, i, W_EXITCODE(0, SIGKILL), dt_clock_monotonic_ns());
        else if (p->charges[i].due)
            g->events->on_forgotten(g->arg, i);
    }
    dt_guard_post_close(p, on_post_closed, g);
}

/* Ends with those whose processes are gone: of KILLED ones too. */
static void posts_over(struct dt_guard *g, bool killed)
{
    struct dt_guard_post *p;
    each_post(g, p) if (p->pid == 0 && (killed || !p->killed)) post_over(g, p);
    if (g->over || !dt_list_empty(&g->posts))
        return;
    g->over = true;
    uv_timer_stop(&g->look);
    g->events->on_over(g->arg);
}

/* Children that are none of the attempt, and guards that live, for which it is to answer. */
static size_t list_spared(struct dt_guard *g, pid_t *spared)
{
    struct dt_guard_post *p;
    size_t n = g->stranger_count;
    for (size_t i = 0; i < n; i++)
        spared[i] = g->strangers[i];
    each_post(g, p) if (p->pid) spared[n++] = p->pid;
    return n;
}

static size_t post_count(const struct dt_guard *g)
{
    struct dt_guard_post *p;
    size_t n = 0;
    each_post(g, p) n++;
    return n;
}

/* In the guard's place: all that is below us now was below it, but for strangers and what other
 * guards have. Where there are some the kernel cannot tell when nobody else is left; who forks
 * while we look is seen next time. Without memory we look again later. */
static void on_look(uv_timer_t *t)
{
    struct dt_guard *g = dt_container_of(t, struct dt_guard, look);
    DT_AUTO_FREE pid_t *spared = calloc(g->stranger_count + post_count(g) + 1, sizeof *spared);
    bool found = !spared || dt_reap_kill_but(spared, list_spared(g, spared)) > 0;
    g->quiet = found ? 0 : g->quiet + 1;
    g->wait = g->wait < LOOK_RARELY_MS ? 2 * g->wait : g->wait;
    g->orphaned = g->quiet <= 1;
    if (g->orphaned)
        uv_timer_start(t, on_look, g->quiet ? LOOK_AGAIN_MS : g->wait, 0);
    else
        posts_over(g, true);
}

static bool has_killed_post(struct dt_guard *g)
{
    struct dt_guard_post *p;
    each_post(g, p) if (p->pid == 0 && p->killed) return true;
    return false;
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
    posts_over(g, what == DT_REAP_NO_CHILDREN);
    if (!g->over && has_killed_post(g) && !g->orphaned) {
        g->orphaned = true;
        g->quiet = 0;
        g->wait = LOOK_AGAIN_MS;
        uv_timer_start(&g->look, on_look, 0, 0);
    }
}

static void on_child(uv_signal_t *s, int signum)
{
    (void)signum;
    struct dt_guard_post *p;
    struct dt_guard *g = dt_container_of(s, struct dt_guard, child);
    /* Deaths that it reported come before its own. */
    each_post(g, p) dt_guard_post_read(p);
    reap(g);
}

/* -- what is asked of it ---------------------------------------------------------------------- */

static void order(struct dt_guard *g, enum dt_guard_order_kind kind, int index, int signum)
{
    struct dt_guard_post *p;
    each_post(g, p) dt_guard_post_order(p, kind, index, signum);
}

void dt_guard_signal(struct dt_guard *g, int index, int signum, bool leader_only)
{
    order(g, leader_only ? DT_GUARD_LEADER : DT_GUARD_GROUP, index, signum);
}

void dt_guard_signal_rest(struct dt_guard *g, int index, int signum)
{
    order(g, DT_GUARD_REST, index, signum);
}

void dt_guard_signal_all(struct dt_guard *g, int signum)
{
    order(g, DT_GUARD_ALL, 0, signum);
}

void dt_guard_end(struct dt_guard *g)
{
    order(g, DT_GUARD_END, 0, 0);
}

const char *dt_guard_describe(const struct dt_guard *g, char *out, size_t size)
{
    struct dt_guard_post *p;
    size_t n = 0;
    each_post(g, p)
    {
        size_t comma = n ? 2 : 0;
        if (n + comma >= size || !dt_reap_describe(p->pid, out + n + comma, size - n - comma))
            continue;
        memcpy(out + n, ", ", comma);
        n += strlen(out + n);
    }
    return n ? out : NULL;
}

bool dt_guard_has_session(const struct dt_guard *g, pid_t session)
{
    struct dt_guard_post *p;
    each_post(g, p) if (dt_reap_has_session(p->pid, session)) return true;
    return false;
}

pid_t dt_guard_pid(const struct dt_guard *g, int index)
{
    struct dt_guard_post *p;
    pid_t pid = 0;
    each_post(g, p) if (p->charges[index].pid || p->charges[index].due) pid = p->pid;
    return pid;
}

/* -- beginning and end ------------------------------------------------------------------------ */

static void guard_free(void *guard)
{
    struct dt_guard *g = guard;
    free(g->strangers);
    free(g); /* the only free of a guard that was started */
}

int dt_guard_add(struct dt_guard *g, const struct dt_spawn *workers,
                 const struct dt_spawn_inherited *inherited, struct dt_err *err)
{
    struct dt_guard_post *p =
        dt_guard_post_open(g->loop, workers, g->count, inherited, on_report, g, err);
    if (!p)
        return -1;
    dt_ending_add(&g->ending);
    dt_list_append(&g->posts, &p->in_guard);
    return 0;
}

struct dt_guard *dt_guard_start(uv_loop_t *loop, const struct dt_spawn *workers, int count,
                                const struct dt_spawn_inherited *inherited,
                                const struct dt_guard_events *events, void *arg, struct dt_err *err)
{
    struct dt_guard *g = calloc(1, sizeof *g);
    if (!g) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a guard");
        return NULL;
    }
    dt_list_init(&g->posts);
    g->loop = loop;
    g->count = count;
    g->events = events;
    g->arg = arg;
    g->strangers = dt_reap_children(&g->stranger_count);
    uv_signal_init(loop, &g->child);
    uv_timer_init(loop, &g->look);
    uv_signal_start(&g->child, on_child,
                    SIGCHLD); /* before the fork: its death could come at once */
    if (dt_guard_add(g, workers, inherited, err) == 0)
        return g;
    dt_guard_close(g, NULL, NULL);
    return NULL;
}

void dt_guard_close(struct dt_guard *g, void (*on_closed)(void *arg), void *arg)
{
    struct dt_guard_post *p;
    dt_ending_begin(&g->ending, guard_free, g, on_closed, arg);
    each_post(g, p) dt_guard_post_close(p, on_post_closed, g);
    dt_ending_close(&g->ending, &g->child);
    dt_ending_close(&g->ending, &g->look);
}
