/* SPDX-License-Identifier: Apache-2.0 */
/* What dt_cuda_nccl keeps of a group, for the files that make it up: nccl.c opens and closes,
 * run.c runs collectives, memory.c lends memory. */
#ifndef DT_CUDA_NCCL_INSIDE_H
#define DT_CUDA_NCCL_INSIDE_H

#include "cuda/device/device.h"
#include "cuda/nccl/watchdog.h"

struct dt_nccl {
    const struct dt_nccl_calls *calls;
    struct dt_cuda *cuda;
    int size, rank;
    char *name;
    /* From here on only where CONNECTED: a group of one has no communicator, unless NCCL split it
     * off a larger one. */
    bool connected, watching;
    bool windows; /* memory lent is of NCCL's, and a window */
    struct dt_comm comm;
    struct dt_flights flights;
    struct dt_peers peers;
    struct dt_watched watched;
    struct dt_list blocks; /* memory lent */
    /* Sends and receives begin together, when the first of them is waited for: one behind the other
     * two ranks that both send first would wait for each other. */
    struct dt_nccl_post {
        struct dt_coll_call call;
        struct dt_flight *flight;
    } posted[DT_COLL_PENDING];
    int posts;
    void *token; /* a float, for barriers */
    void *wide;  /* floats, for sums of BF16: of the reduce lane */
    size_t wide_bytes;
};

/* A thread that never said which GPU it speaks to speaks to the first, NCCL inside it included. */
static inline cudaError_t dt_nccl_choose_gpu(const struct dt_nccl *n)
{
    return n->calls->set_device(n->cuda->stream.ordinal);
}

/* dt_cuda_nccl.open() over any table. */
void *dt_nccl_open(const struct dt_nccl_calls *calls, const struct dt_coll_group *g,
                   struct dt_meeting *m, struct dt_err *err);

int dt_nccl_start(void *b, struct dt_coll_handle *h, struct dt_err *err);
int dt_nccl_wait(void *b, struct dt_coll_handle *h, dt_ms deadline, struct dt_err *err);
/* Sends and receives that nobody has waited for do not happen. */
void dt_nccl_drop_posted(struct dt_nccl *n);
/* The host waits until all that began has ended on the device. */
int dt_nccl_rest(struct dt_nccl *n, dt_ms deadline, struct dt_err *err);

void *dt_nccl_alloc(void *b, size_t bytes, enum dt_coll_memory memory, struct dt_err *err);
void dt_nccl_release(void *b, void *memory);
void dt_nccl_release_all(struct dt_nccl *n);
/* Makes the block that AT lies in, if it is one of ours, known to NCCL, which then moves it without
 * a copy between GPUs and cards that can. Before all ranks' next call with it. */
int dt_nccl_show(struct dt_nccl *n, const void *at, dt_ms deadline, struct dt_err *err);
/* Whether there are to be windows: where the user wants them, and NCCL has them. */
int dt_nccl_find_windows(struct dt_nccl *n, struct dt_err *err);
/* Takes that back; before the communicator ends, and behind dt_nccl_rest(). */
void dt_nccl_hide_all(struct dt_nccl *n);

#endif
