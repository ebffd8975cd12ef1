/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/control.h"

#include "agent/backend/elastic/link.h"
#include "base/backoff.h"
#include "base/list.h"
#include "base/loop/ending.h"
#include "base/loop/lookup.h"
#include "base/map.h"
#include "rendezvous/client/client.h"
#include "rendezvous/protocol/greeting.h"
#include "rendezvous/protocol/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*            key is there          first hello       hellos, proofs
 * LOOKING --------------> DIALLING -----------> GREETING ---------> UP
 *    |                     ^  ^                    |                |
 *    | foreign             |  +------ PAUSING <----+----------------+
 *    v                     +-- known to be ours       lost, or refused
 *   OVER <-- refused, or not reached in time -- any, if it was never UP */
enum state {
    LOOKING,  /* what is there; the store's client connects, and tries again */
    DIALLING, /* the name is looked up, its addresses are tried */
    GREETING, /* connected; has not said all that it must say first */
    UP,
    PAUSING,
    OVER,
};

struct dt_control {
    uv_loop_t *loop;
    struct dt_control_config config;
    const struct dt_proof_table *proof; /* where there is a token */
    struct dt_greeting greeting;        /* of this connection */
    char host[DT_ROLE_MAX];
    enum state state;
    struct dt_store_client *look; /* while LOOKING */
    struct dt_lookup *lookup;     /* while DIALLING without an address */
    struct dt_addr found[DT_LOOKUP_ADDRESSES];
    size_t count, next;           /* of these */
    struct dt_control_link *link; /* DIALLING an address, GREETING or UP */
    bool choked;                  /* UP: the timer is to end the link */
    bool refused;                 /* the last time: coming up is no success yet */
    struct dt_err why;            /* the latest trouble */
    struct dt_backoff backoff;
    uv_timer_t timer; /* an address is given up; or a pause is over; or what `choked` says */
    dt_ms up_since;
    dt_ms give_up_at; /* until it was up; then DT_FOREVER */
    struct dt_ending ending;
};

static void dial(struct dt_control *c);
static void try_next_address(struct dt_control *c);
static void on_timer(uv_timer_t *t);

static dt_ms now(const struct dt_control *c)
{
    return (dt_ms)uv_now(c->loop);
}

/* The only assignment to state. WAIT: until on_timer() is wanted in it, or DT_FOREVER. */
static void enter(struct dt_control *c, enum state state, dt_ms wait)
{
    c->state = state;
    uv_timer_stop(&c->timer);
    if (wait != DT_FOREVER)
        uv_timer_start(&c->timer, on_timer, wait > 0 ? (uint64_t)wait : 0, 0);
}

static dt_ms sooner(dt_ms a, dt_ms b)
{
    return a < b ? a : b;
}

/* -- ways down -------------------------------------------------------------------------------- */

static void fail(struct dt_control *c, const struct dt_err *why)
{
    enter(c, OVER, DT_FOREVER);
    c->config.events->failed(c->config.arg, why);
}

static void pause_or_give_up(struct dt_control *c)
{
    if (now(c) >= c->give_up_at)
        fail(c, &c->why);
    else
        enter(c, PAUSING, sooner(dt_backoff_next(&c->backoff), c->give_up_at - now(c)));
}

static void drop_link(struct dt_control *c)
{
    if (c->link)
        dt_control_link_close(c->link);
    c->link = NULL;
    c->choked = false;
}

/* At the address that was good until now, without a pause or a name server: whoever lives is back
 * before the rendezvous takes it for lost. */
static void dial_again(struct dt_control *c)
{
    c->next--;
    try_next_address(c);
}

/* This connection, or this address, will not do. */
static void lose(struct dt_control *c, const struct dt_err *why)
{
    enum state was = c->state;
    c->why = *why;
    drop_link(c);
    if (was == DIALLING) {
        try_next_address(c);
        return;
    }
    if (was == UP && now(c) - c->up_since >= c->config.lasted)
        dial_again(c);
    else
        pause_or_give_up(c);
    if (was == UP)
        c->config.events->down(c->config.arg, &c->why);
}

