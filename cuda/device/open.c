/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a GPU: which one, whether it can be used, and what a worker has of it from the start. */
#include "cuda/device/inside.h"

#include "base/clock.h"
#include "cuda/device/attention.h"
#include "cuda/device/choose.h"
#include "cuda/device/tape.h"
#include "cuda/linear.h"
#include "cuda/memory/room.h"
#include "cuda/ops.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define GIB (1 << 30)

enum { WORKSPACE = 32 << 20 }; /* of cuBLASLt: what it makes full use of on Hopper */

/* Memory of the device by calls of CUDA, for memory.c. */
static enum dt_cuda_took take(void *arg, size_t bytes, void **at, struct dt_err *err)
{
    const struct dt_cuda_gpu *g = arg;
    cudaError_t e = cudaMalloc(at, bytes);
    if (e == cudaSuccess)
        return DT_CUDA_TOOK;
    if (e == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* a failure that is got over is no op's */
        return DT_CUDA_NONE_LEFT;
    }
    dt_cuda_fail(e, g->name, err);
    return DT_CUDA_TOOK_FAILED;
}

static void give(void *arg, void *at)
{
    struct dt_cuda_gpu *g = arg;
    cudaError_t e = cudaFree(at);
    if (e != cudaSuccess && g->cuda.stream.failed.code == DT_E_NONE)
        dt_cuda_fail(e, "giving memory of the GPU back", &g->cuda.stream.failed);
}

static void left(void *arg, size_t *free_bytes, size_t *total)
{
    (void)arg;
    if (cudaMemGetInfo(free_bytes, total) == cudaSuccess)
        return;
    cudaGetLastError(); /* it is only not told */
    *free_bytes = *total = 0;
}

/* Nobody tells when a driver has taken a dead process's memory back, so it is asked now and then.
 */
static bool waits(struct dt_cuda_room *room, const struct dt_device_wish *w, size_t free_bytes,
                  size_t total)
{
    const struct timespec little = {.tv_nsec = 100 * 1000 * 1000};
    if (!dt_cuda_room_waits(room, free_bytes, total, dt_clock_monotonic()) ||
        (w->round_over && w->round_over(w->round_over_arg)))
        return false;
    nanosleep(&little, NULL);
    return true;
}

/* A GPU that is quite full, or that belongs to one process alone, lets nobody in. */
static cudaError_t enter(const struct dt_cuda_gpu *g, const struct dt_device_wish *w,
                         struct dt_cuda_room *room)
{
    cudaError_t e;
    do {
        e = cudaSetDevice(g->cuda.stream.ordinal);
    } while ((e == cudaErrorMemoryAllocation || e == cudaErrorDevicesUnavailable) &&
             waits(room, w, 0, SIZE_MAX));
    if (e == cudaSuccess)
        cudaGetLastError(); /* what the first tries met is no op's */
    return e;
}

static int check_kind(const char *name, const struct cudaDeviceProp *p, struct dt_err *err)
{
    if (p->major >= 8)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME,
                      "%s is an %.60s of compute capability %d.%d, and 8.0 (Ampere) or newer is "
                      "needed; choose another by CUDA_VISIBLE_DEVICES, or set train.device to "
                      "\"cpu\"",
                      name, p->name, p->major, p->minor);
}

static void describe(struct dt_cuda_gpu *g, const char *name, size_t free_bytes, size_t total)
{
    char *text = g->cuda.description;
    size_t size = sizeof g->cuda.description;
    int version = 0;
    cudaRuntimeGetVersion(&version);
    int n = snprintf(text, size, "%s, %.60s, %.1f GiB, CUDA %d.%d", g->name, name,
                     (double)total / GIB, version / 1000, version % 1000 / 10);
    if (n > 0 && (size_t)n < size && dt_cuda_room_is_shared(free_bytes, total))
        snprintf(text + n, size - (size_t)n, ", of which others hold %.1f GiB",
                 (double)(total - free_bytes) / GIB);
}

/* Collectives go first where they and kernels could both be next: others wait for them. */
static cudaError_t open_streams(struct dt_cuda *c)
{
    int least = 0, greatest = 0;
    cudaError_t e = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    struct {
        cudaStream_t *stream;
        int priority;
    } all[] = {{&c->stream.compute, least},
               {&c->gather, greatest},
               {&c->reduce, greatest},
               {&c->copy, least}};
    for (size_t i = 0; i < sizeof all / sizeof *all && e == cudaSuccess; i++)
        e = cudaStreamCreateWithPriority(all[i].stream, cudaStreamNonBlocking, all[i].priority);
    return e;
}

static cudaError_t open_events(struct dt_cuda_gpu *g)
{
    cudaError_t e = cudaEventCreateWithFlags(&g->to_snap, cudaEventDisableTiming);
    if (e == cudaSuccess)
        e = cudaEventCreateWithFlags(&g->snapped, cudaEventDisableTiming | cudaEventBlockingSync);
    return e;
}

