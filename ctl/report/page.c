/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/report/page.h"

#include "base/clock.h"
#include "base/palette/palette.h"
#include "ctl/report/chart.h"
#include "ctl/report/markup.h"
#include "ctl/report/plots.h"
#include "ctl/report/style.h"
#include "ctl/report/tables.h"
#include "ctl/report/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME_SHOWN 200

static const struct dt_report_round *last_round(const struct dt_report *r)
{
    return r->round_count ? &r->rounds[r->round_count - 1] : NULL;
}

static size_t rounds_that(const struct dt_report *r, enum dt_report_end end)
{
    size_t n = 0;
    for (size_t i = 0; i < r->round_count; i++)
        n += r->rounds[i].end == end;
    return n;
}

/* The furthest step that counts, which what workers told of a lost one may not; -1: none is known.
 */
static int64_t furthest(const struct dt_report *r)
{
    int64_t step = -1;
    for (size_t i = 0; i < r->step_count; i++)
        if (!r->steps[i].redone && r->steps[i].step > step)
            step = r->steps[i].step;
    for (size_t i = 0; r->step_count == 0 && i < r->round_count; i++)
        step = r->rounds[i].told_step > step ? r->rounds[i].told_step : step;
    return step;
}

static double goodput(const struct dt_report *r)
{
    return r->costs.all > 0 ? r->costs.useful / r->costs.all : 0;
}

/* -- the beginning ---------------------------------------------------------------------------- */

static void put_head(struct dt_buf *out, const struct dt_report *r)
{
    dt_buf_put_str(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
                        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"
                        "<meta name=\"generator\" content=\"dtrun-ctl " DT_VERSION "\"/>"
                        "<title>Run ");
    dt_markup_text(out, r->name, NAME_SHOWN);
    dt_buf_put_str(out, "</title>\n<style>\n");
    dt_buf_put_str(out, dt_palette);
    dt_buf_put_str(out, dt_report_style);
    dt_buf_put_str(out, "</style></head>\n<body>\n<header><h1>Run ");
    dt_markup_text(out, r->name, NAME_SHOWN);
    dt_buf_put_str(out, "</h1>\n");
}

/* "GPT-2 with 1.2 M parameters · 2 ranks on 1 node · CPU" */
static void put_facts(struct dt_buf *out, const struct dt_report *r)
{
    const struct dt_report_round *round = last_round(r);
    const char *between = "";
    dt_buf_put_str(out, "<p class=\"soft\">");
    if (r->model) {
        dt_markup_text(out, r->model, NAME_SHOWN);
        between = " \xc2\xb7 ";
    }
    if (round && round->ranks > 0 && round->nodes > 0) {
        dt_buf_printf(out, "%s%" PRId64 " rank%s on %" PRId64 " node%s", between, round->ranks,
                      dt_words_plural(round->ranks), round->nodes, dt_words_plural(round->nodes));
        between = " \xc2\xb7 ";
    }
    if (r->device) {
        dt_buf_put_str(out, between);
        dt_markup_text(out, r->device, NAME_SHOWN);
    }
    dt_buf_put_str(out, "</p>\n");
}

static void put_when(struct dt_buf *out, const struct dt_report *r)
{
    char from[DT_CLOCK_TEXT], to[DT_CLOCK_TEXT];
    const struct dt_report_round *round = last_round(r);
    if (r->zero_us == 0)
        return;
    dt_buf_printf(out, "<p class=\"soft\">%s to %s", dt_words_moment(r->zero_us, from),
                  dt_words_moment(r->end_us, to));
    if (round) {
        dt_buf_put_str(out, " \xc2\xb7 ");
        dt_markup_text(out, round->decided ? round->decided : "the last round has not ended",
                       NAME_SHOWN);
    }
    dt_buf_put_str(out, "</p>\n");
}

