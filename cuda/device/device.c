/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU's memory, copies and waiting. What fails inside them is kept like the failure of an op, for
 * dt_device_sync(). */
#include "cuda/device/device.h"

#include "cuda/cudnn/attention.h"
#include "cuda/device/inside.h"
#include "cuda/linear.h"

#include <stdlib.h>

/* To CUDA, which GPU is spoken to is a matter of each thread: one that never said so would get a
 * context on the first GPU, beside that of the worker it belongs to. */
static struct dt_cuda *enter(struct dt_device *d)
{
    struct dt_cuda *c = (struct dt_cuda *)d;
    cudaSetDevice(c->stream.ordinal);
    return c;
}

static void keep(struct dt_cuda *c, cudaError_t e, const char *what)
{
    if (e != cudaSuccess && c->stream.failed.code == DT_E_NONE)
        dt_cuda_fail(e, what, &c->stream.failed);
}

static void *gpu_alloc(struct dt_device *d, size_t bytes, const char *what, struct dt_err *err)
{
    struct dt_cuda *c = enter(d);
    void *at = dt_cuda_memory_alloc(c->memory, bytes, what, err);
    if (!at || bytes == 0)
        return at;
    cudaError_t e = cudaMemsetAsync(at, 0, bytes, c->stream.compute);
    if (e == cudaSuccess)
        return at;
    dt_cuda_fail(e, what, err);
    dt_cuda_memory_free(c->memory, at);
    return NULL;
}

static void gpu_free(struct dt_device *d, void *memory)
{
    dt_cuda_memory_free(((struct dt_cuda *)d)->memory, memory);
}

static void gpu_clear(struct dt_device *d, void *at, size_t bytes)
{
    struct dt_cuda *c = enter(d);
    if (bytes)
        keep(c, cudaMemsetAsync(at, 0, bytes, c->stream.compute), "clearing memory of the GPU");
}

static cudaError_t copy_and_wait(struct dt_cuda *c, void *to, const void *from, size_t bytes,
                                 enum cudaMemcpyKind kind)
{
    cudaError_t e = cudaMemcpyAsync(to, from, bytes, kind, c->stream.compute);
    return e == cudaSuccess ? cudaStreamSynchronize(c->stream.compute) : e;
}

static void gpu_to_host(struct dt_device *d, void *host, const void *at, size_t bytes)
{
    struct dt_cuda *c = enter(d);
    if (bytes)
        keep(c, copy_and_wait(c, host, at, bytes, cudaMemcpyDeviceToHost), "a copy from the GPU");
}

/* What is little (tokens of a micro-batch) does not wait, so that the next one is prepared while
 * the GPU is at this one. */
static void gpu_from_host(struct dt_device *d, void *at, const void *host, size_t bytes)
{
    struct dt_cuda *c = enter(d);
    struct dt_cuda_staging *g = ((struct dt_cuda_gpu *)d)->staging;
    if (bytes)
        keep(c,
             bytes <= DT_CUDA_SLOT ? dt_cuda_staging_send(g, at, host, bytes, c->stream.compute)
                                   : copy_and_wait(c, at, host, bytes, cudaMemcpyHostToDevice),
             "a copy to the GPU");
}

/* Beside compute, behind what that has been given so far. */
static void gpu_snap(struct dt_device *d, void *host, const void *at, size_t bytes)
{
    struct dt_cuda *c = enter(d);
    struct dt_cuda_gpu *g = (struct dt_cuda_gpu *)d;
    if (!bytes)
        return;
    cudaError_t e = cudaEventRecord(g->to_snap, c->stream.compute);
    if (e == cudaSuccess)
        e = cudaStreamWaitEvent(c->copy, g->to_snap, 0);
    if (e == cudaSuccess)
        e = cudaMemcpyAsync(host, at, bytes, cudaMemcpyDeviceToHost, c->copy);
    if (e == cudaSuccess)
        e = cudaEventRecord(g->snapped, c->copy);
    keep(c, e, "a snapshot of the GPU's memory");
}

