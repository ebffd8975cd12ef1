/* SPDX-License-Identifier: Apache-2.0 */
/* Each step goes to the console, the JSON lines and the csv files. What cannot be written is said
 * once and does not end the training it is about. */
#include "worker_runtime/telemetry/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "worker_runtime/telemetry/console.h"
#include "worker_runtime/telemetry/csv.h"
#include "worker_runtime/telemetry/line.h"
#include "worker_runtime/telemetry/series.h"

#define STEP "step"
#define JSON_OPENING "{\"" STEP "\":" /* how a line of the file begins */

struct dt_metrics {
    struct dt_metrics_console console;
    int64_t every, round;
    bool first, breakdown;
    int64_t steps; /* of the step before */
    struct dt_series jsonl;
    struct dt_csv csv;
    bool csv_failed; /* and it was said */
    char back[256];  /* for the next step's line; "": nothing */
};

static int64_t step_of(const char *line, size_t len)
{
    char digits[24];
    size_t skip = sizeof JSON_OPENING - 1, n = 0;
    if (len < skip || memcmp(line, JSON_OPENING, skip) != 0)
        return -1;
    while (skip + n < len && n < sizeof digits - 1 && line[skip + n] >= '0' &&
           line[skip + n] <= '9') {
        digits[n] = line[skip + n];
        n++;
    }
    digits[n] = '\0';
    return n ? strtoll(digits, NULL, 10) : -1;
}

static void warn(struct dt_metrics *m, const struct dt_err *err)
{
    char text[sizeof err->text + 40];
    snprintf(text, sizeof text, "%s; training goes on without", err->text);
    dt_metrics_warn(m, text);
}

/* In the first round whatever is cut is of another job. */
static void keep_redone(struct dt_metrics *m, int64_t first_step)
{
    DT_AUTO_FREE char *path = NULL;
    struct dt_err err;
    if (m->round == 0)
        return;
    if (asprintf(&path, "%s.redone", m->jsonl.path) < 0)
        path = NULL;
    if (path && dt_series_keep(&m->jsonl, step_of, first_step, path, &err) < 0)
        warn(m, &err);
}

static int open_jsonl(struct dt_metrics *m, const char *path, int64_t first_step,
                      struct dt_err *err)
{
    if (dt_series_open(&m->jsonl, path, JSON_OPENING, err) < 0)
        return -1;
    keep_redone(m, first_step);
    return dt_series_cut(&m->jsonl, step_of, first_step, err);
}

struct dt_metrics *dt_metrics_open(const struct dt_metrics_options *o, int64_t first_step,
                                   struct dt_err *err)
{
    struct dt_metrics *m = calloc(1, sizeof *m);
    if (!m) {
        dt_err_set(err, DT_E_MEMORY, "no memory for metrics");
        return NULL;
    }
    m->every = o->every;
    m->first = o->first;
    m->steps = o->steps;
    m->round = o->round;
    m->breakdown = o->breakdown;
    dt_metrics_console_init(&m->console, o);
    if ((!o->jsonl || open_jsonl(m, o->jsonl, first_step, err) == 0) &&
        (!o->csv_path ||
         dt_csv_open(&m->csv, o->csv_path, o->csv_job ? o->csv_job : "DeepSpeedJobName", err) == 0))
        return m;
    dt_metrics_close(m);
    return NULL;
}

void dt_metrics_close(struct dt_metrics *m)
{
    if (!m)
        return;
    dt_metrics_console_finish(&m->console);
    dt_series_close(&m->jsonl);
    dt_csv_close(&m->csv);
    free(m);
}

/* A line of the file, to be ended with end_object(). */
static struct dt_json_writer begin_object(const struct dt_metrics *m, struct dt_buf *out,
                                          int64_t step)
{
    char time[DT_CLOCK_TEXT];
    struct dt_json_writer w = {.out = out};
    dt_clock_format(dt_clock_wall_us(), time);
    dt_json_put_object(&w, NULL);
    dt_json_put_int(&w, STEP, step);
    dt_json_put_text(&w, "time", time);
    dt_json_put_int(&w, "round", m->round);
    return w;
}

static void end_object(struct dt_json_writer *w)
{
    dt_json_put_end(w);
    dt_buf_put_u8(w->out, '\n');
}

static void put_preferences(struct dt_json_writer *w, const struct dt_preference_metrics *p,
                            const char *before)
{
    const struct {
        const char *name;
        double value;
    } rows[] = {{"reward_chosen", p->chosen},
                {"reward_rejected", p->rejected},
                {"reward_margin", p->margin},
                {"reward_accuracy", p->accuracy}};
    char name[40];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(name, sizeof name, "%s%s", before, rows[i].name);
        dt_json_put_number(w, name, rows[i].value);
    }
}

