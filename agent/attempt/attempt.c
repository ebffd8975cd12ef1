/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/attempt/inside.h"

#include "agent/failure/notice.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"

#include <stdlib.h>

extern char **environ;

/* For what workers printed to get onto a console that is slow, once we have been told to end, or
 * others wait for us. */
#define LAST_WORDS (5 * DT_SECOND)

/* -- the end ---------------------------------------------------------------------------------- */

void dt_attempt_close(struct dt_attempt *t)
{
    attempt_close_watchdog(t);
    attempt_close_watches(t);
    if (t->group)
        dt_group_close(t->group, NULL, NULL);
    t->group = NULL;
    dt_pages_destroy(t->pages);
    t->pages = NULL;
    dt_meter_destroy(t->meter);
    t->meter = NULL;
    dt_recorders_close(t->recorders);
    t->recorders = NULL;
    dt_kernel_log_close(t->kernel);
    t->kernel = NULL;
    free(t->facts);
    dt_ending_begin(&t->ending, free, t, NULL, NULL); /* the only free of one */
    dt_ending_close(&t->ending, &t->last_words);
    dt_ending_close(&t->ending, &t->leaving);
}

static void on_drained(void *arg)
{
    struct dt_attempt *t = arg;
    t->drains = false;
    uv_timer_stop(&t->last_words);
    attempt_close_watchdog(t);
    t->events->on_over(t->arg);
}

static void give_up_console(struct dt_attempt *t)
{
    dt_warn("what workers printed last is not shown: nobody reads it");
    dt_output_give_up(t->means.output);
}

static void on_last_words_over(uv_timer_t *timer)
{
    give_up_console(dt_container_of(timer, struct dt_attempt, last_words));
}

void attempt_limit_last_words(struct dt_attempt *t)
{
    if (!uv_is_active((uv_handle_t *)&t->last_words))
        uv_timer_start(&t->last_words, on_last_words_over, LAST_WORDS, 0);
}

static void on_group_over(void *arg)
{
    struct dt_attempt *t = arg;
    bool others_wait = t->events->on_failed && dt_group_outcome(t->group) != DT_GROUP_SUCCEEDED;
    t->drains = true;
    uv_timer_stop(&t->leaving);
    attempt_close_watches(t);
    if (t->stopped || others_wait)
        attempt_limit_last_words(t);
    dt_output_drain(t->means.output, on_drained, t);
}

/* -- its workers ------------------------------------------------------------------------------ */

static void on_worker_started(void *arg, int local_rank, pid_t pid)
{
    struct dt_attempt *t = arg;
    struct dt_buf place = {0};
    if (t->means.bind && dt_log_wants(DT_LOG_INFO)) {
        dt_bind_describe(t->means.bind, local_rank, &place);
        dt_info("%s", dt_buf_cstr(&place));
        dt_buf_finish(&place);
    }
    dt_debug("worker %d (rank %d) is pid %d", local_rank, t->world.first_rank + local_rank, pid);
    t->events->on_changed(t->arg);
}

static void say_failure(struct dt_attempt *t, int local_rank, const struct dt_worker *w)
{
    struct dt_notice n;
    t->failed = true;
    struct dt_scene scene = dt_attempt_scene(t);
    dt_notice_make(&n, &scene, local_rank, w);
    t->events->on_failed(t->arg, &n.result);
}

static void on_worker_exited(void *arg, int local_rank)
{
    struct dt_attempt *t = arg;
    const struct dt_worker *w = dt_group_worker(t->group, local_rank);
    dt_debug("worker %d is over, pid %d", local_rank, w->pid);
    if (w->end == DT_WORKER_FAILED)
        dt_pages_end_round(t->pages); /* the others are about to be stopped, or held */
    if (t->events->on_failed && w->end == DT_WORKER_FAILED && !t->failed)
        say_failure(t, local_rank, w);
    if (w->end == DT_WORKER_FAILED)
        attempt_hold(t);
    if (dt_group_holds(t->group))
        attempt_silence(t, local_rank);
    t->events->on_changed(t->arg);
}

static const struct dt_group_events group_events = {on_worker_started, on_worker_exited,
                                                    on_group_over};

/* -- the beginning ---------------------------------------------------------------------------- */

struct dt_lineup attempt_lineup(const struct dt_attempt *t)
{
    const struct dt_attempt_means *m = &t->means;
    return (struct dt_lineup){
        .plan = m->plan,
        .world = &t->world,
        .restart_count = m->restarts,
        .logs = m->logs,
        .output = m->output,
        .bind = m->bind,
        .vaults = m->vaults,
        .timer_file = t->watchdog ? dt_watchdog_path(t->watchdog) : NULL,
        .pages = t->pages,
        .recorders = t->recorders,
        .group = t->group,
        .env = environ,
    };
}

static int start_group(struct dt_attempt *t, struct dt_err *err)
{
    const struct dt_attempt_means *m = &t->means;
    t->pages = dt_pages_create(m->plan->nproc);
    t->meter = t->pages ? dt_meter_create(m->plan->nproc) : NULL;
    dt_pages_set_lease(t->pages, m->lease);
    if (m->keeps)
        dt_pages_let_stay(t->pages);
    if (m->plan->flight_dump)
        t->recorders = dt_recorders_open(m->logs, m->plan->nproc, t->world.first_rank);
    struct dt_lineup from = attempt_lineup(t);
    struct dt_spawn *spawns = dt_lineup_make(&from, err);
    if (!spawns)
        return -1;
    t->group = dt_group_start(m->loop, m->plan, spawns, m->inherited, &group_events, t, err);
    dt_lineup_free(spawns, m->plan->nproc);
    dt_pages_close_fds(t->pages);
    dt_output_started(m->output);
    return t->group ? attempt_open_watches(t, err) : -1;
}

