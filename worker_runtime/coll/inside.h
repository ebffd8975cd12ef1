/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a group, for those who make one and those who call in one. */
#ifndef DT_WORKER_RUNTIME_COLL_INSIDE_H
#define DT_WORKER_RUNTIME_COLL_INSIDE_H

#include "worker_runtime/coll/backend.h"

#include <stdatomic.h>

struct dt_coll {
    const struct dt_coll_backend *backend;
    void *state;
    struct dt_meeting *meeting;
    struct dt_coll_group group; /* members and name are ours */
    _Atomic int64_t timeout;
    int pending;
    uint64_t collectives;    /* so many were started */
    uint64_t *sends, *recvs; /* so many, by peer: both ends count alike */
    int splits;
    struct dt_err failed; /* why it is of no use any more */
    atomic_int aborted;   /* 1: being written, 2: the reason stands */
    char why[200];
    /* Of a group of a device's memory: the host's, of the same members; its meeting is ours then.
     */
    struct dt_coll *host;
    bool owns_host; /* made by a split */
};

/* A group as G says, for a device's memory, of the members of HOST: see struct dt_coll_group. */
struct dt_coll *dt_coll_open_beside(struct dt_coll *host, const struct dt_coll_group *g,
                                    struct dt_err *err);

#endif
