/* SPDX-License-Identifier: Apache-2.0 */
/* What device.c and open.c share. */
#ifndef DT_CUDA_DEVICE_INSIDE_H
#define DT_CUDA_DEVICE_INSIDE_H

#include "cuda/device/device.h"
#include "cuda/memory/memory.h"
#include "cuda/memory/staging.h"

struct dt_cuda_gpu {
    struct dt_cuda cuda; /* first: what others of the plugin see */
    struct dt_cuda_staging *staging;
    cudaEvent_t to_snap, snapped; /* what is to be copied is there; the last snapshot begun is */
    char name[24];                /* "GPU 0" */
};

/* Its close() takes one that is half open, too. */
extern const struct dt_device_ops dt_cuda_device_table;

#endif
