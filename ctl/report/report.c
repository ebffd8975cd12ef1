/* SPDX-License-Identifier: Apache-2.0 */
/* A step has the time at which it was done, and how long it took. So what of a round is no step is
 * known too: the time before its first one, and that between rounds. */
#include "ctl/report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_SLACK_US 1000000 /* by which clocks of hosts may differ */
#define LATE_MOST 64           /* steps of the round before that are told of in one */

void dt_report_finish(struct dt_report *r)
{
    for (size_t i = 0; i < r->round_count; i++) {
        struct dt_report_round *round = &r->rounds[i];
        for (size_t k = 0; k < round->failure_count; k++) {
            free(round->failures[k].kind);
            free(round->failures[k].text);
            free(round->failures[k].place);
        }
        free(round->failures);
        free(round->cause);
        free(round->decided);
    }
    for (size_t i = 0; i < r->hang_count; i++) {
        free(r->hangs[i].kind);
        free(r->hangs[i].sentence);
        free(r->hangs[i].advice);
    }
    for (size_t i = 0; i < r->comeback_count; i++)
        free(r->comebacks[i].text);
    free(r->comebacks);
    free(r->rounds);
    free(r->hangs);
    free(r->steps);
    free(r->validations);
    free(r->saves);
    free(r->name);
    free(r->model);
    free(r->device);
    free(r->save_dir);
    free(r->trouble);
    *r = (struct dt_report){0};
}

/* -- order ------------------------------------------------------------------------------------ */

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_time(const void *a, const void *b)
{
    const struct dt_report_step *x = a, *y = b;
    int order = compare(x->at_us, y->at_us);
    return order ? order : compare(x->step, y->step);
}

static int by_number(const void *a, const void *b)
{
    const struct dt_report_round *x = a, *y = b;
    return compare(x->round, y->round);
}

static int by_step(const void *a, const void *b)
{
    const struct dt_report_save *x = a, *y = b;
    return compare(x->step, y->step);
}

static void sort(void *at, size_t count, size_t size, int (*order)(const void *, const void *))
{
    if (count)
        qsort(at, count, size, order);
}

/* -- time ------------------------------------------------------------------------------------- */

static double seconds(int64_t us)
{
    return (double)us * 1e-6;
}

/* That a step took, in seconds. */
static double took(const struct dt_report_step *s)
{
    double ms = s->v[DT_REPORT_MS];
    return ms > 0 && isfinite(ms) ? ms * 1e-3 : 0;
}

static int64_t began(const struct dt_report_step *s)
{
    double us = took(s) * 1e6;
    return s->at_us - (us < 1e18 ? (int64_t)us : 0);
}

static int64_t first_beginning(const struct dt_report *r)
{
    int64_t first = DT_REPORT_UNKNOWN;
    for (size_t i = 0; i < r->round_count; i++) {
        int64_t at = r->rounds[i].began_us;
        if (at != DT_REPORT_UNKNOWN && (first == DT_REPORT_UNKNOWN || at < first))
            first = at;
    }
    return first;
}

/* Two folders may name one file of metrics. */
static void leave_out_twins(struct dt_report *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->step_count; i++) {
        const struct dt_report_step *last = kept ? &r->steps[kept - 1] : NULL;
        if (!last || last->at_us != r->steps[i].at_us || last->step != r->steps[i].step)
            r->steps[kept++] = r->steps[i];
    }
    r->step_count = kept;
}

/* A file of metrics goes on from run to run. */
static void leave_out_others(struct dt_report *r)
{
    int64_t first = first_beginning(r);
    size_t others = 0, kept = 0;
    if (first == DT_REPORT_UNKNOWN)
        return;
    while (others < r->step_count && r->steps[others].at_us < first - CLOCK_SLACK_US)
        r->earlier_steps += !r->steps[others++].redone;
    for (size_t i = others; i < r->step_count; i++)
        r->steps[i - others] = r->steps[i];
    r->step_count -= others;
    for (size_t i = 0; i < r->validation_count; i++)
        if (r->validations[i].at_us >= first - CLOCK_SLACK_US)
            r->validations[kept++] = r->validations[i];
    r->validation_count = kept;
}

static void find_ends(struct dt_report *r)
{
    int64_t first = first_beginning(r), last = 0;
    if (first == DT_REPORT_UNKNOWN)
        first = r->step_count ? began(&r->steps[0]) : 0;
    for (size_t i = 0; i < r->round_count; i++) {
        const struct dt_report_round *round = &r->rounds[i];
        last = round->began_us > last ? round->began_us : last;
        last = round->ended_us > last ? round->ended_us : last;
    }
    if (r->step_count && r->steps[r->step_count - 1].at_us > last)
        last = r->steps[r->step_count - 1].at_us;
    r->zero_us = first;
    r->end_us = last > first ? last : first;
}

