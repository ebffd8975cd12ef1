/* SPDX-License-Identifier: Apache-2.0 */
/* What the node's files share among themselves. */
#ifndef DT_TESTS_SIM_NODE_PARTS_H
#define DT_TESTS_SIM_NODE_PARTS_H

#include "tests/lib/sim/sim.h"

typedef void sim_node_fn(struct sim *s, struct sim_event *ev);

/* RUN is for this life of the agent only, and begins with sim_node_of(). */
void sim_node_plan(struct sim_node *n, dt_ms wait, sim_node_fn *run, uint32_t what);
/* NULL: not now, as the agent is stopped, or not any more. */
struct sim_node *sim_node_of(struct sim *s, struct sim_event *ev);
dt_ms sim_node_clock(const struct sim_node *n);
/* After whatever was done with the session. */
void sim_node_settle(struct sim_node *n);
/* Tells them to; when they are gone the agent does what comes then. KILL: soon. */
void sim_node_end_workers(struct sim_node *n, bool kill);

/* Whether its dtrun is new enough to be asked for looks. */
static inline bool sim_node_looks(const struct sim_node *n)
{
    return n->index % 16 != 15;
}
/* What the session asks for: a look at the workers, and to be told why they stand still. */
void sim_node_look(void *arg, int64_t id, bool native);
void sim_node_find(void *arg, const struct dt_finding_message *f);

#endif
