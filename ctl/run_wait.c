/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl run wait: looks at the run, and again whenever something has happened to it. An event
 * may be the last that is heard: an agent that hosts the rendezvous is gone soon after its job. */
#include "base/backoff.h"
#include "base/json_write.h"
#include "base/say.h"
#include "base/str.h"
#include "ctl/comeback.h"
#include "ctl/commands.h"
#include "ctl/connect.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define NUMBER_MAX ((int64_t)1 << 53)
/* A rendezvous lets a question wait for 10 s, and then answers that nothing happened. */
#define WAIT_TAKES (10 * DT_SECOND)
#define RETRY_MOST (2 * DT_SECOND)

struct wait {
    const struct dt_ctl_options *o;
    dt_ms until;   /* DT_FOREVER: as long as it takes */
    int64_t after; /* events up to that number are of before; -1: it is not known yet */
    struct dt_ctl_comeback run;
    bool hosted;                     /* the rendezvous is, by an agent of the job */
    dt_ms away;                      /* since then that does not answer; 0: it does */
    char ended[32], why[DT_WHY_MAX]; /* "": it has not */
};

/* So long an answer may take, or less. */
static dt_ms patience(const struct wait *w, dt_ms most)
{
    dt_ms left = w->until == DT_FOREVER ? most : w->until - dt_clock_monotonic();
    return left < 1 ? 1 : left < most ? left : most;
}

static int ask(struct wait *w, struct dt_sync_control *c, const struct dt_message *request,
               dt_ms most, struct dt_message *answer, struct dt_err *err)
{
    dt_sync_control_set_timeout(c, patience(w, most));
    return dt_sync_control_ask(c, request, answer, err);
}

static void note_end(struct wait *w, const char *how, const char *why)
{
    static const char closed[] = "closed: "; /* as the event says, and status does not */
    if (strncmp(why, closed, strlen(closed)) == 0)
        why += strlen(closed);
    snprintf(w->ended, sizeof w->ended, "%s", how);
    snprintf(w->why, sizeof w->why, "%s", why);
}

/* -- what happened ---------------------------------------------------------------------------- */

