/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the name by which the others are told to reach this node is known on this host: workers
 * here look it up too. It is looked up while the job goes on, as it may come to be known later, and
 * a name server may take its time. */
#ifndef DT_AGENT_OWN_ADDR_H
#define DT_AGENT_OWN_ADDR_H

#include "agent/plan.h"
#include "base/loop/lookup.h"

struct dt_own_addr {
    const char *option, *name; /* who gave it, and what */
    struct dt_lookup *lookup;  /* NULL: none is under way */
};

/* A warning comes from the loop if the name is not known. PLAN outlives it. */
void dt_own_addr_check(struct dt_own_addr *o, uv_loop_t *loop, const struct dt_plan *plan);
/* Nothing comes any more. Fine on zeroed memory. */
void dt_own_addr_stop(struct dt_own_addr *o);

#endif
