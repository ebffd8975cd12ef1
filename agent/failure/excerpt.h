/* SPDX-License-Identifier: Apache-2.0 */
/* What of a worker's last output says why it ended. Pure. */
#ifndef DT_AGENT_FAILURE_EXCERPT_H
#define DT_AGENT_FAILURE_EXCERPT_H

#include "base/buf.h"

/* Appends the last Python traceback in LAST and what follows it, else the last 20 lines; nothing
 * when there is nothing but space. For a report of lines: no newline at the end, terminal codes and
 * what progress bars overwrote left out, long lines and long tracebacks cut. */
void dt_excerpt_put(struct dt_bytes last, struct dt_buf *out);

#endif
