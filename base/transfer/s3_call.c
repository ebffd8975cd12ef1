/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/s3.h"

#include "base/hex.h"
#include "base/str.h"
#include "base/transfer/date.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- one attempt ------------------------------------------------------------------------------ */

#define LOOK_EVERY ((dt_ms)100) /* at the flag that stops a transfer */

/* The text of a request; its pointers lead into itself. */
struct attempt {
    char host[sizeof((struct dt_http_endpoint *)0)->host + 80];
    char path[sizeof((struct dt_http_endpoint *)0)->path + 80 + DT_KEY_MAX];
    char stamp[DT_DATE_STAMP], payload[2 * DT_SHA256_SIZE + 1];
    int64_t signed_at, clock_off; /* clock_off: what it was then, as others may set it meanwhile */
    char region[sizeof((struct dt_keyring *)0)->region];
    struct dt_sigv4_request request;
    struct dt_buf url, lines; /* lines: "Name: value" each, with a NUL behind it */
    const char *headers[DT_SIGV4_PAIRS + 4];
};

static void set_place(const struct dt_transfer *t, const struct dt_s3_call *c, struct attempt *a)
{
    const struct dt_http_endpoint *e = &t->s3->endpoint;
    bool is_usual = e->port == (e->tls ? 443 : 80), in_host = t->s3->is_in_host;
    char port[8] = "";
    if (!is_usual)
        snprintf(port, sizeof port, ":%u", e->port);
    snprintf(a->host, sizeof a->host, "%s%s%s%s", in_host ? t->url.bucket : "", in_host ? "." : "",
             e->host, port);
    snprintf(a->path, sizeof a->path, "%s%s%s%s%s", e->path, in_host ? "" : "/",
             in_host ? "" : t->url.bucket, *c->key || in_host ? "/" : "", c->key);
}

static void set_pairs(const struct dt_s3 *s, const struct dt_s3_call *c, struct attempt *a)
{
    struct dt_sigv4_pair *h = a->request.headers;
    *h++ = (struct dt_sigv4_pair){"host", a->host};
    *h++ = (struct dt_sigv4_pair){"x-amz-content-sha256", a->payload};
    *h++ = (struct dt_sigv4_pair){"x-amz-date", a->stamp};
    if (*s->ring.keys.token)
        *h++ = (struct dt_sigv4_pair){"x-amz-security-token", s->ring.keys.token};
    for (size_t i = 0; i < DT_SIGV4_PAIRS / 2 && c->headers[i].name; i++)
        *h++ = c->headers[i];
    memcpy(a->request.query, c->query, sizeof c->query);
    a->request.method = c->method;
    a->request.path = a->path;
    a->request.payload = a->payload;
}

/* libcurl writes Host itself, and as it is signed. */
static int put_lines(struct attempt *a, const struct dt_buf *authorization)
{
    size_t begins[DT_SIGV4_PAIRS + 4], n = 0;
    for (size_t i = 1; i < DT_SIGV4_PAIRS && a->request.headers[i].name; i++) {
        begins[n++] = a->lines.len;
        dt_buf_printf(&a->lines, "%s: %s", a->request.headers[i].name, a->request.headers[i].value);
        dt_buf_put_u8(&a->lines, 0);
    }
    begins[n++] = a->lines.len;
    dt_buf_printf(&a->lines, "Authorization: %.*s", (int)authorization->len,
                  (const char *)authorization->at);
    dt_buf_put_u8(&a->lines, 0);
    begins[n++] = a->lines.len;
    /* Else libcurl says that a body is a form. */
    dt_buf_put_str(&a->lines, "Content-Type: application/octet-stream");
    dt_buf_put_u8(&a->lines, 0);
    if (a->lines.bad)
        return -1;
    for (size_t i = 0; i < n; i++)
        a->headers[i] = (const char *)a->lines.at + begins[i];
    a->headers[n] = NULL;
    return 0;
}

static int prepare(struct dt_transfer *t, const struct dt_s3_call *c, struct attempt *a)
{
    struct dt_s3 *s = t->s3;
    struct dt_buf authorization = {0};
    const struct dt_http_endpoint *e = &s->endpoint;
    a->clock_off = s->clock_off;
    a->signed_at = dt_clock_wall_us() / 1000000 + s->clock_off;
    memcpy(a->region, s->ring.region, sizeof a->region);
    dt_date_stamp(a->signed_at, a->stamp);
    set_place(t, c, a);
    set_pairs(s, c, a);
    dt_buf_clear(&a->url);
    dt_buf_clear(&a->lines);
    dt_buf_printf(&a->url, "http%s://%s", e->tls ? "s" : "", a->host);
    dt_sigv4_target(&a->request, &a->url);
    int rc = dt_sigv4_sign(s->lib, &a->request, &s->ring.keys, a->region, "s3", a->signed_at,
                           &authorization);
    if (rc == 0)
        rc = put_lines(a, &authorization);
    dt_buf_finish(&authorization);
    return a->url.bad ? -1 : rc;
}

