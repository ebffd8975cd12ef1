/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/client/client.h"

#include "base/list.h"
#include "base/loop/dial.h"
#include "base/str.h"
#include "rendezvous/client/lanes.h"
#include "rendezvous/client/link.h"
#include "rendezvous/protocol/spec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* UNSENT -> ASKED for what does not block. What does: UNSENT -> CHECKING [-> WAITING] [-> ASKED].
 */
enum step { UNSENT, CHECKING, WAITING, ASKED };

struct request {
    struct dt_node in_all;  /* on client->requests until DONE is told */
    struct dt_node in_line; /* on client->unsent or ->sent. Told and still on `sent`: its answer is
                               to be dropped */
    struct dt_store_client *client;
    struct dt_c10d_request ask; /* views into `bytes`; a GET has its key as the one item, too */
    struct dt_buf bytes;
    uint64_t size; /* counted in client->bytes */
    enum step step;
    bool expected;              /* the decoder was told that this answer is next */
    struct dt_store_lane *lane; /* while WAITING */
    uint64_t end;               /* link->written when all of it is out */
    dt_ms deadline;
    dt_store_done_fn *done;
    void *arg;
};

struct dt_store_client {
    uv_loop_t *loop;
    struct dt_store_client_config config;
    char *addr;
    struct dt_dial dial;          /* the main connection */
    struct dt_store_link link;    /* what is said over it */
    enum dt_c10d_dialect dialect; /* MODERN, until somebody hangs up on it and answers to L1 */
    struct dt_err gave_up;        /* why the dial has */
    struct dt_store_lanes lanes;  /* those for waits */
    uv_timer_t timer;             /* armed for the earliest deadline of the requests */
    dt_ms armed;
    struct dt_list requests, unsent, sent;
    uint64_t count, bytes; /* of requests that are not freed */
    struct dt_ending ending;
};

static dt_ms now(const struct dt_store_client *c)
{
    return (dt_ms)uv_now(c->loop);
}

/* -- one request ------------------------------------------------------------------------------ */

static bool may_block(enum dt_c10d_op op)
{
    return op == DT_C10D_WAIT || op == DT_C10D_BARRIER || op == DT_C10D_GET ||
           op == DT_C10D_MULTI_GET;
}

static void request_free(struct request *r)
{
    dt_list_remove(&r->in_line);
    r->client->count--;
    r->client->bytes -= r->size;
    dt_buf_finish(&r->bytes);
    free(r);
}

/* Tells the outcome. R is then to be freed, unless an answer to be dropped is still to come. */
static void tell(struct request *r, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    dt_store_done_fn *done = r->done;
    dt_list_remove(&r->in_all);
    r->done = NULL;
    if (done)
        done(r->arg, reply, err);
}

static void complete(struct request *r, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    dt_list_remove(&r->in_line);
    tell(r, reply, err);
    request_free(r);
}

static void copy_part(struct dt_buf *to, struct dt_bytes *part)
{
    size_t at = to->len;
    if (part->len == 0)
        return;
    dt_buf_put(to, part->at, part->len);
    part->at = to->bad ? NULL : to->at + at;
}

/* Room is made before, so that nothing moves below the views. */
static void copy_ask(struct request *r)
{
    struct dt_bytes key = r->ask.key;
    if (!dt_buf_room(&r->bytes, (size_t)r->size + 8))
        return;
    if (r->ask.op == DT_C10D_GET) {
        dt_c10d_put_item(&r->bytes, key, NULL);
        r->ask.count = 1;
        r->ask.items = (struct dt_bytes){r->bytes.at, r->bytes.len};
        r->ask.key.at = r->bytes.at + 8;
        return;
    }
    copy_part(&r->bytes, &r->ask.key);
    copy_part(&r->bytes, &r->ask.value);
    copy_part(&r->bytes, &r->ask.desired);
    copy_part(&r->bytes, &r->ask.items);
}

static uint64_t size_of(const struct dt_c10d_request *ask)
{
    return (uint64_t)ask->key.len + ask->value.len + ask->desired.len + ask->items.len;
}

