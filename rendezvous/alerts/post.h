/* SPDX-License-Identifier: Apache-2.0 */
/* Brings notices to one receiver, one after the other, in a thread that lasts for one delivery: a
 * receiver that hangs holds up its own notices and nothing else. What cannot be delivered now is
 * tried again; a queue that is full drops its oldest. */
#ifndef DT_RENDEZVOUS_ALERTS_POST_H
#define DT_RENDEZVOUS_ALERTS_POST_H

#include "rendezvous/alerts/receiver.h"

#include <uv.h>

#define DT_POST_MOST 64 /* notices that wait */

struct dt_post;

struct dt_post_counters {
    uint64_t delivered, failed, dropped; /* failed: given up; dropped: too many waited */
    uint64_t waiting;                    /* now, with the one that is being delivered */
};

/* RECEIVER is copied with its target; SERVER is the caller's until the end. NULL: no memory. */
struct dt_post *dt_post_open(uv_loop_t *loop, const struct dt_receiver *receiver,
                             const char *server);
/* ON_TRIED, which may be NULL, belongs to a test: it is next, is tried once, and ON_TRIED is called
 * then. OUTCOME is a sentence. */
typedef void dt_post_tried_fn(void *arg, const char *outcome, bool delivered);
void dt_post_add(struct dt_post *p, const struct dt_notice *n, dt_post_tried_fn *on_tried,
                 void *arg);
struct dt_post_counters dt_post_counters(const struct dt_post *p);
/* What waits is dropped, and a delivery is ended. */
void dt_post_close(struct dt_post *p, void (*on_closed)(void *arg), void *arg);

#endif
