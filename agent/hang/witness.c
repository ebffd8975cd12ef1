/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/witness.h"

#include <stdlib.h>
#include <string.h>

/* So much time between two samples: we were stopped, and they may have been. */
#define GAP (2 * DT_WITNESS_EVERY)
#define COMPUTES 20   /* who uses that part of a processor or more: one in so many */
#define FAULTS 16     /* who gets more pages than that in a sample works with memory */
#define SLEEPS 1      /* who waits more often than that in a sample does something between */
#define SPIN_LINES 1  /* a loop without an end goes at most so far from where it was */
#define TIMES 32      /* of steps, of which the median is taken */
#define STEPS_LEAST 3 /* of which the time is known */

/* The function in which it is, whatever it does there. */
struct stay {
    uint64_t function;
    dt_ms since;
    int line, first, last; /* the last sample's, and the range of all */
    bool back;             /* it has gone back to a line above */
    int64_t mark[4];       /* of the last sample */
};

struct watched {
    struct dt_sample at; /* where it has stood since */
    dt_ms since;
    struct stay stay;
    dt_ms idle;                      /* it has used no processor and woken hardly since */
    uint64_t cpu_ms, faults, sleeps; /* of the last sample */
    bool computes, over;
};

struct dt_witness {
    dt_ms after;
    int count;
    bool began;
    dt_ms now;          /* of the last sample */
    int64_t step;       /* the furthest; -1: none */
    dt_ms stepped;      /* when it was first seen */
    dt_ms times[TIMES]; /* of one step each, a ring */
    int timed;          /* how many there were */
    int64_t steps;      /* that these times are of */
    struct watched workers[];
};

struct dt_witness *dt_witness_create(int count, dt_ms after)
{
    struct dt_witness *w = calloc(1, sizeof *w + (size_t)count * sizeof w->workers[0]);
    if (!w)
        return NULL;
    w->count = count;
    w->after = after;
    w->step = -1;
    return w;
}

void dt_witness_destroy(struct dt_witness *w)
{
    free(w);
}

/* -- who moves -------------------------------------------------------------------------------- */

/* Nothing takes its time then. */
static bool is_stopped(const struct dt_sample *s)
{
    return s->state == 'T' || s->state == 't';
}

static bool has_another_place(const struct dt_place *was, const struct dt_sample *s, bool computes)
{
    const struct dt_place *is = &s->place;
    if (is->kind == DT_PLACE_SLOW && !is_stopped(s))
        return true;
    if (is->kind == DT_PLACE_UNKNOWN || was->kind == DT_PLACE_UNKNOWN)
        return is->kind != was->kind;
    if (is->function != was->function || (computes && is->kind == DT_PLACE_LIBRARY))
        return true;
    int moved = abs(is->line - was->line);
    return computes && is->kind == DT_PLACE_OWN ? moved > SPIN_LINES : moved > 0;
}

/* A file system that does not answer keeps who imports from a disk as well, for ever. */
static bool is_busy_importing(const struct watched *w, const struct dt_sample *s, dt_ms now)
{
    return s->place.kind == DT_PLACE_IMPORT && now - w->idle < DT_WITNESS_IMPORT;
}

static bool has_moved(const struct watched *w, const struct dt_sample *s, dt_ms now)
{
    if (s->told != w->at.told || memcmp(s->mark, w->at.mark, sizeof s->mark) != 0)
        return true;
    if (s->told && s->slow && !is_stopped(s))
        return true;
    bool slept = s->sleeps > w->sleeps + SLEEPS;
    if (is_busy_importing(w, s, now))
        return true;
    if (is_stopped(s) != is_stopped(&w->at) || s->faults > w->faults + FAULTS)
        return true;
    if (s->place.kind == DT_PLACE_UNKNOWN && !s->told && (slept || w->computes))
        return true;
    /* Who waits with a processor in use, and slept as well, has done something between two waits.
     */
    if (s->place.kind == DT_PLACE_WAIT && w->computes && slept)
        return true;
    /* A call that sleeps until the others come, and has slept again, is another call. So a rank
     * that is slow in each step is no hang, although each sample finds all at the same places. */
    if (s->place.kind == DT_PLACE_WAIT && !s->place.polls && s->sleeps > w->at.sleeps + SLEEPS)
        return true;
    return has_another_place(&w->at.place, s, w->computes);
}

/* Whether it does something in a function of the user's, of which nothing tells that it gets on. */
static bool stays(const struct stay *stay, const struct dt_sample *s)
{
    return (s->place.kind == DT_PLACE_OWN || s->place.kind == DT_PLACE_LIBRARY) && !s->slow &&
           s->place.function == stay->function && memcmp(s->mark, stay->mark, sizeof s->mark) == 0;
}

static void note_stay(struct stay *stay, const struct dt_sample *s, dt_ms now, dt_ms passed)
{
    int line = s->place.line;
    if (passed > GAP || !stays(stay, s))
        *stay =
            (struct stay){.function = s->place.function, .since = now, .first = line, .last = line};
    stay->back = stay->back || line < stay->line;
    stay->line = line;
    stay->first = line < stay->first ? line : stay->first;
    stay->last = line > stay->last ? line : stay->last;
    memcpy(stay->mark, s->mark, sizeof stay->mark);
}

