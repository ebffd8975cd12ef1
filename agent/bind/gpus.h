/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of this node: NVIDIA's management library, opened when somebody asks, tells which there
 * are; CUDA_VISIBLE_DEVICES tells which of them workers see, and in which order. Devices count in
 * the order of their bus, as CUDA does with equal ones or with CUDA_DEVICE_ORDER=PCI_BUS_ID. */
#ifndef DT_AGENT_BIND_GPUS_H
#define DT_AGENT_BIND_GPUS_H

#include "agent/bind/machine.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct dt_gpu {
    int number; /* of the card among all of this node, whatever is visible */
    bool mig;   /* a part of that card: seen only where it is named */
    char uuid[96];
    struct dt_machine_bus at;
};

/* Zeroed memory is no GPU. */
struct dt_gpus {
    struct dt_gpu *at;
    size_t count;
};

/* All cards and their parts. Without the library or a driver there are none. -1: no memory. */
int dt_gpus_read(struct dt_gpus *out, struct dt_err *err);
void dt_gpus_finish(struct dt_gpus *g);

/* Those of ALL that DEVICES (the value of CUDA_VISIBLE_DEVICES; NULL: not set) makes visible, as
 * CUDA reads it: numbers, or beginnings of UUIDs; what it does not know ends the list, naming one
 * twice empties it. Pure. */
int dt_gpus_select(const struct dt_gpus *all, const char *devices, struct dt_gpus *out,
                   struct dt_err *err);

/* For --nproc-per-node gpu: how many devices one process will see. Of parts of cards CUDA shows the
 * first one only. */
int dt_gpus_count(const char *devices);

#endif
