/* SPDX-License-Identifier: Apache-2.0 */
/* Processors: those of the host, those that this process may use, and how much of their time. */
#ifndef DT_PREFLIGHT_PROBES_CPUS_H
#define DT_PREFLIGHT_PROBES_CPUS_H

#include "preflight/probes/inside.h"

struct dt_cpus {
    int online, allowed; /* 0: not told */
    double quota;        /* processors' worth of time that the control group has; 0: no limit */
};

/* How many numbers a list as "0-3,8,10-11" has. Pure. */
int dt_cpus_count(const char *list);

void dt_cpus_judge(const struct dt_cpus *p, int workers, struct dt_sheet *sheet);
void dt_cpus_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
