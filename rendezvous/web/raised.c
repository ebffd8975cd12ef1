/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/web/raised.h"

#include "rendezvous/alerts/body.h"

#include <string.h>

/* Nobody is sent anything from here. */
static void on_notice(void *arg, const struct dt_notice *n)
{
    (void)arg, (void)n;
}

/* The book's clock. That of the machine may have begun when the oldest events were old already. */
static dt_ms book_time(const struct dt_web_raised *r, dt_ms now)
{
    return dt_clock_after(now, r->ahead);
}

static void on_event(struct dt_chronicle_follower *f, const struct dt_event *e)
{
    struct dt_web_raised *r = dt_container_of(f, struct dt_web_raised, follower);
    dt_alert_book_take(&r->book, e, book_time(r, dt_clock_monotonic()));
}

static dt_ms age_of(const struct dt_event *e, int64_t wall_us)
{
    return wall_us > e->at_us ? (wall_us - e->at_us) / 1000 : 0;
}

/* What was raised before the server was started anew still is, so all events that are kept count,
 * as old as they are. */
static void catch_up(struct dt_web_raised *r, const struct dt_chronicle *chronicle)
{
    int64_t wall_us = dt_clock_wall_us();
    const struct dt_event *e = dt_chronicle_after(chronicle, 0);
    r->ahead = e ? age_of(e, wall_us) : 0;
    dt_ms now = book_time(r, dt_clock_monotonic());
    for (; e; e = dt_chronicle_after(chronicle, e->number)) {
        dt_ms then = now - age_of(e, wall_us);
        dt_alert_book_take(&r->book, e, then > 0 ? then : 0);
    }
}

int dt_web_raised_init(struct dt_web_raised *r, struct dt_chronicle *chronicle)
{
    *r = (struct dt_web_raised){.book = {.least = DT_EVENT_WARNING, .on_notice = on_notice},
                                .follower.on_event = on_event};
    if (dt_alert_book_init(&r->book) < 0)
        return -1;
    dt_chronicle_follow(chronicle, &r->follower);
    catch_up(r, chronicle);
    return 0;
}

void dt_web_raised_stop(struct dt_web_raised *r)
{
    dt_chronicle_unfollow(&r->follower);
}

void dt_web_raised_finish(struct dt_web_raised *r)
{
    dt_alert_book_finish(&r->book);
}

void dt_web_raised_put(struct dt_web_raised *r, const char *run, dt_ms now, struct dt_buf *out)
{
    struct dt_notice n;
    bool follows = false;
    dt_alert_book_tick(&r->book, book_time(r, now)); /* some are raised by lasting */
    dt_buf_put_str(out, "[");
    for (size_t cursor = 0; dt_alert_book_next_raised(&r->book, &cursor, &n);) {
        if (*run && *n.run && strcmp(n.run, run) != 0)
            continue;
        dt_buf_put_str(out, follows ? "," : "");
        dt_alert_body(out, DT_ALERT_JSON, &n, "", NULL);
        follows = true;
    }
    dt_buf_put_str(out, "]");
}
