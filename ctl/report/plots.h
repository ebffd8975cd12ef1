/* SPDX-License-Identifier: Apache-2.0 */
/* What the steps of a run were like, as charts. Pure. */
#ifndef DT_CTL_REPORT_PLOTS_H
#define DT_CTL_REPORT_PLOTS_H

#include "base/err.h"
#include "ctl/report/chart.h"

/* A chart for each thing that is told of steps; none where there are no steps. */
int dt_plots_put(struct dt_buf *out, const struct dt_chart_frame *f, struct dt_err *err);

/* Values at places of the axis, for the script that shows them: one JSON array of rows
 * [place, step, loss, grad norm, lr, tokens/s, ms], rising. */
void dt_plots_put_samples(struct dt_buf *out, const struct dt_chart_frame *f);

#endif
