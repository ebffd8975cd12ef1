/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that stay when their round is over, and their next round: agent/stay.h decides. */
#include "agent/attempt/inside.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define LOOK_LEAVING_MS 5 /* how often workers that are to leave their round are looked at */

/* -- workers that stay ------------------------------------------------------------------------ */

static bool runs(const struct dt_attempt *t, int local_rank)
{
    return dt_group_worker(t->group, local_rank)->end == DT_WORKER_RUNS;
}

static enum dt_stay look_at_stay(const struct dt_attempt *t)
{
    for (int i = 0; i < t->means.plan->nproc; i++)
        t->facts[i] = (struct dt_stay_fact){
            .runs = runs(t, i),
            .can = dt_pages_can_stay(t->pages, i),
            .waits = dt_pages_is_waiting(t->pages, i),
        };
    return dt_stay_judge(t->facts, t->means.plan->nproc);
}

static void tell_when_waiting(struct dt_attempt *t)
{
    if (t->waits || !t->dead_are_silent || uv_is_active((uv_handle_t *)&t->leaving))
        return;
    if (!dt_group_holds(t->group))
        return;
    t->waits = true;
    t->events->on_waiting(t->arg);
}

/* Time that the workers were stopped is not theirs: dt_attempt_resume(). */
static void on_leaving(uv_timer_t *timer)
{
    struct dt_attempt *t = dt_container_of(timer, struct dt_attempt, leaving);
    char why[DT_STAY_WORDS];
    enum dt_stay stay = look_at_stay(t);
    if (stay == DT_STAY_LEAVING && dt_clock_monotonic() - t->held < DT_STAY_LIMIT)
        return;
    uv_timer_stop(timer);
    if (stay == DT_STAY_WAITING) {
        tell_when_waiting(t);
        return;
    }
    if (dt_stay_blame(t->facts, t->means.plan->nproc, why))
        dt_warn("%s: no worker stays", why);
    dt_group_stop(t->group, SIGTERM);
}

void attempt_hold(struct dt_attempt *t)
{
    if (!t->means.keeps || t->stopped || dt_group_holds(t->group) ||
        look_at_stay(t) == DT_STAY_NO || !t->events->may_follow(t->arg))
        return;
    dt_group_hold(t->group);
    if (!dt_group_holds(t->group))
        return;
    attempt_close_watches(t);
    t->held = dt_clock_monotonic();
    t->dead_are_silent = true;
    uv_timer_start(&t->leaving, on_leaving, 0, LOOK_LEAVING_MS);
}

static void on_dead_are_silent(void *arg)
{
    struct dt_attempt *t = arg;
    t->dead_are_silent = true;
    uv_timer_stop(&t->last_words);
    tell_when_waiting(t);
}

void attempt_silence(struct dt_attempt *t, int local_rank)
{
    t->dead_are_silent = false;
    if (t->events->on_failed)
        attempt_limit_last_words(t);
    dt_output_drain_one(t->means.output, local_rank, on_dead_are_silent, t);
}

/* -- the next round of workers that stay ------------------------------------------------------ */

/* What a worker left behind that another one now takes the place of. */
static void clear_place(const struct dt_attempt *t, int local_rank)
{
    char *error_file = dt_log_dir_file(t->means.logs, local_rank, "error.json");
    if (error_file)
        unlink(error_file);
    free(error_file);
    dt_pages_renew(t->pages, local_rank, t->means.lease);
}

static int start_missing(struct dt_attempt *t, struct dt_err *err)
{
    struct dt_lineup from = attempt_lineup(t);
    struct dt_spawn *spawns = dt_lineup_make(&from, err);
    int rc = spawns ? dt_group_go_on(t->group, spawns, t->means.inherited, err) : -1;
    dt_lineup_free(spawns, t->means.plan->nproc);
    dt_pages_close_fds(t->pages);
    dt_output_started(t->means.output);
    return rc;
}

static void give_world(struct dt_attempt *t)
{
    for (int i = 0; i < t->means.plan->nproc; i++) {
        struct dt_page_world w = dt_stay_place(t->means.plan, &t->world, t->means.restarts, i);
        if (runs(t, i))
            dt_pages_give_world(t->pages, i, &w, t->means.lease);
    }
}

/* Those that wait get their world last: with one that cannot be started it would be none. */
int dt_attempt_go_on(struct dt_attempt *t, const struct dt_world *world, int restarts, dt_ms lease,
                     struct dt_err *err)
{
    t->world = *world;
    t->means.restarts = restarts;
    t->means.lease = lease;
    t->waits = t->failed = t->hung = false;
    uv_timer_stop(&t->last_words);
    dt_recorders_close(t->recorders); /* of PyTorch, whose programs do not stay */
    t->recorders = NULL;
    for (int i = 0; i < t->means.plan->nproc; i++)
        if (!runs(t, i))
            clear_place(t, i);
    if (dt_output_go_on(t->means.output, world->first_rank, err) < 0 || start_missing(t, err) < 0)
        return -1;
    give_world(t);
    return attempt_open_watches(t, err);
}

void dt_attempt_recall(struct dt_attempt *t)
{
    dt_attempt_end_round(t);
    attempt_hold(t);
    if (!dt_group_holds(t->group))
        dt_attempt_stop(t, SIGTERM);
}

bool dt_attempt_is_waiting(const struct dt_attempt *t)
{
    return t->waits && dt_group_holds(t->group);
}
