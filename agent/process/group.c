/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/group.h"

#include "agent/process/fork_limits.h"
#include "agent/process/guard.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/ending.h"
#include "base/signame.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Helpers that notice by themselves that their worker is gone (Python's resource tracker is one)
 * need a moment; who is there after it is told to go. */
#define LEFTOVER_PATIENCE ((dt_ms)500)
#define STRAY_PATIENCE (5 * DT_SECOND) /* for those who have left their worker's session */
#define STILL_WAITING_EVERY (10 * DT_SECOND)

enum state {
    RUNNING,
    HOLDING,  /* the round is over, and the workers that live are to leave it by themselves */
    LEAVING,  /* all workers have succeeded; what they started may go by itself */
    STOPPING, /* they have the signal */
    CLEARING, /* the workers are gone, and what they started has the signal too */
    KILLING,
    OVER,
    STATES,
};

/* What may follow what. */
static const bool may_follow[STATES][STATES] = {
    [RUNNING] = {[HOLDING] = true, [LEAVING] = true, [STOPPING] = true, [OVER] = true},
    [HOLDING] = {[RUNNING] = true, [STOPPING] = true, [OVER] = true},
    [LEAVING] = {[STOPPING] = true, [KILLING] = true, [OVER] = true},
    [STOPPING] = {[CLEARING] = true, [KILLING] = true, [OVER] = true},
    [CLEARING] = {[KILLING] = true, [OVER] = true},
    [KILLING] = {[OVER] = true},
};

static const char *const state_name[] = {
    [RUNNING] = "running",   [HOLDING] = "holding", [LEAVING] = "leaving", [STOPPING] = "stopping",
    [CLEARING] = "clearing", [KILLING] = "killing", [OVER] = "over"};

struct dt_group {
    const struct dt_plan *plan;
    enum state state;
    enum dt_group_outcome outcome;
    struct dt_guard *guard;
    uv_timer_t timer; /* what the state waits for: patience, grace, the next complaint */
    struct dt_ending ending;
    int signum; /* that we stop them with */
    int64_t stopped_ns;
    uint64_t deadline; /* of the loop's clock: whoever is left then is killed */
    uint64_t left;     /* of the timer when they were paused */
    int alive;
    pid_t claimed; /* the last that we signalled for its own fault; 0: none */
    struct dt_oom_watch oom;
    struct dt_err refusal;
    const struct dt_group_events *events;
    void *arg;
    struct dt_worker workers[];
};

static void enter(struct dt_group *g, enum state to)
{
    if (!may_follow[g->state][to])
        dt_bug("workers that are %s cannot be %s", state_name[g->state], state_name[to]);
    g->state = to;
}

static void on_time(uv_timer_t *t);

static void wait_for(struct dt_group *g, dt_ms time)
{
    uv_timer_start(&g->timer, on_time, (uint64_t)time, 0);
}

static dt_ms until_deadline(const struct dt_group *g)
{
    uint64_t now = uv_now(g->timer.loop);
    return now < g->deadline ? (dt_ms)(g->deadline - now) : 0;
}

/* -- stopping --------------------------------------------------------------------------------- */

/* HAD_TIME: to end by the signal, which torchrun's line is about. */
static void kill_all(struct dt_group *g, bool had_time)
{
    char left[256], name[DT_SIGNAME_TEXT];
    if (g->state == KILLING || g->state == OVER)
        return;
    bool is_left = dt_guard_describe(g->guard, left, sizeof left);
    if (is_left && had_time)
        dt_warn("Unable to shutdown process %s via %s, forcefully exiting via SIGKILL", left,
                dt_signame_text(g->signum, name));
    else if (is_left)
        dt_warn("killing %s without waiting", left);
    enter(g, KILLING);
    dt_guard_end(g->guard);
    wait_for(g, STILL_WAITING_EVERY);
}

/* What is left in the session of a worker may be the worker itself, behind a shell, and save. */
static bool workers_may_live(const struct dt_group *g)
{
    for (int i = 0; i < g->plan->nproc; i++)
        if (g->workers[i].pid && dt_guard_has_session(g->guard, g->workers[i].pid))
            return true;
    return false;
}

