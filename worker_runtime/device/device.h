/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank computes: its memory, its order of work (a stream), and its ops. The CPU fills this
 * table in cpu.c, a GPU does by way of the plugin. Failures inside ops are kept by the
 * stream and come out of dt_device_sync(). */
#ifndef DT_WORKER_RUNTIME_DEVICE_DEVICE_H
#define DT_WORKER_RUNTIME_DEVICE_DEVICE_H

#include "base/err.h"

#include <dtrun/dtype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_coll_backend;
struct dt_ops;
struct dt_pool;
struct dt_stream; /* on the CPU: pool and scratch; work on it is done when the call is back */
struct dt_tape_ops;

struct dt_device {
    const char *name;         /* "cpu" */
    const char *description;  /* "CPU, x86-64-v4, 2 threads, OpenBLAS 0.3.21 SkylakeX" */
    const struct dt_ops *ops; /* ops/ops.h */
    struct dt_stream *stream;
    const struct dt_device_ops *table;
    /* Moves this device's memory between ranks; NULL: it is the host's, and the host's groups do.
     */
    const struct dt_coll_backend *coll;
    size_t head_rows;   /* of logits that are best held at once; 0: as few as suit a CPU */
    size_t head_stride; /* theirs is best a multiple of so many elements; 0: packed */
    size_t gate_grain;  /* an mlp's gate and what it lets through are best one product where they
                           are as wide as a multiple of that; 0: never */
    const struct dt_tape_ops *tapes; /* NULL: nothing is gained by them */
    const char *no_gpu;              /* of a CPU that "auto" took: why it is no GPU; else NULL */
};

enum { DT_DEVICE_LITTLE = 256 << 10 };

/* Work is done in the order of the calls; what gives memory of the host to the caller waits for it.
 */
struct dt_device_ops {
    /* 256-byte aligned and zeroed. WHAT it is for ("activations") is a string that lasts: when
     * there is not enough, the error lists who holds how much. */
    void *(*alloc)(struct dt_device *d, size_t bytes, const char *what, struct dt_err *err);
    void (*free)(struct dt_device *d, void *memory);
    void (*clear)(struct dt_device *d, void *at, size_t bytes);
    void (*to_host)(struct dt_device *d, void *host, const void *at, size_t bytes);
    /* HOST may be changed when the call is back. One of at most DT_DEVICE_LITTLE bytes is on its
     * way then; a larger one has arrived. */
    void (*from_host)(struct dt_device *d, void *at, const void *host, size_t bytes);
    /* Snapshots. HOST gets what is AT behind the work so far, while work that comes later goes on:
     * snap_fence() stands before what changes it. snap_wait(), from any thread, waits until all
     * that was begun is there. */
    void (*snap)(struct dt_device *d, void *host, const void *at, size_t bytes);
    void (*snap_fence)(struct dt_device *d);
    int (*snap_wait)(struct dt_device *d, struct dt_err *err);
    /* Memory of the host that copies to and from are fastest with (pinned, for a GPU). */
    void *(*alloc_host)(struct dt_device *d, size_t bytes, struct dt_err *err);
    void (*free_host)(struct dt_device *d, void *memory);
    int (*sync)(struct dt_device *d,
                struct dt_err *err); /* all work is done, and none of it failed */
    void (*close)(struct dt_device *d);
};

/* Work that is wanted again and again, the same to the last pointer and number, is told to some
 * devices faster as one thing than op by op. */
struct dt_tape;
typedef void (*dt_work_fn)(void *arg);
struct dt_tape_ops {
    struct dt_tape *(*open)(struct dt_device *d, struct dt_err *err);
    /* Puts work on the device's stream: what WORK(ARG) asks for, which is called the first times,
     * and may be called again whenever that is needed. KEY holds all that the work depends on; WORK
     * asks for ops and clears memory, and does nothing else. */
    void (*play)(struct dt_tape *t, const void *key, size_t bytes, dt_work_fn work, void *arg);
    void (*close)(struct dt_tape *t);
};

