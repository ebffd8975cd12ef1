/* SPDX-License-Identifier: Apache-2.0 */
/* One guard process as dtrun sees it: it is forked here, told what to do, and heard. guard.h is of
 * all of them together, and alone includes this. */
#ifndef DT_AGENT_PROCESS_GUARD_POST_H
#define DT_AGENT_PROCESS_GUARD_POST_H

#include "agent/process/guard_wire.h"
#include "base/err.h"
#include "base/list.h"

#include <stdbool.h>
#include <uv.h>

/* Each order that waits is another one: this is more than there are signals to send to all. */
#define DT_GUARD_MOST_UNSENT 256

struct dt_guard_post;

typedef void dt_guard_post_report_fn(void *arg, struct dt_guard_post *p,
                                     const struct dt_guard_report *r);

/* What is known of a worker by this process. */
struct dt_guard_charge {
    pid_t pid; /* of one that is not known to be over; else 0 */
    bool due;  /* neither started nor refused yet */
};

struct dt_guard_post {
    struct dt_node in_guard;
    pid_t pid;   /* 0 once reaped */
    bool killed; /* it did not leave of itself, which it does when nobody is left */
    struct dt_guard_charge *charges; /* one for each worker of the attempt */
    int count;

    uv_poll_t reports;
    int sock;
    bool silent; /* its end of the socket is closed */
    struct dt_guard_order unsent[DT_GUARD_MOST_UNSENT];
    int unsent_count;
    dt_guard_post_report_fn *on_report;
    void *arg;
    void (*on_closed)(void *arg);
    void *closed_arg;
};

/* Forks, and starts those of WORKERS that have a path. Their reports come to ON_REPORT from
 * dt_guard_post_read() and the loop. NULL and *err on failure. */
struct dt_guard_post *dt_guard_post_open(uv_loop_t *loop, const struct dt_spawn *workers, int count,
                                         const struct dt_spawn_inherited *inherited,
                                         dt_guard_post_report_fn *on_report, void *arg,
                                         struct dt_err *err);

/* Takes what it has told. */
void dt_guard_post_read(struct dt_guard_post *p);

/* An order that waits already is not given twice, as the kernel does with signals. */
void dt_guard_post_order(struct dt_guard_post *p, enum dt_guard_order_kind kind, int index,
                         int signum);

/* Leaves the list that it is on. Frees it, then ON_CLOSED. */
void dt_guard_post_close(struct dt_guard_post *p, void (*on_closed)(void *arg), void *arg);

#endif
