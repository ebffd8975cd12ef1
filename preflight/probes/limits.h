/* SPDX-License-Identifier: Apache-2.0 */
/* What a process of this user may have: files, processes, locked memory. */
#ifndef DT_PREFLIGHT_PROBES_LIMITS_H
#define DT_PREFLIGHT_PROBES_LIMITS_H

#include "preflight/probes/inside.h"

#define DT_LIMIT_NONE INT64_MAX
#define DT_LIMIT_UNKNOWN (-1)

struct dt_limits {
    int64_t files, files_hard, processes, locked; /* or one of the two above */
    int64_t pids_max, pids_now;                   /* of the control group */
    bool rdma;                                    /* this host has devices that lock memory */
};

/* The soft limit, or the hard one, in a line of /proc/self/limits that begins with NAME. Pure. */
int64_t dt_limits_find(const char *text, const char *name, bool hard);

void dt_limits_judge(const struct dt_limits *l, int workers, struct dt_sheet *sheet);
void dt_limits_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
