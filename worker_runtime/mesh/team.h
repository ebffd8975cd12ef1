/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks that compute one block together, each with some of its tensors, of its experts or of
 * the positions of each sample: what they add up and tell each other in the midst of it. These
 * calls are void, as ops are: the first failure is kept, nothing is exchanged from then on, and
 * whoever computes asks for it at its next stop. Memory is the group's: where that is a device's,
 * what they do comes in the order of its work, and the host waits for none of it. */
#ifndef DT_WORKER_RUNTIME_MESH_TEAM_H
#define DT_WORKER_RUNTIME_MESH_TEAM_H

#include "worker_runtime/mesh/mesh.h"

struct dt_team {
    struct dt_coll *group;
    int index; /* of this rank in it */
    bool failed;
    struct dt_err err; /* why */
    uint64_t ns;       /* the host's, spent in these calls, ever */
    uint64_t bytes;    /* of this rank that were summed, ever */
    bool shares_rows;  /* of the stream, too, as rows.h has it */
};

/* X[count] becomes its sum over the team, of the same bits on all of it. T NULL: it stays. */
void dt_team_sum(struct dt_team *t, void *x, size_t count, enum dt_dtype type);
/* ALL[ranks, count]: what each has at its own place becomes what all have, in the order of ranks.
 */
void dt_team_gather(struct dt_team *t, void *all, size_t count, enum dt_dtype type);
/* The other way: each one's own place becomes the sum of what all have there; the rest of ALL is of
 * no use then. */
void dt_team_scatter(struct dt_team *t, void *all, size_t count, enum dt_dtype type);
/* The same where what is this rank's is in OWN, which may be its place in ALL. */
void dt_team_gather_from(struct dt_team *t, void *all, const void *own, size_t count,
                         enum dt_dtype type);
void dt_team_scatter_to(struct dt_team *t, void *all, void *own, size_t count, enum dt_dtype type);

/* TO[r * count ...] = what rank r has at FROM[own index * count ...]. T is one. */
void dt_team_swap(struct dt_team *t, const void *from, void *to, size_t count, enum dt_dtype type);

/* Of what goes round the team, from each rank to the next. */
struct dt_team_round {
    struct dt_coll_handle given, expected;
    bool under_way;
};

/* FROM[count] leaves for the next rank, and what comes from the one before is to be put into TO:
 * both are the library's until dt_team_arrived(). What is passed on first arrives first. */
void dt_team_pass_on(struct dt_team *t, struct dt_team_round *r, const void *from, void *to,
                     size_t count, enum dt_dtype type);
void dt_team_arrived(struct dt_team *t, struct dt_team_round *r);

static inline bool dt_team_is_first(const struct dt_team *t)
{
    return !t || t->index == 0;
}

#endif