static struct request *request_create(struct dt_store_client *c, const struct dt_c10d_request *ask)
{
    struct request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->client = c;
    r->ask = *ask;
    r->size = size_of(ask);
    dt_node_init(&r->in_all);
    dt_node_init(&r->in_line);
    c->count++;
    c->bytes += r->size;
    copy_ask(r);
    if (r->bytes.bad) {
        request_free(r);
        return NULL;
    }
    return r;
}

/* -- the main connection's requests ----------------------------------------------------------- */

static void arm(struct dt_store_client *c, dt_ms when);

/* -1: it was not sent, and what becomes of R is the caller's business. */
static int send_on_main(struct request *r, enum step step, const struct dt_c10d_request *ask,
                        struct dt_err *err)
{
    struct dt_store_client *c = r->client;
    if (dt_store_link_send(&c->link, ask, err) < 0)
        return -1;
    r->step = step;
    r->expected = false;
    r->end = c->link.queued;
    dt_list_append(&c->sent, &r->in_line);
    if (step == ASKED)
        dt_buf_finish(&r->bytes);
    return 0;
}

/* Asks whether R's keys are there; about none for a barrier, where only the place in the order
 * matters. */
static int start(struct request *r, struct dt_err *err)
{
    struct dt_c10d_request check = {
        .op = DT_C10D_CHECK, .count = r->ask.count, .items = r->ask.items};
    dt_list_remove(&r->in_line);
    return may_block(r->ask.op) ? send_on_main(r, CHECKING, &check, err)
                                : send_on_main(r, ASKED, &r->ask, err);
}

/* The keys are there, or the barrier is open. */
static void arrived(struct request *r)
{
    struct dt_c10d_reply ready = {.op = r->ask.op, .number = DT_C10D_READY};
    struct dt_err err;
    if (r->ask.op != DT_C10D_GET && r->ask.op != DT_C10D_MULTI_GET)
        complete(r, &ready, NULL);
    else if (send_on_main(r, ASKED, &r->ask, &err) < 0)
        complete(r, NULL, &err);
}

static void begin_waiting(struct request *r);

static void answered(struct request *r, const struct dt_c10d_reply *reply)
{
    dt_list_remove(&r->in_line);
    if (!dt_node_linked(&r->in_all))
        request_free(r); /* told long ago that it is late */
    else if (r->step == ASKED)
        complete(r, reply, NULL);
    else if (r->ask.op == DT_C10D_BARRIER || reply->number != DT_C10D_READY)
        begin_waiting(r);
    else
        arrived(r);
}

/* The answer to R, which is the oldest request without one. */
static enum dt_decoded take_answer(struct dt_store_link *l, struct request *r,
                                   struct dt_c10d_reply *reply, size_t *used, struct dt_err *err)
{
    enum dt_c10d_op op = r->step == CHECKING ? DT_C10D_CHECK : r->ask.op;
    if (dt_c10d_answer_of(op) == DT_C10D_NO_ANSWER && l->wire->written < r->end)
        return DT_MORE;
    if (!r->expected)
        dt_c10d_answer_expect(&l->answers, op, r->ask.count);
    r->expected = true;
    return dt_c10d_answer_decode(&l->answers, l->wire->in.at, l->wire->in.len, reply, used, err);
}

static void take_answers(struct dt_store_client *c, struct dt_wire *w)
{
    struct dt_err err = {.code = DT_E_PROTOCOL, .text = "the server sent what nobody asked for"};
    enum dt_decoded got = DT_DONE;
    while (!w->closing && got == DT_DONE && !dt_list_empty(&c->sent)) {
        struct request *r = dt_container_of(dt_list_first(&c->sent), struct request, in_line);
        struct dt_c10d_reply reply;
        size_t used;
        got = take_answer(&c->link, r, &reply, &used, &err);
        if (got == DT_DONE) {
            answered(r, &reply); /* the reply's views are into w->in */
            dt_buf_consume(&w->in, used);
        }
    }
    if (w->closing || got == DT_MORE || (got == DT_DONE && w->in.len == 0))
        return;
    dt_wire_lose(w, &err);
}

