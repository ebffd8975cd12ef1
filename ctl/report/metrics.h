/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of JSON that dtrun-train writes about its steps, into a report. */
#ifndef DT_CTL_REPORT_METRICS_H
#define DT_CTL_REPORT_METRICS_H

#include "base/err.h"
#include "ctl/report/report.h"

#define DT_REPORT_LINE_MAX 65536 /* bytes; a longer line makes no sense */
#define DT_REPORT_STEPS_MAX ((size_t)4 << 20)
#define DT_REPORT_COMEBACKS_MAX 4096

/* "2026-11-21T11:33:12.123456Z" as microseconds since 1970; DT_REPORT_UNKNOWN: it is none. */
int64_t dt_report_time(const char *text);

/* One line without its newline. What makes no sense is counted, and -1 is for a lack of memory
 * alone. REDONE: these steps were done again. */
int dt_report_metrics_line(struct dt_report *r, const char *line, size_t len, bool redone,
                           struct dt_err *err);

/* The lines of the ordinary file PATH, of which the last may be torn. */
int dt_report_metrics_read(struct dt_report *r, const char *path, bool redone, struct dt_err *err);

#endif
