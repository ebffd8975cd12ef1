/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl events: what happened, page by page; with --follow each page but the first waits at the
 * rendezvous until something happens. */
#include "base/say.h"
#include "base/utf8.h"
#include "ctl/again.h"
#include "ctl/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NUMBER_MAX ((int64_t)1 << 53)

/* How far we are. A server that was started without its events counts from 1 again, so the last
 * event that was shown is asked for once more where a connection follows another: where it differs,
 * its numbers are others. */
struct position {
    int64_t after;
    int64_t since_us;
    int64_t newest; /* that there was */
    int64_t shown;  /* the number of the last; 0: none was ... */
    char time[32];  /* ... and when that was */
    bool check;     /* that this is the same server */
};

static struct position begin(const struct dt_ctl_since *since)
{
    struct position p = {.since_us = since->at_us};
    if (since->number > 0)
        p.after = since->number - 1;
    if (since->ago > 0)
        p.since_us = dt_clock_wall_us() - since->ago * 1000;
    if (p.since_us < 0)
        p.since_us = 0;
    return p;
}

/* -- one event -------------------------------------------------------------------------------- */

static const char *text_of(const struct dt_json *doc, const struct cJSON *event, const char *name)
{
    const char *text = "";
    if (dt_json_has(event, name))
        dt_json_string(doc, event, name, &text, NULL);
    return text;
}

/* "2026-11-23T07:00:00Z warning  node_lost: run llama: node7 went offline (...)" */
static void put_line(const struct dt_json *doc, const struct cJSON *event, struct dt_buf *out)
{
    struct dt_buf line = {0};
    const char *time = text_of(doc, event, "time"), *run = text_of(doc, event, "run");
    dt_buf_printf(&line, "%.*sZ %-8s %s: ", (int)strcspn(time, ".Z"), time,
                  text_of(doc, event, "weight"), text_of(doc, event, "kind"));
    if (*run)
        dt_buf_printf(&line, "run %s: ", run);
    dt_buf_put_str(&line, text_of(doc, event, "words"));
    dt_utf8_put_visible(out, dt_buf_cstr(&line), "");
    dt_buf_put_u8(out, '\n');
    dt_buf_finish(&line);
}

static int put_json(const struct cJSON *event, struct dt_buf *out, struct dt_err *err)
{
    char *text = dt_json_text(event);
    if (!text)
        return dt_err_set(err, DT_E_MEMORY, "no memory for an event");
    dt_buf_put_str(out, text);
    dt_buf_put_u8(out, '\n');
    free(text);
    return 0;
}

/* -- one page --------------------------------------------------------------------------------- */

static void say_missed(int64_t missed)
{
    char text[128];
    snprintf(text, sizeof text,
             "%" PRId64 " events are missing here: the rendezvous keeps the last ones only",
             missed);
    dt_say("dtrun-ctl", text);
}

static void start_over(struct position *p)
{
    dt_say("dtrun-ctl", "the rendezvous was started without its events, and counts from 1 again");
    *p = (struct position){.since_us = p->since_us};
}

/* Whether the page of a new connection goes on where the last one ended. */
static bool goes_on(const struct position *p, const struct dt_json *doc, const struct cJSON *events,
                    int64_t newest)
{
    const struct cJSON *first = dt_json_first(events);
    int64_t number;
    if (newest < p->newest)
        return false;
    if (!first || dt_json_int(doc, first, "number", 1, NUMBER_MAX, &number, NULL) < 0 ||
        number != p->shown)
        return true; /* it is not kept any more */
    return strcmp(text_of(doc, first, "time"), p->time) == 0;
}

