/* SPDX-License-Identifier: Apache-2.0 */
/* What a run would take, before it runs: memory of a rank at each stage, activations, and what fits
 * in this machine's memory or in its GPUs'. Pure: how large these are is an argument. */
#ifndef DT_WORKER_RUNTIME_TRAIN_ESTIMATE_H
#define DT_WORKER_RUNTIME_TRAIN_ESTIMATE_H

#include "worker_runtime/config/config.h"
#include "worker_runtime/device/device.h"

/* Where a run would be. */
struct dt_estimate_place {
    int world, local;         /* ranks, and those of a host */
    size_t memory;            /* of the host, or of the control group that it is limited to */
    bool limited;             /* the latter */
    bool on_gpu;              /* computes with a GPU's type, and no two ranks share a copy */
    int gpus;                 /* of this host; where it has none, its own memory is compared with */
    struct dt_gpu_memory gpu; /* each of them is taken to be like this one */
    const char *no_gpu;       /* why there are none; NULL: nobody asked */
};

/* Bytes of one rank, a host's shared memory counted by its share. */
struct dt_estimate {
    size_t trained;     /* parameters, not bytes: all, or those of adapters */
    size_t params;      /* with those gathered for a while at stage 3 */
    size_t grads;       /* with buffers that units' gradients are computed into, or widened */
    size_t optimizer;   /* master copy and moments, but for what is offloaded */
    size_t offloaded;   /* the same, gradients, and what they travel through; the host's */
    size_t activations; /* of a micro-batch */
    size_t scratch;     /* what ops of a GPU work in; 0 where none is there to say */
    size_t snapshot;    /* what a checkpoint is written from while training goes on; the host's */
    size_t vault;       /* its last two steps, and copies of another rank's; the host's */
    /* But for the vault, what is offloaded, and the snapshot of a rank on a GPU that is there. */
    size_t total;
};

/* Of each rank. */
int dt_estimate(const struct dt_config *c, const struct dt_estimate_place *at, int stage,
                struct dt_estimate *out, struct dt_err *err);
/* Of the memory that is there, the part of one rank: a GPU's, or its share of the host's; 0: it is
 * not known. */
size_t dt_estimate_room(const struct dt_estimate_place *at);
/* Ranks that have samples of their own: of those who share tensors, one. */
int dt_estimate_data(const struct dt_config *c, const struct dt_estimate_place *at);
/* Whether ranks keep copies of the vaults of other hosts' ranks. */
bool dt_estimate_has_copies(const struct dt_config *c, const struct dt_estimate_place *at);
/* The table that `dtrun-train --estimate` prints. -1 and *err: there is none. */
int dt_estimate_print(const struct dt_config *c, const struct dt_estimate_place *at,
                      struct dt_buf *out, struct dt_err *err);

/* What each stage of a pipeline has, how many micro-batches it holds, and how long it is idle with
 * so many MICROS in a step. -1 and *err: these cannot be. */
int dt_estimate_print_pipeline(const struct dt_config *c, int64_t micros, struct dt_buf *out,
                               struct dt_err *err);

#endif
