/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/memory/staging.h"

#include "cuda/device/device.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 8 };

struct dt_cuda_staging {
    char *pinned;
    cudaEvent_t copied[SLOTS];
    unsigned turn;
};

struct dt_cuda_staging *dt_cuda_staging_open(struct dt_err *err)
{
    struct dt_cuda_staging *g = calloc(1, sizeof *g);
    if (!g) {
        dt_err_set(err, DT_E_MEMORY, "no memory for copies to a GPU");
        return NULL;
    }
    cudaError_t e =
        cudaHostAlloc((void **)&g->pinned, (size_t)SLOTS * DT_CUDA_SLOT, cudaHostAllocDefault);
    for (int i = 0; i < SLOTS && e == cudaSuccess; i++)
        e = cudaEventCreateWithFlags(&g->copied[i], cudaEventDisableTiming);
    if (e == cudaSuccess)
        return g;
    dt_cuda_fail(e, "pinned memory for copies to a GPU", err);
    dt_cuda_staging_close(g);
    return NULL;
}

void dt_cuda_staging_close(struct dt_cuda_staging *g)
{
    if (!g)
        return;
    for (int i = 0; i < SLOTS; i++)
        if (g->copied[i])
            cudaEventDestroy(g->copied[i]);
    if (g->pinned)
        cudaFreeHost(g->pinned);
    free(g);
}

cudaError_t dt_cuda_staging_send(struct dt_cuda_staging *g, void *at, const void *host,
                                 size_t bytes, cudaStream_t stream)
{
    unsigned slot = g->turn++ % SLOTS;
    char *pinned = g->pinned + (size_t)slot * DT_CUDA_SLOT;
    cudaError_t e = cudaEventSynchronize(g->copied[slot]); /* at once where it was never recorded */
    if (e != cudaSuccess)
        return e;
    memcpy(pinned, host, bytes);
    e = cudaMemcpyAsync(at, pinned, bytes, cudaMemcpyHostToDevice, stream);
    return e == cudaSuccess ? cudaEventRecord(g->copied[slot], stream) : e;
}