/* A call that is not over: an attempt is under way, or the next one waits for its time. */
struct dt_s3_run {
    struct dt_node in_running;
    struct dt_s3_call *call;
    struct dt_retry retry;
    struct attempt attempt;
    struct dt_http_exchange exchange;
    bool is_under_way;
    dt_ms due; /* of the next attempt */
};

static int send_request(struct dt_transfer *t, struct dt_s3_run *r)
{
    struct dt_s3 *s = t->s3;
    const struct dt_s3_call *c = r->call;
    r->exchange.request = (struct dt_http_request){
        .method = c->method,
        .url = dt_buf_cstr(&r->attempt.url),
        .headers = r->attempt.headers,
        .body = c->body,
        .body_max = DT_ANSWER_MAX,
        .take = c->take,
        .on_sent = c->on_sent,
        .arg = c->arg,
        .ca_file = s->ca_file,
        .bandwidth = t->set.bandwidth,
        .connect_patience = t->set.patience,
        .patience = t->set.patience,
        .stop = t->set.stop,
    };
    r->is_under_way = s->lib->begin(s->connections, &r->exchange) == 0;
    return r->is_under_way ? 0 : -1;
}

/* -- what to make of it ----------------------------------------------------------------------- */

static struct dt_retry_facts facts_of(struct dt_transfer *t, const struct dt_s3_call *c,
                                      enum dt_http_end end, const struct attempt *a)
{
    struct dt_s3 *s = t->s3;
    char text[64], region[sizeof s->error.region];
    int64_t date, after = dt_http_header_number(&s->answer, "retry-after");
    memset(&s->error, 0, sizeof s->error);
    bool is_well = s->answer.status >= 200 && s->answer.status < 300;
    if (end == DT_HTTP_ANSWERED && (!is_well || c->hides_errors))
        dt_answer_error((struct dt_bytes){s->answer.body.at, s->answer.body.len}, &s->error);
    if (*dt_http_header(&s->answer, "x-amz-bucket-region", region, sizeof region))
        strcpy(s->error.region, region);
    if (!dt_is_region(s->error.region))
        s->error.region[0] = '\0';
    struct dt_retry_facts f = {
        .end = end,
        .status = s->answer.status,
        .code = s->error.code,
        .tells_region = *s->error.region && strcmp(s->error.region, a->region) != 0,
        .keys_can_change = dt_keyring_can_change(&s->ring),
        .retry_after = after > 0 && after < 3600 ? after * DT_SECOND : 0,
    };
    if (dt_date_of_http(dt_http_header(&s->answer, "date", text, sizeof text), &date))
        f.clock_off = date - a->signed_at;
    return f;
}

/* What a person can do about it, where the server's words do not say. */
static const struct {
    const char *code, *hint;
} hints[] = {
    {"InvalidAccessKeyId",
     "the store does not know this access key: is the endpoint the right one?"},
    {"SignatureDoesNotMatch", "the secret key does not belong to the access key"},
    {"AccessDenied", "the credentials are known, and may not do this"},
    {"NoSuchBucket", "make the bucket first"},
    {"RequestTimeTooSkewed", "the clock of this host is wrong"},
    {"ExpiredToken", "the credentials have passed away: get new ones"},
};

static const char *hint_for(const char *code)
{
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (strcmp(code, hints[i].code) == 0)
            return hints[i].hint;
    return NULL;
}

/* "503 SlowDown (Reduce your rate)", or libcurl's words. */
static void put_cause(const struct dt_s3 *s, enum dt_http_end end, char *out, size_t size)
{
    const struct dt_answer_error *e = &s->error;
    if (end != DT_HTTP_ANSWERED) {
        snprintf(out, size, "%s", s->answer.why);
        return;
    }
    snprintf(out, size, "the store answers %d%s%s%s%s%s", s->answer.status, *e->code ? " " : "",
             e->code, *e->message ? " (" : "", e->message, *e->message ? ")" : "");
}

