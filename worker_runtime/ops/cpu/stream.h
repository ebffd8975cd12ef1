/* SPDX-License-Identifier: Apache-2.0 */
/* What a stream is on the CPU: the pool that ops run on, and memory each of its threads may write
 * in while it runs a part. */
#ifndef DT_WORKER_RUNTIME_OPS_CPU_STREAM_H
#define DT_WORKER_RUNTIME_OPS_CPU_STREAM_H

struct dt_pool;

struct dt_stream {
    struct dt_pool *pool;
    void **scratch; /* [threads], DT_SCRATCH_BYTES each */
    void *shared;   /* of all threads: what parts leave for the next round */
};

enum { DT_SCRATCH_BYTES = 1 << 20, DT_SHARED_BYTES = 4 << 20 };

#endif
