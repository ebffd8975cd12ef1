/* SPDX-License-Identifier: Apache-2.0 */
/* One communicator of NCCL: where it is in its life, who is inside it, and why it failed. NCCL lets
 * one thread at a time use a communicator; only an abort may come in from beside, to free a thread
 * that is stuck. So a thread enters and leaves: the one that trains to call and to wait until NCCL
 * has taken the call, the watchdog to look for errors. An abort tells whoever is inside to come
 * out, waits for that a moment, and then aborts either way, once.
 *
 * One that blocks answers a call when NCCL has taken it, and is never "in progress"; so who is
 * stuck inside hears of no abort, and NCCL would free what it stands on. There the abort gives up:
 * it has the process end with the reason. */
#ifndef DT_CUDA_NCCL_COMM_H
#define DT_CUDA_NCCL_COMM_H

#include "base/clock.h"
#include "cuda/nccl/calls.h"

#include <pthread.h>

enum dt_comm_state {
    DT_COMM_NEW,
    DT_COMM_CONNECTING,
    DT_COMM_READY,
    DT_COMM_BUSY, /* NCCL has not yet taken the last call */
    DT_COMM_CLOSING,
    DT_COMM_CLOSED,
    DT_COMM_FAILED, /* not aborted yet */
    DT_COMM_ABORTED,
    DT_COMM_STATES
};

struct dt_comm_last { /* tells WHY and ends the process */
    void (*give_up)(void *arg, const struct dt_err *why);
    void *arg;
};

struct dt_comm {
    const struct dt_nccl_calls *calls;
    struct dt_comm_last last; /* give_up NULL: it does not block */
    pthread_mutex_t lock;
    pthread_cond_t left; /* somebody came out, or an abort is over */
    enum dt_comm_state state;
    bool inside, aborting;
    dt_ms entered;     /* when who is inside came in to call */
    ncclComm_t handle; /* written by a thread of NCCL's when a split is done */
    struct dt_err why; /* the first failure */
};

/* LAST: of one that blocks; NULL: it does not. */
int dt_comm_init(struct dt_comm *c, const struct dt_nccl_calls *calls,
                 const struct dt_comm_last *last, struct dt_err *err);
/* Waits for an abort under way. What was opened is closed or aborted before. */
void dt_comm_finish(struct dt_comm *c);

enum dt_comm_state dt_comm_state(struct dt_comm *c);
/* 0, or -1 and the first failure. */
int dt_comm_check(struct dt_comm *c, struct dt_err *err);

/* SIZE ranks that all have ID make one. It may have been aborted meanwhile: -1 and why.
 * DT_E_TIMEOUT at the deadline, here and below, which one that blocks leaves to the watchdog. C
 * then still is to be aborted. */
int dt_comm_connect(struct dt_comm *c, ncclUniqueId id, int size, int rank, dt_ms deadline,
                    struct dt_err *err);
/* Of all ranks of PARENT, which must be ready; where it fails, PARENT is aborted too, as NCCL may
 * be at work in it for good. */
int dt_comm_split(struct dt_comm *c, struct dt_comm *parent, int colour, int key, dt_ms deadline,
                  struct dt_err *err);

/* The handle, for calls until dt_comm_leave(); NULL and why not. Of the thread that trains. */
ncclComm_t dt_comm_enter(struct dt_comm *c, struct dt_err *err);
/* R: what the call named WHAT answered. Waits until NCCL has taken it; a failure is C's. */
int dt_comm_leave(struct dt_comm *c, ncclResult_t r, const char *what, dt_ms deadline,
                  struct dt_err *err);

/* How long NCCL has not taken the call that somebody is inside for, or not connected it; 0: there
 * is nobody. */
dt_ms dt_comm_busy(struct dt_comm *c, dt_ms now);
/* From the watchdog's thread: an error that NCCL met by itself. ncclSuccess also where somebody is
 * inside, who then finds it. */
ncclResult_t dt_comm_ask(struct dt_comm *c);

/* From any thread: it is of no use any more; the first reason counts. */
void dt_comm_fail(struct dt_comm *c, const struct dt_err *why);
/* The same, and what runs on the device is stopped. NCCL is told once, whoever comes second. Does
 * not come back from one that blocks and has somebody stuck inside. */
void dt_comm_abort(struct dt_comm *c, const struct dt_err *why);

/* Ends it with the other ranks where it is ready, and aborts it where that takes longer than
 * PATIENCE, or where it is not. */
void dt_comm_close(struct dt_comm *c, dt_ms patience);

#endif
