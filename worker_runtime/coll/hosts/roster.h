/* SPDX-License-Identifier: Apache-2.0 */
/* A group sorted by hosts: hosts are numbered 0, 1, ... in the order in which their first rank
 * comes, and so are the ranks of each. Plain data, the same on all ranks. */
#ifndef DT_WORKER_RUNTIME_COLL_HOSTS_ROSTER_H
#define DT_WORKER_RUNTIME_COLL_HOSTS_ROSTER_H

#include "worker_runtime/coll/backend.h"

struct dt_roster_host {
    const int *ranks; /* of the group, on this host, in order */
    int n;
};

struct dt_roster {
    int size, rank, hosts;
    int host, local; /* of this rank: which host, and its place there */
    struct dt_roster_host *at;
    int *host_of;                   /* by rank */
    struct dt_coll_member *members; /* a copy */
    int *ranks;
};

int dt_roster_init(struct dt_roster *r, const struct dt_coll_group *g, struct dt_err *err);
void dt_roster_finish(struct dt_roster *r);

/* Each rank of another host has one rank here that sends to it and receives from it: of all of HOST
 * the one that is in charge of RANK. */
static inline int dt_roster_in_charge(const struct dt_roster *r, int host, int rank)
{
    return r->at[host].ranks[rank % r->at[host].n];
}

static inline int dt_roster_leader(const struct dt_roster *r, int host)
{
    return r->at[host].ranks[0];
}

static inline const struct dt_roster_host *dt_roster_own(const struct dt_roster *r)
{
    return &r->at[r->host];
}

#endif
