/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/web/feed.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A connection on which nothing happens is written to so often, so that its end shows. */
#define BEAT (15 * DT_SECOND)
#define PIECE ((size_t)8 << 10)

struct listener {
    struct dt_httpd_source base;
    struct dt_web_feed *feed; /* NULL once that is stopped */
    struct dt_httpd_service *service;
    struct dt_node in_feed;
    char run[DT_RUN_ID_MAX]; /* "": all */
    uint64_t after;          /* the number of the last that was given, or passed over */
    bool greeted;
    bool beat; /* is due */
};

/* -- pieces ----------------------------------------------------------------------------------- */

static bool is_wanted(const struct listener *l, const struct dt_event *e)
{
    return !*l->run || (e->run && strcmp(e->run, l->run) == 0);
}

static void put_event(struct dt_buf *out, const struct dt_event *e)
{
    dt_buf_printf(out, "id: %" PRIu64 "\ndata: ", e->number);
    dt_event_put_json(out, e);
    dt_buf_put_str(out, "\n\n");
}

/* The first bytes, which a client may wait for, say nothing but how soon to come again. */
static enum dt_httpd_piece next(struct dt_httpd_source *s, struct dt_buf *out)
{
    struct listener *l = dt_container_of(s, struct listener, base);
    const struct dt_event *e;
    if (!l->feed)
        return DT_HTTPD_LAST;
    if (!l->greeted)
        dt_buf_put_str(out, "retry: 2000\n\n");
    l->greeted = true;
    while (out->len < PIECE && (e = dt_chronicle_after(l->feed->chronicle, l->after))) {
        l->after = e->number;
        if (is_wanted(l, e))
            put_event(out, e);
    }
    if (l->beat && out->len == 0)
        dt_buf_put_str(out, ":\n\n");
    l->beat = false;
    return out->len > 0 ? DT_HTTPD_MORE : DT_HTTPD_LATER;
}

static void detach(struct listener *l)
{
    if (l->feed)
        l->feed->count--;
    l->feed = NULL;
    dt_list_remove(&l->in_feed);
}

static void gone(struct dt_httpd_source *s)
{
    struct listener *l = dt_container_of(s, struct listener, base);
    detach(l);
    free(l); /* the only free of one */
}

/* -- the feed --------------------------------------------------------------------------------- */

static void wake_all(struct dt_web_feed *f, bool beat)
{
    dt_list_each(&f->listeners, n)
    {
        struct listener *l = dt_container_of(n, struct listener, in_feed);
        l->beat = l->beat || beat;
        dt_httpd_service_wake(l->service, &l->base);
    }
}

static void on_event(struct dt_chronicle_follower *follower, const struct dt_event *e)
{
    struct dt_web_feed *f = dt_container_of(follower, struct dt_web_feed, follower);
    f->counts[e->kind]++;
    wake_all(f, false);
}

static void on_beat(uv_timer_t *t)
{
    wake_all(dt_container_of(t, struct dt_web_feed, beat), true);
}

void dt_web_feed_init(struct dt_web_feed *f, uv_loop_t *loop, struct dt_chronicle *chronicle,
                      int64_t *counts)
{
    *f = (struct dt_web_feed){
        .chronicle = chronicle, .counts = counts, .follower.on_event = on_event};
    dt_list_init(&f->listeners);
    dt_chronicle_follow(chronicle, &f->follower);
    uv_timer_init(loop, &f->beat);
    uv_timer_start(&f->beat, on_beat, BEAT, BEAT);
}

void dt_web_feed_stop(struct dt_web_feed *f)
{
    if (!f->chronicle)
        return;
    dt_chronicle_unfollow(&f->follower);
    f->chronicle = NULL;
    uv_timer_stop(&f->beat);
    dt_list_each(&f->listeners, n)
    {
        struct listener *l = dt_container_of(n, struct listener, in_feed);
        detach(l);
        dt_httpd_service_wake(l->service, &l->base);
    }
}

/* A number that was never given is of an earlier server of this name: then all is new. */
static int find_place(const struct dt_web_feed *f, const char *after, uint64_t *place,
                      struct dt_err *err)
{
    int64_t n = 0;
    if (after && *after && dt_str_to_int(after, 0, INT64_MAX, &n, err) < 0)
        return -1;
    *place = (uint64_t)n > f->chronicle->last ? 0 : (uint64_t)n;
    return 0;
}

struct dt_httpd_source *dt_web_feed_listen(struct dt_web_feed *f, struct dt_httpd_service *service,
                                           const char *after, const char *run, struct dt_err *err)
{
    uint64_t place;
    if (find_place(f, after, &place, err) < 0)
        return NULL;
    struct listener *l = calloc(1, sizeof *l);
    if (!l) {
        dt_err_set(err, DT_E_MEMORY, "there is no memory for another listener");
        return NULL;
    }
    l->base = (struct dt_httpd_source){.next = next, .gone = gone, .endless = true};
    l->feed = f;
    l->service = service;
    l->after = place;
    snprintf(l->run, sizeof l->run, "%s", run ? run : "");
    dt_list_append(&f->listeners, &l->in_feed);
    f->count++;
    return &l->base;
}