static int open_stream(struct dt_cuda_gpu *g, const struct dt_device_wish *w, struct dt_err *err)
{
    struct dt_device *d = &g->cuda.device;
    struct dt_stream *s = &g->cuda.stream;
    cudaError_t e = open_streams(&g->cuda);
    if (e == cudaSuccess)
        e = open_events(g);
    if (e == cudaSuccess)
        e = cudaHostAlloc((void **)&s->host, DT_PARTS_MOST * sizeof *s->host, cudaHostAllocDefault);
    if (e != cudaSuccess)
        return dt_cuda_fail(e, g->name, err);
    s->scratch_bytes = DT_CUDA_SCRATCH;
    s->scratch = dt_device_alloc(d, DT_CUDA_SCRATCH, "scratch of ops", err);
    if (!s->scratch)
        return -1;
    void *workspace = dt_device_alloc(d, WORKSPACE, "workspace of cuBLASLt", err);
    if (!workspace)
        return -1;
    s->linear = dt_cuda_linear_open(workspace, WORKSPACE, w->fast, err);
    g->staging = s->linear ? dt_cuda_staging_open(err) : NULL;
    if (!g->staging)
        return -1;
    dt_cuda_open_attention(&g->cuda, w);
    return 0;
}

static int open_gpu(struct dt_cuda_gpu *g, const struct dt_device_wish *w, struct dt_err *err)
{
    struct dt_cuda_room room;
    struct cudaDeviceProp p;
    size_t free_bytes, total;
    snprintf(g->name, sizeof g->name, "GPU %d", g->cuda.stream.ordinal);
    dt_cuda_room_begin(&room, dt_clock_monotonic());
    cudaError_t e = enter(g, w, &room);
    if (e == cudaSuccess)
        e = cudaGetDeviceProperties(&p, g->cuda.stream.ordinal);
    if (e != cudaSuccess)
        return dt_cuda_fail(e, g->name, err);
    if (check_kind(g->name, &p, err) < 0)
        return -1;
    do {
        left(NULL, &free_bytes, &total);
    } while (waits(&room, w, free_bytes, total));
    describe(g, p.name, free_bytes, total);
    const struct dt_cuda_memory_calls calls = {
        .take = take, .give = give, .left = left, .arg = g, .name = g->name};
    g->cuda.memory = dt_cuda_memory_create(&calls, w->memory, err);
    g->cuda.stream.multiprocessors = p.multiProcessorCount;
    g->cuda.stream.fast = w->fast;
    return g->cuda.memory ? open_stream(g, w, err) : -1;
}

struct dt_device *dt_cuda_device_open(const struct dt_device_wish *w, struct dt_err *err)
{
    int ordinal = dt_cuda_choose(w, err);
    if (ordinal < 0)
        return NULL;
    struct dt_cuda_gpu *g = calloc(1, sizeof *g);
    if (!g) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a device");
        return NULL;
    }
    struct dt_cuda *c = &g->cuda;
    *c = (struct dt_cuda){.stream = {.ordinal = ordinal},
                          .round_over = w->round_over,
                          .round_over_arg = w->round_over_arg,
                          .say = w->say,
                          .say_arg = w->say_arg,
                          .give_up = w->give_up,
                          .give_up_arg = w->give_up_arg,
                          .wide_sums = w->wide_sums};
    c->device = (struct dt_device){
        .name = "cuda",
        .description = c->description,
        .ops = w->elem == DT_BF16 ? &dt_cuda_ops_bf16 : &dt_cuda_ops_f32,
        .stream = &c->stream,
        .table = &dt_cuda_device_table,
        .coll = &dt_cuda_nccl,
        .head_rows = dt_gpu_form(w->elem).head_rows,
        .head_stride = dt_gpu_form(w->elem).head_stride,
        .gate_grain = dt_gpu_form(w->elem).gate_grain,
        .tapes = &dt_cuda_tapes,
    };
    pthread_mutex_init(&c->lock, NULL);
    if (open_gpu(g, w, err) == 0)
        return &c->device;
    c->device.table->close(&c->device);
    return NULL;
}

/* It takes a context to know what is free, as a worker's will take one. */
int dt_cuda_device_memory(int ordinal, struct dt_gpu_memory *out, struct dt_err *err)
{
    struct cudaDeviceProp p;
    char name[24];
    snprintf(name, sizeof name, "GPU %d", ordinal);
    cudaError_t e = cudaSetDevice(ordinal);
    if (e == cudaSuccess)
        e = cudaGetDeviceProperties(&p, ordinal);
    if (e == cudaSuccess && check_kind(name, &p, err) < 0)
        return -1;
    *out = (struct dt_gpu_memory){.scratch = DT_CUDA_SCRATCH + WORKSPACE};
    if (e == cudaSuccess)
        e = cudaMemGetInfo(&out->free, &out->total);
    if (e != cudaSuccess)
        return dt_cuda_fail(e, name, err);
    snprintf(out->name, sizeof out->name, "%s, %.60s", name, p.name);
    return 0;
}

/* The UUID's bytes, with a dash before those at 4, 6, 8 and 10. */
static void write_uuid(const unsigned char *bytes, char out[48])
{
    int n = snprintf(out, 48, "GPU");
    for (int i = 0; i < 16; i++)
        n += snprintf(out + n, (size_t)(48 - n), "%s%02x",
                      i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "", bytes[i]);
}

int dt_cuda_device_identify(int ordinal, struct dt_gpu_identity *out, struct dt_err *err)
{
    struct cudaDeviceProp p;
    char name[24];
    snprintf(name, sizeof name, "GPU %d", ordinal);
    cudaError_t e = cudaGetDeviceProperties(&p, ordinal);
    if (e != cudaSuccess)
        return dt_cuda_fail(e, name, err);
    snprintf(out->name, sizeof out->name, "%.63s", p.name);
    write_uuid((const unsigned char *)p.uuid.bytes, out->uuid);
    snprintf(out->pci, sizeof out->pci, "%04x:%02x:%02x.0", (unsigned)p.pciDomainID & 0xffff,
             (unsigned)p.pciBusID & 0xff, (unsigned)p.pciDeviceID & 0xff);
    return 0;
}
