/* SPDX-License-Identifier: Apache-2.0 */
/* Who runs where: workers to processors, by the GPU each one has or, without GPUs, spread evenly.
 * Pure, over descriptions of machine and GPUs.
 *
 * With GPUs local rank R has the Rth visible one, and the NUMA node nearest to it decides, as
 * torchrun's --numa-binding does: the node (node), all nodes of its socket (socket), a share of the
 * node's cores among the node's GPUs (exclusive), one of the node's cache groups, the fullest first
 * (core-complex). Without GPUs the same four are spread over all workers in order: nodes, sockets,
 * single cores, cache groups. Nobody is given a processor that is not allowed. */
#ifndef DT_AGENT_BIND_PLACEMENT_H
#define DT_AGENT_BIND_PLACEMENT_H

#include "agent/bind/cpuset.h"
#include "agent/bind/gpus.h"
#include "agent/bind/machine.h"
#include "agent/plan.h"
#include "base/err.h"

struct dt_placement {
    struct dt_cpuset cpus;  /* never empty */
    struct dt_cpuset nodes; /* where these processors are */
    int gpu;                /* which of the visible ones; -1: none */
};

/* Fills OUT for local ranks 0 to NPROC - 1. MODE is not DT_BIND_NONE; GPUS are the visible ones. */
int dt_placement_plan(enum dt_plan_bind mode, const struct dt_machine *m,
                      const struct dt_cpuset *allowed, const struct dt_gpus *gpus, int nproc,
                      struct dt_placement *out, struct dt_err *err);

#endif
