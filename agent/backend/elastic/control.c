/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/control.h"

#include "base/list.h"
#include "base/loop/dial.h"
#include "rendezvous/client/client.h"
#include "rendezvous/protocol/greeting.h"
#include "rendezvous/protocol/spec.h"
#include "rendezvous/protocol/warrant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An agent says a few hundred bytes a beat. At the end of a round comes what its workers printed
 * last, up to six times as long as JSON. */
#define UNTAKEN_MAX (4u << 20)

struct dt_control {
    uv_loop_t *loop;
    struct dt_control_config config;
    const struct dt_proof_table *proof; /* where there is a token, or one of the run */
    struct dt_store_client *look;       /* while it is found out what is there */
    uv_timer_t look_end;
    struct dt_dial dial;         /* afterwards, or at once to what is known to be ours */
    struct dt_greeting greeting; /* of this connection */
    char host[DT_ROLE_MAX];
    bool looks;      /* as its hello said ... */
    bool remarks;    /* ... as this ... */
    bool shared;     /* ... as this ... */
    bool run_tokens; /* ... and this */
    bool refused;    /* the last time: coming up is no success yet */
    dt_ms give_up_at;
    struct dt_ending ending;
};

static dt_ms now(const struct dt_control *c)
{
    return (dt_ms)uv_now(c->loop);
}

static struct dt_control *control_of(struct dt_dial *d)
{
    return dt_container_of(d, struct dt_control, dial);
}

static bool is_up(const struct dt_control *c)
{
    return c->dial.state == DT_DIAL_UP;
}

/* Whoever is there does not want us. */
static void refuse(struct dt_control *c, const char *text)
{
    struct dt_err why;
    if (!c->dial.was_up) {
        dt_err_set(&why, DT_E_PROTOCOL, "the rendezvous at %s: %s", c->config.addr, text);
        dt_dial_stop(&c->dial);
        c->config.events->failed(c->config.arg, &why);
        return;
    }
    c->refused = true;
    dt_err_set(&why, DT_E_PROTOCOL, "%s", text);
    dt_dial_drop(&c->dial, &why);
    c->config.events->refused(c->config.arg, &why);
}

/* -- frames ----------------------------------------------------------------------------------- */

/* Sends soon, behind what was said before; to a small message that is as good as at once. -1: the
 * other side has not taken what it was told for too long, or memory is out; the connection is of no
 * use any more. */
