/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/lag/watch.h"

#include "agent/hang/frames.h"
#include "agent/lag/facts.h"
#include "agent/lag/gauge.h"
#include "agent/lag/reason.h"
#include "agent/look/glance.h"
#include "base/chance.h"
#include "base/list.h"
#include "base/loop/aside.h"
#include "base/loop/ending.h"
#include "base/str.h"
#include "rendezvous/lag/lag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Between samples, on average. Of pages each tells of all steps since the last. */
#define STACKS_EVERY ((dt_ms)400)
#define PAGES_EVERY DT_SECOND

/* The place at which a worker sleeps most, by a vote: one that is seen there speaks for it, one
 * that is seen elsewhere against it. */
struct nap {
    uint64_t function;
    int line, votes;
    char where[DT_LAG_WHERE_MAX];
};

struct worker {
    pid_t pid; /* 0: it has ended */
    struct dt_glance glance;
    struct nap nap;
};

struct dt_lag_watch {
    struct dt_lag_means means;
    dt_lag_told_fn *told;
    void *arg;
    uint64_t chance;
    struct dt_lag lag; /* the judge, and its node, where nobody else judges */
    struct dt_lag_node node;
    struct dt_own_time last;
    char reason[DT_OWN_REASON_MAX];

    uv_timer_t timer;
    struct dt_ending ending;
    struct dt_aside sampling;
    dt_ms now; /* from here on all is the thread's while there is one */
    struct dt_gauge *gauge;
    struct worker *workers;
    struct dt_gauge_sample *samples;
    struct dt_lag_facts *before, *after; /* at the end of the window before, and of this one */
    struct dt_lag_signs *signs;
    bool closed; /* a window has, with: */
    struct dt_own_time next;
    char next_reason[DT_OWN_REASON_MAX];
};

static int count_of(const struct dt_lag_watch *w)
{
    return w->means.plan->nproc;
}

/* -- samples, in the thread ------------------------------------------------------------------- */

/* Of its Python where a shell or the like started that. */
static pid_t pid_of(const struct worker *w)
{
    return w->glance.pid ? w->glance.pid : w->pid;
}

static bool tells_own_time(const struct dt_gauge_sample *s)
{
    return s->own_ns > 0;
}

static void note_nap(struct nap *nap, const struct dt_place *place,
                     const struct dt_glance_seen *seen)
{
    const struct dt_python_thread *t = seen->main;
    size_t user = t ? dt_frames_user(t->frames, t->depth) : 0;
    if (!t || user >= t->depth)
        return;
    bool same = nap->function == place->function && nap->line == place->line;
    bool counts = same || nap->votes == 0;
    nap->votes += counts ? 1 : -1;
    if (!counts || same)
        return;
    char text[DT_LAG_WHERE_MAX];
    const struct dt_python_frame *f = &t->frames[user];
    const char *slash = strrchr(f->file, '/');
    snprintf(text, sizeof text, "%.40s:%d in %.40s()", slash ? slash + 1 : f->file, f->line,
             dt_frame_name(f));
    nap->function = place->function;
    nap->line = place->line;
    dt_str_printable(dt_bytes_of(text), nap->where, sizeof nap->where);
}

static void glance(struct worker *w, struct dt_gauge_sample *s)
{
    struct dt_glance_seen seen;
    dt_glance_take(&w->glance, &seen);
    s->state = seen.state;
    struct dt_place place = dt_place_of(&seen.stacks, seen.main, seen.state != 'R');
    s->kind = place.kind;
    if (seen.state == 'S' && (place.kind == DT_PLACE_OWN || place.kind == DT_PLACE_LIBRARY))
        note_nap(&w->nap, &place, &seen);
    dt_glance_finish(&seen);
}

static void take_sample(struct worker *w, struct dt_gauge_sample *s)
{
    struct dt_look_task main;
    uint64_t started;
    if (s->over)
        return;
    if (!tells_own_time(s))
        glance(w, s);
    else if (dt_look_process_glance(w->pid, &main, &started))
        s->state = main.state;
    if (pid_of(w))
        s->ran_ns = dt_lag_ran_ns(pid_of(w), "");
}

/* -- the end of a window, in the thread -------------------------------------------------------- */

static void find_reason(struct dt_lag_watch *w)
{
    char rival[DT_LAG_NAME_MAX + 32] = "", name[DT_LAG_NAME_MAX];
    int slowest = w->next.rank, count = count_of(w);
    pid_t pid;
    for (int i = 0; i < count; i++)
        dt_lag_signs_note(&w->signs[i], dt_gauge_part(w->gauge, i), &w->before[i], &w->after[i]);
    dt_lag_signs_compare_clocks(w->signs, count, w->after);
    if (dt_lag_is_crowded(&w->signs[slowest]) &&
        dt_lag_rival(pid_of(&w->workers[slowest]), "", &pid, name))
        snprintf(rival, sizeof rival, "%s (pid %d)", name, (int)pid);
    dt_lag_reason(w->signs, count, slowest, w->means.plan->max_nodes == 1, rival,
                  w->workers[slowest].nap.where, w->next_reason);
}

