/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in front of each line on the console: "[default0]:", or what the user's template
 * makes of role_name, rank and local_rank. Pure. */
#ifndef DT_AGENT_OUTPUT_PREFIX_H
#define DT_AGENT_OUTPUT_PREFIX_H

#include "agent/plan.h"

#include <stddef.h>

/* Of the worker with that local rank, local rank 0 having FIRST_RANK. Allocated; NULL: no memory.
 */
char *dt_prefix_one(const struct dt_plan *plan, int local_rank, int first_rank);

/* Of several that say the same, in ascending order: "[default0-3,6]:". */
char *dt_prefix_many(const struct dt_plan *plan, const int *local_ranks, size_t count,
                     int first_rank);

#endif
