/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/report/plots.h"

#include "base/auto.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PLOT_HEIGHT 150
#define VALUE_TICKS 5
#define SAMPLES 600
#define STEP_NUMBER DT_REPORT_SERIES /* beside the series of a step: which one it is */

enum bottom { FROM_ZERO, FROM_LOWEST, BY_POWERS };

struct plot {
    const char *id, *title, *unit;
    int what;
    enum bottom bottom;
};

static const struct plot plots[] = {
    {"steps", "Steps done", "", STEP_NUMBER, FROM_ZERO},
    {"loss", "Loss", "", DT_REPORT_LOSS, FROM_LOWEST},
    {"norm", "Gradient norm", "", DT_REPORT_GRAD_NORM, BY_POWERS},
    {"rate", "Learning rate", "", DT_REPORT_LR, FROM_ZERO},
    {"tokens", "Tokens", "per second", DT_REPORT_TOKENS_PER_S, FROM_ZERO},
};

static double value_of(const struct dt_report_step *s, int what)
{
    return what == STEP_NUMBER ? (double)s->step : s->v[what];
}

/* -- lines ------------------------------------------------------------------------------------ */

/* Lines do not go on from one round to the next. OUT: room for twice as many as there are steps. */
static size_t gather(const struct dt_chart_frame *f, int what, bool redone, struct dt_point *out)
{
    const struct dt_report *r = f->report;
    const struct dt_report_step *before = NULL;
    size_t n = 0;
    for (size_t i = 0; i < r->step_count; i++) {
        const struct dt_report_step *s = &r->steps[i];
        if (s->redone != redone)
            continue;
        if (before && (before->round != s->round || s->step < before->step))
            out[n++] = (struct dt_point){dt_chart_place(f, before->at_us), NAN};
        out[n++] = (struct dt_point){dt_chart_place(f, s->at_us), value_of(s, what)};
        before = s;
    }
    return n;
}

