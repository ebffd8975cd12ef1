/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of this host, the share of it that the control group has, and swap. */
#ifndef DT_PREFLIGHT_PROBES_MEMORY_H
#define DT_PREFLIGHT_PROBES_MEMORY_H

#include "preflight/probes/inside.h"

/* Bytes; -1: not told. */
struct dt_memory_state {
    int64_t total, left; /* LEFT: for more processes, whatever sets the limit */
    int64_t group_limit; /* -1: there is none */
    int64_t swap_total, swap_free;
};

/* The bytes in a line of /proc/meminfo that begins with NAME; -1: there is none. Pure. */
int64_t dt_memory_find(const char *text, const char *name);

void dt_memory_judge(const struct dt_memory_state *m, struct dt_sheet *sheet);
void dt_memory_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
