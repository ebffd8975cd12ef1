/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/report/chart.h"

#include "ctl/report/markup.h"

#include <math.h>
#include <stdio.h>

#define TIME_TICKS 8
#define Y_WIDTH 56   /* pixels, of the labels beside a plot */
#define HEAD 8       /* above a plot, for half a label */
#define FOOT 20      /* below it, for the labels of the time */
#define WIDTH 1000.0 /* units of an inner picture */
#define HEIGHT 100.0

struct dt_chart_frame dt_chart_frame(const struct dt_report *r)
{
    double seconds = (double)(r->end_us - r->zero_us) * 1e-6;
    return (struct dt_chart_frame){.report = r, .time = dt_scale_time(seconds, TIME_TICKS)};
}

double dt_chart_place(const struct dt_chart_frame *f, int64_t at_us)
{
    double place = dt_scale_place(&f->time, (double)(at_us - f->report->zero_us) * 1e-6);
    return place > 1 ? 1 : place > 0 ? place : 0;
}

/* -- axes ------------------------------------------------------------------------------------- */

static void put_percent(struct dt_buf *out, const char *name, double place)
{
    dt_buf_printf(out, " %s=\"", name);
    dt_markup_number(out, place * 100, 3);
    dt_buf_put_str(out, "%\"");
}

/* Every other label goes where the page is narrow; the last one where it would stick out. */
static void put_times(struct dt_buf *out, const struct dt_chart_frame *f, int y)
{
    double ticks[DT_SCALE_TICKS];
    size_t n = dt_scale_ticks(&f->time, ticks);
    for (size_t i = 0; i < n; i++) {
        char label[DT_SCALE_LABEL];
        double place = dt_scale_place(&f->time, ticks[i]);
        if (place > 0.97 && i + 1 == n && n > 2)
            place = 1;
        dt_buf_printf(out, "<text class=\"tick%s\" y=\"%d\"", i % 2 ? " odd" : "", y);
        put_percent(out, "x", place);
        dt_buf_printf(out, " text-anchor=\"%s\">",
                      i == 0       ? "start"
                      : place >= 1 ? "end"
                                   : "middle");
        dt_markup_text(out, dt_scale_label(&f->time, ticks[i], label), sizeof label);
        dt_buf_put_str(out, "</text>");
    }
}

static void put_values(struct dt_buf *out, const struct dt_chart *c)
{
    double ticks[DT_SCALE_TICKS];
    size_t n = dt_scale_ticks(&c->y, ticks);
    dt_buf_printf(out, "<svg class=\"values\" width=\"%d\" height=\"%d\" aria-hidden=\"true\">",
                  Y_WIDTH, c->height + HEAD + FOOT);
    for (size_t i = 0; i < n; i++) {
        char label[DT_SCALE_LABEL];
        double place = dt_scale_place(&c->y, ticks[i]);
        dt_buf_printf(out, "<text class=\"tick\" x=\"%d\" y=\"", Y_WIDTH - 8);
        dt_markup_number(out, HEAD + (1 - place) * c->height + 4, 1);
        dt_buf_put_str(out, "\" text-anchor=\"end\">");
        dt_markup_text(out, dt_scale_label(&c->y, ticks[i], label), sizeof label);
        dt_buf_put_str(out, "</text>");
    }
    dt_buf_put_str(out, "</svg>");
}

static void put_grid(struct dt_buf *out, const struct dt_scale *s, bool across)
{
    double ticks[DT_SCALE_TICKS];
    size_t n = dt_scale_ticks(s, ticks);
    dt_buf_put_str(out, "<path class=\"grid\" d=\"");
    for (size_t i = 0; i < n; i++) {
        double place = dt_scale_place(s, ticks[i]);
        dt_buf_put_str(out, across ? "M0 " : "M");
        dt_markup_number(out, across ? (1 - place) * HEIGHT : place * WIDTH, 2);
        dt_buf_put_str(out, across ? "H1000" : " 0V100");
    }
    dt_buf_put_str(out, "\"/>");
}

/* Where no round ran, and where one failed. */
static void put_bands(struct dt_buf *out, const struct dt_chart_frame *f)
{
    const struct dt_report *r = f->report;
    for (size_t i = 0; i < r->round_count; i++) {
        const struct dt_report_round *round = &r->rounds[i], *next = round + 1;
        if (round->ended_us == DT_REPORT_UNKNOWN)
            continue;
        double from = dt_chart_place(f, round->ended_us), to = from;
        if (i + 1 < r->round_count && next->began_us != DT_REPORT_UNKNOWN)
            to = dt_chart_place(f, next->began_us);
        if (to - from > 0.0005) {
            dt_buf_put_str(out, "<rect class=\"gap\" y=\"0\" height=\"100\" x=\"");
            dt_markup_number(out, from * WIDTH, 2);
            dt_buf_put_str(out, "\" width=\"");
            dt_markup_number(out, (to - from) * WIDTH, 2);
            dt_buf_put_str(out, "\"/>");
        }
        if (round->end != DT_REPORT_WELL) {
            dt_buf_put_str(out, "<path class=\"end\" d=\"M");
            dt_markup_number(out, from * WIDTH, 2);
            dt_buf_put_str(out, " 0V100\"/>");
        }
    }
}

