/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/telemetry/csv.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fs.h"

static const struct {
    const char *name;
    size_t value;     /* in dt_step_metrics */
    bool preferences; /* of those alone */
} columns[DT_CSV_SERIES] = {
    {"train_loss", offsetof(struct dt_step_metrics, loss), false},
    {"lr", offsetof(struct dt_step_metrics, lr), false},
    {"loss_scale", offsetof(struct dt_step_metrics, loss_scale), false},
    {"elapsed_time_ms_forward", offsetof(struct dt_step_metrics, forward_ms), false},
    {"elapsed_time_ms_backward", offsetof(struct dt_step_metrics, backward_ms), false},
    {"elapsed_time_ms_step", offsetof(struct dt_step_metrics, optimizer_ms), false},
    {"reward_chosen", offsetof(struct dt_step_metrics, preferences.chosen), true},
    {"reward_rejected", offsetof(struct dt_step_metrics, preferences.rejected), true},
    {"reward_margin", offsetof(struct dt_step_metrics, preferences.margin), true},
    {"reward_accuracy", offsetof(struct dt_step_metrics, preferences.accuracy), true},
};

static bool is_told(const struct dt_step_metrics *s, size_t i)
{
    return s->preferences.told || !columns[i].preferences;
}

int dt_csv_open(struct dt_csv *c, const char *path, const char *job, struct dt_err *err)
{
    *c = (struct dt_csv){0};
    if (asprintf(&c->folder, "%s/%s", path, job) < 0) {
        c->folder = NULL;
        return dt_err_set(err, DT_E_MEMORY, "no memory to write into %s", path);
    }
    return dt_fs_mkdir_p(c->folder, 0777, err);
}

void dt_csv_close(struct dt_csv *c)
{
    for (size_t i = 0; i < DT_CSV_SERIES; i++)
        dt_series_close(&c->series[i]);
    free(c->folder);
    *c = (struct dt_csv){0};
}

static int64_t samples_of(const char *line, size_t len)
{
    int64_t v = 0;
    size_t i = 0;
    for (; i < len && line[i] >= '0' && line[i] <= '9' && v < INT64_MAX / 10 - 1; i++)
        v = v * 10 + (line[i] - '0');
    return i > 0 && i < len && line[i] == ',' ? v : -1;
}

static int begin_one(struct dt_csv *c, size_t i, int64_t samples, struct dt_err *err)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/Train_Samples_%s.csv", c->folder, columns[i].name) >=
        (int)sizeof path)
        return dt_err_set(err, DT_E_RUNTIME, "%s is too long a path", c->folder);
    if (dt_series_open(&c->series[i], path, "step,", err) < 0)
        return -1;
    return dt_series_cut(&c->series[i], samples_of, samples, err);
}

static int begin(struct dt_csv *c, const struct dt_step_metrics *s, struct dt_err *err)
{
    int rc = 0;
    c->begun = true;
    for (size_t i = 0; i < DT_CSV_SERIES; i++)
        if (is_told(s, i) && begin_one(c, i, (int64_t)s->samples, err) < 0)
            rc = -1;
    return rc;
}

/* Lines end as the csv module of Python ends them. */
static int put_row(struct dt_csv *c, size_t i, uint64_t samples, double v, struct dt_err *err)
{
    char rows[160];
    int n = 0;
    if (dt_series_is_empty(&c->series[i]))
        n = snprintf(rows, sizeof rows, "step,%s\r\n", columns[i].name);
    snprintf(rows + n, sizeof rows - (size_t)n, "%" PRIu64 ",%.9g\r\n", samples, v);
    return dt_series_put(&c->series[i], dt_bytes_of(rows), err);
}

int dt_csv_put(struct dt_csv *c, const struct dt_step_metrics *s, struct dt_err *err)
{
    if (!c->folder)
        return 0;
    int rc = c->begun ? 0 : begin(c, s, err);
    for (size_t i = 0; i < DT_CSV_SERIES; i++) {
        double v = *(const double *)((const char *)s + columns[i].value);
        if (!is_told(s, i) || (isnan(v) && i > 0))
            continue; /* a loss may be NaN, and is of interest then; others were not told */
        if (put_row(c, i, s->samples, v, err) < 0)
            rc = -1;
    }
    return rc;
}