static int say_failure(struct dt_transfer *t, const struct dt_s3_call *c, enum dt_http_end end,
                       int attempts, struct dt_err *err)
{
    char cause[330], tried[32] = "";
    const char *hint = hint_for(t->s3->error.code);
    if (end == DT_HTTP_STOPPED)
        return dt_err_set(err, DT_E_CANCELED, "%s: it was stopped", c->what);
    if (end == DT_HTTP_REFUSED && c->refusal.code) {
        if (err)
            *err = c->refusal;
        return dt_err_wrap(err, "%s", c->what);
    }
    put_cause(t->s3, end, cause, sizeof cause);
    if (attempts > 1)
        snprintf(tried, sizeof tried, ", after %d attempts", attempts);
    return dt_err_set(err, end == DT_HTTP_ANSWERED ? DT_E_RUNTIME : DT_E_DISCONNECTED,
                      "%s: %.300s%s%s%s", c->what, cause, tried, hint ? "; " : "",
                      hint ? hint : "");
}

static void tell_retry(struct dt_transfer *t, const struct dt_s3_call *c, enum dt_http_end end,
                       const char *next)
{
    char why[600], cause[330], shown[160];
    if (!t->set.on_retry)
        return;
    put_cause(t->s3, end, cause, sizeof cause);
    snprintf(why, sizeof why, "s3://%s/%s: %s: %.300s; %s", t->url.bucket,
             dt_str_printable(dt_bytes_of(c->key), shown, sizeof shown), c->what, cause, next);
    t->set.on_retry(t->set.arg, why);
}

/* Makes the correction MOVE and says so. */
static int correct(struct dt_transfer *t, const struct dt_s3_run *r, enum dt_retry_move move,
                   const struct dt_retry_facts *f, struct dt_err *err)
{
    struct dt_s3 *s = t->s3;
    char next[120] = "again with new credentials";
    if (move == DT_RETRY_SET_CLOCK) {
        s->clock_off = r->attempt.clock_off + f->clock_off;
        snprintf(next, sizeof next,
                 "again with the store's clock, which is %lld s ahead of this host's",
                 (long long)s->clock_off);
    } else if (move == DT_RETRY_SET_REGION) {
        strcpy(s->ring.region, s->error.region);
        if (s->is_amazon)
            dt_s3_set_amazon(s);
        snprintf(next, sizeof next, "again for the region %s", s->ring.region);
    } else if (dt_keyring_fetch(&s->ring, err) < 0) {
        return -1;
    }
    tell_retry(t, r->call, f->end, next);
    return 0;
}

static void put_off(struct dt_transfer *t, struct dt_s3_run *r, enum dt_http_end end, dt_ms pause)
{
    char next[80];
    snprintf(next, sizeof next, "again in %lld ms (attempt %d of %d)", (long long)pause,
             r->retry.made + 1, r->retry.most);
    r->due = dt_clock_after(dt_clock_monotonic(), pause);
    tell_retry(t, r->call, end, next);
}

/* -- a request -------------------------------------------------------------------------------- */

/* Who hands out keys may be away for a while: until they are over, the old ones do. */
static int renew_if_due(struct dt_s3 *s, struct dt_err *err)
{
    struct dt_err why = {0};
    int64_t now = dt_clock_wall_us() / 1000000 + s->clock_off;
    if (!dt_keyring_is_due(&s->ring, now) || dt_keyring_fetch(&s->ring, &why) == 0)
        return 0;
    if (now < s->ring.keys.expires && why.code != DT_E_CANCELED)
        return 0;
    if (err)
        *err = why;
    return -1;
}

static int begin_attempt(struct dt_transfer *t, struct dt_s3_run *r, struct dt_err *err)
{
    struct dt_s3_call *c = r->call;
    if (dt_transfer_is_stopped(t))
        return dt_err_set(err, DT_E_CANCELED, "%s: it was stopped", c->what);
    if (c->before && c->before(c))
        dt_retry_progress(&r->retry);
    if (renew_if_due(t->s3, err) < 0)
        return -1;
    if (prepare(t, c, &r->attempt) < 0 || send_request(t, r) < 0)
        return dt_err_set(err, DT_E_MEMORY, "%s: no memory for a request", c->what);
    return 0;
}

enum { ANOTHER = 2 }; /* attempt is to follow */

/* An attempt has ended, and the store's last answer is the one to it. */
static int end_attempt(struct dt_transfer *t, struct dt_s3_run *r, struct dt_err *err)
{
    dt_ms pause;
    enum dt_http_end end = r->exchange.end;
    struct dt_retry_facts f = facts_of(t, r->call, end, &r->attempt);
    enum dt_retry_move move = dt_retry_decide(&r->retry, &f, &pause);
    if (move == DT_RETRY_DONE)
        return 1;
    if (end == DT_HTTP_ANSWERED && f.status == 404 && strcmp(f.code, "NoSuchBucket") != 0)
        return 0;
    if (move == DT_RETRY_GIVE_UP)
        return say_failure(t, r->call, end, r->retry.made, err);
    if (move != DT_RETRY_AGAIN)
        return correct(t, r, move, &f, err) < 0 ? -1 : ANOTHER;
    put_off(t, r, end, pause);
    return ANOTHER;
}