/* -- waiting ---------------------------------------------------------------------------------- */

static void on_lane_done(void *arg, const struct dt_err *err)
{
    struct request *r = arg;
    if (err)
        complete(r, NULL, err);
    else
        arrived(r);
}

static void begin_waiting(struct request *r)
{
    struct dt_store_client *c = r->client;
    struct dt_c10d_request wait = r->ask;
    struct dt_err err;
    if (wait.op != DT_C10D_BARRIER)
        wait.op = DT_C10D_WAIT;
    r->step = WAITING;
    r->lane = dt_store_lanes_wait(&c->lanes, dt_dial_at(&c->dial), c->dialect, &wait, on_lane_done,
                                  r, &err);
    if (!r->lane)
        complete(r, NULL, &err);
}

/* -- the main connection comes and goes ------------------------------------------------------- */

/* The callback may close the client. */
static void announce(struct dt_store_client *c, enum dt_store_client_event event,
                     const struct dt_err *why)
{
    if (c->config.on_event)
        c->config.on_event(c->config.arg, event, why);
}

static void fail_all(struct dt_list *requests, const struct dt_err *why)
{
    for (struct dt_node *n; (n = dt_list_first(requests));)
        complete(dt_container_of(n, struct request, in_all), NULL, why);
}

/* The greeting is through. */
static void come_up(struct dt_store_client *c)
{
    struct dt_err err;
    dt_dial_up(&c->dial);
    dt_backoff_reset(&c->dial.backoff);
    for (struct dt_node *n; !c->ending.begun && (n = dt_list_first(&c->unsent));) {
        struct request *r = dt_container_of(n, struct request, in_line);
        if (start(r, &err) < 0)
            complete(r, NULL, &err);
    }
    if (!c->ending.begun)
        announce(c, DT_STORE_CLIENT_CONNECTED, NULL);
}

static void on_main_connected(struct dt_dial *d)
{
    struct dt_store_client *c = dt_container_of(d, struct dt_store_client, dial);
    struct dt_err err;
    if (dt_store_link_greet(&c->link, d->wire, c->dialect, &err) < 0)
        dt_wire_lose(d->wire, &err);
}

static void on_main_came(struct dt_dial *d)
{
    struct dt_store_client *c = dt_container_of(d, struct dt_store_client, dial);
    struct dt_wire *w = d->wire;
    struct dt_err err;
    if (!c->link.up) {
        enum dt_decoded got = dt_store_link_hear_greeting(&c->link, &err);
        if (got == DT_BAD)
            dt_wire_lose(w, &err);
        if (got != DT_DONE)
            return;
        come_up(c);
    }
    take_answers(c, w);
}

static void on_main_wrote(struct dt_dial *d)
{
    struct dt_store_client *c = dt_container_of(d, struct dt_store_client, dial);
    if (c->link.up)
        take_answers(c, d->wire);
}

/* A store of PyTorch before 2.1 takes our greeting for a request that cannot be, and hangs up. So
 * the same address is tried once more in its own way. What is no store will not become one. */
static enum dt_dial_next on_main_missed(struct dt_dial *d, const struct dt_err *why)
{
    struct dt_store_client *c = dt_container_of(d, struct dt_store_client, dial);
    bool try_legacy = c->dialect == DT_C10D_MODERN && d->state == DT_DIAL_GREETING &&
                      why->code == DT_E_DISCONNECTED;
    if (why->code == DT_E_PROTOCOL)
        return d->was_up ? DT_DIAL_PAUSE : DT_DIAL_GIVE_UP;
    if (d->was_up)
        return DT_DIAL_NEXT_ADDRESS;
    c->dialect = try_legacy ? DT_C10D_L1 : DT_C10D_MODERN;
    return try_legacy ? DT_DIAL_SAME_ADDRESS : DT_DIAL_NEXT_ADDRESS;
}

