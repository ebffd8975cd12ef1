/* SPDX-License-Identifier: Apache-2.0 */
/* Whether names lead where other hosts can follow: that of this host, and where the nodes meet. */
#ifndef DT_PREFLIGHT_PROBES_NAMES_H
#define DT_PREFLIGHT_PROBES_NAMES_H

#include "preflight/probes/inside.h"

/* What a name leads to. */
struct dt_name {
    char name[256];
    char address[64]; /* the first one; "": it leads nowhere ... */
    char why[96];     /* ... because of this */
    bool is_local;    /* each of its addresses is a loopback one */
};

void dt_names_judge_own(const struct dt_name *own, int hosts, struct dt_sheet *sheet);
/* ELSEWHERE: this host is not the one where the nodes meet. */
void dt_names_judge_meeting(const struct dt_name *meeting, bool elsewhere, int hosts,
                            struct dt_sheet *sheet);
void dt_names_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
