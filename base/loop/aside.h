/* SPDX-License-Identifier: Apache-2.0 */
/* Work that may block, in a thread of its own beside the loop. uv_queue_work() ends the process
 * where no thread can be had, as under a limit of processes that somebody else has used up; this
 * says so instead. */
#ifndef DT_BASE_LOOP_ASIDE_H
#define DT_BASE_LOOP_ASIDE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

/* A member of what the work is about. */
struct dt_aside {
    uv_async_t done;
    uv_thread_t thread;
    atomic_int phase;
    int status; /* below 0: libuv's error, as there was no thread for the work */
    void (*work)(struct dt_aside *a);
    void (*then)(struct dt_aside *a);
};

/* Calls WORK in a thread and, when that has ended or could not begin, THEN from the loop: A is the
 * caller's again then, who may free it. Below 0: libuv's error, and neither is called. */
int dt_aside_run(struct dt_aside *a, uv_loop_t *loop, void (*work)(struct dt_aside *a),
                 void (*then)(struct dt_aside *a));

/* Waits no longer for work that does not end, as on a disk that hangs: the loop goes on without it.
 * True: THEN is not called, and A and all that WORK touches are the thread's until the process
 * ends. False: the work is done, and THEN follows. */
bool dt_aside_disown(struct dt_aside *a);

#endif
