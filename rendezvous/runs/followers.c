/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/followers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE_MOST ((size_t)256 << 10) /* bytes, but for the last event */

struct dt_rdzv_follower {
    struct dt_node in_followers;
    struct dt_rdzv_conn *conn;
    uint64_t after;
    int64_t since_us;
    char run[DT_RUN_ID_MAX]; /* "": all */
};

static bool wants(const char *run, int64_t since_us, const struct dt_event *e)
{
    return e->at_us >= since_us && (!*run || (e->run && strcmp(e->run, run) == 0));
}

/* -- the page --------------------------------------------------------------------------------- */

/* Appends those that are wanted, and returns the number of the last that was looked at. */
static uint64_t put_events(const struct dt_chronicle *c, const struct dt_message *m,
                           struct dt_buf *out, size_t *count)
{
    const struct dt_event *e;
    uint64_t at = (uint64_t)m->events.after;
    while (out->len < PAGE_MOST && (e = dt_chronicle_after(c, at))) {
        at = e->number;
        if (!wants(m->run, m->events.since_us, e))
            continue;
        if ((*count)++ > 0)
            dt_buf_put_u8(out, ',');
        dt_event_put_json(out, e);
    }
    return at;
}

/* How many that somebody would read next are gone. Who begins has missed nothing. */
static uint64_t count_missed(const struct dt_chronicle *c, uint64_t after)
{
    const struct dt_event *next = dt_chronicle_after(c, after);
    return after > 0 && next ? next->number - after - 1 : 0;
}

/* Sends the page that M asks for. False: there is nothing on it, and M can wait. */
static bool answer(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c, const struct dt_message *m,
                   bool also_nothing)
{
    const struct dt_chronicle *all = &runs->chronicle;
    struct dt_buf page = {0};
    size_t count = 0;
    dt_buf_put_str(&page, "{\"events\":[");
    uint64_t last = put_events(all, m, &page, &count);
    dt_buf_printf(&page, "],\"last\":%" PRIu64 ",\"newest\":%" PRIu64 ",\"missed\":%" PRIu64 "}",
                  last, all->last, count_missed(all, (uint64_t)m->events.after));
    if (page.bad) {
        dt_rdzv_conn_end(c); /* no memory; it comes again */
    } else if (count > 0 || also_nothing) {
        struct dt_message page_of = {
            .type = DT_MSG_EVENTS, .run = m->run, .events.json = dt_buf_cstr(&page)};
        dt_rdzv_conn_send(c, &page_of);
    }
    bool answered = page.bad || count > 0 || also_nothing;
    dt_buf_finish(&page);
    return answered;
}

/* -- those who wait --------------------------------------------------------------------------- */

void dt_rdzv_followers_leave(struct dt_rdzv_conn *c)
{
    if (!c->follower)
        return;
    dt_list_remove(&c->follower->in_followers);
    free(c->follower);
    c->follower = NULL;
}

static void wait_for_next(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                          const struct dt_message *m)
{
    struct dt_rdzv_follower *f = calloc(1, sizeof *f);
    if (!f) {
        dt_rdzv_conn_end(c);
        return;
    }
    f->conn = c;
    f->after = (uint64_t)m->events.after;
    f->since_us = m->events.since_us;
    snprintf(f->run, sizeof f->run, "%s", m->run);
    c->follower = f;
    dt_list_append(&runs->followers, &f->in_followers);
}

void dt_rdzv_followers_take(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                            const struct dt_message *m)
{
    dt_rdzv_followers_leave(c);
    if (!answer(runs, c, m, !m->events.follow))
        wait_for_next(runs, c, m);
}

/* The question that waits is over with that. */
static void answer_follower(struct dt_rdzv_runs *runs, struct dt_rdzv_follower *f)
{
    struct dt_message m = {.type = DT_MSG_EVENTS, .run = f->run};
    m.events.after = (int64_t)f->after;
    m.events.since_us = f->since_us;
    answer(runs, f->conn, &m, true);
    dt_rdzv_followers_leave(f->conn);
}

void dt_rdzv_followers_tell(struct dt_rdzv_runs *runs, const struct dt_event *e)
{
    dt_list_each(&runs->followers, n)
    {
        struct dt_rdzv_follower *f = dt_container_of(n, struct dt_rdzv_follower, in_followers);
        if (e->number > f->after && wants(f->run, f->since_us, e))
            answer_follower(runs, f);
    }
}

bool dt_rdzv_followers_excuse(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c)
{
    if (!c->follower)
        return false;
    answer_follower(runs, c->follower);
    return true;
}
