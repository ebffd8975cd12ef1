/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/web/inside.h"

#include "base/list.h"
#include "base/log.h"
#include "base/loop/ending.h"
#include "rendezvous/runs/status.h"
#include "rendezvous/web/feed.h"
#include "rendezvous/web/gate.h"
#include "rendezvous/web/metrics.h"
#include "rendezvous/web/page/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS 32u
#define STREAMS 32u
#define PATIENCE (30 * DT_SECOND)
#define METRICS_EVERY DT_SECOND

struct place {
    struct dt_web *web;
    struct dt_httpd_service *service;
};

struct dt_web {
    uv_loop_t *loop;
    struct dt_web_view view;
    struct dt_token token; /* empty: none is asked for */
    struct place *places;
    size_t count;                   /* of those that are open ... */
    char where[DT_HTTP_PLACES_MAX]; /* ... and where, for people */
    struct dt_web_counts counts;
    struct dt_web_feed feed;
    struct dt_web_curves curves;
    struct dt_web_raised raised;
    struct {
        struct dt_buf text;
        dt_ms made;
    } metrics[DT_WEB_FORMATS];
    const struct dt_alerts *alerts; /* NULL: nobody is alerted, or not any more */
    struct dt_web_facts facts;      /* of the last metrics */
    struct dt_ending ending;
};

/* -- what there is ---------------------------------------------------------------------------- */

static void put_state(struct dt_httpd_answer *a, int status, const char *state)
{
    a->status = status;
    a->type = "application/json";
    dt_buf_printf(&a->body, "{\"state\":\"%s\"}\n", state);
}

/* It holds no secret, and nothing that it does not ask for. */
static void answer_page(struct place *p, const struct dt_httpd_request *q,
                        struct dt_httpd_answer *a)
{
    (void)p, (void)q;
    a->status = 200;
    a->type = "text/html; charset=utf-8";
    dt_httpd_answer_header(a, "Content-Security-Policy", dt_web_page_policy);
    dt_httpd_answer_header(a, "Referrer-Policy", "no-referrer");
    dt_buf_put(&a->body, dt_web_page, dt_web_page_len);
}

/* The loop turns, or nobody would answer. */
static void answer_healthz(struct place *p, const struct dt_httpd_request *q,
                           struct dt_httpd_answer *a)
{
    (void)p, (void)q;
    put_state(a, 200, "alive");
}

static void answer_readyz(struct place *p, const struct dt_httpd_request *q,
                          struct dt_httpd_answer *a)
{
    (void)q;
    if (p->web->view.server)
        put_state(a, 200, "ready");
    else
        put_state(a, 503, "ending");
}

/* A scraper that asks all the time is told the same for a second. */
static const struct dt_buf *metrics_of(struct dt_web *w, enum dt_web_format format)
{
    struct dt_buf *text = &w->metrics[format].text;
    dt_ms now = (dt_ms)uv_now(w->loop);
    if (text->len > 0 && now - w->metrics[format].made < METRICS_EVERY)
        return text;
    dt_buf_finish(text);
    w->counts.streams = (int64_t)w->feed.count;
    dt_web_facts_gather(&w->facts, w->view.host, w->view.server, w->view.store, &w->counts,
                        w->view.started_us, now);
    dt_web_facts_add_alerts(&w->facts, &w->raised.book, w->alerts);
    dt_web_metrics_put(text, &w->facts, format);
    w->metrics[format].made = now;
    return text;
}

static void answer_metrics(struct place *p, const struct dt_httpd_request *q,
                           struct dt_httpd_answer *a)
{
    enum dt_web_format format = dt_web_format_of(q->header(q, "Accept"));
    const struct dt_buf *text = metrics_of(p->web, format);
    a->status = 200;
    a->type = dt_web_format_type(format);
    dt_httpd_answer_header(a, "Vary", "Accept");
    dt_buf_put(&a->body, text->at, text->len);
    a->body.bad = a->body.bad || text->bad;
}

static void answer_status(struct place *p, const struct dt_httpd_request *q,
                          struct dt_httpd_answer *a)
{
    const struct dt_web_view *view = &p->web->view;
    const char *run = q->argument(q, "run");
    if (run && !dt_rdzv_status_knows(dt_rdzv_server_runs(view->server), run)) {
        dt_httpd_answer_refuse(a, 404, "there is no such run");
        return;
    }
    a->source = dt_web_document_create(view, run ? run : "");
    if (!a->source) {
        dt_httpd_answer_refuse(a, 503, "there is no memory for an answer");
        return;
    }
    a->status = 200;
    a->type = "application/json";
}

