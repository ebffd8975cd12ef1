/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices are far slower than the others of their kind, on one host or on many. Pure. */
#ifndef DT_PREFLIGHT_SPEEDS_H
#define DT_PREFLIGHT_SPEEDS_H

#include "preflight/compare.h"

/* One device among all. */
struct dt_speed_of {
    const char *node; /* NULL: this host */
    const struct dt_speed *speed;
};

/* Remarks by the probe "compute": one for each of COUNT devices with a figure far below the middle
 * one of its kind, up to a few; or one that says how fast all of a kind are. */
void dt_speeds_compare(const struct dt_speed_of *all, size_t count, struct dt_sheet *out);

/* The same for what the sheets of NODES hold. */
void dt_speeds_compare_nodes(const struct dt_compared *nodes, size_t count, struct dt_sheet *out);

#endif