static int start(struct dt_attempt *t, struct dt_err *err)
{
    const struct dt_attempt_means *m = &t->means;
    if (!m->plan->no_logs &&
        dt_log_dir_begin(m->logs, m->restarts, t->world.round, m->plan->nproc, err) < 0)
        return -1;
    if (dt_output_begin(m->output, m->logs->attempt, t->world.first_rank, err) < 0 ||
        attempt_open_watchdog(t, err) < 0)
        return -1;
    return start_group(t, err);
}

static bool is_worker(void *arg, pid_t pid)
{
    const struct dt_attempt *t = arg;
    for (int i = 0; t->group && i < t->means.plan->nproc; i++)
        if (dt_group_worker(t->group, i)->pid == pid)
            return true;
    return false;
}

struct dt_attempt *dt_attempt_start(const struct dt_attempt_means *means,
                                    const struct dt_attempt_events *events, void *arg,
                                    struct dt_err *err)
{
    struct dt_attempt *t = calloc(1, sizeof *t);
    struct dt_stay_fact *facts = calloc((size_t)means->plan->nproc, sizeof *facts);
    if (!t || !facts) {
        free(t);
        free(facts);
        dt_err_set(err, DT_E_MEMORY, "no memory for an attempt");
        return NULL;
    }
    *t = (struct dt_attempt){.means = *means, .world = *means->world, .events = events, .arg = arg};
    t->facts = facts;
    t->means.world = &t->world;
    uv_timer_init(means->loop, &t->last_words);
    t->kernel = dt_kernel_log_open(is_worker, t);
    uv_timer_init(means->loop, &t->leaving);
    if (start(t, err) == 0)
        return t;
    dt_attempt_close(t);
    return NULL;
}

/* -- what the agent asks for ------------------------------------------------------------------ */

void dt_attempt_stop(struct dt_attempt *t, int signum)
{
    t->stopped = true;
    uv_timer_stop(&t->leaving);
    attempt_close_watches(t);
    if (t->drains)
        attempt_limit_last_words(t);
    else
        dt_group_stop(t->group, signum);
}

void dt_attempt_kill(struct dt_attempt *t)
{
    t->stopped = true;
    uv_timer_stop(&t->leaving);
    attempt_close_watches(t);
    if (t->drains)
        give_up_console(t);
    else
        dt_group_kill(t->group);
}

void dt_attempt_forward(struct dt_attempt *t, int signum)
{
    dt_group_forward(t->group, signum);
}

void dt_attempt_pause(struct dt_attempt *t)
{
    dt_group_pause(t->group);
}

void dt_attempt_resume(struct dt_attempt *t, dt_ms paused)
{
    if (t->watchdog)
        dt_watchdog_delay(t->watchdog, paused);
    dt_group_resume(t->group, paused);
    t->held += paused;
    if (uv_is_active((uv_handle_t *)&t->last_words))
        uv_timer_start(&t->last_words, on_last_words_over, LAST_WORDS, 0);
}

void dt_attempt_end_round(struct dt_attempt *t)
{
    dt_pages_end_round(t->pages);
}

void dt_attempt_want_save(struct dt_attempt *t)
{
    dt_pages_want_save(t->pages);
}

void dt_attempt_set_lease(struct dt_attempt *t, dt_ms until)
{
    dt_pages_set_lease(t->pages, until);
}

void dt_attempt_say_step(const struct dt_attempt *t)
{
    char words[DT_PAGES_WORDS];
    int furthest = dt_pages_furthest(t->pages);
    if (furthest >= 0)
        dt_warn("round %d: %s", t->world.round, dt_pages_describe(t->pages, furthest, words));
}

static void tell_training(const struct dt_attempt *t, struct dt_telemetry *out)
{
    struct dt_page_told page;
    if (!t->meter)
        return;
    for (int i = 0; i < t->means.plan->nproc; i++)
        if (dt_pages_read(t->pages, i, &page))
            dt_meter_note(t->meter, i, &page);
    dt_meter_tell(t->meter, dt_clock_monotonic_ns(), out);
}

void dt_attempt_tell(const struct dt_attempt *t, struct dt_beat *facts)
{
    for (int i = 0; i < t->means.plan->nproc; i++) {
        enum dt_worker_end e = dt_group_worker(t->group, i)->end;
        if (e == DT_WORKER_RUNS)
            facts->tokens_per_s += dt_pages_tokens_per_s(t->pages, i);
        facts->running += e == DT_WORKER_RUNS;
        facts->failed += e == DT_WORKER_FAILED;
        facts->succeeded += e == DT_WORKER_SUCCEEDED;
    }
    if (t->lag)
        facts->own = *dt_lag_watch_last(t->lag);
    tell_training(t, &facts->telemetry);
}

const char *dt_attempt_folder(const struct dt_attempt *t)
{
    return t->meter ? dt_meter_folder(t->meter) : "";
}

const struct dt_pages *dt_attempt_pages(const struct dt_attempt *t)
{
    return t->pages;
}

struct dt_scene dt_attempt_scene(const struct dt_attempt *t)
{
    return (struct dt_scene){.plan = t->means.plan,
                             .world = &t->world,
                             .logs = t->means.logs,
                             .output = t->means.output,
                             .pages = t->pages,
                             .kernel = t->kernel};
}

const struct dt_group *dt_attempt_group(const struct dt_attempt *t)
{
    return t->group;
}
