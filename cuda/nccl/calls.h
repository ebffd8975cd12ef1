/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of NCCL, and of CUDA beside it, that groups of GPUs stand on. One table, so that what
 * decides about communicators also runs where there is no GPU: tests fill a table of their own.
 * NULL is what the NCCL that was loaded is too old for. */
#ifndef DT_CUDA_NCCL_CALLS_H
#define DT_CUDA_NCCL_CALLS_H

#include "cuda/device/stream.h"

#include <dtrun/dtype.h>
#include <nccl.h>

struct dt_nccl_calls {
    ncclResult_t (*version)(int *version);
    ncclResult_t (*unique_id)(ncclUniqueId *id);
    const char *(*result_text)(ncclResult_t r);
    const char *(*last_error)(ncclComm_t comm);
    ncclResult_t (*init)(ncclComm_t *comm, int size, ncclUniqueId id, int rank, ncclConfig_t *c);
    ncclResult_t (*async_error)(ncclComm_t comm, ncclResult_t *error);
    ncclResult_t (*finalize)(ncclComm_t comm);
    ncclResult_t (*destroy)(ncclComm_t comm);
    ncclResult_t (*abort)(ncclComm_t comm);
    ncclResult_t (*group_start)(void);
    ncclResult_t (*group_end)(void);
    ncclResult_t (*all_reduce)(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t s);
    ncclResult_t (*reduce_scatter)(const void *send, void *recv, size_t count, ncclDataType_t type,
                                   ncclRedOp_t op, ncclComm_t comm, cudaStream_t s);
    ncclResult_t (*all_gather)(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclComm_t comm, cudaStream_t s);
    ncclResult_t (*broadcast)(const void *send, void *recv, size_t count, ncclDataType_t type,
                              int root, ncclComm_t comm, cudaStream_t s);
    ncclResult_t (*send)(const void *send, size_t count, ncclDataType_t type, int peer,
                         ncclComm_t comm, cudaStream_t s);
    ncclResult_t (*recv)(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                         cudaStream_t s);
    /* May be NULL: since 2.18, 2.19, 2.19, 2.28. */
    ncclResult_t (*split)(ncclComm_t comm, int colour, int key, ncclComm_t *part, ncclConfig_t *c);
    ncclResult_t (*reg)(ncclComm_t comm, void *at, size_t bytes, void **handle);
    ncclResult_t (*unreg)(ncclComm_t comm, void *handle);
    ncclResult_t (*all_to_all)(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclComm_t comm, cudaStream_t s);
    /* Windows, since 2.27; headers that are older do not know the type. */
    ncclResult_t (*mem_alloc)(void **at, size_t bytes);
    ncclResult_t (*mem_free)(void *at);
    ncclResult_t (*window)(ncclComm_t comm, void *at, size_t bytes, void **window, int flags);
    ncclResult_t (*unwindow)(ncclComm_t comm, void *window);

    cudaError_t (*set_device)(int ordinal);
    cudaError_t (*event_create)(cudaEvent_t *e, unsigned flags);
    cudaError_t (*event_destroy)(cudaEvent_t e);
    cudaError_t (*event_record)(cudaEvent_t e, cudaStream_t s);
    cudaError_t (*event_query)(cudaEvent_t e);
    cudaError_t (*stream_wait)(cudaStream_t s, cudaEvent_t e, unsigned flags);
    cudaError_t (*stream_sync)(cudaStream_t s);
    cudaError_t (*clear)(void *at, int byte, size_t bytes, cudaStream_t s);
    cudaError_t (*copy)(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                        cudaStream_t s);
    const char *(*cuda_text)(cudaError_t e);
    cudaError_t (*cast)(size_t n, void *out, enum dt_dtype out_type, const void *x,
                        enum dt_dtype type, struct dt_stream *s);

    /* for check.c */
    cudaError_t (*driver_version)(int *version);
    cudaError_t (*runtime_version)(int *version);
    cudaError_t (*devices)(int *count);
    cudaError_t (*properties)(struct cudaDeviceProp *p, int ordinal);
    cudaError_t (*can_access)(int *can, int ordinal, int peer);
};

/* The oldest NCCL that will do: before, what a call began in the background belonged to the thread
 * that called, so that an abort by the watchdog's freed a communicator which was at work. */
enum { DT_NCCL_OLDEST = 21900 };

/* The NCCL since which memory of cudaMalloc's can be registered without harm. Before, it also let
 * GPUs of a host reach into each other's, and says itself that this may hang, and crash when it is
 * aborted; since then it takes such memory for network cards only. */
enum { DT_NCCL_REGISTERS_WELL = 22500 };

/* NCCL_WIN_COLL_SYMMETRIC: all ranks make a window of as many bytes, at one offset. */
enum { DT_NCCL_SYMMETRIC = 1 };

/* Those of the libraries this one is linked with. */
const struct dt_nccl_calls *dt_nccl_linked(void);

#endif