/* -- several at once -------------------------------------------------------------------------- */

static int set_payload(const struct dt_s3 *s, const struct dt_s3_call *c, struct attempt *a)
{
    uint8_t sum[DT_SHA256_SIZE];
    if (!c->payload && s->lib->digest(DT_SHA256, c->body, sum) < 0)
        return -1;
    if (c->payload)
        memcpy(a->payload, c->payload, sizeof a->payload);
    else
        dt_hex(sum, sizeof sum, a->payload);
    return 0;
}

static void finish(struct dt_s3 *s, struct dt_s3_run *r)
{
    if (r->is_under_way)
        s->lib->call_off(s->connections, &r->exchange);
    dt_list_remove(&r->in_running);
    if (r->attempt.lines.base)
        explicit_bzero(r->attempt.lines.base, r->attempt.lines.size);
    dt_buf_finish(&r->attempt.url);
    dt_buf_finish(&r->attempt.lines);
    dt_http_answer_finish(&r->exchange.answer);
    free(r);
}

int dt_s3_begin(struct dt_transfer *t, struct dt_s3_call *c, struct dt_err *err)
{
    struct dt_s3_run *r = calloc(1, sizeof *r);
    if (!r || set_payload(t->s3, c, &r->attempt) < 0) {
        free(r);
        return dt_err_set(err, DT_E_MEMORY, "%s: no memory for a request", c->what);
    }
    r->call = c;
    r->due = dt_clock_monotonic();
    dt_retry_init(&r->retry, t->set.attempts, t->s3->seed++);
    dt_list_append(&t->s3->running, &r->in_running);
    return 0;
}

/* Begins the attempts whose time has come. *FAILED: one that cannot be. How long until the next
 * one's time comes, or the flag is looked at. */
static dt_ms begin_due(struct dt_transfer *t, struct dt_s3_run **failed, struct dt_err *err)
{
    dt_ms now = dt_clock_monotonic(), next = LOOK_EVERY;
    *failed = NULL;
    dt_list_each(&t->s3->running, n)
    {
        struct dt_s3_run *r = dt_container_of(n, struct dt_s3_run, in_running);
        bool waits = !r->is_under_way && r->due > now && !dt_transfer_is_stopped(t);
        if (waits && r->due - now < next)
            next = r->due - now;
        if (waits || r->is_under_way || begin_attempt(t, r, err) == 0)
            continue;
        *failed = r;
        return 0;
    }
    return next;
}

/* An attempt that is over, its answer in the place of the one before. */
static struct dt_s3_run *wait_for_attempt(struct dt_s3 *s, dt_ms patience)
{
    struct dt_http_exchange *x = s->lib->wait(s->connections, patience);
    if (!x)
        return NULL;
    struct dt_s3_run *r = dt_container_of(x, struct dt_s3_run, exchange);
    struct dt_http_answer before = s->answer;
    s->answer = x->answer;
    x->answer = before;
    r->is_under_way = false;
    r->due = dt_clock_monotonic();
    return r;
}

int dt_s3_wait(struct dt_transfer *t, struct dt_s3_call **over, struct dt_err *err)
{
    struct dt_s3_run *r;
    int rc = -1;
    dt_ms patience = begin_due(t, &r, err);
    *over = NULL;
    if (!r) {
        r = wait_for_attempt(t->s3, patience);
        rc = r ? end_attempt(t, r, err) : ANOTHER;
    }
    if (rc == ANOTHER)
        return 0;
    *over = r->call;
    finish(t->s3, r);
    return rc;
}

void dt_s3_wake(struct dt_transfer *t)
{
    t->s3->lib->wake(t->s3->connections);
}

void dt_s3_call_off(struct dt_transfer *t)
{
    dt_list_each(&t->s3->running, n)
        finish(t->s3, dt_container_of(n, struct dt_s3_run, in_running));
}

int dt_s3_do(struct dt_transfer *t, struct dt_s3_call *c, struct dt_err *err)
{
    struct dt_s3_call *over = NULL;
    int rc = dt_s3_begin(t, c, err);
    while (rc == 0 && !over) {
        rc = dt_s3_wait(t, &over, err);
        if (over)
            return rc;
    }
    return -1;
}