/* Whoever is there does not want us. */
static void refuse(struct dt_control *c, const char *why)
{
    struct dt_err err;
    bool was_up = c->give_up_at == DT_FOREVER;
    drop_link(c);
    dt_err_set(&err, DT_E_PROTOCOL, "the rendezvous at %s: %s", c->config.addr, why);
    if (!was_up) {
        fail(c, &err);
        return;
    }
    c->refused = true;
    dt_err_set(&c->why, DT_E_PROTOCOL, "%s", why);
    pause_or_give_up(c);
    c->config.events->refused(c->config.arg, &c->why);
}

/* -- greeting --------------------------------------------------------------------------------- */

static void say(struct dt_control *c, const struct dt_message *m)
{
    struct dt_err err;
    if (dt_control_link_say(c->link, m, &err) < 0)
        lose(c, &err);
}

static void say_hello(struct dt_control *c)
{
    struct dt_message hello;
    struct dt_err err;
    enter(c, GREETING, c->config.attempt_timeout);
    c->greeting =
        (struct dt_greeting){.side = DT_PROOF_CLIENT, .token = c->config.token, .proofs = c->proof};
    if (dt_greeting_begin(&c->greeting, "dtrun " DT_VERSION, "", &hello, &err) < 0)
        lose(c, &err);
    else
        say(c, &hello);
}

static void come_up(struct dt_control *c)
{
    struct dt_addr local;
    if (dt_uvx_local(&c->link->wire.io, &local) < 0)
        local = (struct dt_addr){0};
    c->give_up_at = DT_FOREVER;
    c->why = (struct dt_err){0};
    c->up_since = now(c);
    if (!c->refused)
        dt_backoff_reset(&c->backoff);
    enter(c, UP, DT_FOREVER);
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
    lose(c, &err);
}

