/* SPDX-License-Identifier: Apache-2.0 */
/* What a run would take, before it runs: memory of a rank at each stage, activations, and what fits
 * in this machine. Pure but for the size of the machine, which is an argument. */
#ifndef DT_WORKER_RUNTIME_TRAIN_ESTIMATE_H
#define DT_WORKER_RUNTIME_TRAIN_ESTIMATE_H

#include "worker_runtime/config/config.h"

/* Bytes of one rank, a host's shared memory counted by its share. */
struct dt_estimate {
    size_t params;      /* with those gathered for a while at stage 3 */
    size_t grads;       /* with buffers that units' gradients are computed into */
    size_t optimizer;   /* master copy and moments */
    size_t activations; /* of a micro-batch */
    size_t snapshot;    /* what a checkpoint is written from while training goes on */
    size_t total;
};

/* Of each of WORLD ranks, LOCAL of them on its host. */
int dt_estimate(const struct dt_config *c, int world, int local, int stage, struct dt_estimate *out,
                struct dt_err *err);
/* The table that `dtrun-train --estimate` prints. MEMORY: of the host; LOCAL: ranks on it. */
void dt_estimate_print(const struct dt_config *c, int world, int local, size_t memory,
                       struct dt_buf *out);

#endif
