/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL as a profiler plugin sees it: loads the library, takes the table of one version and calls it
 * in the order in which NCCL of that version does, for the events that the plugin asked for. It
 * communicates nothing. A communicator is one thread's at a time; several may be used at once. */
#ifndef TESTS_LIB_PROFILED_NCCL_H
#define TESTS_LIB_PROFILED_NCCL_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define PROFILED_NCCL_VERSIONS 6

struct profiled_nccl {
    void *library;
    int version; /* of the interface: 1 to 6 */
    int mask;    /* the events that the plugin wants */
    const void *table;
};

struct profiled_comm {
    struct profiled_nccl *nccl;
    void *context;
    const char *name;
    uint64_t hash;
    int rank, ranks;
};

/* What a program asks for. */
struct profiled_call {
    const char *function; /* "AllReduce" */
    const char *datatype; /* "ncclFloat32" */
    uint64_t count;
    int peer; /* of a send or receive */
    int channels;
};

/* A collective that is under way. */
struct profiled_work {
    void *handle;
    int channels;
};

/* -1 and *err: PATH cannot be loaded, or has no table for VERSION. */
int profiled_nccl_open(struct profiled_nccl *n, const char *path, int version, struct dt_err *err);
void profiled_nccl_close(struct profiled_nccl *n);

void profiled_comm_open(struct profiled_nccl *n, struct profiled_comm *c);
void profiled_comm_close(struct profiled_comm *c);

/* The program's call returns: the GPU has its work. */
struct profiled_work profiled_comm_collective(struct profiled_comm *c,
                                              const struct profiled_call *call);
void profiled_comm_exchange(struct profiled_comm *c, const struct profiled_call *call);
/* The GPU ends that work on so many of its channels. */
void profiled_comm_gpu_ends(struct profiled_comm *c, const struct profiled_work *work,
                            int channels);

#endif
