/* SPDX-License-Identifier: Apache-2.0 */
/* Facts as text for Prometheus. Families of metrics are rows of tables; a row is told of the
 * server, of each run or of each node. Pure. */
#ifndef DT_RENDEZVOUS_WEB_METRICS_H
#define DT_RENDEZVOUS_WEB_METRICS_H

#include "base/buf.h"
#include "rendezvous/web/facts.h"

enum dt_web_format {
    DT_WEB_PROMETHEUS,  /* version 0.0.4 */
    DT_WEB_OPENMETRICS, /* version 1.0.0 */
    DT_WEB_FORMATS,
};

/* What a request wants whose Accept header is TEXT; NULL: it has none. Scrapers that take
 * OpenMetrics at all prefer it. */
enum dt_web_format dt_web_format_of(const char *text);
/* The Content-Type of such an answer. */
const char *dt_web_format_type(enum dt_web_format format);

/* OUT is sticky. */
void dt_web_metrics_put(struct dt_buf *out, const struct dt_web_facts *facts,
                        enum dt_web_format format);

#endif
