/* SPDX-License-Identifier: Apache-2.0 */
/* One GPU as a dt_device. Work is put on four streams: compute, where all ops run; gather and
 * reduce, where NCCL's collectives run beside them; copy, where snapshots for checkpoints do. What
 * one stream needs of another it waits for by events, never by the host. */
#ifndef DT_CUDA_DEVICE_DEVICE_H
#define DT_CUDA_DEVICE_DEVICE_H

#include "cuda/device/stream.h"
#include "worker_runtime/device/cuda_plugin.h"

#include <pthread.h>

struct dt_comm_watchdog;
struct dt_cuda_memory; /* memory.h: the caching allocator, its cap, and who holds how much */

struct dt_cuda {
    struct dt_device device;
    struct dt_stream stream; /* of compute */
    cudaStream_t gather, reduce, copy;
    bool (*round_over)(void *arg);
    void *round_over_arg;
    void (*say)(void *arg, const char *line);
    void *say_arg;
    void (*give_up)(void *arg, const struct dt_err *why);
    void *give_up_arg;
    bool wide_sums;                    /* of the wish */
    struct dt_comm_watchdog *watchdog; /* nccl.c: while there is a communicator */
    struct dt_cuda_memory *memory;
    char description[200];
    /* Why its work cannot be trusted any more, told by the watchdog of a communicator before it
     * aborts: what dt_device_sync() then says in place of a CUDA error. */
    pthread_mutex_t lock;
    struct dt_err lost;
};

struct dt_device *dt_cuda_device_open(const struct dt_device_wish *w, struct dt_err *err);
int dt_cuda_device_memory(int ordinal, struct dt_gpu_memory *out, struct dt_err *err);
int dt_cuda_device_identify(int ordinal, struct dt_gpu_identity *out, struct dt_err *err);
/* From any thread; the first one counts. */
void dt_cuda_device_lose(struct dt_cuda *c, const struct dt_err *why);
/* "no kernel image is available ...": CUDA's text for E, with the op or call named WHAT, and what
 * to try where that is known. Returns -1. */
int dt_cuda_fail(cudaError_t e, const char *what, struct dt_err *err);

/* nccl.c: collectives by NCCL, for device->coll */
extern const struct dt_coll_backend dt_cuda_nccl;
/* nccl/check.c */
int dt_cuda_check_nccl(dt_check_line_fn say, void *arg);

#endif
