/* SPDX-License-Identifier: Apache-2.0 */
/* One piece of work on a thread of low priority that nobody has to wait for. All functions are the
 * owner's, one thread. Zeroed memory is an errand that was never begun. */
#ifndef DT_WORKER_RUNTIME_CKPT_UPLOAD_ERRAND_H
#define DT_WORKER_RUNTIME_CKPT_UPLOAD_ERRAND_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct dt_errand {
    atomic_bool stop; /* the work is to look at it, and to end soon once it is true */
    atomic_bool over; /* the thread sets it last; until then the rest is the thread's */
    bool begun;       /* and not yet joined */
    int rc;
    struct dt_err why;
    int (*work)(void *arg, struct dt_err *err);
    void *arg;
    pthread_t thread;
};

/* The one before must be over, and have been asked for. */
int dt_errand_begin(struct dt_errand *e, int (*work)(void *arg, struct dt_err *err), void *arg,
                    struct dt_err *err);
/* 0: it is under way; -1: it has failed, told once; 1: it went well, or there is none. */
int dt_errand_ask(struct dt_errand *e, struct dt_err *err);
void dt_errand_stop(struct dt_errand *e);
/* Stops it, and waits for that. */
void dt_errand_finish(struct dt_errand *e);

#endif
