/* SPDX-License-Identifier: Apache-2.0 */
/* Who is which rank. Every node says its role and how many workers it has; one walks over all in
 * order and tells each where its workers stand among all and among those of their role. What is
 * exchanged is torchrun's: role_info and assigned_ranks, in JSON. Pure. */
#ifndef DT_AGENT_BACKEND_FIXED_RANKS_H
#define DT_AGENT_BACKEND_FIXED_RANKS_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define DT_RANKS_TEXT_MAX 65536 /* bytes of what a node sends */

/* What a node says of itself. */
struct dt_ranks_node {
    char *role; /* owned */
    int workers;
    int nodes; /* how many it was told that there are; 0: it does not say, as torchrun's do not */
};

/* Where a node's workers stand: theirs are FIRST, FIRST + 1, ... of SIZE. */
struct dt_ranks_place {
    int first, size;
    int first_in_role, role_size;
};

/* {"role": "default", "rank": 0, "local_world_size": 2}, and "nodes" where NODE has a number. */
void dt_ranks_write_node(struct dt_buf *out, const struct dt_ranks_node *node, int rank);
/* Members that are not known are passed over, as torchrun does. *OUT is filled only on success;
 * its role is to be freed. */
int dt_ranks_read_node(struct dt_bytes text, struct dt_ranks_node *out, struct dt_err *err);

/* [0, 5, 0, 2]: first, size, first in role, role size. */
void dt_ranks_write_place(struct dt_buf *out, const struct dt_ranks_place *place);
int dt_ranks_read_place(struct dt_bytes text, struct dt_ranks_place *out, struct dt_err *err);
/* In place of that, why there are no ranks. Reading it as a place fails with WHY, DT_E_CANCELED. */
void dt_ranks_write_refusal(struct dt_buf *out, const char *why);

/* The places of all COUNT nodes. -1: no memory, or more workers than a rank can count. */
int dt_ranks_assign(const struct dt_ranks_node *nodes, size_t count, struct dt_ranks_place *places,
                    struct dt_err *err);

/* Where all nodes are known to be alike nothing needs to be exchanged. */
int dt_ranks_identical(int node, int nodes, int workers, struct dt_ranks_place *place,
                       struct dt_err *err);

/* For people, which of COUNT nodes are ABSENT: "none", "1", "1 and 3", "1-5, 7 and 9". What does
 * not fit ends in "...". */
const char *dt_ranks_list(const bool *absent, size_t count, char *out, size_t size);

#endif
