/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a group's other ranks on this host, to see when one ends: NCCL may not say so,
 * where GPUs talk over NVLink. The first that was seen to end is the one to name: others may have
 * ended because of it. */
#ifndef DT_CUDA_NCCL_PEERS_H
#define DT_CUDA_NCCL_PEERS_H

#include "worker_runtime/coll/backend.h"

#include <poll.h>

struct dt_peers {
    struct pollfd *fd;          /* readable once it has ended; -1 when that has been seen */
    struct dt_coll_member *who; /* [count], beside fd */
    int count;
    const struct dt_coll_member *first; /* to end; NULL */
};

/* Those whose process is known and can be watched; for others NCCL, the agent and time must do. */
int dt_peers_open(struct dt_peers *p, const struct dt_coll_group *g, struct dt_err *err);
void dt_peers_close(struct dt_peers *p);

/* The first that has ended, or NULL. */
const struct dt_coll_member *dt_peers_gone(struct dt_peers *p);

#endif