static int send_frame(struct dt_wire *w, const struct dt_message *m, struct dt_err *err)
{
    dt_message_encode(&w->out, m);
    if (w->out.bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a message");
    if (w->out.len > UNTAKEN_MAX)
        return dt_err_set(err, DT_E_LIMIT, "it does not take what it is told");
    dt_wire_flush(w);
    return 0;
}

/* -- greeting --------------------------------------------------------------------------------- */

static void say(struct dt_control *c, const struct dt_message *m)
{
    struct dt_err err;
    if (send_frame(c->dial.wire, m, &err) < 0)
        dt_wire_lose(c->dial.wire, &err);
}

static void on_connected(struct dt_dial *d)
{
    struct dt_control *c = control_of(d);
    struct dt_message hello;
    struct dt_err err;
    c->greeting =
        (struct dt_greeting){.side = DT_PROOF_CLIENT, .token = c->config.token, .proofs = c->proof};
    dt_control_put_preamble(&d->wire->out); /* goes out with the hello */
    if (dt_greeting_begin(&c->greeting, "dtrun " DT_VERSION, "", &hello, &err) < 0)
        dt_wire_lose(d->wire, &err);
    else
        say(c, &hello);
}

static void come_up(struct dt_control *c)
{
    struct dt_addr local;
    if (dt_uvx_local(&c->dial.wire->io, &local) < 0)
        local = (struct dt_addr){0};
    dt_dial_up(&c->dial);
    if (!c->refused)
        dt_backoff_reset(&c->dial.backoff);
    c->config.events->up(c->config.arg, c->host, &local);
}

static void refuse_version(struct dt_control *c, const struct dt_message *m)
{
    char why[300];
    snprintf(why, sizeof why,
             "it is %s and speaks version %d of the protocol, this is dtrun " DT_VERSION
             " and speaks version %d; install the same on both",
             m->hello.program, m->hello.version, DT_CONTROL_VERSION);
    refuse(c, why);
}

static void lose_order(struct dt_control *c, const struct dt_message *m)
{
    struct dt_err err;
    dt_err_set(&err, DT_E_PROTOCOL, "it said \"%s\" in place of a greeting",
               dt_message_name(m->type));
    dt_wire_lose(c->dial.wire, &err);
}

static void hear_greeting(struct dt_control *c, const struct dt_message *m)
{
    struct dt_message answer;
    enum dt_greeting_outcome outcome = dt_greeting_hear(&c->greeting, m, &answer);
    if (m->type == DT_MSG_HELLO && outcome != DT_GREETING_OUT_OF_PLACE) {
        snprintf(c->host, sizeof c->host, "%s", m->hello.host);
        c->looks = m->hello.looks;
        c->remarks = m->hello.remarks;
        c->shared = m->hello.shared;
        c->run_tokens = m->hello.run_tokens;
    }
    switch (outcome) {
    case DT_GREETING_GOES_ON:
        say(c, &answer);
        break;
    case DT_GREETING_DONE:
        if (c->config.run_token && !c->run_tokens)
            refuse(c, "it is an older one, where a run can have no token of its own; leave "
                      "--run-token-file out, or install the same dtrun there");
        else
            come_up(c);
        break;
    case DT_GREETING_OUT_OF_PLACE:
        lose_order(c, m);
        break;
    case DT_GREETING_OTHER_VERSION:
        refuse_version(c, m);
        break;
    case DT_GREETING_TOKEN_ASKED:
        refuse(c, "it asks for a token; give the file that holds it with --token-file");
        break;
    case DT_GREETING_TOKEN_NOT_ASKED:
        refuse(c, "it asks for no token, so it may be anybody's; start it with --token-file too");
        break;
    case DT_GREETING_WRONG_PROOF:
        refuse(c, "it does not know the token of --token-file; is it the rendezvous of this job?");
        break;
    }
}

/* -- the connection --------------------------------------------------------------------------- */

static void hear_frame(struct dt_control *c, const struct dt_message *m)
{
    c->config.events->frame(c->config.arg, m);
    if (!c->refused || !is_up(c))
        return;
    c->refused = false;
    dt_backoff_reset(&c->dial.backoff);
}

static void hear(struct dt_control *c, const struct dt_message *m)
{
    if (m->type == DT_MSG_REFUSED)
        refuse(c, m->why);
    else if (is_up(c))
        hear_frame(c, m);
    else
        hear_greeting(c, m);
}

/* Hears one frame; false: there is none, or nobody to hear it. */
static bool take_frame(struct dt_control *c, struct dt_wire *w)
{
    struct dt_message m;
    struct dt_err err;
    size_t used;
    if (w->closing)
        return false;
    switch (dt_message_decode(w->in.at, w->in.len, DT_FRAME_MAX, &m, &used, &err)) {
    case DT_MORE:
        return false;
    case DT_BAD:
        dt_err_wrap(&err, "it does not speak as a rendezvous does");
        err.code = DT_E_PROTOCOL;
        dt_wire_lose(w, &err);
        return false;
    case DT_DONE:
        break;
    }
    dt_buf_consume(&w->in, used);
    hear(c, &m);
    dt_message_finish(&m);
    return true;
}

static void on_came(struct dt_dial *d)
{
    struct dt_wire *w = d->wire;
    while (take_frame(control_of(d), w))
        continue;
}

static void on_lost(struct dt_dial *d, const struct dt_err *why)
{
    struct dt_control *c = control_of(d);
    c->config.events->down(c->config.arg, why);
}

static void on_failed(struct dt_dial *d, const struct dt_err *why)
{
    struct dt_control *c = control_of(d);
    c->config.events->failed(c->config.arg, why);
}

static const struct dt_dial_events dial_events = {
    .connected = on_connected,
    .came = on_came,
    .lost = on_lost,
    .failed = on_failed,
};

static void dial(struct dt_control *c)
{
    struct dt_dial_config config = {.addr = c->config.addr,
                                    .default_port = DT_RENDEZVOUS_PORT,
                                    .open_timeout = DT_FOREVER,
                                    .reconnect_timeout = DT_FOREVER,
                                    .attempt_timeout = c->config.attempt_timeout,
                                    .backoff_first = c->config.backoff_first,
                                    .backoff_most = c->config.backoff_most,
                                    .lasted = c->config.lasted,
                                    .events = &dial_events};
    if (c->give_up_at != DT_FOREVER)
        config.open_timeout = c->give_up_at - now(c);
    dt_dial_open(&c->dial, c->loop, &config);
}

/* -- what is there ---------------------------------------------------------------------------- */

static void end_look(struct dt_control *c)
{
    uv_timer_stop(&c->look_end);
    dt_store_client_close(c->look, dt_ending_step, dt_ending_add(&c->ending));
    c->look = NULL;
}

static void look_failed(struct dt_control *c, const struct dt_err *why)
{
    end_look(c);
    c->config.events->failed(c->config.arg, why);
}

static void on_key(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_control *c = arg;
    if (err || c->ending.begun)
        return; /* what becomes of the store's client is told as its event */
    end_look(c);
    if (reply->number == DT_C10D_READY)
        dial(c);
    else
        c->config.events->foreign(c->config.arg);
}

static void ask_for_key(struct dt_control *c)
{
    struct dt_buf items = {0};
    struct dt_err err;
    dt_c10d_put_item(&items, dt_bytes_of(DT_HELLO_KEY), NULL);
    struct dt_c10d_request check = {
        .op = DT_C10D_CHECK, .count = 1, .items = {items.at, items.len}};
    int rc = items.bad ? dt_err_set(&err, DT_E_MEMORY, "no memory for a request")
                       : dt_store_client_request(c->look, &check, DT_FOREVER, on_key, c, &err);
    if (rc < 0)
        look_failed(c, &err);
    dt_buf_finish(&items);
}

static void on_look(void *arg, enum dt_store_client_event event, const struct dt_err *why)
{
    struct dt_control *c = arg;
    if (c->ending.begun || !c->look)
        return;
    if (event == DT_STORE_CLIENT_CONNECTED)
        ask_for_key(c);
    else if (event == DT_STORE_CLIENT_FAILED)
        look_failed(c, why);
}

/* Nobody is there, or nobody who answers. */
static void on_look_late(uv_timer_t *t)
{
    struct dt_control *c = dt_container_of(t, struct dt_control, look_end);
    const char *trouble = dt_store_client_trouble(c->look);
    struct dt_err why;
    dt_err_set(&why, DT_E_TIMEOUT, "%s",
               trouble ? trouble : "it did not answer in time; perhaps a firewall is between");
    look_failed(c, &why);
}

static int look(struct dt_control *c, struct dt_err *err)
{
    struct dt_store_client_config config = DT_STORE_CLIENT_CONFIG_DEFAULT;
    config.addr = c->config.addr;
    config.open_timeout = config.reconnect_timeout = DT_FOREVER; /* the time is ours to keep */
    config.attempt_timeout = c->config.attempt_timeout;
    config.backoff_first = c->config.backoff_first;
    config.backoff_most = c->config.backoff_most;
    config.on_event = on_look;
    config.arg = c;
    c->look = dt_store_client_open(c->loop, &config, err);
    if (!c->look)
        return -1;
    if (c->config.open_timeout != DT_FOREVER)
        uv_timer_start(&c->look_end, on_look_late, (uint64_t)c->config.open_timeout, 0);
    return 0;
}

/* -- from open to closed ---------------------------------------------------------------------- */

struct dt_control *dt_control_open(uv_loop_t *loop, const struct dt_control_config *config,
                                   struct dt_err *err)
{
    struct dt_control *c = calloc(1, sizeof *c);
    if (!c) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a connection");
        return NULL;
    }
    c->loop = loop;
    c->config = *config;
    c->give_up_at = dt_clock_after(now(c), config->open_timeout);
    uv_timer_init(loop, &c->look_end);
    if (((config->token || config->run_token) && !(c->proof = dt_proof_open(err))) ||
        (!config->ours && look(c, err) < 0)) {
        dt_control_close(c, NULL, NULL);
        return NULL;
    }
    if (config->ours)
        dial(c);
    return c;
}