/* A client that comes back says with a header of its own what it had last. */
static void answer_events(struct place *p, const struct dt_httpd_request *q,
                          struct dt_httpd_answer *a)
{
    struct dt_err err;
    const char *last = q->header(q, "Last-Event-ID");
    const char *after = last && *last ? last : q->argument(q, "after");
    a->source = dt_web_feed_listen(&p->web->feed, p->service, after, q->argument(q, "run"), &err);
    if (!a->source) {
        dt_httpd_answer_refuse(a, err.code == DT_E_MEMORY ? 503 : 400, err.text);
        return;
    }
    a->status = 200;
    a->type = "text/event-stream";
    dt_httpd_answer_header(a, "X-Accel-Buffering", "no"); /* or a proxy keeps events to itself */
}

static const struct {
    void (*answer)(struct place *p, const struct dt_httpd_request *q, struct dt_httpd_answer *a);
    bool open; /* to everybody, at any time */
} routes[DT_WEB_PATHS] = {
    [DT_WEB_PATH_PAGE] = {answer_page, true},      [DT_WEB_PATH_HEALTHZ] = {answer_healthz, true},
    [DT_WEB_PATH_READYZ] = {answer_readyz, true},  [DT_WEB_PATH_METRICS] = {answer_metrics, false},
    [DT_WEB_PATH_STATUS] = {answer_status, false}, [DT_WEB_PATH_EVENTS] = {answer_events, false},
};

/* -- who may ask ------------------------------------------------------------------------------ */

static bool lets_in(const struct dt_web *w, const struct dt_httpd_request *q,
                    struct dt_httpd_answer *a)
{
    switch (dt_web_gate(&w->token, q->header(q, "Authorization"), q->header(q, "Host"))) {
    case DT_WEB_ENTRY_GOOD:
        return true;
    case DT_WEB_ENTRY_NO_TOKEN:
        dt_httpd_answer_header(a, "WWW-Authenticate", "Bearer");
        dt_httpd_answer_refuse(a, 401, "say the token: Authorization: Bearer TOKEN");
        return false;
    case DT_WEB_ENTRY_WRONG_TOKEN:
        dt_httpd_answer_header(a, "WWW-Authenticate", "Bearer error=\"invalid_token\"");
        dt_httpd_answer_refuse(a, 401, "this is not the token of --http-token-file");
        return false;
    case DT_WEB_ENTRY_WRONG_HOST:
        dt_httpd_answer_refuse(
            a, 403,
            "without a token the host has to be asked for as localhost or by its "
            "address");
        return false;
    }
    return false;
}

static void route(struct place *p, enum dt_web_path path, const struct dt_httpd_request *q,
                  struct dt_httpd_answer *a)
{
    if (path == DT_WEB_PATH_OTHER)
        dt_httpd_answer_refuse(
            a, 404, "there are /, /healthz, /readyz, /metrics, /status.json and /events");
    else if (!dt_httpd_answer_reads(q, a) || (!routes[path].open && !lets_in(p->web, q, a)))
        return;
    else if (!routes[path].open && !p->web->view.server)
        dt_httpd_answer_refuse(a, 503, "the server is about to end");
    else
        routes[path].answer(p, q, a);
}

static void answer(void *arg, const struct dt_httpd_request *q, struct dt_httpd_answer *a)
{
    struct place *p = arg;
    enum dt_web_path path = dt_web_path_of(q->path);
    route(p, path, q, a);
    p->web->counts.answers[path][a->status / 100]++;
}

/* -- beginning and end ------------------------------------------------------------------------ */

int dt_web_check_address(const char *text, struct dt_err *err)
{
    if (*text == '/' || strncmp(text, "unix:", 5) == 0)
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is a path; give ADDR:PORT", text);
    return dt_addr_check(text, err);
}

/* Whether AT, which is written as TEXT, may be served. */
static int check_reach(const char *text, const struct dt_addr *at, bool token, struct dt_err *err)
{
    if (token || dt_addr_is_local(at))
        return 0;
    return dt_err_set(err, DT_E_USAGE,
                      "other hosts reach %s, so give --http-token-file FILE with a secret, or "
                      "serve at 127.0.0.1 alone",
                      text);
}

int dt_web_check_reach(const char *text, bool token, struct dt_err *err)
{
    struct dt_addr at;
    return dt_addr_parse_number(text, 0, &at) ? check_reach(text, &at, token, err) : 0;
}

