/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that sees what NCCL and the thread that trains do not: that a rank has died, that the
 * agent has ended the world, that a collective takes too long. One for a device. It then tells the
 * device why its work is lost, and aborts all communicators on it, so that whoever waits for the
 * device comes back and can say it. */
#ifndef DT_CUDA_NCCL_WATCHDOG_H
#define DT_CUDA_NCCL_WATCHDOG_H

#include "cuda/nccl/comm.h"
#include "cuda/nccl/flights.h"
#include "cuda/nccl/peers.h"

#include <stdatomic.h>

struct dt_comm_watchdog;

struct dt_comm_watchdog_of { /* a device */
    const struct dt_nccl_calls *calls;
    int ordinal;
    bool (*round_over)(void *arg); /* may be NULL */
    void *round_over_arg;
    void (*lose)(void *arg, const struct dt_err *why);
    void *lose_arg;
};

/* A communicator to look after: its owner's, who has it removed before it changes a pointer. */
struct dt_watched {
    struct dt_node in_watchdog;
    struct dt_comm *comm;
    struct dt_flights *flights;
    struct dt_peers *peers;
    const char *group;
    _Atomic int64_t timeout;
    /* The watchdog's own. */
    ncclResult_t error;
    dt_ms error_since, failed_since; /* 0: has not */
    struct dt_err failed;
    char call[64], error_is[440];
};

struct dt_comm_watchdog *dt_comm_watchdog_open(const struct dt_comm_watchdog_of *of,
                                               struct dt_err *err);
void dt_comm_watchdog_close(struct dt_comm_watchdog *d); /* ends the thread at once */

int dt_comm_watchdog_add(struct dt_comm_watchdog *d, struct dt_watched *w, struct dt_err *err);
/* Waits while the watchdog looks at it. Whether it was the last. */
bool dt_comm_watchdog_remove(struct dt_comm_watchdog *d, struct dt_watched *w);

#endif
