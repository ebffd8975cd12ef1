/* SPDX-License-Identifier: Apache-2.0 */
/* Whether something keeps this host's clock right. */
#ifndef DT_PREFLIGHT_PROBES_CLOCK_H
#define DT_PREFLIGHT_PROBES_CLOCK_H

#include "preflight/probes/inside.h"

struct dt_clock_state {
    bool known, synchronised;
    int64_t error_us; /* at most, as the kernel estimates it */
};

void dt_clock_judge(const struct dt_clock_state *k, int hosts, struct dt_sheet *sheet);
void dt_clock_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
