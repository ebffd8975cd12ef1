/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watch/meter.h"

#include "rendezvous/protocol/spec.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)
#define WINDOW_NS NS_PER_S                      /* fast steps are counted together */
#define SPAN_MOST (INT64_MAX / DT_WORKERS_MOST) /* 6 days: those of all workers are added up */

/* The last window of a worker; steps 0: none is over yet. */
struct window {
    int64_t steps, span_ns;
    int64_t own_ns; /* -1: not told */
    int64_t data_ns, communication_ns;
};

struct worker {
    struct dt_page_told last, begin; /* the latest sample, and the one that the window began with */
    bool begun;
    struct window window;
};

struct dt_meter {
    int count;
    char loss[DT_LOSS_MAX], worker_ms[DT_WORKER_TIMES_MAX];
    struct worker workers[];
};

struct dt_meter *dt_meter_create(int count)
{
    struct dt_meter *m = calloc(1, sizeof *m + (size_t)count * sizeof m->workers[0]);
    if (m)
        m->count = count;
    return m;
}

void dt_meter_destroy(struct dt_meter *m)
{
    free(m);
}

/* -- samples ---------------------------------------------------------------------------------- */

static int64_t at_most(int64_t value, int64_t most)
{
    return value < 0 ? 0 : value < most ? value : most;
}

static bool went_back(const struct dt_page_told *now, const struct dt_page_told *before)
{
    return now->step < before->step || now->updated_ns < before->updated_ns ||
           now->own_ns < before->own_ns || now->data_ns < before->data_ns ||
           now->communication_ns < before->communication_ns;
}

/* Of a worker that does not tell its own part, but how much of the time it computes. */
static int64_t own_time(const struct dt_page_told *begin, const struct dt_page_told *end,
                        int64_t span_ns)
{
    if (end->own_ns > 0)
        return at_most(end->own_ns - begin->own_ns, span_ns);
    return isnan(end->utilisation) ? -1 : (int64_t)(end->utilisation * (double)span_ns);
}

static struct window window_between(const struct dt_page_told *begin,
                                    const struct dt_page_told *end)
{
    int64_t span = at_most(end->updated_ns - begin->updated_ns, SPAN_MOST);
    int64_t own = own_time(begin, end, span);
    int64_t known = own < 0 ? 0 : own;
    return (struct window){
        .steps = end->step - begin->step,
        .span_ns = span,
        .own_ns = own,
        .data_ns = at_most(end->data_ns - begin->data_ns, known),
        .communication_ns = at_most(end->communication_ns - begin->communication_ns, span - known),
    };
}

void dt_meter_note(struct dt_meter *m, int local_rank, const struct dt_page_told *told)
{
    struct worker *w = &m->workers[local_rank];
    w->last = *told;
    if (!told->seen || told->step < 0)
        return;
    if (!w->begun || went_back(told, &w->begin)) {
        *w = (struct worker){.last = *told, .begin = *told, .begun = true};
        return;
    }
    if (told->step == w->begin.step || told->updated_ns - w->begin.updated_ns < WINDOW_NS)
        return;
    w->window = window_between(&w->begin, told);
    w->begin = *told;
}

/* -- what is told ----------------------------------------------------------------------------- */

static void tell_shares(const struct dt_meter *m, struct dt_telemetry *out)
{
    int64_t span = 0, own = 0, data = 0, communication = 0;
    for (const struct worker *w = m->workers; w < m->workers + m->count; w++) {
        if (w->window.steps == 0 || w->window.own_ns < 0)
            continue;
        span += w->window.span_ns;
        own += w->window.own_ns;
        data += w->window.data_ns;
        communication += w->window.communication_ns;
    }
    if (span == 0)
        return;
    double whole = (double)span / DT_SHARE_WHOLE;
    out->compute = (int)((double)(own - data) / whole);
    out->comm = (int)((double)communication / whole);
    out->data = (int)((double)data / whole);
    out->idle = DT_SHARE_WHOLE - out->compute - out->comm - out->data;
}

/* Rounded up: 0 is unknown. */
static int64_t ms_of_step(int64_t ns, const struct window *w)
{
    return w->steps > 0 ? (ns / w->steps + NS_PER_MS - 1) / NS_PER_MS : 0;
}

static void tell_times(struct dt_meter *m, struct dt_telemetry *out)
{
    size_t used = 0;
    bool full = false;
    for (const struct worker *w = m->workers; w < m->workers + m->count; w++) {
        const struct window *win = &w->window;
        int64_t all = ms_of_step(win->span_ns, win);
        int64_t part = ms_of_step(win->own_ns < 0 ? win->span_ns : win->own_ns, win);
        char one[24];
        size_t n = (size_t)snprintf(one, sizeof one, "%s%" PRId64, used ? "," : "", part);
        if (all > out->step_ms)
            out->step_ms = all;
        full = full || used + n >= sizeof m->worker_ms;
        if (full)
            continue;
        memcpy(m->worker_ms + used, one, n + 1);
        used += n;
    }
    out->worker_ms = out->step_ms > 0 ? m->worker_ms : "";
}

static void tell_mfu(const struct dt_meter *m, struct dt_telemetry *out)
{
    double sum = 0;
    int told = 0;
    for (const struct worker *w = m->workers; w < m->workers + m->count; w++)
        if (w->last.seen && !isnan(w->last.mfu)) {
            sum += w->last.mfu;
            told++;
        }
    if (told > 0)
        out->mfu = (int)(sum * DT_SHARE_WHOLE / told + 0.5);
}

static void tell_rest(struct dt_meter *m, int64_t now_ns, struct dt_telemetry *out)
{
    bool has_loss = false;
    for (const struct worker *w = m->workers; w < m->workers + m->count; w++) {
        int64_t since = w->last.upload_since_ns,
                behind = since > 0 ? (now_ns - since) / NS_PER_S : 0;
        if (w->last.steps > out->steps)
            out->steps = w->last.steps;
        if (behind > out->upload_behind_s)
            out->upload_behind_s = behind;
        if (w->last.has_loss && !has_loss)
            out->loss = dt_telemetry_put_loss(w->last.loss, m->loss);
        has_loss = has_loss || w->last.has_loss;
    }
}

void dt_meter_tell(struct dt_meter *m, int64_t now_ns, struct dt_telemetry *out)
{
    tell_shares(m, out);
    tell_times(m, out);
    tell_mfu(m, out);
    tell_rest(m, now_ns, out);
}

const char *dt_meter_folder(const struct dt_meter *m)
{
    for (const struct worker *w = m->workers; w < m->workers + m->count; w++)
        if (*w->last.folder)
            return w->last.folder;
    return "";
}