/* -- a chart ---------------------------------------------------------------------------------- */

void dt_chart_open(struct dt_buf *out, const struct dt_chart_frame *f, const struct dt_chart *c)
{
    dt_buf_printf(out, "<figure class=\"chart\" id=\"%s\"><figcaption><b>%s</b> ", c->id, c->title);
    if (*c->unit)
        dt_buf_printf(out, "<span class=\"unit\">%s</span> ", c->unit);
    dt_buf_put_str(out, c->key ? c->key : "");
    dt_buf_put_str(out, "<output></output></figcaption><div class=\"panel\">");
    put_values(out, c);
    dt_buf_printf(out,
                  "<svg class=\"plot\" width=\"100%%\" height=\"%d\" role=\"img\" "
                  "aria-labelledby=\"%s-title %s-words\"><title id=\"%s-title\">%s</title>"
                  "<desc id=\"%s-words\">",
                  c->height + HEAD + FOOT, c->id, c->id, c->id, c->title, c->id);
    dt_markup_text(out, c->words, 1000);
    dt_buf_printf(out,
                  "</desc><svg class=\"ink\" y=\"%d\" width=\"100%%\" height=\"%d\" "
                  "viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\">",
                  HEAD, c->height);
    put_bands(out, f);
    put_grid(out, &c->y, true);
    put_grid(out, &f->time, false);
}

/* One place on the picture; far outside of it is as good as a little. */
static void put_place(struct dt_buf *out, const struct dt_chart *c, struct dt_point p)
{
    double y = (1 - dt_scale_place(&c->y, p.y)) * HEIGHT;
    dt_markup_number(out, p.x * WIDTH, 1);
    dt_buf_put_u8(out, ' ');
    dt_markup_number(out, y < -10 ? -10 : y > 110 ? 110 : y, 2);
}

static bool is_shown(const struct dt_chart *c, struct dt_point p)
{
    return isfinite(dt_scale_place(&c->y, p.y)) && isfinite(p.x);
}

/* A point between two breaks is a line of no length, which the style's round ends show. */
void dt_chart_line(struct dt_buf *out, const struct dt_chart *c, const char *kind,
                   const struct dt_point *points, size_t count)
{
    bool drawing = false;
    dt_buf_printf(out, "<path class=\"line %s\" d=\"", kind);
    for (size_t i = 0; i < count; i++) {
        if (!is_shown(c, points[i])) {
            drawing = false;
            continue;
        }
        dt_buf_put_str(out, drawing ? "L" : "M");
        put_place(out, c, points[i]);
        if (!drawing && (i + 1 == count || !is_shown(c, points[i + 1])))
            dt_buf_put_str(out, "h0");
        drawing = true;
    }
    dt_buf_put_str(out, "\"/>");
}

void dt_chart_area(struct dt_buf *out, const struct dt_chart *c, const char *kind,
                   const struct dt_point *low, const struct dt_point *high, size_t count)
{
    dt_buf_printf(out, "<path class=\"area %s\" d=\"", kind);
    for (size_t i = 0, n; i < count; i += n ? n : 1) {
        for (n = 0; i + n < count && is_shown(c, low[i + n]) && is_shown(c, high[i + n]); n++) {
            dt_buf_put_str(out, n ? "L" : "M");
            put_place(out, c, high[i + n]);
        }
        for (size_t k = n; k > 0; k--) {
            dt_buf_put_u8(out, 'L');
            put_place(out, c, low[i + k - 1]);
        }
        dt_buf_put_str(out, n ? "Z" : "");
    }
    dt_buf_put_str(out, "\"/>");
}

void dt_chart_close(struct dt_buf *out, const struct dt_chart_frame *f, const struct dt_chart *c)
{
    dt_buf_put_str(out, "</svg>");
    put_times(out, f, c->height + HEAD + FOOT - 4);
    dt_buf_put_str(out, "</svg></div></figure>\n");
}

/* -- rounds ----------------------------------------------------------------------------------- */

#define BAR_Y 8
#define BAR_HEIGHT 24
#define LEAST 0.003 /* of the axis, that a round takes */
#define MARK_Y 45   /* of checkpoints and standstills */
#define LANE 56     /* above the labels of the time */
#define APART 0.006 /* that marks of one kind have to be, to be seen as two */

/* A shape of ten pixels around a place, whatever the width of the page. */
static void put_mark(struct dt_buf *out, const char *kind, double place, int y, const char *shape)
{
    dt_buf_printf(out, "<svg class=\"mark\" y=\"%d\"", y);
    put_percent(out, "x", place);
    dt_buf_printf(out, "><path class=\"%s\" d=\"%s\"/></svg>", kind, shape);
}