static int find_address(const struct dt_web *w, const char *text, struct dt_addr *out,
                        struct dt_err *err)
{
    if (dt_web_check_address(text, err) < 0 || dt_addr_parse(text, 0, out, err) < 0)
        return -1;
    return check_reach(text, out, w->token.len > 0, err);
}

static void note_place(struct dt_web *w, const char *where)
{
    size_t used = strlen(w->where);
    snprintf(w->where + used, sizeof w->where - used, "%s%s", used ? " " : "", where);
}

static int open_place(struct dt_web *w, const char *text, struct dt_err *err)
{
    struct dt_addr at, bound;
    char where[DT_ADDR_TEXT];
    struct place *p = &w->places[w->count];
    const struct dt_httpd_service_config config = {
        .what = "HTTP",
        .limits = {.connections = CONNECTIONS, .streams = STREAMS, .patience = PATIENCE},
        .answer = answer,
        .arg = p,
    };
    if (find_address(w, text, &at, err) < 0)
        return -1;
    p->web = w;
    p->service = dt_httpd_service_open(w->loop, &at, &config, &bound, err);
    if (!p->service)
        return -1;
    w->count++;
    note_place(w, dt_addr_text(&bound, where, sizeof where));
    dt_info("HTTP at http://%s", where);
    return 0;
}

static int open_places(struct dt_web *w, const struct dt_web_config *config, struct dt_err *err)
{
    w->places = calloc(config->count, sizeof *w->places);
    if (!w->places)
        return dt_err_set(err, DT_E_MEMORY, "no memory for HTTP");
    for (size_t i = 0; i < config->count; i++)
        if (open_place(w, config->at[i], err) < 0)
            return dt_err_wrap(err, "--http");
    return 0;
}

static int read_token(struct dt_web *w, const char *file, struct dt_err *err)
{
    if (!file)
        return 0;
    if (dt_proof_read_token(file, &w->token, err) < 0 || dt_web_gate_check(&w->token, err) < 0)
        return dt_err_wrap(err, "--http-token-file");
    if (w->token.len < DT_TOKEN_ADVISED)
        dt_warn("the token of --http-token-file is %zu bytes long and can be found by trying; use "
                "one of %d or more, as from \"openssl rand -hex 32\"",
                w->token.len, DT_TOKEN_ADVISED);
    return 0;
}

static void web_free(void *web)
{
    struct dt_web *w = web;
    for (int f = 0; f < DT_WEB_FORMATS; f++)
        dt_buf_finish(&w->metrics[f].text);
    dt_web_curves_finish(&w->curves);
    dt_web_raised_finish(&w->raised);
    dt_token_finish(&w->token);
    free(w->places);
    free(w); /* the only free of one */
}

struct dt_web *dt_web_open(uv_loop_t *loop, const struct dt_web_config *config, struct dt_err *err)
{
    struct dt_chronicle *chronicle = dt_rdzv_server_chronicle(config->server);
    struct dt_web *w = calloc(1, sizeof *w);
    if (!w) {
        dt_err_set(err, DT_E_MEMORY, "no memory for HTTP");
        return NULL;
    }
    w->loop = loop;
    w->alerts = config->alerts;
    w->view = (struct dt_web_view){.host = config->host,
                                   .server = config->server,
                                   .store = config->store,
                                   .started_us = dt_clock_wall_us(),
                                   .curves = &w->curves,
                                   .raised = &w->raised};
    dt_web_feed_init(&w->feed, loop, chronicle, w->counts.events);
    dt_web_curves_init(&w->curves, loop, config->server);
    if (dt_web_raised_init(&w->raised, chronicle) < 0) {
        dt_err_set(err, DT_E_MEMORY, "no memory for HTTP");
    } else if (read_token(w, config->token_file, err) == 0 && open_places(w, config, err) == 0) {
        dt_rdzv_server_set_http(config->server, w->where);
        return w;
    }
    dt_web_close(w, NULL, NULL);
    return NULL;
}

void dt_web_detach(struct dt_web *w)
{
    w->view.server = NULL;
    w->alerts = NULL;
    dt_web_feed_stop(&w->feed);
    dt_web_curves_stop(&w->curves);
    dt_web_raised_stop(&w->raised);
}

void dt_web_close(struct dt_web *w, void (*on_closed)(void *arg), void *arg)
{
    dt_web_detach(w);
    dt_ending_begin(&w->ending, web_free, w, on_closed, arg);
    dt_ending_close(&w->ending, &w->feed.beat);
    dt_ending_close(&w->ending, &w->curves.timer);
    for (size_t i = 0; i < w->count; i++)
        dt_httpd_service_close(w->places[i].service, dt_ending_step, dt_ending_add(&w->ending));
}
