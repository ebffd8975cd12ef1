/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the kernel that cost speed: governor, huge pages, NUMA balancing. */
#ifndef DT_PREFLIGHT_PROBES_SETTINGS_H
#define DT_PREFLIGHT_PROBES_SETTINGS_H

#include "preflight/probes/inside.h"

/* Texts as the kernel shows them; "": it does not. */
struct dt_settings {
    char governor[32], driver[32];
    char huge_pages[16], defrag[32];
    bool balances_numa; /* ... on a host of several nodes */
};

void dt_settings_judge(const struct dt_settings *k, struct dt_sheet *sheet);
void dt_settings_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
