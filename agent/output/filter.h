/* SPDX-License-Identifier: Apache-2.0 */
/* filtered_stdout.log and filtered_stderr.log: the lines of all ranks that have one of some texts
 * in them, each with its prefix. */
#ifndef DT_AGENT_OUTPUT_FILTER_H
#define DT_AGENT_OUTPUT_FILTER_H

#include "agent/output/lines.h"
#include "base/err.h"

#include <stdbool.h>
#include <uv.h>

struct dt_filter;

/* Keeps PATH no longer than the call, TEXTS (NULL-ended) and TELL (see dt_sink_open()) for good. */
struct dt_filter *dt_filter_open(const char *path, char *const *texts, uv_async_t *tell,
                                 struct dt_err *err);

/* What comes from one stream, which keeps its LINES; end: no more comes from there. */
void dt_filter_put(struct dt_filter *f, struct dt_lines *lines, const char *prefix,
                   struct dt_bytes in);
void dt_filter_end(struct dt_filter *f, struct dt_lines *lines, const char *prefix);

/* As of a sink. */
bool dt_filter_has_room(struct dt_filter *f);
bool dt_filter_is_empty(struct dt_filter *f);

void dt_filter_close(struct dt_filter *f);

#endif