static int read_event(struct wait *w, const struct dt_json *doc, const struct cJSON *event,
                      struct dt_err *err)
{
    static const struct {
        const char *kind, *how;
    } ends[] = {{"run_ended_well", "succeeded"},
                {"run_ended_badly", "failed"},
                {"run_stopped", "stopped"},
                {"run_deserted", "deserted"}};
    const char *kind, *words;
    if (dt_json_string(doc, event, "kind", &kind, err) < 0 ||
        dt_json_string(doc, event, "words", &words, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strcmp(kind, ends[i].kind) == 0)
            note_end(w, ends[i].how, words);
    return 0;
}

/* *LAST: the number of the last event there is. */
static int read_events(struct wait *w, const struct dt_json *doc, int64_t *last, struct dt_err *err)
{
    const struct cJSON *page, *events;
    if (dt_json_object(doc, NULL, "page", &page, err) < 0 ||
        dt_json_array(doc, page, "events", &events, err) < 0 ||
        dt_json_int(doc, page, "last", 0, NUMBER_MAX, last, err) < 0)
        return -1;
    for (const struct cJSON *e = dt_json_first(events); e && !*w->ended; e = dt_json_next(e))
        if (read_event(w, doc, e, err) < 0)
            return -1;
    return 0;
}

/* With AFTER -1 nothing that happened is of interest, but the number of the last event. */
static int fetch_events(struct wait *w, struct dt_sync_control *c, struct dt_err *err)
{
    bool follow = w->after >= 0;
    struct dt_message answer, request = {.type = DT_MSG_EVENTS, .run = w->o->name};
    request.events.after = follow ? w->after : 0;
    request.events.since_us = follow ? 0 : NUMBER_MAX;
    request.events.follow = follow;
    if (ask(w, c, &request, w->o->timeout + WAIT_TAKES, &answer, err) < 0)
        return -1;
    int rc = read_events(w, &answer.doc, &w->after, err);
    dt_message_finish(&answer);
    if (rc < 0 && err->code == DT_E_USAGE) /* it is not the person's JSON */
        err->code = DT_E_PROTOCOL;
    return rc < 0 ? dt_err_wrap(err, "the rendezvous' events make no sense") : 0;
}

/* -- the run ---------------------------------------------------------------------------------- */

/* A run that is not there any more was forgotten with the last of its nodes; but a rendezvous that
 * was started anew may hear of it again. */
static int miss(struct wait *w, bool anew, struct dt_err *err)
{
    if (!w->run.known)
        return dt_ctl_no_run(w->o, err);
    bool may = dt_ctl_comeback_may(&w->run, w->o->timeout, dt_clock_monotonic());
    if (!*w->ended && (!anew || !may))
        note_end(w, "deserted", "all its nodes have left");
    return 0;
}

static void look_at(struct wait *w, const struct dt_status_run *r)
{
    dt_ctl_comeback_seen(&w->run);
    w->away = 0;
    if (strcmp(r->state, "closed") == 0)
        note_end(w, *r->ended ? r->ended : "closed", r->why);
}

/* ANEW: this is not the first connection. */
static int look(struct wait *w, struct dt_sync_control *c, bool anew, struct dt_err *err)
{
    struct dt_ctl_pages pages;
    dt_sync_control_set_timeout(c, patience(w, w->o->timeout));
    int rc = dt_ctl_pages_fetch_history(c, w->o->name, &pages, err);
    if (rc == 0)
        w->hosted = strcmp(pages.server.host, "agent") == 0;
    if (rc == 0 && pages.runs.len > 0)
        look_at(w, pages.runs.at);
    else if (rc == 0)
        rc = miss(w, anew, err);
    dt_ctl_pages_finish(&pages);
    return rc;
}

/* Until the run has ended, the connection has, or worse. */
static int watch(struct wait *w, struct dt_sync_control *c, bool anew, struct dt_err *err)
{
    struct dt_err none;
    while (!*w->ended) {
        if (w->after >= 0 && look(w, c, anew, err) < 0)
            return -1;
        if (*w->ended)
            return 0;
        if (fetch_events(w, c, err) < 0)
            return -1;
    }
    look(w, c, anew, &none); /* which tells more of the end, if anybody is there who can */
    return 0;
}

/* -- connections ------------------------------------------------------------------------------ */

static bool is_time_over(const struct wait *w)
{
    return w->until != DT_FOREVER && dt_clock_monotonic() >= w->until;
}

static void pause_for(dt_ms time)
{
    struct timespec t = {.tv_sec = (time_t)(time / DT_SECOND),
                         .tv_nsec = (long)(time % DT_SECOND) * 1000000};
    nanosleep(&t, NULL);
}

/* Whether the next connection may do better: a daemon is waited for, and an agent that hosted the
 * rendezvous is not for long, as its job ends with it. */
static bool may_pass(struct wait *w, const struct dt_err *err)
{
    if (!w->run.known || (err->code != DT_E_DISCONNECTED && err->code != DT_E_TIMEOUT))
        return false;
    dt_ctl_comeback_away(&w->run);
    if (w->away == 0)
        w->away = dt_clock_monotonic();
    return !w->hosted || dt_clock_monotonic() - w->away < w->o->timeout;
}

static int no_host(const struct wait *w, struct dt_err *err)
{
    return dt_err_set(err, DT_E_RUNTIME,
                      "run %s: the rendezvous at %s is gone, and the job with it, as one of its "
                      "agents hosted that",
                      w->o->name, w->o->endpoint);
}

static int wait_for_end(struct wait *w, const struct dt_token *token, struct dt_err *err)
{
    struct dt_backoff backoff = {.first = DT_SECOND / 5, .most = RETRY_MOST};
    bool said = false;
    for (bool anew = false;; anew = w->run.known) {
        struct dt_sync_control *c = dt_ctl_connect(w->o, token, patience(w, w->o->timeout), err);
        int rc = c ? watch(w, c, anew, err) : -1;
        dt_sync_control_close(c);
        if (rc == 0 || is_time_over(w))
            return rc;
        if (!may_pass(w, err))
            return w->run.known && w->hosted ? no_host(w, err) : -1;
        if (!said)
            dt_say("dtrun-ctl", err->text);
        said = true;
        w->after = -1; /* another server may count from 1 again */
        pause_for(patience(w, dt_backoff_next(&backoff)));
    }
}

/* -- the command ------------------------------------------------------------------------------ */

static void put_end(const struct wait *w, struct dt_buf *out)
{
    struct dt_json_writer j = {.out = out};
    char why[DT_WHY_MAX];
    if (!w->o->json) {
        dt_buf_printf(out, "run %s: %s: %s\n", w->o->name, w->ended,
                      dt_str_printable(dt_bytes_of(w->why), why, sizeof why));
        return;
    }
    dt_json_put_object(&j, NULL);
    dt_json_put_text(&j, "run", w->o->name);
    dt_json_put_text(&j, "ended", w->ended);
    dt_json_put_text(&j, "why", w->why);
    dt_json_put_end(&j);
    dt_buf_put_u8(out, '\n');
}

static int no_end(const struct wait *w, struct dt_err *err)
{
    char time[32];
    if (!is_time_over(w)) {
        err->code = err->code == DT_E_TIMEOUT ? DT_E_DISCONNECTED : err->code;
        return -1;
    }
    return dt_err_set(err, DT_E_TIMEOUT, "run %s has not ended within %s", w->o->name,
                      dt_str_from_duration(w->o->wait, time, sizeof time));
}

int dt_ctl_run_wait(const struct dt_ctl_options *o, const struct dt_token *token,
                    struct dt_buf *out, struct dt_err *err)
{
    struct wait w = {.o = o, .after = -1, .until = dt_clock_after(dt_clock_monotonic(), o->wait)};
    if (wait_for_end(&w, token, err) < 0)
        return no_end(&w, err);
    put_end(&w, out);
    if (strcmp(w.ended, "succeeded") == 0)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME, "run %s did not end well: %s", o->name, w.ended);
}
