/* SPDX-License-Identifier: Apache-2.0 */
/* Which alerts are raised now, by the rules of rendezvous/alerts, whether anybody is sent them or
 * not. Follows the chronicle. All calls belong to the loop's thread. */
#ifndef DT_RENDEZVOUS_WEB_RAISED_H
#define DT_RENDEZVOUS_WEB_RAISED_H

#include "rendezvous/alerts/book.h"
#include "rendezvous/events/chronicle.h"

/* Zeroed memory is one that was never opened. */
struct dt_web_raised {
    struct dt_alert_book book;
    struct dt_chronicle_follower follower;
    dt_ms ahead; /* the book's clock is, of ours */
};

/* What the chronicle keeps counts. -1: no memory. */
int dt_web_raised_init(struct dt_web_raised *r, struct dt_chronicle *chronicle);
/* The chronicle is not looked at from here on. A second call does nothing. */
void dt_web_raised_stop(struct dt_web_raised *r);
void dt_web_raised_finish(struct dt_web_raised *r);

/* NOW by dt_clock_monotonic(). Appends [{"alert":"hang",...},...], as receivers of alerts get them:
 * of RUN and of none, or all where that is "". OUT is sticky. */
void dt_web_raised_put(struct dt_web_raised *r, const char *run, dt_ms now, struct dt_buf *out);

#endif
