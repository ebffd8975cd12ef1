/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics as DeepSpeed's csv_monitor leaves them: a file for each series with rows of samples and
 * value, so that what reads those reads these. Rewards have theirs where there are any. */
#ifndef DT_WORKER_RUNTIME_TELEMETRY_CSV_H
#define DT_WORKER_RUNTIME_TELEMETRY_CSV_H

#include "worker_runtime/telemetry/metrics.h"
#include "worker_runtime/telemetry/series.h"

#define DT_CSV_SERIES 10

struct dt_csv {
    char *folder; /* NULL: writes nothing */
    bool begun;
    struct dt_series series[DT_CSV_SERIES];
};

/* Makes the folder PATH/JOB. */
int dt_csv_open(struct dt_csv *c, const char *path, const char *job, struct dt_err *err);
/* With the first step, rows of its number of samples or more are cut. */
int dt_csv_put(struct dt_csv *c, const struct dt_step_metrics *s, struct dt_err *err);
void dt_csv_close(struct dt_csv *c);

#endif
