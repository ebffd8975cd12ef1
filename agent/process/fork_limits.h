/* SPDX-License-Identifier: Apache-2.0 */
/* Why no further process may be forked, with the limits that a person can raise. */
#ifndef DT_AGENT_PROCESS_FORK_LIMITS_H
#define DT_AGENT_PROCESS_FORK_LIMITS_H

#include "base/err.h"

/* "WHAT: Resource temporarily unavailable; ulimit -u is 6 ...". Other causes than EAGAIN are named
 * alone. Returns -1. */
int dt_fork_limits_err(struct dt_err *err, int errnum, const char *what);

#endif