struct range {
    double low, high, most; /* most: nearly all are below it */
    double first, last;     /* of those that count */
    size_t count;
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of some of the values, where there are many. */
static double below_most(const struct dt_report *r, int what)
{
    double some[2000];
    size_t n = 0, every = r->step_count / 2000 + 1;
    for (size_t i = 0; i < r->step_count; i += every) {
        double v = value_of(&r->steps[i], what);
        if (isfinite(v))
            some[n++] = v;
    }
    if (n == 0)
        return NAN;
    qsort(some, n, sizeof *some, by_size);
    return some[n - 1 - n / 50];
}

static struct range range_of(const struct dt_report *r, int what)
{
    struct range range = {.low = NAN, .high = NAN, .first = NAN, .last = NAN};
    for (size_t i = 0; i < r->step_count; i++) {
        const struct dt_report_step *s = &r->steps[i];
        double v = value_of(s, what);
        if (!isfinite(v))
            continue;
        range.low = fmin(range.low, v);
        range.high = fmax(range.high, v);
        range.count++;
        if (s->redone)
            continue;
        range.first = isnan(range.first) ? v : range.first;
        range.last = v;
    }
    range.most = below_most(r, what);
    return range;
}

/* A few values far above all others are drawn as leaving the picture. */
static struct dt_scale scale_for(const struct plot *p, const struct range *r)
{
    double high = r->most > 0 && r->high > 4 * r->most ? 1.5 * r->most : r->high;
    if (p->bottom == BY_POWERS && r->low > 0 && r->high > 30 * r->low)
        return dt_scale_log(r->low, r->high, VALUE_TICKS);
    if (p->bottom == FROM_LOWEST)
        return dt_scale_linear(r->low, high, VALUE_TICKS);
    return dt_scale_linear(fmin(r->low, 0), high, VALUE_TICKS);
}

static void describe(const struct range *range, char out[200])
{
    snprintf(out, 200, "From %.4g to %.4g over time; the lowest is %.4g, the highest %.4g.",
             range->first, range->last, range->low, range->high);
}

/* Room for what a chart is made of. */
struct room {
    struct dt_point *all, *thin;
};

static void put_line(struct dt_buf *out, const struct dt_chart_frame *f, const struct dt_chart *c,
                     int what, bool redone, const struct room *room)
{
    size_t n = gather(f, what, redone, room->all);
    n = dt_thin(room->all, n, DT_CHART_COLUMNS, room->thin);
    if (n)
        dt_chart_line(out, c, redone ? "redone" : "kept", room->thin, n);
}

static void put_validations(struct dt_buf *out, const struct dt_chart_frame *f,
                            const struct dt_chart *c, const struct room *room)
{
    const struct dt_report *r = f->report;
    struct dt_point *points = calloc(r->validation_count, sizeof *points);
    for (size_t i = 0; points && i < r->validation_count; i++)
        points[i] =
            (struct dt_point){dt_chart_place(f, r->validations[i].at_us), r->validations[i].loss};
    if (points) {
        size_t n = dt_thin(points, r->validation_count, DT_CHART_COLUMNS, room->thin);
        dt_chart_line(out, c, "validation", room->thin, n);
    }
    out->bad = out->bad || !points;
    free(points);
}

static void put_plot(struct dt_buf *out, const struct dt_chart_frame *f, const struct plot *p,
                     const struct room *room)
{
    char words[200];
    struct range range = range_of(f->report, p->what);
    if (range.count == 0)
        return;
    struct dt_chart c = {.id = p->id,
                         .title = p->title,
                         .unit = p->unit,
                         .words = words,
                         .y = scale_for(p, &range),
                         .height = PLOT_HEIGHT};
    bool validated = p->what == DT_REPORT_LOSS && f->report->validation_count > 0;
    describe(&range, words);
    if (f->report->costs.redone_steps && p->what == STEP_NUMBER)
        c.key = "<ul class=\"key\"><li class=\"redone\">done again later</li></ul>";
    else if (validated)
        c.key = "<ul class=\"key\"><li class=\"validation\">validation</li></ul>";
    dt_chart_open(out, f, &c);
    put_line(out, f, &c, p->what, true, room);
    put_line(out, f, &c, p->what, false, room);
    if (validated)
        put_validations(out, f, &c, room);
    dt_chart_close(out, f, &c);
}

/* -- where the time of steps went ------------------------------------------------------------- */

#define SPLIT_COLUMNS 200

static const struct part {
    const char *kind, *title;
    int what; /* STEP_NUMBER: what no other part took */
} parts[] = {
    {"forward", "forward", DT_REPORT_FORWARD},
    {"backward", "backward", DT_REPORT_BACKWARD},
    {"communication", "communication", DT_REPORT_COMMUNICATION},
    {"optimizer", "optimizer", DT_REPORT_OPTIMIZER},
    {"data", "data", DT_REPORT_DATA},
    {"rest", "other", STEP_NUMBER},
    {"vault", "copy into the vault", DT_REPORT_VAULT},
    {"checkpoint", "checkpoint", DT_REPORT_CHECKPOINT},
};

#define PARTS (sizeof parts / sizeof *parts)

/* Neighbouring steps of one round, in one column. */
struct block {
    double from, to; /* on the axis */
    int round;
    size_t count;
    double ms[PARTS]; /* the sum of them all */
};

/* What held the step up before it began, and is no part of its own time. */
static bool is_between(int what)
{
    return what == DT_REPORT_CHECKPOINT || what == DT_REPORT_VAULT;
}

static void add_to_block(struct block *b, const struct dt_report_step *s)
{
    double known = 0;
    for (size_t i = 0; i < PARTS; i++) {
        double ms = parts[i].what == STEP_NUMBER ? 0 : s->v[parts[i].what];
        ms = ms > 0 && isfinite(ms) ? ms : 0;
        b->ms[i] += ms;
        known += is_between(parts[i].what) ? 0 : ms;
    }
    for (size_t i = 0; i < PARTS; i++)
        if (parts[i].what == STEP_NUMBER && s->v[DT_REPORT_MS] > known)
            b->ms[i] += s->v[DT_REPORT_MS] - known;
    b->count++;
}

/* BLOCKS: room for as many as there are steps. */
static size_t make_blocks(const struct dt_chart_frame *f, struct block *blocks)
{
    const struct dt_report *r = f->report;
    size_t n = 0;
    for (size_t i = 0; i < r->step_count; i++) {
        const struct dt_report_step *s = &r->steps[i];
        double ms = s->v[DT_REPORT_MS], to = dt_chart_place(f, s->at_us);
        struct block *b = n ? &blocks[n - 1] : NULL;
        if (!(ms >= 0 && ms < 1e12))
            continue;
        if (!b || b->round != s->round || (to - b->from) * SPLIT_COLUMNS > 1) {
            double from = dt_chart_place(f, s->at_us - (int64_t)(ms * 1e3));
            bool follows = b && b->round == s->round;
            b = &blocks[n++];
            *b = (struct block){.from = follows ? b[-1].to : from, .round = s->round};
        }
        add_to_block(b, s);
        b->to = to;
    }
    return n;
}

static double height_of(const struct block *b)
{
    double sum = 0;
    for (size_t i = 0; i < PARTS; i++)
        sum += b->ms[i] / (double)b->count;
    return sum;
}

static double highest(const struct block *blocks, size_t count)
{
    double *heights = calloc(count, sizeof *heights), most = 0;
    if (!heights)
        return 1;
    for (size_t i = 0; i < count; i++)
        heights[i] = height_of(&blocks[i]);
    qsort(heights, count, sizeof *heights, by_size);
    most = heights[count - 1 - count / 20];
    most = heights[count - 1] > 2.5 * most ? 1.5 * most : heights[count - 1];
    free(heights);
    return most;
}

/* The area of PART, on those before it. LOW, HIGH: room for three times as many as there are. */
static size_t outline(const struct block *blocks, size_t count, size_t part, struct dt_point *low,
                      struct dt_point *high)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const struct block *b = &blocks[i];
        double below = 0, here = b->ms[part] / (double)b->count;
        for (size_t k = 0; k < part; k++)
            below += b->ms[k] / (double)b->count;
        if (i > 0 && b[-1].round != b->round) {
            low[n] = high[n] = (struct dt_point){b->from, NAN};
            n++;
        }
        for (int end = 0; end < 2; end++, n++) {
            low[n] = (struct dt_point){end ? b->to : b->from, below};
            high[n] = (struct dt_point){low[n].x, below + here};
        }
    }
    return n;
}