static void close_window(struct dt_lag_watch *w)
{
    struct dt_lag_facts *before = w->before;
    for (int i = 0; i < count_of(w); i++)
        dt_lag_facts_read(&w->after[i], pid_of(&w->workers[i]), "");
    find_reason(w);
    w->before = w->after;
    w->after = before;
    for (int i = 0; i < count_of(w); i++)
        w->workers[i].nap = (struct nap){0};
}

static void take_samples(struct dt_aside *aside)
{
    struct dt_lag_watch *w = dt_container_of(aside, struct dt_lag_watch, sampling);
    for (int i = 0; i < count_of(w); i++)
        take_sample(&w->workers[i], &w->samples[i]);
    w->closed = dt_gauge_note(w->gauge, w->now, w->samples, &w->next);
    if (w->closed)
        close_window(w);
}

/* -- in the loop ------------------------------------------------------------------------------ */

static void take_window(struct dt_lag_watch *w)
{
    w->last = w->next;
    w->last.rank += w->means.world->first_rank;
    w->last.may_drain = w->means.plan->on_straggler == DT_ON_STRAGGLER_DRAIN;
    memcpy(w->reason, w->next_reason, sizeof w->reason);
    w->last.reason = w->reason;
    if (w->told && dt_lag_take(&w->lag, &w->node, "", &w->last, w->now))
        w->told(w->arg, w->lag.sentence, w->lag.state == DT_LAG_THERE);
}

static void on_time(uv_timer_t *timer);

/* Apart by chance: what came at a fixed pace would always see the same part of a step. */
static void arm(struct dt_lag_watch *w)
{
    bool pages = true;
    for (int i = 0; i < count_of(w); i++)
        pages = pages && tells_own_time(&w->samples[i]);
    uint64_t mean = (uint64_t)(pages ? PAGES_EVERY : STACKS_EVERY);
    uv_timer_start(&w->timer, on_time, mean / 2 + dt_chance(&w->chance) % mean, 0);
}

static void on_samples(struct dt_aside *aside)
{
    struct dt_lag_watch *w = dt_container_of(aside, struct dt_lag_watch, sampling);
    if (!w->ending.begun && aside->status == 0 && w->closed)
        take_window(w);
    if (!w->ending.begun)
        arm(w);
    dt_ending_step(&w->ending);
}

static void prepare(struct dt_lag_watch *w, int i)
{
    const struct dt_worker *worker = dt_group_worker(w->means.group, i);
    struct dt_page_told page;
    dt_pages_read(w->means.pages, i, &page);
    w->workers[i].pid = worker->end == DT_WORKER_RUNS ? worker->pid : 0;
    w->workers[i].glance.root = worker->pid;
    w->samples[i] = (struct dt_gauge_sample){
        .over = worker->end != DT_WORKER_RUNS,
        .step = page.step,
        .own_ns = page.own_ns,
        .data_ns = page.data_ns,
        .updated_ns = page.updated_ns,
    };
}

static void on_time(uv_timer_t *timer)
{
    struct dt_lag_watch *w = dt_container_of(timer, struct dt_lag_watch, timer);
    for (int i = 0; i < count_of(w); i++)
        prepare(w, i);
    w->now = dt_clock_monotonic();
    w->closed = false;
    if (dt_aside_run(&w->sampling, w->means.loop, take_samples, on_samples) == 0)
        dt_ending_add(&w->ending);
    else
        arm(w);
}

/* -- beginning and end ------------------------------------------------------------------------ */

static void watch_free(void *watch)
{
    struct dt_lag_watch *w = watch;
    dt_gauge_destroy(w->gauge);
    free(w->workers);
    free(w->samples);
    free(w->before);
    free(w->after);
    free(w->signs);
    free(w); /* the only free of one that was opened */
}

static bool allocate(struct dt_lag_watch *w)
{
    size_t count = (size_t)count_of(w);
    w->gauge = dt_gauge_create(count_of(w));
    w->workers = calloc(count, sizeof *w->workers);
    w->samples = calloc(count, sizeof *w->samples);
    w->before = calloc(count, sizeof *w->before);
    w->after = calloc(count, sizeof *w->after);
    w->signs = calloc(count, sizeof *w->signs);
    return w->gauge && w->workers && w->samples && w->before && w->after && w->signs;
}

struct dt_lag_watch *dt_lag_watch_open(const struct dt_lag_means *means, dt_lag_told_fn *told,
                                       void *arg, struct dt_err *err)
{
    struct dt_lag_watch *w = calloc(1, sizeof *w);
    if (w)
        *w = (struct dt_lag_watch){.means = *means, .told = told, .arg = arg};
    if (!w || !allocate(w)) {
        if (w)
            watch_free(w);
        dt_err_set(err, DT_E_MEMORY, "no memory to measure %d workers", means->plan->nproc);
        return NULL;
    }
    w->chance = (uint64_t)dt_clock_monotonic_ns();
    dt_lag_begin(&w->lag, means->plan->nproc); /* of several nodes that judge alone, each its own */
    uv_timer_init(means->loop, &w->timer);
    arm(w);
    return w;
}

void dt_lag_watch_close(struct dt_lag_watch *w, void (*on_closed)(void *arg), void *arg)
{
    dt_ending_begin(&w->ending, watch_free, w, on_closed, arg);
    dt_ending_close(&w->ending, &w->timer);
}

const struct dt_own_time *dt_lag_watch_last(const struct dt_lag_watch *w)
{
    return &w->last;
}
