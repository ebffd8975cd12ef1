/* SPDX-License-Identifier: Apache-2.0 */
/* What several ranks say alike within a moment, said once. Lines are held that long, or until all
 * ranks have said them; each rank's lines stay in their order. Pure. */
#ifndef DT_AGENT_OUTPUT_COLLAPSE_H
#define DT_AGENT_OUTPUT_COLLAPSE_H

#include "base/buf.h"
#include "base/clock.h"

struct dt_collapse;

/* The line and who said it, in ascending order. */
typedef void dt_collapse_fn(void *arg, struct dt_bytes line, const int *ranks, size_t count);

/* For ranks 0 to RANKS - 1. NULL: no memory. */
struct dt_collapse *dt_collapse_create(int ranks, dt_ms moment);

/* NOW does not go back. FN gets what need not be held any longer, and everything when there is no
 * room to hold more. */
void dt_collapse_put(struct dt_collapse *c, int rank, struct dt_bytes line, dt_ms now,
                     dt_collapse_fn *fn, void *arg);
void dt_collapse_pass_due(struct dt_collapse *c, dt_ms now, dt_collapse_fn *fn, void *arg);
void dt_collapse_pass_all(struct dt_collapse *c, dt_collapse_fn *fn, void *arg);

/* When something will be due; DT_FOREVER: nothing is held. */
dt_ms dt_collapse_due(const struct dt_collapse *c);

void dt_collapse_destroy(struct dt_collapse *c);

#endif
