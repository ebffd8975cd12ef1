/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/lag/gauge.h"

#include "rendezvous/protocol/spec.h"

#include <stdlib.h>
#include <string.h>

#define STICKS_TENTHS                                                                              \
    11 /* the slowest rank stays the one that is told until one is so much slower */

#define STEP_MOST_US INT64_C(86400000000) /* a day */

/* A worker in the window that runs. */
struct worker {
    struct dt_gauge_sample first, last;
    int asleep, waits; /* samples in which it slept, and did so to wait for others */
    int stopped, disk, samples;
    int begun;                 /* how often it was seen to begin to wait */
    bool waited;               /* at the last sample */
    struct dt_gauge_part part; /* of the window before */
};

struct dt_gauge {
    int count;
    bool runs; /* a window does */
    enum dt_own_witness by;
    dt_ms began;
    int64_t windows, steps;
    int rank; /* that was told last */
    int *owns;
    struct worker workers[];
};

struct dt_gauge *dt_gauge_create(int count)
{
    struct dt_gauge *g = calloc(1, sizeof *g + (size_t)count * sizeof g->workers[0]);
    if (!g)
        return NULL;
    g->count = count;
    g->owns = calloc((size_t)count, sizeof *g->owns);
    if (g->owns)
        return g;
    dt_gauge_destroy(g);
    return NULL;
}

void dt_gauge_destroy(struct dt_gauge *g)
{
    if (g)
        free(g->owns);
    free(g);
}

const struct dt_gauge_part *dt_gauge_part(const struct dt_gauge *g, int i)
{
    return &g->workers[i].part;
}

/* -- samples ---------------------------------------------------------------------------------- */

static bool has_page(const struct dt_gauge_sample *s)
{
    return !s->over && s->own_ns > 0 && s->updated_ns > 0 && s->step >= 0;
}

static bool has_stack(const struct dt_gauge_sample *s)
{
    bool usual = s->kind == DT_PLACE_OWN || s->kind == DT_PLACE_LIBRARY || s->kind == DT_PLACE_WAIT;
    return !s->over && usual && s->ran_ns > 0;
}

static bool all(const struct dt_gauge *g, const struct dt_gauge_sample *samples,
                bool (*has)(const struct dt_gauge_sample *s))
{
    for (int i = 0; i < g->count; i++)
        if (!has(&samples[i]))
            return false;
    return true;
}

/* False: not at all. */
static bool can_measure(const struct dt_gauge *g, const struct dt_gauge_sample *samples,
                        enum dt_own_witness *by)
{
    *by = all(g, samples, has_page) ? DT_OWN_BY_PAGES : DT_OWN_BY_STACKS;
    return *by == DT_OWN_BY_PAGES || all(g, samples, has_stack);
}

static void begin(struct dt_gauge *g, dt_ms now, enum dt_own_witness by,
                  const struct dt_gauge_sample *samples)
{
    g->runs = true;
    g->began = now;
    g->by = by;
    for (int i = 0; i < g->count; i++) {
        struct worker *w = &g->workers[i];
        bool waited = samples[i].kind == DT_PLACE_WAIT;
        *w = (struct worker){
            .first = samples[i], .last = samples[i], .waited = waited, .part = w->part};
    }
}

static void note(struct worker *w, const struct dt_gauge_sample *s)
{
    bool waits = s->kind == DT_PLACE_WAIT && s->state == 'S';
    w->last = *s;
    w->samples++;
    w->asleep += s->state != 'R';
    w->waits += waits;
    w->stopped += s->state == 'T' || s->state == 't';
    w->disk += s->state == 'D';
    w->begun += waits && !w->waited;
    w->waited = waits;
}

/* A program that begins anew within its process counts from 0 again. */
static bool goes_on(const struct worker *w, const struct dt_gauge_sample *s)
{
    return s->step >= w->last.step && s->own_ns >= w->last.own_ns &&
           s->updated_ns >= w->last.updated_ns && s->ran_ns >= w->last.ran_ns;
}

/* -- the end of a window ---------------------------------------------------------------------- */

static int share_of(int64_t part, int64_t whole)
{
    if (whole <= 0 || part <= 0)
        return 0;
    return part >= whole ? DT_OWN_WHOLE : (int)((double)part / (double)whole * DT_OWN_WHOLE);
}

/* Whole steps alone count, between two updates of the page. */
static void measure_page(struct worker *w, int64_t span_ns)
{
    int64_t span = w->last.updated_ns - w->first.updated_ns;
    int own = share_of(w->last.own_ns - w->first.own_ns, span);
    int ran = share_of(w->last.ran_ns - w->first.ran_ns, span_ns);
    w->part = (struct dt_gauge_part){
        .span_ns = span,
        .own = own,
        .data = share_of(w->last.data_ns - w->first.data_ns, span),
        .asleep = w->first.ran_ns > 0 && own > ran ? own - ran : 0,
    };
}

