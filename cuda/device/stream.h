/* SPDX-License-Identifier: Apache-2.0 */
/* What an op gets along: where to put its work, and what it may use while it runs. Ops of a device
 * run one behind the other on one CUDA stream, so there is one of everything. C and C++. */
#ifndef DT_CUDA_DEVICE_STREAM_H
#define DT_CUDA_DEVICE_STREAM_H

#include "base/err.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

struct dt_cuda_linear; /* linear.h: cuBLASLt's handle, workspace, and the plans found so far */
struct dt_cudnn_attention;

struct dt_stream {
    cudaStream_t compute;
    int ordinal; /* of the device */
    int multiprocessors;
    bool fast; /* atomics where the order of sums then varies are allowed */
    struct dt_cuda_linear *linear;
    struct dt_cudnn_attention *attention; /* cudnn/attention.h; NULL: our kernels */
    /* Memory of the device for partial results; whatever an op leaves there is gone with the next.
     */
    void *scratch;
    size_t scratch_bytes;
    double *host;         /* pinned: DT_PARTS_MOST results that the host waits for */
    struct dt_err failed; /* the first failure of an op; dt_device_sync() tells it */
};

/* Scratch that a device has at least. An op that wants more takes fewer, larger parts. */
enum { DT_CUDA_SCRATCH = 64 << 20 };

#endif