/* An event that was never recorded is no wait. */
static void gpu_snap_fence(struct dt_device *d)
{
    struct dt_cuda *c = enter(d);
    keep(c, cudaStreamWaitEvent(c->stream.compute, ((struct dt_cuda_gpu *)d)->snapped, 0),
         "waiting for a snapshot");
}

static int gpu_snap_wait(struct dt_device *d, struct dt_err *err)
{
    enter(d);
    cudaError_t e = cudaEventSynchronize(((struct dt_cuda_gpu *)d)->snapped);
    return e == cudaSuccess ? 0 : dt_cuda_fail(e, "a snapshot of the GPU's memory", err);
}

static void *gpu_alloc_host(struct dt_device *d, size_t bytes, struct dt_err *err)
{
    void *at = NULL;
    enter(d);
    cudaError_t e = cudaHostAlloc(&at, bytes ? bytes : 1, cudaHostAllocPortable);
    if (e == cudaSuccess)
        return at;
    cudaGetLastError(); /* told here, so no op is to be blamed for it */
    dt_err_set(err, DT_E_MEMORY,
               "no %zu bytes of pinned memory: %s; the host has too little, or ulimit -l or the "
               "container allows too little",
               bytes, cudaGetErrorString(e));
    return NULL;
}

static void gpu_free_host(struct dt_device *d, void *memory)
{
    struct dt_cuda *c = enter(d);
    if (memory)
        keep(c, cudaFreeHost(memory), "giving pinned memory back");
}

void dt_cuda_device_lose(struct dt_cuda *c, const struct dt_err *why)
{
    pthread_mutex_lock(&c->lock);
    if (c->lost.code == DT_E_NONE)
        c->lost = *why;
    pthread_mutex_unlock(&c->lock);
}

/* A device whose peers are lost fails in many ways, none of which is the reason. */
static int gpu_sync(struct dt_device *d, struct dt_err *err)
{
    struct dt_cuda *c = enter(d);
    keep(c, cudaStreamSynchronize(c->stream.compute), "waiting for the GPU");
    pthread_mutex_lock(&c->lock);
    struct dt_err lost = c->lost;
    pthread_mutex_unlock(&c->lock);
    const struct dt_err *failed = lost.code != DT_E_NONE ? &lost : &c->stream.failed;
    return failed->code == DT_E_NONE ? 0 : dt_err_set(err, failed->code, "%s", failed->text);
}

static void gpu_close(struct dt_device *d)
{
    struct dt_cuda *c = enter(d);
    struct dt_cuda_gpu *g = (struct dt_cuda_gpu *)d;
    cudaStream_t streams[] = {c->stream.compute, c->gather, c->reduce, c->copy};
    cudaEvent_t events[] = {g->to_snap, g->snapped};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i])
            cudaStreamSynchronize(streams[i]);
    dt_cuda_linear_close(c->stream.linear);
    dt_cudnn_attention_close(c->stream.attention);
    dt_cuda_staging_close(g->staging);
    if (c->stream.host)
        cudaFreeHost(c->stream.host);
    dt_cuda_memory_destroy(c->memory);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i])
            cudaStreamDestroy(streams[i]);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            cudaEventDestroy(events[i]);
    pthread_mutex_destroy(&c->lock);
    free(g);
}

const struct dt_device_ops dt_cuda_device_table = {
    .alloc = gpu_alloc,
    .free = gpu_free,
    .clear = gpu_clear,
    .to_host = gpu_to_host,
    .from_host = gpu_from_host,
    .snap = gpu_snap,
    .snap_fence = gpu_snap_fence,
    .snap_wait = gpu_snap_wait,
    .alloc_host = gpu_alloc_host,
    .free_host = gpu_free_host,
    .sync = gpu_sync,
    .close = gpu_close,
};