/* The leaders are gone, and what they started is not, whose turn it is now. */
static void tell_the_rest(struct dt_group *g)
{
    char left[256], name[DT_SIGNAME_TEXT];
    enter(g, CLEARING);
    if (dt_guard_describe(g->guard, left, sizeof left))
        dt_warn("all workers have exited but not what they started: sending %s to %s",
                dt_signame_text(g->signum, name), left);
    dt_guard_signal_all(g->guard, g->signum);
    dt_ms patience = until_deadline(g);
    if (patience > STRAY_PATIENCE && !workers_may_live(g))
        patience = STRAY_PATIENCE;
    wait_for(g, patience);
}

static void leaders_are_gone(struct dt_group *g)
{
    dt_ms left = until_deadline(g);
    wait_for(g, left < LEFTOVER_PATIENCE ? left : LEFTOVER_PATIENCE);
}

static void stop(struct dt_group *g, int signum)
{
    char name[DT_SIGNAME_TEXT];
    enter(g, STOPPING);
    g->signum = signum;
    g->stopped_ns = dt_clock_monotonic_ns();
    g->deadline = uv_now(g->timer.loop) + (uint64_t)g->plan->shutdown_timeout;
    dt_signame_text(signum, name);
    for (int i = 0; i < g->plan->nproc; i++)
        if (g->workers[i].end == DT_WORKER_RUNS)
            dt_warn("Sending process %d closing signal %s", g->workers[i].pid, name);
    dt_guard_signal(g->guard, -1, signum, g->plan->stop_leaders_first);
    wait_for(g, g->plan->shutdown_timeout);
}

static void on_time(uv_timer_t *t)
{
    char left[256];
    struct dt_group *g = dt_container_of(t, struct dt_group, timer);
    switch (g->state) {
    case LEAVING:
        stop(g, SIGTERM);
        tell_the_rest(g);
        break;
    case STOPPING:
        if (g->alive == 0 && until_deadline(g) > 0)
            tell_the_rest(g);
        else
            kill_all(g, true);
        break;
    case CLEARING:
        kill_all(g, true);
        break;
    case KILLING:
        if (dt_guard_describe(g->guard, left, sizeof left))
            dt_warn("still waiting for the end of %s: killed, but the kernel has not let go yet",
                    left);
        wait_for(g, STILL_WAITING_EVERY);
        break;
    case RUNNING:
    case HOLDING:
    case OVER:
    case STATES:
        break;
    }
}

/* -- what happens to workers ------------------------------------------------------------------ */

static void on_started(void *arg, int i, pid_t pid, int64_t at_ns)
{
    struct dt_group *g = arg;
    g->workers[i] = (struct dt_worker){.pid = pid, .end = DT_WORKER_RUNS, .started_ns = at_ns};
    g->alive++;
    g->events->on_worker_started(g->arg, i, pid);
}

static void refused(struct dt_group *g)
{
    g->outcome = DT_GROUP_REFUSED;
    if (g->state == RUNNING || g->state == HOLDING)
        stop(g, SIGTERM);
}

static const char *const step_words[] = {
    [DT_SPAWN_FORK] = "fork it",
    [DT_SPAWN_SESSION] = "give it a session of its own",
    [DT_SPAWN_STREAMS] = "connect its output",
    [DT_SPAWN_PLACE] = "bind it to its processors",
    [DT_SPAWN_EXEC] = "execute it",
};

static void on_refused(void *arg, int i, enum dt_spawn_step step, int errnum)
{
    struct dt_group *g = arg;
    char what[256];
    snprintf(what, sizeof what, "worker %d could not be started (%.128s): cannot %s", i,
             g->plan->argv[0], step_words[step]);
    if (g->refusal.code == DT_E_NONE && step == DT_SPAWN_FORK)
        dt_fork_limits_err(&g->refusal, errnum, what);
    else if (g->refusal.code == DT_E_NONE)
        dt_err_errno(&g->refusal, DT_E_RUNTIME, errnum, "%s", what);
    refused(g);
}