static void put_object(struct dt_metrics *m, struct dt_buf *out, const struct dt_step_metrics *s)
{
    struct dt_json_writer w = begin_object(m, out, s->step);
    dt_json_put_number(&w, "loss", s->loss);
    dt_json_put_number(&w, "lr", s->lr);
    dt_json_put_number(&w, "grad_norm", s->grad_norm);
    dt_json_put_number(&w, "loss_scale", s->loss_scale);
    dt_json_put_bool(&w, "skipped", s->skipped);
    dt_json_put_number(&w, "tokens_per_s", s->tokens_per_s);
    dt_json_put_uint(&w, "samples", s->samples);
    dt_json_put_uint(&w, "tokens", s->tokens);
    dt_json_put_number(&w, "ms", s->ms);
    dt_json_put_number(&w, "forward_ms", s->forward_ms);
    dt_json_put_number(&w, "backward_ms", s->backward_ms);
    dt_json_put_number(&w, "communication_ms", s->communication_ms);
    dt_json_put_number(&w, "optimizer_ms", s->optimizer_ms);
    dt_json_put_number(&w, "data_ms", s->data_ms);
    dt_json_put_number(&w, "checkpoint_ms", s->checkpoint_ms);
    dt_json_put_number(&w, "vault_ms", s->vault_ms);
    dt_json_put_number(&w, "utilisation", s->utilisation);
    if (s->team_bytes > 0)
        dt_json_put_uint(&w, "team_bytes", s->team_bytes);
    if (s->preferences.told)
        put_preferences(&w, &s->preferences, "");
    if (*m->back)
        dt_json_put_text(&w, "back", m->back);
    *m->back = '\0';
    end_object(&w);
}

static void write_jsonl(struct dt_metrics *m, struct dt_buf *line)
{
    struct dt_err err;
    if (!line->bad && dt_series_put(&m->jsonl, (struct dt_bytes){line->at, line->len}, &err) < 0)
        warn(m, &err);
}

static void write_files(struct dt_metrics *m, const struct dt_step_metrics *s)
{
    struct dt_err err;
    struct dt_buf line = {0};
    if (m->jsonl.path) {
        put_object(m, &line, s);
        write_jsonl(m, &line);
    }
    dt_buf_finish(&line);
    if (dt_csv_put(&m->csv, s, &err) == 0)
        return;
    if (!m->csv_failed)
        warn(m, &err);
    m->csv_failed = true; /* one warning for all files */
}

static void say_line(struct dt_metrics *m, struct dt_buf *line)
{
    if (!line->bad)
        dt_metrics_console_line(&m->console, (struct dt_bytes){line->at, line->len});
    dt_buf_finish(line);
}

void dt_metrics_step(struct dt_metrics *m, const struct dt_step_metrics *s)
{
    m->steps = s->steps;
    dt_metrics_console_progress(&m->console, s, dt_clock_monotonic());
    bool due = m->first || s->step % (m->every > 0 ? m->every : 1) == 0 || s->step == s->steps;
    m->first = false;
    if (m->console.to && m->every > 0 && due) {
        struct dt_buf line = {0};
        dt_line_put(&line, s, m->breakdown, m->console.color);
        say_line(m, &line);
    }
    write_files(m, s);
}

void dt_metrics_validation(struct dt_metrics *m, int64_t step, double loss)
{
    struct dt_buf line = {0};
    dt_line_put_step(&line, step, m->steps);
    dt_buf_put_str(&line, "  validation ");
    dt_line_put_loss(&line, loss);
    dt_buf_printf(&line, "  perplexity %.5g", exp(loss));
    say_line(m, &line);
    if (m->jsonl.path) {
        struct dt_json_writer w = begin_object(m, &line, step);
        dt_json_put_number(&w, "validation_loss", loss);
        dt_json_put_number(&w, "perplexity", exp(loss));
        end_object(&w);
        write_jsonl(m, &line);
    }
    dt_buf_finish(&line);
}

void dt_metrics_judged(struct dt_metrics *m, int64_t step, double loss,
                       const struct dt_preference_metrics *p)
{
    struct dt_buf line = {0};
    dt_line_put_step(&line, step, m->steps);
    dt_buf_put_str(&line, "  validation ");
    dt_line_put_loss(&line, loss);
    dt_line_put_preferences(&line, p);
    say_line(m, &line);
    if (m->jsonl.path) {
        struct dt_json_writer w = begin_object(m, &line, step);
        dt_json_put_number(&w, "validation_loss", loss);
        put_preferences(&w, p, "validation_");
        end_object(&w);
        write_jsonl(m, &line);
    }
    dt_buf_finish(&line);
}

void dt_metrics_back(struct dt_metrics *m, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(m->back, sizeof m->back, fmt, ap);
    va_end(ap);
}

void dt_metrics_say(struct dt_metrics *m, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dt_metrics_console_line(&m->console, dt_bytes_of(text));
}

void dt_metrics_warn(struct dt_metrics *m, const char *lines)
{
    dt_metrics_console_warn(&m->console, lines);
}
