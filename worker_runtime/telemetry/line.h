/* SPDX-License-Identifier: Apache-2.0 */
/* A step as text for people: the line, and the bar of a terminal. Pure. */
#ifndef DT_WORKER_RUNTIME_TELEMETRY_LINE_H
#define DT_WORKER_RUNTIME_TELEMETRY_LINE_H

#include "base/buf.h"
#include "worker_runtime/telemetry/metrics.h"

/* "step 120/1000  loss 3.4127  ..." without a newline; what is NaN is left out, but for the loss.
 */
void dt_line_put(struct dt_buf *out, const struct dt_step_metrics *s, bool breakdown, bool color);
void dt_line_put_step(struct dt_buf *out, int64_t step, int64_t steps); /* "step 120/1000" */
void dt_line_put_loss(struct dt_buf *out, double loss);
/* "  rewards 0.120 -0.310  margin 0.430  right 75 %": the chosen answers', and the others'. */
void dt_line_put_preferences(struct dt_buf *out, const struct dt_preference_metrics *p);

/* " 12% [====>     ] 120/1000  loss 3.4127  18.4k tok/s  7 min left" in at most COLUMNS: what does
 * not fit is left out, the least important first. LEFT_MS < 0: not known. */
void dt_line_put_bar(struct dt_buf *out, const struct dt_step_metrics *s, double left_ms,
                     size_t columns, bool color);

#endif