/* Fails all that is pending. What was sent has an unknown fate; unsent there is something only when
 * the dial gives up. What is issued by the callbacks is pending anew. */
static void fail_pending(struct dt_store_client *c, enum dt_store_client_event event,
                         const struct dt_err *why)
{
    struct dt_list doomed;
    dt_list_init(&doomed);
    dt_list_move(&doomed, &c->requests);
    dt_store_lanes_drop(&c->lanes);
    dt_list_each(&c->sent, n)
    {
        struct request *r = dt_container_of(n, struct request, in_line);
        dt_list_remove(&r->in_line);
        if (!dt_node_linked(&r->in_all))
            request_free(r); /* it was told long ago that it is late */
    }
    announce(c, event, why);
    fail_all(&doomed, why);
}

static void on_main_lost(struct dt_dial *d, const struct dt_err *cause)
{
    struct dt_store_client *c = dt_container_of(d, struct dt_store_client, dial);
    struct dt_err why;
    dt_err_set(&why, cause->code, "store %s: %s", c->addr, cause->text);
    fail_pending(c, DT_STORE_CLIENT_LOST, &why);
}

static void on_main_failed(struct dt_dial *d, const struct dt_err *why)
{
    struct dt_store_client *c = dt_container_of(d, struct dt_store_client, dial);
    dt_err_set(&c->gave_up, why->code, "store %s: given up: %s", c->addr, why->text);
    fail_pending(c, DT_STORE_CLIENT_FAILED, &c->gave_up);
}

/* -- time ------------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *t);

static void arm(struct dt_store_client *c, dt_ms when)
{
    if (c->ending.begun || when >= c->armed)
        return;
    c->armed = when;
    uv_timer_start(&c->timer, on_timer, when > now(c) ? (uint64_t)(when - now(c)) : 0, 0);
}

static void expire(struct request *r)
{
    struct dt_err late;
    dt_err_set(&late, DT_E_TIMEOUT, "store %s: %s: no answer in time", r->client->addr,
               dt_c10d_op_name(r->ask.op));
    if (r->step == WAITING)
        dt_store_lane_cancel(r->lane);
    if (r->step == CHECKING || r->step == ASKED) {
        dt_buf_finish(&r->bytes);
        tell(r, NULL, &late);
    } else {
        complete(r, NULL, &late);
    }
}

static void expire_requests(struct dt_store_client *c)
{
    struct dt_list due;
    dt_list_init(&due);
    dt_list_each(&c->requests, n)
    {
        struct request *r = dt_container_of(n, struct request, in_all);
        if (r->deadline <= now(c)) {
            dt_list_remove(&r->in_all);
            dt_list_append(&due, &r->in_all);
        } else {
            arm(c, r->deadline);
        }
    }
    for (struct dt_node *n; (n = dt_list_first(&due));)
        expire(dt_container_of(n, struct request, in_all));
}

static void on_timer(uv_timer_t *t)
{
    struct dt_store_client *c = dt_container_of(t, struct dt_store_client, timer);
    c->armed = DT_FOREVER;
    expire_requests(c);
}

/* -- the client ------------------------------------------------------------------------------- */

static const struct dt_dial_events main_events = {
    .connected = on_main_connected,
    .came = on_main_came,
    .wrote = on_main_wrote,
    .missed = on_main_missed,
    .lost = on_main_lost,
    .failed = on_main_failed,
};

static void dial(struct dt_store_client *c)
{
    struct dt_dial_config config = {.addr = c->addr,
                                    .default_port = DT_RENDEZVOUS_PORT,
                                    .open_timeout = c->config.open_timeout,
                                    .reconnect_timeout = c->config.reconnect_timeout,
                                    .attempt_timeout = c->config.attempt_timeout,
                                    .backoff_first = c->config.backoff_first,
                                    .backoff_most = c->config.backoff_most,
                                    .lasted = DT_FOREVER,
                                    .events = &main_events};
    dt_dial_open(&c->dial, c->loop, &config);
}

