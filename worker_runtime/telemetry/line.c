/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/telemetry/line.h"

#include <inttypes.h>
#include <math.h>

#define BAR_LEAST 10
#define BAR_MOST 60

#define YELLOW "\033[33m"
#define CYAN "\033[36m"
#define PLAIN "\033[0m"

void dt_line_put_step(struct dt_buf *out, int64_t step, int64_t steps)
{
    dt_buf_printf(out, "step %" PRId64, step);
    if (steps > 0)
        dt_buf_printf(out, "/%" PRId64, steps);
}

void dt_line_put_loss(struct dt_buf *out, double loss)
{
    double size = fabs(loss);
    bool plain = size == 0 || (size >= 0.001 && size < 100000);
    dt_buf_printf(out, plain ? "loss %.4f" : "loss %.3e", loss);
}

void dt_line_put_preferences(struct dt_buf *out, const struct dt_preference_metrics *p)
{
    dt_buf_printf(out, "  rewards %.3f %.3f  margin %.3f  right %.0f %%", p->chosen, p->rejected,
                  p->margin, 100 * p->accuracy);
}

static void put_rate(struct dt_buf *out, double rate)
{
    if (rate >= 1e6)
        dt_buf_printf(out, "%.2fM tok/s", rate / 1e6);
    else if (rate >= 1e3)
        dt_buf_printf(out, "%.1fk tok/s", rate / 1e3);
    else
        dt_buf_printf(out, "%.0f tok/s", rate);
}

/* As many digits as tell something of a step that takes TOTAL. */
static int digits_for(double total)
{
    return total >= 100 ? 0 : total >= 10 ? 1 : 2;
}

static void put_breakdown(struct dt_buf *out, const struct dt_step_metrics *s)
{
    const struct {
        const char *name;
        double ms;
    } parts[] = {
        {"fwd", s->forward_ms},   {"bwd", s->backward_ms}, {"comm", s->communication_ms},
        {"opt", s->optimizer_ms}, {"data", s->data_ms},
    };
    const char *before = " (";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (isnan(parts[i].ms))
            continue;
        dt_buf_printf(out, "%s%s %.*f", before, parts[i].name, digits_for(s->ms), parts[i].ms);
        before = " ";
    }
    if (before[1] == '\0')
        dt_buf_put_str(out, ")");
}

static void put_skipped(struct dt_buf *out, const struct dt_step_metrics *s, bool color)
{
    dt_buf_printf(out, "  %sskipped (overflow)%s", color ? YELLOW : "", color ? PLAIN : "");
    if (s->loss_scale > 0)
        dt_buf_printf(out, "  scale %.6g", s->loss_scale);
}

void dt_line_put(struct dt_buf *out, const struct dt_step_metrics *s, bool breakdown, bool color)
{
    dt_line_put_step(out, s->step, s->steps);
    dt_buf_put_str(out, "  ");
    dt_line_put_loss(out, s->loss);
    if (s->preferences.told)
        dt_line_put_preferences(out, &s->preferences);
    if (!isnan(s->lr))
        dt_buf_printf(out, "  lr %.2e", s->lr);
    if (!isnan(s->grad_norm))
        dt_buf_printf(out, "  norm %.2f", s->grad_norm);
    if (!isnan(s->tokens_per_s)) {
        dt_buf_put_str(out, "  ");
        put_rate(out, s->tokens_per_s);
    }
    if (!isnan(s->ms))
        dt_buf_printf(out, "  %.*f ms", digits_for(s->ms), s->ms);
    if (breakdown)
        put_breakdown(out, s);
    if (s->skipped)
        put_skipped(out, s, color);
}

static void put_left(struct dt_buf *out, double ms)
{
    double s = ms / 1000;
    if (s < 99.5)
        dt_buf_printf(out, "%.0f s left", s);
    else if (s < 99.5 * 60)
        dt_buf_printf(out, "%.0f min left", s / 60);
    else if (s < 48 * 3600)
        dt_buf_printf(out, "%.1f h left", s / 3600);
    else
        dt_buf_printf(out, "%.1f days left", s / 86400);
}

/* PIECE behind TAIL where columns are left for it. */
static void add_if_fits(struct dt_buf *tail, struct dt_buf *piece, size_t room)
{
    if (tail->len + 2 + piece->len <= room) {
        dt_buf_put_str(tail, "  ");
        dt_buf_put(tail, piece->at, piece->len);
    }
    dt_buf_clear(piece);
}

static void put_tail(struct dt_buf *tail, const struct dt_step_metrics *s, double left_ms,
                     size_t room)
{
    struct dt_buf piece = {0};
    if (left_ms >= 0 && left_ms < 1e13) {
        put_left(&piece, left_ms);
        add_if_fits(tail, &piece, room);
    }
    dt_line_put_loss(&piece, s->loss);
    add_if_fits(tail, &piece, room);
    if (!isnan(s->tokens_per_s)) {
        put_rate(&piece, s->tokens_per_s);
        add_if_fits(tail, &piece, room);
    }
    dt_buf_finish(&piece);
}

/* WIDTH with its brackets. */
static void put_gauge(struct dt_buf *out, double share, size_t width, bool color)
{
    size_t inner = width - 2, full = (size_t)(share * (double)inner);
    dt_buf_put_str(out, color ? "[" CYAN : "[");
    for (size_t i = 0; i < inner; i++)
        dt_buf_put_u8(out, i < full ? '=' : i == full ? '>' : ' ');
    dt_buf_put_str(out, color ? PLAIN "]" : "]");
}

static void put_known(struct dt_buf *out, const struct dt_step_metrics *s, double left_ms,
                      size_t columns, bool color)
{
    double share = (double)s->step / (double)s->steps;
    share = share > 1 ? 1 : share > 0 ? share : 0;
    struct dt_buf tail = {0};
    dt_buf_printf(&tail, "%" PRId64 "/%" PRId64, s->step, s->steps);
    size_t start = 5, count = tail.len; /* " 12% " */
    bool gauge = columns >= start + BAR_LEAST + 1 + count;
    size_t before = start + (gauge ? BAR_LEAST + 1 : 0);
    put_tail(&tail, s, left_ms, columns > before ? columns - before : 0);
    if (start + tail.len <= columns)
        dt_buf_printf(out, "%3d%% ", (int)(share * 100));
    if (gauge) {
        size_t width = columns - start - 1 - tail.len;
        put_gauge(out, share, width < BAR_MOST ? width : BAR_MOST, color);
        dt_buf_put_u8(out, ' ');
    }
    dt_buf_put(out, tail.at, tail.len < columns ? tail.len : columns);
    dt_buf_finish(&tail);
}

void dt_line_put_bar(struct dt_buf *out, const struct dt_step_metrics *s, double left_ms,
                     size_t columns, bool color)
{
    if (s->steps > 0) {
        put_known(out, s, left_ms, columns, color);
        return;
    }
    struct dt_buf text = {0};
    dt_line_put_step(&text, s->step, 0);
    put_tail(&text, s, -1, columns);
    dt_buf_put(out, text.at, text.len < columns ? text.len : columns);
    dt_buf_finish(&text);
}
