/* SPDX-License-Identifier: Apache-2.0 */
/* The launch agent of one host: a child process with three pipes, and through it dtrun on that
 * host. Its lines are shown with the host's label before them, from hello on. One loop's thread. */
#ifndef DT_LAUNCHER_FLEET_LINK_H
#define DT_LAUNCHER_FLEET_LINK_H

#include "agent/output/console.h"
#include "base/err.h"
#include "launcher/fleet/order.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct dt_fleet_link;

/* Called from the loop. */
struct dt_fleet_link_events {
    void (*on_hello)(void *arg, size_t i, const struct dt_fleet_hello *hello);
    /* It has exited, with STATUS or by signal -STATUS, and all that it printed was taken. OVER:
     * dtrun there had said that it ends, so that a STATUS is its own. */
    void (*on_gone)(void *arg, size_t i, int status, bool over);
};

struct dt_fleet_link_means {
    uv_loop_t *loop;
    struct dt_console *console[2]; /* for the two streams; may be one */
    const struct dt_fleet_link_events *events;
    void *arg;
};

/* Executes CALL for host I. MEANS are kept, LABEL is copied. */
struct dt_fleet_link *dt_fleet_link_start(const struct dt_fleet_link_means *means, size_t i,
                                          const char *label, char *const *call, struct dt_err *err);

/* BYTES are copied. What cannot be sent any more is dropped: on_gone follows. */
void dt_fleet_link_send(struct dt_fleet_link *l, const void *bytes, size_t len);

/* To the launch agent itself. */
void dt_fleet_link_signal(struct dt_fleet_link *l, int signum);

/* A console has room again. */
void dt_fleet_link_resume(struct dt_fleet_link *l);

/* The last line on standard error before hello, or "". */
const char *dt_fleet_link_last_line(const struct dt_fleet_link *l);

/* After on_gone only. Frees it when its handles have closed. */
void dt_fleet_link_close(struct dt_fleet_link *l);

#endif