/* What a person would say of it first. */
static void put_lead(struct dt_buf *out, const struct dt_report *r)
{
    char time[32];
    size_t failed = rounds_that(r, DT_REPORT_FAILED), cut = rounds_that(r, DT_REPORT_CUT);
    int64_t step = furthest(r), again = r->costs.redone_steps;
    dt_buf_put_str(out, "<p class=\"lead\">");
    if (r->round_count == 0 && r->step_count == 0)
        dt_buf_put_str(out, "Nothing is known of this run: its folder tells of no round, and there "
                            "are no metrics.");
    if (step >= 0)
        dt_buf_printf(out, "The run came to step %" PRId64 " in %s. ", step,
                      dt_words_time(r->costs.all, time));
    else if (r->round_count > 0)
        dt_buf_printf(out, "The run took %s. ", dt_words_time(r->costs.all, time));
    if (r->step_count)
        dt_buf_printf(out, "%.1f %% of that went into steps that count. ", 100 * goodput(r));
    if (failed)
        dt_buf_printf(out, "%zu of %zu round%s failed. ", failed, r->round_count,
                      dt_words_plural((int64_t)r->round_count));
    if (cut)
        dt_buf_printf(out, "%zu of %zu round%s %s cut short. ", cut, r->round_count,
                      dt_words_plural((int64_t)r->round_count), cut == 1 ? "was" : "were");
    if (failed + cut && r->step_count && again == 0)
        dt_buf_put_str(out, "No step was done twice.");
    else if (again > 0)
        dt_buf_printf(out, "%" PRId64 " step%s had to be done again.", again,
                      dt_words_plural(again));
    dt_buf_put_str(out, "</p></header>\n");
}

/* -- tiles ------------------------------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static void put_tile(struct dt_buf *out, const char *name,
                                                           const char *fmt, ...)
{
    va_list ap;
    dt_buf_printf(out, "<div><dt>%s</dt><dd>", name);
    va_start(ap, fmt);
    dt_buf_vprintf(out, fmt, ap);
    va_end(ap);
    dt_buf_put_str(out, "</dd></div>");
}

static double median_of(const struct dt_report *r, enum dt_report_series what)
{
    double *values = calloc(r->step_count + 1, sizeof *values), middle = NAN;
    size_t n = 0;
    for (size_t i = 0; values && i < r->step_count; i++)
        if (isfinite(r->steps[i].v[what]))
            values[n++] = r->steps[i].v[what];
    if (n)
        middle = dt_words_median(values, n);
    free(values);
    return middle;
}

static double last_loss(const struct dt_report *r)
{
    for (size_t i = r->step_count; i > 0; i--)
        if (!r->steps[i - 1].redone)
            return r->steps[i - 1].v[DT_REPORT_LOSS];
    return NAN;
}

static void put_rates(struct dt_buf *out, const struct dt_report *r)
{
    char label[DT_SCALE_LABEL], time[32];
    double tokens = median_of(r, DT_REPORT_TOKENS_PER_S), ms = median_of(r, DT_REPORT_MS);
    struct dt_scale scale = dt_scale_linear(0, tokens, 100);
    if (isfinite(ms))
        put_tile(out, "A step", "%s <small>median</small>", dt_words_time(ms * 1e-3, time));
    if (isfinite(tokens))
        put_tile(out, "Tokens/s", "%s <small>median</small>",
                 dt_scale_label(&scale, tokens, label));
}

static void put_tiles(struct dt_buf *out, const struct dt_report *r)
{
    char time[32];
    int64_t step = furthest(r);
    size_t failed = rounds_that(r, DT_REPORT_FAILED), cut = rounds_that(r, DT_REPORT_CUT);
    if (r->round_count == 0 && r->step_count == 0)
        return;
    dt_buf_put_str(out, "<dl class=\"tiles\">");
    if (step >= 0 && r->steps_wanted > 0)
        put_tile(out, "Steps", "%" PRId64 " <small>of %" PRId64 "</small>", step, r->steps_wanted);
    else if (step >= 0)
        put_tile(out, "Steps", "%" PRId64, step);
    if (isfinite(last_loss(r)))
        put_tile(out, "Last loss", "%.4g", last_loss(r));
    put_rates(out, r);
    if (r->step_count) {
        put_tile(out, "Goodput", "%.1f %% <small>of %s</small>", 100 * goodput(r),
                 dt_words_time(r->costs.all, time));
        put_tile(out, "Steps done again", "%" PRId64 " <small>%s</small>", r->costs.redone_steps,
                 dt_words_time(r->costs.redone, time));
    }
    if (r->round_count)
        put_tile(out, "Rounds", "%zu <small>%zu %s</small>", r->round_count, failed ? failed : cut,
                 failed || cut == 0 ? "failed" : "cut short");
    dt_buf_put_str(out, "</dl>\n");
}

/* -- where the time went ---------------------------------------------------------------------- */

struct share {
    const char *kind, *title;
    double seconds;
};