static void on_forgotten(void *arg, int i)
{
    struct dt_group *g = arg;
    if (g->refusal.code == DT_E_NONE)
        dt_err_set(&g->refusal, DT_E_RUNTIME,
                   "worker %d was never started, as the guard process was killed before; if nobody "
                   "did so on purpose, see whether memory is short",
                   i);
    if (g->outcome != DT_GROUP_FAILED)
        refused(g);
}

/* Who died of itself before we asked anybody to end has failed; who did so afterwards may have died
 * of that. Where one could not be started it is none of the others' fault, and its own end none. */
static enum dt_worker_end judge(const struct dt_group *g, int status, int64_t at_ns)
{
    bool asked = g->state != RUNNING && g->state != LEAVING && at_ns >= g->stopped_ns;
    if (asked || g->outcome == DT_GROUP_REFUSED)
        return DT_WORKER_TERMINATED;
    return status == 0 ? DT_WORKER_SUCCEEDED : DT_WORKER_FAILED;
}

static void log_failure(const struct dt_group *g, int i)
{
    const struct dt_worker *w = &g->workers[i];
    int code = WIFSIGNALED(w->status) ? -WTERMSIG(w->status) : WEXITSTATUS(w->status);
    dt_error("failed (exitcode: %d) local_rank: %d (pid: %d) of binary: %s", code, i, w->pid,
             g->plan->argv[0]);
}

static void on_exited(void *arg, int i, int status, int64_t at_ns)
{
    struct dt_group *g = arg;
    struct dt_worker *w = &g->workers[i];
    w->status = status;
    w->exited_ns = at_ns;
    w->end = judge(g, status, at_ns);
    w->ours = w->pid == g->claimed;
    if (w->end == DT_WORKER_FAILED)
        w->oom = dt_oom_look(&g->oom, status, w->ours);
    g->alive--;
    if (w->end == DT_WORKER_FAILED && g->outcome != DT_GROUP_REFUSED) {
        if (g->outcome != DT_GROUP_FAILED)
            log_failure(g, i);
        g->outcome = DT_GROUP_FAILED;
    }
    g->events->on_worker_exited(g->arg, i);
    if (g->state == RUNNING && w->end == DT_WORKER_FAILED) {
        stop(g, SIGTERM);
    } else if (g->state == RUNNING && g->alive == 0) {
        enter(g, LEAVING);
        wait_for(g, LEFTOVER_PATIENCE);
    } else if (g->state == HOLDING && g->alive == 0) {
        stop(g, SIGTERM);
    }
    if (g->state == HOLDING)
        dt_guard_signal_rest(g->guard, i, SIGTERM);
    if (g->state == STOPPING && g->alive == 0)
        leaders_are_gone(g);
}

static void on_over(void *arg)
{
    struct dt_group *g = arg;
    enter(g, OVER);
    uv_timer_stop(&g->timer);
    g->events->on_over(g->arg);
}

static const struct dt_guard_events guard_events = {on_started, on_refused, on_forgotten, on_exited,
                                                    on_over};

/* -- what the agent asks for ------------------------------------------------------------------ */

void dt_group_stop(struct dt_group *g, int signum)
{
    if (g->state == LEAVING) {
        stop(g, signum);
        tell_the_rest(g);
    } else if (g->state == RUNNING || g->state == HOLDING) {
        if (g->outcome == DT_GROUP_SUCCEEDED)
            g->outcome = DT_GROUP_STOPPED;
        stop(g, signum);
    }
}

void dt_group_kill(struct dt_group *g)
{
    bool was_told = g->state != RUNNING && g->state != HOLDING;
    if (!was_told)
        dt_group_stop(g, SIGTERM);
    kill_all(g, was_told);
}

void dt_group_hold(struct dt_group *g)
{
    if (g->state != RUNNING)
        return;
    if (g->outcome == DT_GROUP_SUCCEEDED)
        g->outcome = DT_GROUP_STOPPED;
    enter(g, HOLDING);
    g->stopped_ns = dt_clock_monotonic_ns();
}

bool dt_group_holds(const struct dt_group *g)
{
    return g->state == HOLDING;
}