static int put_events(const struct dt_ctl_options *o, struct position *p, const struct dt_json *doc,
                      const struct cJSON *events, struct dt_buf *out, struct dt_err *err)
{
    int64_t number;
    for (const struct cJSON *e = dt_json_first(events); e; e = dt_json_next(e)) {
        if (dt_json_int(doc, e, "number", 1, NUMBER_MAX, &number, err) < 0)
            return -1;
        if (number <= p->shown)
            continue;
        if (!o->json)
            put_line(doc, e, out);
        else if (put_json(e, out, err) < 0)
            return -1;
        p->shown = number;
        snprintf(p->time, sizeof p->time, "%s", text_of(doc, e, "time"));
    }
    return 0;
}

/* *MORE: another page may hold some that are there already. */
static int read_page(const struct dt_ctl_options *o, struct position *p, const struct dt_json *doc,
                     struct dt_buf *out, bool *more, struct dt_err *err)
{
    const struct cJSON *page, *events;
    int64_t last, newest, missed;
    if (dt_json_object(doc, NULL, "page", &page, err) < 0 ||
        dt_json_array(doc, page, "events", &events, err) < 0 ||
        dt_json_int(doc, page, "last", 0, NUMBER_MAX, &last, err) < 0 ||
        dt_json_int(doc, page, "newest", 0, NUMBER_MAX, &newest, err) < 0 ||
        dt_json_int(doc, page, "missed", 0, NUMBER_MAX, &missed, err) < 0)
        return -1;
    *more = true;
    if (p->check && !goes_on(p, doc, events, newest)) {
        start_over(p);
        return 0;
    }
    if (missed > p->check) /* the one that was asked for once more is not missed */
        say_missed(missed - p->check);
    p->check = false;
    p->after = last;
    p->newest = newest;
    *more = last < newest;
    return put_events(o, p, doc, events, out, err);
}

static int fetch(const struct dt_ctl_options *o, struct dt_sync_control *c, struct position *p,
                 bool follow, struct dt_buf *out, bool *more, struct dt_err *err)
{
    struct dt_message answer, request = {.type = DT_MSG_EVENTS, .run = o->name};
    request.events.after = p->check && p->shown > 0 ? p->shown - 1 : p->after;
    request.events.since_us = p->since_us;
    request.events.follow = follow;
    if (dt_sync_control_ask(c, &request, &answer, err) < 0)
        return -1;
    int rc = read_page(o, p, &answer.doc, out, more, err);
    dt_message_finish(&answer);
    if (rc == 0)
        return 0;
    if (err->code == DT_E_USAGE) /* it is not the person's JSON */
        err->code = DT_E_PROTOCOL;
    return dt_err_wrap(err, "the rendezvous' events make no sense");
}

int dt_ctl_events(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                  struct dt_err *err)
{
    struct position p = begin(&o->since);
    bool more = true;
    while (more)
        if (fetch(o, c, &p, false, out, &more, err) < 0)
            return -1;
    if (p.shown == 0 && !o->json)
        dt_buf_printf(out, "no such event is kept%s\n",
                      *o->name ? "; without the name of a run, those of all are shown" : "");
    return 0;
}

/* -- and what happens next -------------------------------------------------------------------- */

/* Until the connection ends, or worse. */
static int follow(const struct dt_ctl_options *o, struct dt_sync_control *c, struct position *p,
                  struct dt_buf *out, struct dt_err *err)
{
    bool more = true;
    for (;;)
        if (fetch(o, c, p, !more && !p->check, out, &more, err) < 0 || dt_ctl_print(out, err) < 0)
            return -1;
}

struct following {
    const struct dt_ctl_options *o;
    struct position at;
    struct dt_buf out;
};

static int talk(void *arg, struct dt_sync_control *c, bool again, struct dt_err *err)
{
    struct following *f = arg;
    f->at.check = again;
    return follow(f->o, c, &f->at, &f->out, err);
}

int dt_ctl_events_follow(const struct dt_ctl_options *o, const struct dt_token *token,
                         struct dt_err *err)
{
    struct following f = {.o = o, .at = begin(&o->since)};
    int rc = dt_ctl_again(o, token, talk, &f, err);
    dt_buf_finish(&f.out);
    return rc;
}
