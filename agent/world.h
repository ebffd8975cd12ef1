/* SPDX-License-Identifier: Apache-2.0 */
/* One round, as one node sees it. Of constant size however many nodes there are. */
#ifndef DT_AGENT_WORLD_H
#define DT_AGENT_WORLD_H

#include "agent/plan.h"
#include "rendezvous/protocol/messages.h"

#include <stdbool.h>

#define DT_WORLD_ADDR_MAX DT_PLAN_HOST_MAX

struct dt_world {
    int round;                      /* 0, 1, ... */
    int group_rank, group_size;     /* of this node among the nodes */
    int first_rank, size;           /* of its workers among all */
    int first_role_rank, role_size; /* and among those of its role */
    char master_addr[DT_WORLD_ADDR_MAX];
    int master_port;
    bool store_is_served; /* by an agent; else worker 0 opens it */
    /* Of an elastic job; else -1, 0, 0 and "". */
    int prev_first_rank, prev_size; /* in the last round that this node was in; -1 and 0: none */
    int restarts;                   /* of the whole job */
    char news[DT_WHY_MAX];          /* what changed since the last round */
};

#endif