static void hear_greeting(struct dt_control *c, const struct dt_message *m)
{
    struct dt_message answer;
    enum dt_greeting_outcome outcome = dt_greeting_hear(&c->greeting, m, &answer);
    if (m->type == DT_MSG_HELLO && outcome != DT_GREETING_OUT_OF_PLACE)
        snprintf(c->host, sizeof c->host, "%s", m->hello.host);
    switch (outcome) {
    case DT_GREETING_GOES_ON:
        say(c, &answer);
        break;
    case DT_GREETING_DONE:
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

static void on_link_connected(struct dt_control_link *l)
{
    say_hello(l->owner);
}

static void hear_frame(struct dt_control *c, const struct dt_message *m)
{
    c->config.events->frame(c->config.arg, m);
    if (!c->refused || c->state != UP)
        return;
    c->refused = false;
    dt_backoff_reset(&c->backoff);
}

static void on_link_frame(struct dt_control_link *l, const struct dt_message *m)
{
    struct dt_control *c = l->owner;
    if (m->type == DT_MSG_REFUSED)
        refuse(c, m->why);
    else if (c->state == GREETING)
        hear_greeting(c, m);
    else
        hear_frame(c, m);
}

static void on_link_lost(struct dt_control_link *l, const struct dt_err *why)
{
    lose(l->owner, why);
}

static void on_link_closed(struct dt_control_link *l)
{
    struct dt_control *c = l->owner;
    dt_ending_step(&c->ending);
}

static const struct dt_control_link_events link_events = {
    .connected = on_link_connected,
    .frame = on_link_frame,
    .lost = on_link_lost,
    .closed = on_link_closed,
};

static void try_next_address(struct dt_control *c)
{
    while (c->next < c->count) {
        c->link = dt_control_link_open(c->loop, &c->found[c->next++], &link_events, c, &c->why);
        if (c->link) {
            dt_ending_add(&c->ending);
            enter(c, DIALLING, c->config.attempt_timeout);
            return;
        }
    }
    pause_or_give_up(c);
}

static void on_looked_up(void *arg, const struct dt_addr *found, size_t count,
                         const struct dt_err *err)
{
    struct dt_control *c = arg;
    c->lookup = NULL;
    c->next = 0;
    c->count = err ? 0 : count;
    if (err)
        c->why = *err;
    else
        memcpy(c->found, found, count * sizeof *found);
    try_next_address(c);
}

static void dial(struct dt_control *c)
{
    enter(c, DIALLING, DT_FOREVER);
    c->lookup = dt_lookup_start(c->loop, c->config.addr, DT_RENDEZVOUS_PORT, on_looked_up, c);
    if (c->lookup)
        return;
    dt_err_set(&c->why, DT_E_MEMORY, "no memory to look the name up");
    pause_or_give_up(c);
}

/* -- what is there ---------------------------------------------------------------------------- */

static void end_look(struct dt_control *c)
{
    dt_store_client_close(c->look, dt_ending_step, dt_ending_add(&c->ending));
    c->look = NULL;
}

static void on_key(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_control *c = arg;
    if (err || c->ending.begun)
        return; /* what becomes of the store's client is told as its event */
    end_look(c);
    if (reply->number == DT_C10D_READY) {
        dial(c);
    } else {
        enter(c, OVER, DT_FOREVER);
        c->config.events->foreign(c->config.arg);
    }
}

static void ask_for_key(struct dt_control *c)
{
    struct dt_buf items = {0};
    dt_c10d_put_item(&items, dt_bytes_of(DT_HELLO_KEY), NULL);
    struct dt_c10d_request check = {
        .op = DT_C10D_CHECK, .count = 1, .items = {items.at, items.len}};
    if (items.bad || dt_store_client_request(c->look, &check, DT_FOREVER, on_key, c, &c->why) < 0) {
        end_look(c);
        fail(c, &c->why);
    }
    dt_buf_finish(&items);
}

static void on_look(void *arg, enum dt_store_client_event event, const struct dt_err *why)
{
    struct dt_control *c = arg;
    if (c->ending.begun || !c->look)
        return;
    if (event == DT_STORE_CLIENT_CONNECTED) {
        ask_for_key(c);
    } else if (event == DT_STORE_CLIENT_FAILED) {
        c->why = *why;
        end_look(c);
        fail(c, &c->why);
    }
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
    enter(c, LOOKING, c->config.open_timeout);
    return c->look ? 0 : -1;
}

/* Nobody is there, or nobody who answers. */
static void end_late_look(struct dt_control *c)
{
    const char *trouble = dt_store_client_trouble(c->look);
    dt_err_set(&c->why, DT_E_TIMEOUT, "%s",
               trouble ? trouble : "it did not answer in time; perhaps a firewall is between");
    end_look(c);
    fail(c, &c->why);
}

/* -- time ------------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *t)
{
    static const struct dt_err late = {
        .code = DT_E_TIMEOUT, .text = "it did not answer in time; perhaps a firewall is between"};
    static const struct dt_err stuck = {.code = DT_E_LIMIT,
                                        .text = "it does not take what it is told"};
    struct dt_control *c = dt_container_of(t, struct dt_control, timer);
    if (c->choked)
        lose(c, &stuck);
    else if (c->state == LOOKING)
        end_late_look(c);
    else if (c->state == PAUSING)
        dial(c);
    else
        lose(c, &late);
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
    c->backoff = (struct dt_backoff){
        .first = config->backoff_first, .most = config->backoff_most, .seed = dt_map_random_seed()};
    c->give_up_at = dt_clock_after(now(c), config->open_timeout);
    uv_timer_init(loop, &c->timer);
    if ((config->token && !(c->proof = dt_proof_open(err))) ||
        (!config->ours && look(c, err) < 0)) {
        dt_control_close(c, NULL, NULL);
        return NULL;
    }
    if (config->ours)
        dial(c);
    return c;
}

void dt_control_say(struct dt_control *c, const struct dt_message *m)
{
    if (c->state != UP || c->choked || dt_control_link_say(c->link, m, NULL) == 0)
        return;
    c->choked = true;
    enter(c, UP, 0); /* its end is told from the loop */
}

void dt_control_drop(struct dt_control *c, const char *why)
{
    if (c->state != UP)
        return;
    dt_err_set(&c->why, DT_E_DISCONNECTED, "%s", why);
    drop_link(c);
    pause_or_give_up(c);
}

void dt_control_drop_refused(struct dt_control *c, const char *why)
{
    c->refused = true;
    dt_control_drop(c, why);
}

const char *dt_control_trouble(const struct dt_control *c)
{
    if (c->look)
        return dt_store_client_trouble(c->look);
    return c->state == UP || c->why.code == DT_E_NONE ? NULL : c->why.text;
}

void dt_control_close(struct dt_control *c, void (*on_closed)(void *arg), void *arg)
{
    if (!c)
        return;
    dt_ending_begin(&c->ending, free, c, on_closed, arg);
    dt_lookup_forget(c->lookup);
    drop_link(c);
    if (c->look)
        end_look(c);
    dt_ending_close(&c->ending, &c->timer);
}
