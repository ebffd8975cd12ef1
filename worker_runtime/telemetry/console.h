/* SPDX-License-Identifier: Apache-2.0 */
/* Lines on a stream, and below them a bar that is redrawn in place. Each change is one write: a
 * line over the bar with the bar behind it again, so nothing flickers. */
#ifndef DT_WORKER_RUNTIME_TELEMETRY_CONSOLE_H
#define DT_WORKER_RUNTIME_TELEMETRY_CONSOLE_H

#include "base/buf.h"
#include "base/clock.h"
#include "worker_runtime/telemetry/metrics.h"

struct dt_metrics_console {
    FILE *to; /* NULL: says nothing but warnings */
    const char *program;
    bool bar;   /* draws one */
    bool drawn; /* one is there now */
    bool color;
    int columns; /* 0: asked at each drawing, for a window changes its size */
    dt_ms redraw_at;
    int learned;               /* steps that went into the next */
    double step_ms;            /* of late; 0: no step yet */
    struct dt_step_metrics at; /* what the bar shows */
};

void dt_metrics_console_init(struct dt_metrics_console *c, const struct dt_metrics_options *o);
/* The bar, ten times a second at most. */
void dt_metrics_console_progress(struct dt_metrics_console *c, const struct dt_step_metrics *s,
                                 dt_ms now);
/* TEXT, without a newline, in front of the bar. */
void dt_metrics_console_line(struct dt_metrics_console *c, struct dt_bytes text);
/* LINES on standard error; a terminal shows them in front of the bar. */
void dt_metrics_console_warn(struct dt_metrics_console *c, const char *lines);
void dt_metrics_console_finish(struct dt_metrics_console *c); /* the bar is taken away */

#endif
