/* SPDX-License-Identifier: Apache-2.0 */
/* Hints of a firewall, which anybody can see; its rules are root's. */
#ifndef DT_PREFLIGHT_PROBES_FIREWALL_H
#define DT_PREFLIGHT_PROBES_FIREWALL_H

#include "preflight/probes/inside.h"

/* NAME: of what was found; NULL: nothing was. */
void dt_firewall_judge(const char *name, int hosts, struct dt_sheet *sheet);
void dt_firewall_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
