/* SPDX-License-Identifier: Apache-2.0 */
/* InfiniBand and RoCE: the state of ports, their addresses, and whether programs may use them. */
#ifndef DT_PREFLIGHT_PROBES_INFINIBAND_H
#define DT_PREFLIGHT_PROBES_INFINIBAND_H

#include "preflight/probes/inside.h"

#define DT_IB_PORTS 64

struct dt_ib_port {
    char device[DT_PROBE_NAME];
    int number;
    char state[32], physical[32]; /* "ACTIVE", "LinkUp": without the kernel's numbers */
    char rate[32];                /* "400 Gb/sec (4X NDR)" */
    bool is_ethernet;             /* RoCE */
    bool has_routed_gid;          /* of version 2 of RoCE */
    int64_t times_down;           /* since the driver was loaded; -1: not told */
};

struct dt_ib {
    size_t count;
    struct dt_ib_port at[DT_IB_PORTS];
    bool has_verbs; /* /dev/infiniband has what programs open */
};

void dt_ib_judge(const struct dt_ib *ib, struct dt_sheet *sheet);
void dt_ib_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