static const struct {
    const char *name, *words;
} kinds[] = {
    [DT_REPORT_OPEN] = {"open", "has not ended"},
    [DT_REPORT_WELL] = {"well", "went well"},
    [DT_REPORT_FAILED] = {"failed", "failed"},
    [DT_REPORT_CUT] = {"cut", "was cut short"},
};

static void put_round(struct dt_buf *out, const struct dt_chart_frame *f,
                      const struct dt_report_round *round)
{
    const struct dt_report *r = f->report;
    bool open = round->ended_us == DT_REPORT_UNKNOWN;
    int64_t began = round->began_us == DT_REPORT_UNKNOWN ? r->zero_us : round->began_us;
    double from = dt_chart_place(f, began);
    double to = dt_chart_place(f, open ? r->end_us : round->ended_us);
    const char *kind = kinds[round->end].name, *how = kinds[round->end].words;
    from = from < 1 - LEAST ? from : 1 - LEAST;
    to = to - from > LEAST ? to : from + LEAST;
    dt_buf_printf(out,
                  "<a href=\"#round-%d\" aria-label=\"Round %d %s\"><title>Round %d %s</title>",
                  round->round, round->round, how, round->round, how);
    dt_buf_printf(out, "<rect class=\"bar %s\" y=\"%d\" height=\"%d\" rx=\"3\"", kind, BAR_Y,
                  BAR_HEIGHT);
    put_percent(out, "x", from);
    put_percent(out, "width", to - from);
    dt_buf_put_str(out, "/>");
    if (to - from > 0.05) {
        dt_buf_printf(out, "<text class=\"on\" y=\"%d\" text-anchor=\"middle\"", BAR_Y + 16);
        put_percent(out, "x", (from + to) / 2);
        dt_buf_printf(out, ">%d</text>", round->round);
    }
    dt_buf_put_str(out, "</a>");
}

static void put_failures(struct dt_buf *out, const struct dt_chart_frame *f)
{
    double last = -1;
    for (size_t i = 0; i < f->report->round_count; i++) {
        const struct dt_report_round *round = &f->report->rounds[i];
        if (round->end != DT_REPORT_FAILED || round->ended_us == DT_REPORT_UNKNOWN)
            continue;
        double place = dt_chart_place(f, round->ended_us);
        if (place - last < APART)
            continue;
        put_mark(out, "failure", place, BAR_Y + BAR_HEIGHT / 2, "M-4-4L4 4M4-4L-4 4");
        last = place;
    }
}

static void put_saves(struct dt_buf *out, const struct dt_chart_frame *f)
{
    double last = -1;
    for (size_t i = 0; i < f->report->step_count; i++) {
        const struct dt_report_step *s = &f->report->steps[i];
        double place = dt_chart_place(f, s->at_us);
        if (!(s->v[DT_REPORT_CHECKPOINT] > 0) || place - last < APART)
            continue;
        put_mark(out, "save", place, MARK_Y, "M0-5L5 4H-5Z");
        last = place;
    }
}

static void put_hangs(struct dt_buf *out, const struct dt_chart_frame *f)
{
    for (size_t i = 0; i < f->report->hang_count; i++)
        if (f->report->hangs[i].at_us != DT_REPORT_UNKNOWN)
            put_mark(out, "hang", dt_chart_place(f, f->report->hangs[i].at_us), MARK_Y,
                     "M-4-5V5M0-5V5M4-5V5");
}

void dt_chart_rounds(struct dt_buf *out, const struct dt_chart_frame *f)
{
    dt_buf_printf(out,
                  "<figure class=\"chart\" id=\"rounds-chart\"><figcaption><b>Rounds</b>"
                  "<ul class=\"key\"><li class=\"well\">went well</li><li class=\"failed\">failed"
                  "</li><li class=\"cut\">cut short</li><li class=\"open\">not over</li>"
                  "<li class=\"cross\">failure</li>"
                  "<li class=\"save\">checkpoint</li>%s</ul></figcaption><div class=\"panel\">",
                  f->report->hang_count ? "<li class=\"hang\">stood still</li>" : "");
    dt_buf_printf(out,
                  "<svg class=\"values\" width=\"%d\" height=\"%d\" aria-hidden=\"true\"></svg>"
                  "<svg class=\"plot\" width=\"100%%\" height=\"%d\" role=\"group\" "
                  "aria-label=\"Rounds on the time axis\">",
                  Y_WIDTH, LANE + FOOT, LANE + FOOT);
    for (size_t i = 0; i < f->report->round_count; i++)
        put_round(out, f, &f->report->rounds[i]);
    put_failures(out, f);
    put_saves(out, f);
    put_hangs(out, f);
    put_times(out, f, LANE + FOOT - 4);
    dt_buf_put_str(out, "</svg></div></figure>\n");
}