static bool is_told(const struct block *blocks, size_t count, size_t part)
{
    for (size_t i = 0; i < count; i++)
        if (blocks[i].ms[part] > 0)
            return true;
    return false;
}

static void put_key(struct dt_buf *out, const struct block *blocks, size_t count)
{
    dt_buf_put_str(out, "<ul class=\"key\">");
    for (size_t i = 0; i < PARTS; i++)
        if (is_told(blocks, count, i))
            dt_buf_printf(out, "<li class=\"%s\">%s</li>", parts[i].kind, parts[i].title);
    dt_buf_put_str(out, "</ul>");
}

/* "On average: forward 30.1 ms, backward 80 ms." */
static void describe_split(const struct block *blocks, size_t count, struct dt_buf *words)
{
    const char *before = "On average: ";
    size_t steps = 0;
    for (size_t i = 0; i < count; i++)
        steps += blocks[i].count;
    for (size_t k = 0; k < PARTS; k++) {
        double ms = 0;
        for (size_t i = 0; i < count; i++)
            ms += blocks[i].ms[k];
        if (ms > 0)
            dt_buf_printf(words, "%s%s %.3g ms", before, parts[k].title, ms / (double)steps);
        before = ms > 0 ? ", " : before;
    }
}

static void put_split_of(struct dt_buf *out, const struct dt_chart_frame *f,
                         const struct block *blocks, size_t count, struct dt_point *low,
                         struct dt_point *high)
{
    struct dt_buf key = {0}, words = {0};
    put_key(&key, blocks, count);
    describe_split(blocks, count, &words);
    struct dt_chart c = {.id = "split",
                         .title = "Time of a step",
                         .unit = "ms",
                         .key = dt_buf_cstr(&key),
                         .words = dt_buf_cstr(&words),
                         .y = dt_scale_linear(0, highest(blocks, count), VALUE_TICKS),
                         .height = PLOT_HEIGHT + 30};
    dt_chart_open(out, f, &c);
    for (size_t i = 0; i < PARTS; i++) {
        size_t n = outline(blocks, count, i, low, high);
        if (is_told(blocks, count, i))
            dt_chart_area(out, &c, parts[i].kind, low, high, n);
    }
    dt_chart_close(out, f, &c);
    out->bad = out->bad || key.bad || words.bad;
    dt_buf_finish(&key);
    dt_buf_finish(&words);
}

