/* SPDX-License-Identifier: Apache-2.0 */
/* The table over the real libraries. What an older NCCL lacks is asked for by name when the first
 * group is made: linked, it would keep the plugin from being loaded at all. */
#include "cuda/nccl/calls.h"

#include "cuda/kernels/kernels.h"

#include <dlfcn.h>
#include <pthread.h>

/* "Not yet" is no error, but CUDA keeps it as the thread's last one, where the next launch of a
 * kernel finds it and takes it for its own. */
static cudaError_t query(cudaEvent_t event)
{
    cudaError_t e = cudaEventQuery(event);
    if (e == cudaErrorNotReady)
        cudaGetLastError();
    return e;
}

static struct dt_nccl_calls linked = {
    .version = ncclGetVersion,
    .unique_id = ncclGetUniqueId,
    .result_text = ncclGetErrorString,
    .last_error = ncclGetLastError,
    .init = ncclCommInitRankConfig,
    .async_error = ncclCommGetAsyncError,
    .finalize = ncclCommFinalize,
    .destroy = ncclCommDestroy,
    .abort = ncclCommAbort,
    .group_start = ncclGroupStart,
    .group_end = ncclGroupEnd,
    .all_reduce = ncclAllReduce,
    .reduce_scatter = ncclReduceScatter,
    .all_gather = ncclAllGather,
    .broadcast = ncclBroadcast,
    .send = ncclSend,
    .recv = ncclRecv,
    .set_device = cudaSetDevice,
    .event_create = cudaEventCreateWithFlags,
    .event_destroy = cudaEventDestroy,
    .event_record = cudaEventRecord,
    .event_query = query,
    .stream_wait = cudaStreamWaitEvent,
    .stream_sync = cudaStreamSynchronize,
    .clear = cudaMemsetAsync,
    .copy = cudaMemcpyAsync,
    .cuda_text = cudaGetErrorString,
    .cast = dt_cuda_cast,
    .driver_version = cudaDriverGetVersion,
    .runtime_version = cudaRuntimeGetVersion,
    .devices = cudaGetDeviceCount,
    .properties = cudaGetDeviceProperties,
    .can_access = cudaDeviceCanAccessPeer,
};

static void look_up(void)
{
    /* ISO C knows no way from void * to a function: POSIX promises this one. */
    *(void **)&linked.split = dlsym(RTLD_DEFAULT, "ncclCommSplit");
    *(void **)&linked.reg = dlsym(RTLD_DEFAULT, "ncclCommRegister");
    *(void **)&linked.unreg = dlsym(RTLD_DEFAULT, "ncclCommDeregister");
    *(void **)&linked.all_to_all = dlsym(RTLD_DEFAULT, "ncclAlltoAll");
    *(void **)&linked.mem_alloc = dlsym(RTLD_DEFAULT, "ncclMemAlloc");
    *(void **)&linked.mem_free = dlsym(RTLD_DEFAULT, "ncclMemFree");
    *(void **)&linked.window = dlsym(RTLD_DEFAULT, "ncclCommWindowRegister");
    *(void **)&linked.unwindow = dlsym(RTLD_DEFAULT, "ncclCommWindowDeregister");
}

const struct dt_nccl_calls *dt_nccl_linked(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_up);
    return &linked;
}