/* -- rounds ----------------------------------------------------------------------------------- */

static struct dt_report_round *round_of(struct dt_report *r, int number)
{
    size_t low = 0, high = r->round_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->rounds[middle].round < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->round_count && r->rounds[low].round == number ? &r->rounds[low] : NULL;
}

/* A round may tell of a step that the one before it has done: back from a vault, it does. */
static bool is_of(const struct dt_report_step *s, const struct dt_report_round *round)
{
    return round->began_us == DT_REPORT_UNKNOWN || began(s) >= round->began_us;
}

/* Time is charged to the first step of a round, up to where that began. */
static void note_step(struct dt_report *r, const struct dt_report_step *s)
{
    struct dt_report_round *round = round_of(r, s->round);
    if (!round)
        return;
    if (!round->started && is_of(s, round)) {
        round->started = true;
        if (round->began_us != DT_REPORT_UNKNOWN)
            r->costs.starting += seconds(began(s) - round->began_us);
    }
    if (round->first_step < 0)
        round->first_step = s->step;
    if (s->step > round->last_step)
        round->last_step = s->step;
    round->redone_steps += s->redone;
}

static void note_cost(struct dt_report_costs *c, const struct dt_report_step *s)
{
    double saving = s->v[DT_REPORT_CHECKPOINT], keeping = s->v[DT_REPORT_VAULT];
    c->steps += !s->redone;
    c->redone_steps += s->redone;
    *(s->redone ? &c->redone : &c->useful) += took(s);
    if (saving > 0 && isfinite(saving)) {
        c->saving += saving * 1e-3;
        c->saves++;
    }
    if (keeping > 0 && isfinite(keeping))
        c->keeping += keeping * 1e-3;
}

/* The first step that ROUND or a later one did; NULL: there is none. */
static const struct dt_report_step *step_from(const struct dt_report *r,
                                              const struct dt_report_round *round)
{
    size_t low = 0, high = r->step_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->steps[middle].at_us <= round->began_us)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t late = 0; late < LATE_MOST && low + late < r->step_count; late++)
        if (is_of(&r->steps[low + late], round))
            return &r->steps[low + late];
    return NULL;
}

/* NEXT: NULL where it is the last one. */
static enum dt_report_end end_of(const struct dt_report_round *round,
                                 const struct dt_report_round *next)
{
    if (round->cause)
        return DT_REPORT_FAILED;
    if (round->ended_us == DT_REPORT_UNKNOWN && !next)
        return DT_REPORT_OPEN;
    bool well = !next && round->decided && strstr(round->decided, "succeeded");
    return well ? DT_REPORT_WELL : DT_REPORT_CUT;
}

static void note_gap(struct dt_report *r, struct dt_report_round *round,
                     const struct dt_report_round *next)
{
    if (!next || round->ended_us == DT_REPORT_UNKNOWN || next->began_us < round->ended_us)
        return;
    const struct dt_report_step *back = step_from(r, next);
    if (back)
        round->back_s = seconds(back->at_us - round->ended_us);
    round->gap_s = seconds(next->began_us - round->ended_us);
    r->costs.between += round->gap_s;
}

void dt_report_settle(struct dt_report *r)
{
    struct dt_report_costs *c = &r->costs;
    sort(r->rounds, r->round_count, sizeof *r->rounds, by_number);
    sort(r->steps, r->step_count, sizeof *r->steps, by_time);
    sort(r->saves, r->save_count, sizeof *r->saves, by_step);
    leave_out_twins(r);
    leave_out_others(r);
    find_ends(r);
    *c = (struct dt_report_costs){.all = seconds(r->end_us - r->zero_us)};
    for (size_t i = 0; i < r->round_count; i++) {
        struct dt_report_round *round = &r->rounds[i];
        round->started = false;
        round->first_step = round->last_step = -1;
        round->redone_steps = 0;
        round->back_s = round->gap_s = -1;
    }
    for (size_t i = 0; i < r->step_count; i++) {
        note_step(r, &r->steps[i]);
        note_cost(c, &r->steps[i]);
    }
    for (size_t i = 0; i < r->round_count; i++) {
        const struct dt_report_round *next = i + 1 < r->round_count ? &r->rounds[i + 1] : NULL;
        r->rounds[i].end = end_of(&r->rounds[i], next);
        note_gap(r, &r->rounds[i], next);
    }
    c->other = c->all - c->useful - c->redone - c->saving - c->keeping - c->starting - c->between;
    c->other = c->other > 0 ? c->other : 0;
}
