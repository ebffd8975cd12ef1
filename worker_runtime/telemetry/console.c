/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/telemetry/console.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/say.h"
#include "worker_runtime/telemetry/line.h"

#define REDRAW_EVERY ((dt_ms)100)
#define CLEAR_REST "\033[K"

void dt_metrics_console_init(struct dt_metrics_console *c, const struct dt_metrics_options *o)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    bool capable = term && term[0] && strcmp(term, "dumb") != 0;
    *c =
        (struct dt_metrics_console){.to = o->console, .program = o->program, .columns = o->columns};
    c->bar = o->console && o->terminal && capable;
    c->color = c->bar && !(no_color && no_color[0]);
}

/* One less than there are: behind the last one some terminals go to the next line. */
static size_t columns_of(const struct dt_metrics_console *c)
{
    struct winsize w = {0};
    int columns = c->columns;
    if (columns <= 0 && ioctl(fileno(c->to), TIOCGWINSZ, &w) == 0)
        columns = w.ws_col;
    return columns > 1 ? (size_t)columns - 1 : 79;
}

static void put_bar(struct dt_metrics_console *c, struct dt_buf *out)
{
    int64_t left = c->at.steps - c->at.step;
    double left_ms = c->step_ms > 0 && left >= 0 ? c->step_ms * (double)left : -1;
    dt_line_put_bar(out, &c->at, left_ms, columns_of(c), c->color);
    dt_buf_put_str(out, CLEAR_REST);
    c->drawn = true;
}

/* A console that cannot be written to is no reason to stop training. */
static void show(struct dt_metrics_console *c, struct dt_buf *out)
{
    if (!out->bad && out->len && fwrite(out->at, 1, out->len, c->to) == out->len)
        fflush(c->to);
    clearerr(c->to);
    dt_buf_finish(out);
}

/* The mean of some twenty steps of late: what is left takes as long as these did. */
static void learn(struct dt_metrics_console *c, double ms)
{
    if (!(ms > 0) || !isfinite(ms))
        return;
    if (c->learned < 20)
        c->learned++;
    c->step_ms += (ms - c->step_ms) / c->learned;
}

void dt_metrics_console_progress(struct dt_metrics_console *c, const struct dt_step_metrics *s,
                                 dt_ms now)
{
    if (!c->bar)
        return;
    c->at = *s;
    learn(c, s->ms);
    if (c->drawn && now < c->redraw_at)
        return;
    struct dt_buf out = {0};
    dt_buf_put_str(&out, "\r");
    put_bar(c, &out);
    show(c, &out);
    c->redraw_at = dt_clock_after(now, REDRAW_EVERY);
}

void dt_metrics_console_line(struct dt_metrics_console *c, struct dt_bytes text)
{
    if (!c->to)
        return;
    struct dt_buf out = {0};
    bool over = c->drawn;
    dt_buf_put_str(&out, over ? "\r" : "");
    dt_buf_put(&out, text.at, text.len);
    dt_buf_put_str(&out, over ? CLEAR_REST "\n" : "\n");
    if (over)
        put_bar(c, &out);
    show(c, &out);
}

void dt_metrics_console_warn(struct dt_metrics_console *c, const char *lines)
{
    bool over = c->drawn;
    dt_metrics_console_finish(c);
    dt_say_lines(c->program, lines);
    if (!over)
        return;
    struct dt_buf out = {0};
    put_bar(c, &out);
    show(c, &out);
}

void dt_metrics_console_finish(struct dt_metrics_console *c)
{
    if (!c->to || !c->drawn)
        return;
    struct dt_buf out = {0};
    dt_buf_put_str(&out, "\r" CLEAR_REST);
    show(c, &out);
    c->drawn = false;
}
