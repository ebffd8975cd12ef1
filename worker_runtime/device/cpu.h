/* SPDX-License-Identifier: Apache-2.0 */
/* What a stream is on the CPU: the pool that ops run on, and memory each of its threads may write
 * in while it runs a part. */
#ifndef DT_WORKER_RUNTIME_DEVICE_CPU_H
#define DT_WORKER_RUNTIME_DEVICE_CPU_H

#include <stdbool.h>
#include <stddef.h>

struct dt_device;
struct dt_pool;

struct dt_stream {
    struct dt_pool *pool;
    void **scratch; /* [threads], DT_SCRATCH_BYTES each */
    void *shared;   /* of all threads: what parts leave for the next round */
};

enum { DT_SCRATCH_BYTES = 1 << 20, DT_SHARED_BYTES = 4 << 20 };

/* Why D, a CPU, was taken for a GPU. SAY: in its description, too. */
void dt_device_cpu_no_gpu(struct dt_device *d, const char *why, bool say);

#endif