static void say_up(struct dt_control *c, const struct dt_message *m)
{
    struct dt_err err;
    bool choked = c->dial.why.code != DT_E_NONE;
    if (!choked && send_frame(c->dial.wire, m, &err) < 0)
        dt_dial_lose_soon(&c->dial, &err);
}

/* The signature is good for this connection alone. */
static void say_join(struct dt_control *c, const struct dt_message *join)
{
    struct dt_message m = *join;
    struct dt_warrant warrant;
    dt_warrant_make(c->proof, c->config.run_token, m.run, &c->greeting.nonces, &warrant);
    m.key = warrant.key;
    m.signature = warrant.signature;
    say_up(c, &m);
}

void dt_control_say(struct dt_control *c, const struct dt_message *m)
{
    if (!is_up(c))
        return;
    if (m->type == DT_MSG_JOIN && c->config.run_token)
        say_join(c, m);
    else
        say_up(c, m);
}

void dt_control_drop(struct dt_control *c, const char *text)
{
    struct dt_err why;
    if (!is_up(c))
        return;
    dt_err_set(&why, DT_E_DISCONNECTED, "%s", text);
    dt_dial_drop(&c->dial, &why);
}

void dt_control_drop_refused(struct dt_control *c, const char *why)
{
    c->refused = true;
    dt_control_drop(c, why);
}

bool dt_control_looks(const struct dt_control *c)
{
    return is_up(c) && c->looks;
}

bool dt_control_takes_remarks(const struct dt_control *c)
{
    return is_up(c) && c->remarks;
}

bool dt_control_is_shared(const struct dt_control *c)
{
    return is_up(c) && c->shared;
}

const char *dt_control_trouble(const struct dt_control *c)
{
    if (c->look)
        return dt_store_client_trouble(c->look);
    return is_up(c) || c->dial.why.code == DT_E_NONE ? NULL : c->dial.why.text;
}

void dt_control_close(struct dt_control *c, void (*on_closed)(void *arg), void *arg)
{
    if (!c)
        return;
    dt_ending_begin(&c->ending, free, c, on_closed, arg);
    if (c->look)
        end_look(c);
    if (c->dial.loop)
        dt_dial_close(&c->dial, dt_ending_step, dt_ending_add(&c->ending));
    dt_ending_close(&c->ending, &c->look_end);
}