struct dt_store_client *dt_store_client_open(uv_loop_t *loop,
                                             const struct dt_store_client_config *config,
                                             struct dt_err *err)
{
    struct dt_store_client *c = calloc(1, sizeof *c);
    char *addr = strdup(config->addr);
    if (!c || !addr) {
        free(c);
        free(addr);
        dt_err_set(err, DT_E_MEMORY, "no memory for a store client");
        return NULL;
    }
    c->loop = loop;
    c->config = *config;
    c->config.addr = c->addr = addr;
    dt_list_init(&c->requests);
    dt_list_init(&c->unsent);
    dt_list_init(&c->sent);
    uv_timer_init(loop, &c->timer);
    c->armed = DT_FOREVER;
    c->dialect = DT_C10D_MODERN;
    dial(c);
    dt_store_lanes_open(&c->lanes, loop, &c->config);
    return c;
}

static int refuse(const struct dt_store_client *c, const struct dt_c10d_request *req,
                  struct dt_err *err)
{
    if (c->ending.begun)
        return dt_err_set(err, DT_E_CANCELED, "store %s: the client is closing", c->addr);
    if (c->dial.state == DT_DIAL_OVER)
        return dt_err_set(err, c->gave_up.code, "%s", c->gave_up.text);
    if (c->config.fail_fast && c->dial.state != DT_DIAL_UP)
        return dt_err_set(err, DT_E_DISCONNECTED, "store %s: not connected", c->addr);
    uint64_t size = size_of(req);
    if (c->count >= c->config.requests || size > c->config.bytes ||
        c->bytes > c->config.bytes - size)
        return dt_err_set(err, DT_E_LIMIT, "store %s: too much is waiting to be answered already",
                          c->addr);
    return 0;
}

int dt_store_client_request(struct dt_store_client *c, const struct dt_c10d_request *req,
                            dt_ms timeout, dt_store_done_fn *done, void *arg, struct dt_err *err)
{
    assert(req->op > DT_C10D_VALIDATE && req->op < DT_C10D_WATCH_KEY &&
           req->op != DT_C10D_CANCEL_WAIT);
    if (refuse(c, req, err) < 0)
        return -1;
    struct request *r = request_create(c, req);
    if (!r)
        return dt_err_set(err, DT_E_MEMORY, "store %s: no memory for a request", c->addr);
    r->done = done;
    r->arg = arg;
    r->deadline = dt_clock_after(now(c), timeout);
    if (c->dial.state != DT_DIAL_UP) {
        dt_list_append(&c->unsent, &r->in_line);
    } else if (start(r, err) < 0) {
        request_free(r);
        return -1;
    }
    dt_list_append(&c->requests, &r->in_all);
    arm(c, r->deadline);
    return 0;
}

const char *dt_store_client_trouble(const struct dt_store_client *c)
{
    const struct dt_err *why = c->dial.state == DT_DIAL_OVER ? &c->gave_up : &c->dial.why;
    return why->code == DT_E_NONE ? NULL : why->text;
}

bool dt_store_client_legacy(const struct dt_store_client *c)
{
    return c->dialect != DT_C10D_MODERN;
}

static void client_free(void *client)
{
    struct dt_store_client *c = client;
    struct dt_err err;
    dt_err_set(&err, DT_E_CANCELED, "store %s: the client was closed", c->addr);
    fail_all(&c->requests, &err);
    for (struct dt_node *n; (n = dt_list_first(&c->sent));)
        request_free(dt_container_of(n, struct request, in_line));
    free(c->addr);
    free(c); /* the only free of a client that was opened */
}

void dt_store_client_close(struct dt_store_client *c, void (*on_closed)(void *arg), void *arg)
{
    if (!c || c->ending.begun)
        return;
    dt_ending_begin(&c->ending, client_free, c, on_closed, arg);
    dt_dial_close(&c->dial, dt_ending_step, dt_ending_add(&c->ending));
    dt_store_lanes_close(&c->lanes, dt_ending_step, dt_ending_add(&c->ending));
    dt_ending_close(&c->ending, &c->timer);
}
