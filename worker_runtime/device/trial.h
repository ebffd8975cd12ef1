/* SPDX-License-Identifier: Apache-2.0 */
/* A device at work for a second or two, to see whether it computes and keeps what it should, and
 * how fast: products of matrices whose every element is known, and memory that is written and read
 * back. It needs no model and no other rank. */
#ifndef DT_WORKER_RUNTIME_DEVICE_TRIAL_H
#define DT_WORKER_RUNTIME_DEVICE_TRIAL_H

#include "base/clock.h"
#include "worker_runtime/device/device.h"

struct dt_trial_limits {
    size_t side;   /* the most rows and columns of a matrix, at least 128 */
    size_t memory; /* the most bytes that are written and read back, at least a MiB */
    dt_ms product_time, memory_time; /* about */
};

/* Rates are the best that were seen: a device that is busy for a moment is not slow. */
struct dt_trial {
    size_t side;         /* of the matrices that were timed */
    unsigned compared;   /* products that were compared */
    double flops;        /* operations a second in products */
    size_t memory;       /* bytes that were written and read back */
    double written, got; /* bytes a second to the device, and from there */
    char wrong[160];     /* the first thing that was not as it should be; "": all was */
};

/* What is wrong stands in OUT. -1 and *err: the device did not do the work, for want of memory
 * (DT_E_MEMORY) or because it failed. */
int dt_trial_run(struct dt_device *d, const struct dt_trial_limits *l, struct dt_trial *out,
                 struct dt_err *err);

#endif
