/* SPDX-License-Identifier: Apache-2.0 */
/* Why dtrun on a host did not even say hello, as a sentence that names the host and what to try. Of
 * how the launch agent ended, and the last line that it wrote on standard error. Pure. */
#ifndef DT_LAUNCHER_FLEET_REFUSAL_H
#define DT_LAUNCHER_FLEET_REFUSAL_H

#include "base/err.h"

struct dt_fleet_refusal {
    const char *host, *remote; /* as written in the list; what was to be executed there */
    const char *own_path;      /* of dtrun here; NULL: it is not known */
    const char *agent;         /* the launch agent's name: "ssh" */
    const char *last_line;     /* "": it wrote none */
    int status;                /* it exited with; 128 and more: a signal's */
};

void dt_fleet_refusal_tell(const struct dt_fleet_refusal *r, struct dt_err *err);

#endif