/* The CPU, with as many threads as said. */
struct dt_device *dt_device_open_cpu(int threads, struct dt_err *err);
/* The same without a BLAS, for who asks for no product. To open one sets variables of the
 * environment, which threads of CUDA and NCCL may read at that moment. */
struct dt_device *dt_device_open_cpu_alone(int threads, struct dt_err *err);

struct dt_device_wish {
    const char *kind; /* "auto", "cpu", "cuda" */
    int threads;      /* of a CPU */
    int local_rank, local_world;
    enum dt_dtype elem; /* what a GPU computes with: DT_F32 or DT_BF16; a CPU takes float */
    bool fast;          /* sums on a GPU may be taken in any order, so that bits vary */
    bool wide_sums;     /* sums of BF16 over ranks are taken in float, and rounded once */
    size_t memory;      /* most bytes of a GPU; 0: all there are */
    bool (*round_over)(
        void *arg); /* whether the agent has ended this world; any thread; may be NULL */
    void *round_over_arg;
    bool cudnn; /* attention of a GPU is cuDNN's where that can be had and is right */
    /* One line that people should read; may be NULL. Called by who calls the device, until it
     * closes. */
    void (*say)(void *arg, const char *line);
    void *say_arg;
    /* Tells WHY and ends the process: who calls the device is stuck in a call that nobody can end.
     * From a thread of the device's. NULL: the device calls nothing that could hold it so. */
    void (*give_up)(void *arg, const struct dt_err *why);
    void *give_up_arg;
};

/* "auto": a GPU where one can be used, else the CPU, which then knows why it is not a GPU; "cuda":
 * the same is an error. */
struct dt_device *dt_device_open(const struct dt_device_wish *w, struct dt_err *err);
void dt_device_close(struct dt_device *d);

/* A GPU's memory as a worker finds it. */
struct dt_gpu_memory {
    char name[96];      /* "GPU 0, NVIDIA H100 80GB HBM3" */
    size_t total, free; /* of the device; free now, and CUDA has taken its own part already */
    size_t scratch;     /* of what is free: a worker takes it before it has a model */
};

/* Of the GPUs that WORKERS of this host would take, the one with the least free. How many there are
 * on this host for them; -1 and *err where none can be used. Opens no device. */
int dt_device_gpu_memory(int workers, struct dt_gpu_memory *out, struct dt_err *err);

/* What decides, of a device, how activations lie in memory. Zeroed: a CPU. */
struct dt_device_form {
    enum dt_dtype elem;
    size_t head_rows, head_stride, gate_grain;
};

/* Of every GPU. Logits of so many rows and 50 thousand words are 400 MiB: enough to keep it busy.
 * Rows are of whole 16 bytes in either type: what products of tensor cores load at once. */
static inline struct dt_device_form dt_gpu_form(enum dt_dtype elem)
{
    return (struct dt_device_form){
        .elem = elem, .head_rows = 8192 / dt_dtype_size(elem), .head_stride = 8, .gate_grain = 8};
}

static inline void *dt_device_alloc(struct dt_device *d, size_t bytes, const char *what,
                                    struct dt_err *err)
{
    return d->table->alloc(d, bytes, what, err);
}

static inline void dt_device_free(struct dt_device *d, void *memory)
{
    if (memory)
        d->table->free(d, memory);
}

/* TAPE NULL: just does it. */
static inline void dt_device_play(const struct dt_device *d, struct dt_tape *tape, const void *key,
                                  size_t bytes, dt_work_fn work, void *arg)
{
    if (tape)
        d->tapes->play(tape, key, bytes, work, arg);
    else
        work(arg);
}

static inline int dt_device_sync(struct dt_device *d, struct dt_err *err)
{
    return d->table->sync(d, err);
}

#endif