static void note_worker(struct watched *w, const struct dt_sample *s, dt_ms now, dt_ms passed)
{
    uint64_t used = s->cpu_ms > w->cpu_ms ? s->cpu_ms - w->cpu_ms : 0;
    w->computes = s->state == 'R' || used * COMPUTES >= (uint64_t)passed;
    w->over = s->over;
    if (passed > GAP || w->computes || s->sleeps > w->sleeps + SLEEPS ||
        s->place.kind != w->at.place.kind)
        w->idle = now;
    if (passed > GAP || has_moved(w, s, now)) {
        w->at = *s;
        w->since = now;
    }
    note_stay(&w->stay, s, now, passed);
    w->cpu_ms = s->cpu_ms;
    w->faults = s->faults;
    w->sleeps = s->sleeps;
}

/* -- steps ------------------------------------------------------------------------------------ */

static void note_steps(struct dt_witness *w, const struct dt_sample *samples)
{
    int64_t step = -1;
    for (int i = 0; i < w->count; i++)
        if (samples[i].told && samples[i].step > step)
            step = samples[i].step;
    if (step <= w->step)
        return;
    if (w->step >= 0) {
        w->times[w->timed++ % TIMES] = (w->now - w->stepped) / (step - w->step);
        w->steps += step - w->step;
    }
    w->step = step;
    w->stepped = w->now;
}

static int compare(const void *a, const void *b)
{
    dt_ms x = *(const dt_ms *)a, y = *(const dt_ms *)b;
    return (x > y) - (x < y);
}

static dt_ms median(const struct dt_witness *w)
{
    dt_ms sorted[TIMES];
    size_t n = w->timed < TIMES ? (size_t)w->timed : TIMES;
    memcpy(sorted, w->times, sizeof sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    return sorted[n / 2];
}

/* -- the whole of them ------------------------------------------------------------------------ */

void dt_witness_note(struct dt_witness *w, dt_ms now, const struct dt_sample *samples)
{
    dt_ms passed = w->began ? now - w->now : DT_FOREVER;
    w->began = true;
    w->now = now;
    note_steps(w, samples);
    for (int i = 0; i < w->count; i++)
        note_worker(&w->workers[i], &samples[i], now, passed);
}

dt_ms dt_witness_still_of(const struct dt_witness *w, int i)
{
    return w->now - w->workers[i].since;
}

/* From then on it counts that a worker does not leave a function. */
static dt_ms round_limit(const struct dt_witness *w)
{
    dt_ms limit = dt_witness_limit(w);
    if (limit == DT_FOREVER)
        return DT_FOREVER;
    dt_ms rounds = DT_WITNESS_ROUNDS * limit;
    return w->after != DT_HANG_AUTO || rounds > DT_WITNESS_ROUND ? rounds : DT_WITNESS_ROUND;
}

/* For how long some have stayed in a function each, and all others have stood still; 0: they have
 * not for long enough, or none of these waits for others. */
static dt_ms still_but_for_rounds(const struct dt_witness *w)
{
    dt_ms least = DT_FOREVER, limit = round_limit(w);
    bool waits = false;
    for (int i = 0; i < w->count; i++) {
        const struct watched *one = &w->workers[i];
        dt_ms still = dt_witness_still_of(w, i), stay = w->now - one->stay.since;
        if (one->over)
            continue;
        waits = waits || (still >= limit && one->at.place.kind == DT_PLACE_WAIT);
        dt_ms longest = still > stay ? still : stay;
        least = longest < least ? longest : least;
    }
    return waits && least >= limit ? least : 0;
}

struct dt_witness_round dt_witness_round_of(const struct dt_witness *w, int i)
{
    const struct stay *stay = &w->workers[i].stay;
    bool counts = still_but_for_rounds(w) > 0 && dt_witness_still_of(w, i) < round_limit(w);
    if (!counts || w->workers[i].over)
        return (struct dt_witness_round){0, 0};
    return stay->back ? (struct dt_witness_round){stay->first, stay->last}
                      : (struct dt_witness_round){stay->line, stay->line};
}

dt_ms dt_witness_still(const struct dt_witness *w)
{
    dt_ms least = DT_FOREVER, rounds = still_but_for_rounds(w);
    for (int i = 0; i < w->count; i++)
        if (!w->workers[i].over && dt_witness_still_of(w, i) < least)
            least = dt_witness_still_of(w, i);
    if (least == DT_FOREVER)
        return 0;
    return rounds > least ? rounds : least;
}

static bool knows_steps(const struct dt_witness *w)
{
    return w->steps >= STEPS_LEAST;
}

bool dt_witness_is_sure(const struct dt_witness *w)
{
    return w->after != DT_HANG_AUTO || knows_steps(w);
}

dt_ms dt_witness_limit(const struct dt_witness *w)
{
    bool computes = false, hidden = false;
    if (w->after != DT_HANG_AUTO)
        return w->after;
    for (int i = 0; i < w->count; i++) {
        const struct watched *one = &w->workers[i];
        computes = computes || (!one->over && one->computes);
        hidden = hidden || (!one->over && one->at.place.kind == DT_PLACE_UNKNOWN);
    }
    if (!knows_steps(w))
        return hidden ? DT_FOREVER : DT_WITNESS_STACKS;
    dt_ms steps = DT_WITNESS_STEPS * median(w),
          least = computes ? DT_WITNESS_BUSY : DT_WITNESS_LEAST;
    return steps > least ? steps : least;
}
