/* SPDX-License-Identifier: Apache-2.0 */
/* What looks after the workers of an attempt: time limits that they set themselves, whether they
 * stand still, and who holds others up. */
#include "agent/attempt/inside.h"

#include "base/log.h"
#include "base/signame.h"

void attempt_close_watchdog(struct dt_attempt *t)
{
    if (t->watchdog)
        dt_watchdog_close(t->watchdog, NULL, NULL);
    t->watchdog = NULL;
}

void attempt_close_watches(struct dt_attempt *t)
{
    if (t->hang)
        dt_hang_close(t->hang, NULL, NULL);
    t->hang = NULL;
    if (t->lag)
        dt_lag_watch_close(t->lag, NULL, NULL);
    t->lag = NULL;
}

/* -- time limits that workers set themselves -------------------------------------------------- */

static bool watchdog_may_signal(void *arg, pid_t pid)
{
    const struct dt_attempt *t = arg;
    return t->group && dt_group_has(t->group, pid);
}

static void on_timer_expired(void *arg, pid_t pid, const char *scope, int signum)
{
    struct dt_attempt *t = arg;
    char name[DT_SIGNAME_TEXT];
    dt_group_claim(t->group, pid);
    dt_warn("process %d is over its time in \"%s\": sending %s", pid, scope,
            dt_signame_text(signum, name));
}

int attempt_open_watchdog(struct dt_attempt *t, struct dt_err *err)
{
    const struct dt_plan *plan = t->means.plan;
    if (!plan->watchdog)
        return 0;
    t->watchdog = dt_watchdog_open(t->means.loop, plan->watchdog_path, watchdog_may_signal,
                                   on_timer_expired, t, err);
    return t->watchdog ? 0 : -1;
}

/* -- workers that stand still ----------------------------------------------------------------- */

static void on_hung(void *arg, int local_rank, const char *why)
{
    struct dt_attempt *t = arg;
    t->hung = true;
    int rank = t->world.first_rank + local_rank;
    dt_log_about(DT_LOG_WARN, &(struct dt_log_about){.round = -1, .rank = rank},
                 "worker %d (rank %d) is ended, as --on-hang says", local_rank, rank);
    dt_group_fail(t->group, local_rank, why);
}

static bool on_still(void *arg, dt_ms still, bool sure)
{
    struct dt_attempt *t = arg;
    return t->events->on_still(t->arg, still, sure);
}

static int open_hang(struct dt_attempt *t, struct dt_err *err)
{
    static const struct dt_hang_events alone = {.end = on_hung};
    static const struct dt_hang_events told = {.still = on_still, .end = on_hung};
    struct dt_hang_means means = {
        .loop = t->means.loop,
        .plan = t->means.plan,
        .world = &t->world,
        .group = t->group,
        .pages = t->pages,
        .logs = t->means.logs,
        .recorders = t->recorders,
    };
    if (t->means.plan->no_look)
        return 0;
    t->hang = dt_hang_open(&means, t->events->on_still ? &told : &alone, t, err);
    return t->hang ? 0 : -1;
}

/* -- workers that hold others up -------------------------------------------------------------- */

static void on_straggler(void *arg, const char *sentence, bool holds_up)
{
    struct dt_attempt *t = arg;
    t->events->on_straggler(t->arg, sentence, holds_up);
}

static int open_lag(struct dt_attempt *t, struct dt_err *err)
{
    bool alone = t->events->on_straggler != NULL;
    int known = alone ? t->means.plan->nproc : t->world.size;
    struct dt_lag_means means = {
        .loop = t->means.loop,
        .plan = t->means.plan,
        .world = &t->world,
        .group = t->group,
        .pages = t->pages,
    };
    if (t->means.plan->on_straggler == DT_ON_STRAGGLER_OFF || known < 2)
        return 0;
    t->lag = dt_lag_watch_open(&means, alone ? on_straggler : NULL, t, err);
    return t->lag ? 0 : -1;
}

int attempt_open_watches(struct dt_attempt *t, struct dt_err *err)
{
    return open_hang(t, err) < 0 ? -1 : open_lag(t, err);
}

struct dt_hang *dt_attempt_hang(const struct dt_attempt *t)
{
    return t->hang;
}

bool dt_attempt_must_end_job(const struct dt_attempt *t)
{
    return t->hung && t->means.plan->on_hang == DT_ON_HANG_STOP;
}