static void measure_stack(struct worker *w, int64_t span_ns)
{
    int slept = DT_OWN_WHOLE - share_of(w->last.ran_ns - w->first.ran_ns, span_ns);
    int waited = w->asleep > 0 ? slept * w->waits / w->asleep : slept;
    w->part = (struct dt_gauge_part){
        .span_ns = span_ns, .own = DT_OWN_WHOLE - waited, .asleep = slept - waited};
}

static void measure(struct dt_gauge *g, dt_ms now)
{
    int64_t span_ns = (now - g->began) * (1000000000 / DT_SECOND);
    for (int i = 0; i < g->count; i++) {
        struct worker *w = &g->workers[i];
        (g->by == DT_OWN_BY_PAGES ? measure_page : measure_stack)(w, span_ns);
        w->part.stopped = w->stopped;
        w->part.disk = w->disk;
        w->part.samples = w->samples;
    }
}

static int by_size(const void *a, const void *b)
{
    const int *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int median_of(struct dt_gauge *g)
{
    for (int i = 0; i < g->count; i++)
        g->owns[i] = g->workers[i].part.own;
    qsort(g->owns, (size_t)g->count, sizeof *g->owns, by_size);
    return g->owns[(g->count - 1) / 2];
}

/* Of two that are slow alike it is the same each time: who is slow for long has to be one. */
static int choose_slowest(const struct dt_gauge *g)
{
    int slowest = g->rank;
    for (int i = 0; i < g->count; i++) {
        int own = g->workers[i].part.own, most = g->workers[slowest].part.own;
        if (own * 10 > most * (slowest == g->rank ? STICKS_TENTHS : 10))
            slowest = i;
    }
    return slowest;
}

/* By a page where one tells; else by how often one was seen to wait anew. */
static int64_t count_steps(const struct dt_gauge *g)
{
    int64_t most = 0;
    for (int i = 0; i < g->count; i++) {
        const struct worker *w = &g->workers[i];
        int64_t steps = w->last.step >= 0 ? w->last.step - w->first.step : w->begun;
        most = steps > most ? steps : most;
    }
    return most;
}

/* All pages have told of a step at least; by stacks, of some steps in which others were waited for.
 * Where nobody here ever waits, others on other nodes may wait for us. */
static bool is_long_enough(const struct dt_gauge *g, dt_ms now)
{
    dt_ms span = now - g->began;
    int begun = 0;
    bool stepped = true;
    for (int i = 0; i < g->count; i++) {
        const struct worker *w = &g->workers[i];
        begun = w->begun > begun ? w->begun : begun;
        stepped = stepped && w->last.step > w->first.step;
    }
    if (g->by == DT_OWN_BY_PAGES)
        return span >= DT_GAUGE_PAGES && stepped;
    return span >= DT_GAUGE_STACKS && (begun >= DT_GAUGE_WAITS || span >= DT_GAUGE_MOST);
}

/* Of worker W, on average; 0: it tells no steps, or something that cannot be. */
static int64_t step_us(const struct worker *w)
{
    int64_t steps = w->last.step - w->first.step;
    int64_t us = steps > 0 ? w->part.span_ns / 1000 / steps : 0;
    return us <= STEP_MOST_US ? us : 0;
}

static void close_window(struct dt_gauge *g, dt_ms now, struct dt_own_time *out)
{
    measure(g, now);
    int64_t steps = count_steps(g);
    g->rank = choose_slowest(g);
    g->steps = steps < DT_STEPS_MOST - g->steps ? g->steps + steps : DT_STEPS_MOST;
    g->windows++;
    const struct worker *w = &g->workers[g->rank];
    *out = (struct dt_own_time){
        .window = g->windows,
        .steps = g->steps,
        .step_us = step_us(w),
        .by = g->by,
        .ranks = g->count,
        .rank = g->rank,
        .own = w->part.own,
        .median = median_of(g),
    };
}

bool dt_gauge_note(struct dt_gauge *g, dt_ms now, const struct dt_gauge_sample *samples,
                   struct dt_own_time *out)
{
    enum dt_own_witness by;
    bool can = can_measure(g, samples, &by), same = g->runs && by == g->by;
    for (int i = 0; same && i < g->count; i++)
        same = goes_on(&g->workers[i], &samples[i]);
    g->runs = g->runs && can;
    if (can && !same)
        begin(g, now, by, samples);
    if (!can || !same)
        return false;
    for (int i = 0; i < g->count; i++)
        note(&g->workers[i], &samples[i]);
    if (!is_long_enough(g, now))
        return false;
    close_window(g, now, out);
    begin(g, now, by, samples);
    return true;
}