static int put_split(struct dt_buf *out, const struct dt_chart_frame *f, struct dt_err *err)
{
    size_t steps = f->report->step_count;
    DT_AUTO_FREE struct block *blocks = calloc(steps, sizeof *blocks);
    if (!blocks)
        return dt_err_set(err, DT_E_MEMORY, "no memory to draw %zu steps", steps);
    size_t count = make_blocks(f, blocks);
    if (count == 0)
        return 0;
    DT_AUTO_FREE struct dt_point *low = calloc(3 * count, sizeof *low);
    DT_AUTO_FREE struct dt_point *high = calloc(3 * count, sizeof *high);
    if (!low || !high)
        return dt_err_set(err, DT_E_MEMORY, "no memory to draw %zu steps", steps);
    put_split_of(out, f, blocks, count, low, high);
    return 0;
}

/* -- all of them ------------------------------------------------------------------------------ */

int dt_plots_put(struct dt_buf *out, const struct dt_chart_frame *f, struct dt_err *err)
{
    size_t steps = f->report->step_count;
    if (steps == 0)
        return 0;
    DT_AUTO_FREE struct dt_point *all = calloc(2 * steps, sizeof *all);
    DT_AUTO_FREE struct dt_point *thin = calloc(DT_THIN_ROOM(DT_CHART_COLUMNS), sizeof *thin);
    if (!all || !thin)
        return dt_err_set(err, DT_E_MEMORY, "no memory to draw %zu steps", steps);
    for (size_t i = 0; i < sizeof plots / sizeof *plots; i++)
        put_plot(out, f, &plots[i], &(struct room){all, thin});
    return put_split(out, f, err);
}

static void put_sample(struct dt_buf *out, const struct dt_chart_frame *f,
                       const struct dt_report_step *s)
{
    static const int told[] = {DT_REPORT_LOSS, DT_REPORT_GRAD_NORM, DT_REPORT_LR,
                               DT_REPORT_TOKENS_PER_S, DT_REPORT_MS};
    dt_buf_printf(out, "[%.5f,%" PRId64, dt_chart_place(f, s->at_us), s->step);
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (isfinite(s->v[told[i]]))
            dt_buf_printf(out, ",%.5g", s->v[told[i]]);
        else
            dt_buf_put_str(out, ",null");
    dt_buf_put_u8(out, ']');
}

void dt_plots_put_samples(struct dt_buf *out, const struct dt_chart_frame *f)
{
    double next = 0;
    const char *before = "";
    dt_buf_put_u8(out, '[');
    for (size_t i = 0; i < f->report->step_count; i++) {
        double place = dt_chart_place(f, f->report->steps[i].at_us);
        if (place < next)
            continue;
        dt_buf_put_str(out, before);
        put_sample(out, f, &f->report->steps[i]);
        before = ",";
        next = place + 1.0 / SAMPLES;
    }
    dt_buf_put_u8(out, ']');
}