int dt_group_go_on(struct dt_group *g, const struct dt_spawn *spawns,
                   const struct dt_spawn_inherited *inherited, struct dt_err *err)
{
    enter(g, RUNNING);
    g->outcome = DT_GROUP_SUCCEEDED;
    g->claimed = 0;
    dt_oom_begin(&g->oom);
    for (int i = 0; i < g->plan->nproc; i++) {
        if (!spawns[i].path)
            continue;
        dt_guard_signal_rest(g->guard, i, SIGKILL);
        g->workers[i] = (struct dt_worker){0};
    }
    return g->alive == g->plan->nproc ? 0 : dt_guard_add(g->guard, spawns, inherited, err);
}

void dt_group_claim(struct dt_group *g, pid_t pid)
{
    g->claimed = pid;
}

void dt_group_fail(struct dt_group *g, int local_rank, const char *why)
{
    struct dt_worker *w = &g->workers[local_rank];
    if (g->state != RUNNING || w->end != DT_WORKER_RUNS)
        return;
    snprintf(w->why, sizeof w->why, "%s", why);
    dt_group_claim(g, w->pid);
    dt_guard_signal(g->guard, local_rank, SIGKILL, false);
}

void dt_group_forward(struct dt_group *g, int signum)
{
    if (g->state == RUNNING)
        dt_guard_signal(g->guard, -1, signum, g->plan->stop_leaders_first);
}

/* Their own Ctrl-Z would not do: what leads a session of its own cannot be stopped by SIGTSTP. */
void dt_group_pause(struct dt_group *g)
{
    g->left = uv_timer_get_due_in(&g->timer);
    if (g->state != KILLING && g->state != OVER)
        dt_guard_signal(g->guard, -1, SIGSTOP, false);
}

void dt_group_resume(struct dt_group *g, dt_ms paused)
{
    uv_update_time(g->timer.loop);
    g->deadline += (uint64_t)paused;
    if (uv_is_active((uv_handle_t *)&g->timer))
        wait_for(g, (dt_ms)g->left);
    if (g->state != KILLING && g->state != OVER)
        dt_guard_signal(g->guard, -1, SIGCONT, false);
}

const struct dt_worker *dt_group_worker(const struct dt_group *g, int local_rank)
{
    return &g->workers[local_rank];
}

/* Workers lead sessions, and what they start is in those unless it left on purpose. */
bool dt_group_has(const struct dt_group *g, pid_t pid)
{
    pid_t session = getsid(pid);
    for (int i = 0; i < g->plan->nproc; i++)
        if (g->workers[i].end == DT_WORKER_RUNS && g->workers[i].pid == session)
            return true;
    return false;
}

enum dt_group_outcome dt_group_outcome(const struct dt_group *g)
{
    return g->outcome;
}

const struct dt_err *dt_group_refusal(const struct dt_group *g)
{
    return &g->refusal;
}

/* -- beginning and end ------------------------------------------------------------------------ */

void dt_group_close(struct dt_group *g, void (*on_closed)(void *arg), void *arg)
{
    dt_ending_begin(&g->ending, free, g, on_closed, arg);
    if (g->guard)
        dt_guard_close(g->guard, dt_ending_step, dt_ending_add(&g->ending));
    dt_ending_close(&g->ending, &g->timer);
}

struct dt_group *dt_group_start(uv_loop_t *loop, const struct dt_plan *plan,
                                const struct dt_spawn *spawns,
                                const struct dt_spawn_inherited *inherited,
                                const struct dt_group_events *events, void *arg, struct dt_err *err)
{
    struct dt_group *g = calloc(1, sizeof *g + (size_t)plan->nproc * sizeof g->workers[0]);
    if (!g) {
        dt_err_set(err, DT_E_MEMORY, "no memory for %d workers", plan->nproc);
        return NULL;
    }
    g->plan = plan;
    g->events = events;
    g->arg = arg;
    uv_timer_init(loop, &g->timer);
    dt_oom_begin(&g->oom);
    g->guard = dt_guard_start(loop, spawns, plan->nproc, inherited, &guard_events, g, err);
    if (!g->guard) {
        dt_group_close(g, NULL, NULL);
        return NULL;
    }
    return g;
}