static void put_bar(struct dt_buf *out, const struct share *shares, size_t count, double all)
{
    double from = 0;
    dt_buf_put_str(out, "<svg class=\"split\" width=\"100%\" height=\"26\" aria-hidden=\"true\">");
    for (size_t i = 0; i < count; i++) {
        double part = shares[i].seconds / all * 100;
        dt_buf_printf(out, "<rect class=\"%s\" height=\"26\" x=\"%.3f%%\" width=\"%.3f%%\"/>",
                      shares[i].kind, from, from + part < 100 ? part : 100 - from);
        from = fmin(from + part, 100);
    }
    dt_buf_put_str(out, "</svg>\n<ul class=\"key\">");
    for (size_t i = 0; i < count; i++) {
        char time[32];
        dt_buf_printf(out, "<li class=\"%s\">%s %s, %.1f %%</li>", shares[i].kind, shares[i].title,
                      dt_words_time(shares[i].seconds, time), shares[i].seconds / all * 100);
    }
    dt_buf_put_str(out, "</ul>\n");
}

static void put_costs(struct dt_buf *out, const struct dt_report *r)
{
    const struct dt_report_costs *c = &r->costs;
    const struct share shares[] = {
        {"useful", "steps that count", c->useful},
        {"redone", "steps done again later", c->redone},
        {"saving", "waiting for checkpoints", c->saving},
        {"keeping", "copies into the vault", c->keeping},
        {"starting", "starting, up to the first step of a round", c->starting},
        {"between", "between rounds", c->between},
        {"other", r->step_count ? "other" : "in rounds", c->other},
    };
    struct share told[sizeof shares / sizeof *shares];
    size_t n = 0;
    if (c->all <= 0)
        return;
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        if (shares[i].seconds > 0)
            told[n++] = shares[i];
    dt_buf_put_str(out, "<section><h2>Where the time went</h2>\n");
    put_bar(out, told, n, c->all);
    dt_buf_put_str(out, "</section>\n");
}

/* -- all of it -------------------------------------------------------------------------------- */

static int put_charts(struct dt_buf *out, const struct dt_report *r, struct dt_err *err)
{
    struct dt_chart_frame f = dt_chart_frame(r);
    if (r->zero_us == 0)
        return 0;
    dt_buf_put_str(out, "<section><h2>On one time axis</h2>\n");
    if (r->round_count)
        dt_chart_rounds(out, &f);
    if (dt_plots_put(out, &f, err) < 0)
        return -1;
    dt_buf_put_str(out, "</section>\n");
    return 0;
}

static void put_script(struct dt_buf *out, const struct dt_report *r)
{
    struct dt_chart_frame f = dt_chart_frame(r);
    if (r->step_count == 0)
        return;
    dt_buf_put_str(out, "<script type=\"application/json\" id=\"samples\">");
    dt_plots_put_samples(out, &f);
    dt_buf_put_str(out, "</script>\n<script>\n");
    dt_buf_put_str(out, dt_report_script);
    dt_buf_put_str(out, "</script>\n");
}

static void put_foot(struct dt_buf *out, const struct dt_report *r)
{
    dt_buf_put_str(out, "<footer><p>Times are UTC. Made by dtrun-ctl " DT_VERSION ".");
    if (r->earlier_steps)
        dt_buf_printf(out,
                      " %zu step%s of the metrics were done before this run began, and are "
                      "left out.",
                      r->earlier_steps, dt_words_plural((int64_t)r->earlier_steps));
    if (r->strange_lines)
        dt_buf_printf(out, " %zu line%s of the metrics made no sense, and were left out.",
                      r->strange_lines, dt_words_plural((int64_t)r->strange_lines));
    if (r->trouble) {
        dt_buf_put_str(out, " There are no metrics: ");
        dt_markup_text(out, r->trouble, sizeof(struct dt_err));
        dt_buf_put_u8(out, '.');
    }
    if (r->too_many)
        dt_buf_put_str(out, " There was more than a page can hold: it is not complete.");
    dt_buf_put_str(out, "</p></footer>\n");
}

int dt_report_page_put(const struct dt_report *r, struct dt_buf *out, struct dt_err *err)
{
    put_head(out, r);
    put_facts(out, r);
    put_when(out, r);
    put_lead(out, r);
    dt_buf_put_str(out, "<main>\n");
    put_tiles(out, r);
    put_costs(out, r);
    if (put_charts(out, r, err) < 0)
        return -1;
    dt_tables_put(out, r);
    dt_buf_put_str(out, "</main>\n");
    put_foot(out, r);
    put_script(out, r);
    dt_buf_put_str(out, "</body></html>\n");
    return out->bad ? dt_err_set(err, DT_E_MEMORY, "no memory for the page of this report") : 0;
}
