/* SPDX-License-Identifier: Apache-2.0 */
/* Charts as SVG on one time axis. What is drawn stretches with the page, what is written does not:
 * a plot's inner picture has 1000 x 100 units of any shape, and text stands beside them at
 * percentages. So a phone and a wide screen get the same page. Pure.
 *
 * A chart is opened, its lines and areas are added, and it is closed. */
#ifndef DT_CTL_REPORT_CHART_H
#define DT_CTL_REPORT_CHART_H

#include "base/buf.h"
#include "ctl/report/report.h"
#include "ctl/report/scale.h"
#include "ctl/report/thin.h"

#define DT_CHART_COLUMNS 600 /* that points are thinned to */

/* What all charts of a page share. */
struct dt_chart_frame {
    const struct dt_report *report;
    struct dt_scale time;
};

struct dt_chart {
    const char *id, *title, *unit; /* ours; UNIT may be "" */
    const char *key;               /* of its colours, as HTML; NULL: none */
    const char *words;             /* what it shows, for who cannot see it */
    struct dt_scale y;
    int height; /* pixels */
};

struct dt_chart_frame dt_chart_frame(const struct dt_report *r);

/* Where a time stands on the axis: 0 to 1, held inside. */
double dt_chart_place(const struct dt_chart_frame *f, int64_t at_us);

void dt_chart_open(struct dt_buf *out, const struct dt_chart_frame *f, const struct dt_chart *c);
/* POINTS: x 0 to 1, y a value; broken where y is not finite. KIND: its class in the style. */
void dt_chart_line(struct dt_buf *out, const struct dt_chart *c, const char *kind,
                   const struct dt_point *points, size_t count);
/* Between two lines of the same x. */
void dt_chart_area(struct dt_buf *out, const struct dt_chart *c, const char *kind,
                   const struct dt_point *low, const struct dt_point *high, size_t count);
void dt_chart_close(struct dt_buf *out, const struct dt_chart_frame *f, const struct dt_chart *c);

/* The rounds as bars on the same axis, with marks for failures, checkpoints and standstills; a bar
 * leads to its row, #round-N. */
void dt_chart_rounds(struct dt_buf *out, const struct dt_chart_frame *f);

#endif
