/* SPDX-License-Identifier: Apache-2.0 */
/* What happens, to whoever listens: /events, as server-sent events. A listener has a place in the
 * chronicle and no queue of its own, so one that reads slowly costs no memory: events that the
 * chronicle no longer has by then are left out, as their numbers show. */
#ifndef DT_RENDEZVOUS_WEB_FEED_H
#define DT_RENDEZVOUS_WEB_FEED_H

#include "base/httpd/service.h"
#include "rendezvous/events/chronicle.h"
#include "rendezvous/protocol/spec.h"

/* Zeroed memory is one that was never opened. */
struct dt_web_feed {
    struct dt_chronicle *chronicle; /* NULL once it is stopped */
    struct dt_list listeners;
    size_t count; /* of listeners */
    uv_timer_t beat;
    struct dt_chronicle_follower follower;
    int64_t *counts; /* of events, by kind; the owner's */
};

/* COUNTS has a place for each kind. */
void dt_web_feed_init(struct dt_web_feed *f, uv_loop_t *loop, struct dt_chronicle *chronicle,
                      int64_t *counts);
/* Who listens hears no more, and the chronicle is not looked at from here on. A second call does
 * nothing. F's timer is the owner's to close, behind this. */
void dt_web_feed_stop(struct dt_web_feed *f);

/* The body for a request for what is newer than the number AFTER, "" or NULL for all that is kept,
 * of RUN, or of all where that is "" or NULL. SERVICE answers it. NULL: no memory; or AFTER is no
 * number, as *err says. */
struct dt_httpd_source *dt_web_feed_listen(struct dt_web_feed *f, struct dt_httpd_service *service,
                                           const char *after, const char *run, struct dt_err *err);

#endif
