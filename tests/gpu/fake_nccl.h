/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL and CUDA as a table that a test fills: what calls answer is said in `fake`, what was called
 * stands in its log, and what was made and not given back is counted. Nothing is computed. Work "on
 * the device" is done at once, unless `hang` says that it never ends; an abort ends it, with the
 * end of the group of calls that it is in. */
#ifndef DT_TESTS_GPU_FAKE_NCCL_H
#define DT_TESTS_GPU_FAKE_NCCL_H

#include "cuda/nccl/inside.h"
#include "tests/lib/check.h"

#include <stdatomic.h>

struct fake {
    /* What calls answer. */
    ncclResult_t version, unique_id, init, call, finalize, split, mem_alloc, window;
    int version_is;
    _Atomic int polls; /* so often async_error() says "in progress" first; then this: */
    _Atomic int async;
    const char *text; /* NCCL's last error */
    atomic_bool hang; /* collectives never end */
    bool stuck;       /* calls come back only when aborted, or given up on */
    cudaError_t event_record;
    atomic_bool round_over;
    /* What has happened. */
    _Atomic int comms, events, blocks, registered; /* that there are */
    _Atomic int lent, windows;                     /* of NCCL's memory, and on it */
    _Atomic int inits, finalizes, destroys, aborts, asked;
    char log[2000]; /* names of calls, each with a blank behind it */
    pthread_mutex_t lock;
    pthread_cond_t aborted;
    int blocking;                  /* of what was made last */
    _Atomic int waiting, give_ups; /* calls that are stuck; ends of the process */
    struct dt_err gave_up;
    struct dt_err lost; /* what the device was told */
    atomic_bool is_lost;
};

extern struct fake fake;

/* All is well again; nothing may be left of what was before. */
void fake_reset(void);
const struct dt_nccl_calls *fake_calls(void); /* those of an NCCL that has all */
/* A table to change. */
struct dt_nccl_calls fake_copy(void);

/* The process does not end, and what was stuck comes back. */
extern const struct dt_comm_last fake_last;

/* A GPU whose device memory is the host's. */
void fake_gpu(struct dt_cuda *c);

/* Nothing was left behind. */
#define CHECK_NOTHING_LEFT                                                                         \
    do {                                                                                           \
        CHECK_EQ(fake.comms, 0);                                                                   \
        CHECK_EQ(fake.events, 0);                                                                  \
        CHECK_EQ(fake.blocks, 0);                                                                  \
        CHECK_EQ(fake.registered, 0);                                                              \
        CHECK_EQ(fake.lent, 0);                                                                    \
        CHECK_EQ(fake.windows, 0);                                                                 \
    } while (0)

#endif
