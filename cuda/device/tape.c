/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/device/tape.h"

#include "base/map.h"
#include "cuda/device/device.h"

#include <stdlib.h>
#include <string.h>

/* Each keeps some memory of the device. A model has a few for each block, at stage 3 a few more, as
 * parameters then are now here, now there. What comes beyond is told op by op. */
enum { TAKES_MOST = 2048 };

/* One work, as it was the last time. */
struct take {
    struct dt_map_node node;
    bool spoilt; /* it could not be recorded, and is not tried again */
    cudaGraphExec_t graph;
    unsigned char key[];
};

struct dt_tape {
    struct dt_cuda *cuda;
    struct dt_map takes;
};

static struct dt_tape *tape_open(struct dt_device *d, struct dt_err *err)
{
    struct dt_tape *t = calloc(1, sizeof *t);
    if (!t) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a list of CUDA graphs");
        return NULL;
    }
    t->cuda = (struct dt_cuda *)d;
    dt_map_init(&t->takes, offsetof(struct take, key), dt_map_random_seed());
    return t;
}

static void free_take(void *entry)
{
    struct take *take = entry;
    if (take->graph)
        cudaGraphExecDestroy(take->graph);
    free(take);
}

static void tape_close(struct dt_tape *t)
{
    cudaSetDevice(t->cuda->stream.ordinal);
    cudaStreamSynchronize(t->cuda->stream.compute); /* none of them runs any more */
    dt_map_finish(&t->takes, free_take);
    free(t);
}

/* Without memory for it there is none, which costs time and nothing else. */
static void remember(struct dt_tape *t, const void *key, size_t bytes)
{
    struct take *take = t->takes.count < TAKES_MOST ? calloc(1, sizeof *take + bytes) : NULL;
    if (!take)
        return;
    memcpy(take->key, key, bytes);
    if (dt_map_insert(&t->takes, take, (uint32_t)bytes) < 0)
        free(take);
}

/* What WORK asks for, which then is not done yet; NULL: it cannot be recorded. */
static cudaGraph_t record(struct dt_stream *s, dt_work_fn work, void *arg)
{
    cudaGraph_t graph = NULL;
    /* Only what this thread does may spoil it: others allocate, and ask NCCL how it is. */
    if (cudaStreamBeginCapture(s->compute, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return NULL;
    work(arg);
    cudaError_t e = cudaStreamEndCapture(s->compute, &graph);
    if (e == cudaSuccess && s->failed.code == DT_E_NONE)
        return graph;
    if (graph)
        cudaGraphDestroy(graph);
    return NULL;
}

/* A failure here is not the work's: it is still to be done, and would then fail again. */
static void make(struct take *take, struct dt_stream *s, dt_work_fn work, void *arg)
{
    cudaGraph_t graph = record(s, work, arg);
    if (!graph || cudaGraphInstantiate(&take->graph, graph, 0) != cudaSuccess) {
        take->graph = NULL;
        take->spoilt = true;
        s->failed = (struct dt_err){0};
        cudaGetLastError();
    }
    if (graph)
        cudaGraphDestroy(graph);
}

static void tape_play(struct dt_tape *t, const void *key, size_t bytes, dt_work_fn work, void *arg)
{
    struct dt_stream *s = &t->cuda->stream;
    cudaSetDevice(s->ordinal);
    struct take *take = dt_map_find(&t->takes, (struct dt_bytes){key, bytes});
    if (!take)
        remember(t, key, bytes);
    else if (!take->graph && !take->spoilt && s->failed.code == DT_E_NONE)
        make(take, s, work, arg);
    if (!take || !take->graph) {
        work(arg);
        return;
    }
    cudaError_t e = cudaGraphLaunch(take->graph, s->compute);
    if (e != cudaSuccess && s->failed.code == DT_E_NONE)
        dt_cuda_fail(e, "launching a CUDA graph", &s->failed);
}

const struct dt_tape_ops dt_cuda_tapes = {
    .open = tape_open,
    .play = tape_play,
    .close = tape_close,
};
