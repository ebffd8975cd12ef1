/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank computes: its memory, its order of work (a stream), and its ops. The CPU fills this
 * table in device_cpu.c, a GPU does by way of the plugin. Failures inside ops are kept by the
 * stream and come out of dt_device_sync(). */
#ifndef DT_WORKER_RUNTIME_DEVICE_H
#define DT_WORKER_RUNTIME_DEVICE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct dt_ops;
struct dt_pool;
struct dt_stream; /* on the CPU: pool and scratch; work on it is done when the call is back */

struct dt_device {
    const char *name;         /* "cpu" */
    const char *description;  /* "CPU, x86-64-v4, 2 threads, OpenBLAS 0.3.21 SkylakeX" */
    const struct dt_ops *ops; /* model/ops.h */
    struct dt_stream *stream;
    const struct dt_device_ops *table;
};

struct dt_device_ops {
    void *(*alloc)(struct dt_device *d, size_t bytes,
                   struct dt_err *err); /* 64-byte aligned; zeroed */
    void (*free)(struct dt_device *d, void *memory);
    void (*clear)(struct dt_device *d, void *at, size_t bytes);
    void (*to_host)(struct dt_device *d, void *host, const void *at, size_t bytes);
    void (*from_host)(struct dt_device *d, void *at, const void *host, size_t bytes);
    int (*sync)(struct dt_device *d,
                struct dt_err *err); /* all work is done, and none of it failed */
    void (*close)(struct dt_device *d);
};

/* The CPU, with as many threads as said. */
struct dt_device *dt_device_open_cpu(int threads, struct dt_err *err);
/* KIND: "auto", "cpu", "cuda". */
struct dt_device *dt_device_open(const char *kind, int threads, int local_rank, struct dt_err *err);
void dt_device_close(struct dt_device *d);

static inline void *dt_device_alloc(struct dt_device *d, size_t bytes, struct dt_err *err)
{
    return d->table->alloc(d, bytes, err);
}

static inline void dt_device_free(struct dt_device *d, void *memory)
{
    if (memory)
        d->table->free(d, memory);
}

static inline int dt_device_sync(struct dt_device *d, struct dt_err *err)
{
    return d->table->sync(d, err);
}

#endif
