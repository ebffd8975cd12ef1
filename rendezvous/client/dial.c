/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/client/dial.h"

#include "base/list.h"
#include "base/map.h"
#include "rendezvous/protocol/spec.h"

#include <string.h>

static void try_next_address(struct dt_store_dial *d);
static void start_round(struct dt_store_dial *d);
static void on_dial_timer(uv_timer_t *t);

static dt_ms now(const struct dt_store_dial *d)
{
    return (dt_ms)uv_now(d->loop);
}

/* The only assignment to state. ACT_AT: when on_dial_timer() is wanted in it, or DT_FOREVER. */
static void enter(struct dt_store_dial *d, enum dt_store_dial_state state, dt_ms act_at)
{
    d->state = state;
    d->act_at = act_at;
    uv_timer_stop(&d->timer);
    if (act_at != DT_FOREVER)
        uv_timer_start(&d->timer, on_dial_timer, act_at > now(d) ? (uint64_t)(act_at - now(d)) : 0,
                       0);
}

static dt_ms sooner(dt_ms a, dt_ms b)
{
    return a < b ? a : b;
}

static void give_up(struct dt_store_dial *d)
{
    struct dt_err err;
    dt_err_set(&err, d->why.code, "store %s: given up: %s", d->config->addr, d->why.text);
    d->why = err;
    enter(d, DT_STORE_DIAL_FAILED, DT_FOREVER);
    d->events->failed(d, &err);
}

static void pause_or_give_up(struct dt_store_dial *d)
{
    dt_ms next = dt_clock_after(now(d), dt_backoff_next(&d->backoff));
    bool final = d->why.code == DT_E_USAGE || (d->why.code == DT_E_PROTOCOL && !d->was_up);
    if (final || now(d) >= d->give_up_at)
        give_up(d);
    else
        enter(d, DT_STORE_DIAL_PAUSING, sooner(next, d->give_up_at));
}

/* -- one attempt ------------------------------------------------------------------------------ */

/* This address will not do. */
static void attempt_failed(struct dt_store_dial *d, const struct dt_err *why)
{
    d->link = NULL;
    d->why = *why;
    if (why->code == DT_E_PROTOCOL)
        pause_or_give_up(d);
    else
        try_next_address(d);
}

static void attempt_late(struct dt_store_dial *d)
{
    static const struct dt_err late = {
        .code = DT_E_TIMEOUT, .text = "it did not answer in time; perhaps a firewall is between"};
    struct dt_err before = d->why;
    bool cut_short = d->act_at == d->give_up_at && before.code != DT_E_NONE;
    dt_store_link_close(d->link);
    if (!d->was_up)
        d->dialect = DT_C10D_MODERN;
    attempt_failed(d, cut_short ? &before : &late); /* a whole attempt tells more */
}

static void connection_lost(struct dt_store_dial *d, const struct dt_err *why)
{
    d->link = NULL;
    d->why = *why;
    d->give_up_at = dt_clock_after(now(d), d->config->reconnect_timeout);
    if (d->config->reconnect_timeout > 0) {
        enter(d, DT_STORE_DIAL_PAUSING, dt_clock_after(now(d), dt_backoff_next(&d->backoff)));
        d->events->lost(d, &d->why);
    } else {
        give_up(d);
    }
}

static void on_link_up(struct dt_store_link *l)
{
    struct dt_store_dial *d = l->owner;
    d->was_up = true;
    d->why = (struct dt_err){0};
    dt_backoff_reset(&d->backoff);
    enter(d, DT_STORE_DIAL_UP, DT_FOREVER);
    d->events->up(d);
}

static void on_link_moved(struct dt_store_link *l)
{
    struct dt_store_dial *d = l->owner;
    d->events->moved(d);
}

/* A store of PyTorch before 2.1 takes our greeting for a request that cannot be, and hangs up. So
 * the same address is tried once more in its own way; what that says is of less use to a person. */
static bool try_legacy(struct dt_store_dial *d, const struct dt_store_link *l)
{
    bool was_legacy = d->dialect == DT_C10D_L1;
    if (d->was_up || (!was_legacy && !l->greeting))
        return false;
    d->dialect = was_legacy ? DT_C10D_MODERN : DT_C10D_L1;
    d->names.next -= !was_legacy;
    return !was_legacy;
}

static void on_link_lost(struct dt_store_link *l, const struct dt_err *why)
{
    struct dt_store_dial *d = l->owner;
    if (d->state == DT_STORE_DIAL_UP) {
        connection_lost(d, why);
    } else if (why->code == DT_E_DISCONNECTED && try_legacy(d, l)) {
        d->why = *why;
        try_next_address(d);
    } else {
        attempt_failed(d, why);
    }
}

static void on_link_closed(struct dt_store_link *l)
{
    struct dt_store_dial *d = l->owner;
    dt_ending_step(&d->ending);
}

static const struct dt_store_link_events link_events = {
    .up = on_link_up,
    .moved = on_link_moved,
    .lost = on_link_lost,
    .closed = on_link_closed,
};

void dt_store_dial_drop(struct dt_store_dial *d, const struct dt_err *why)
{
    dt_store_link_close(d->link);
    connection_lost(d, why);
}

static void try_next_address(struct dt_store_dial *d)
{
    dt_ms until = dt_clock_after(now(d), d->config->attempt_timeout);
    while (d->names.next < d->names.count) {
        d->at = d->names.found[d->names.next++];
        d->link = dt_store_link_open(d->loop, &d->at, d->dialect, &link_events, d, &d->why);
        if (d->link) {
            dt_ending_add(&d->ending);
            enter(d, DT_STORE_DIAL_CONNECTING, sooner(until, d->give_up_at));
            return;
        }
    }
    pause_or_give_up(d);
}

/* -- a round: the name, and its addresses ------------------------------------------------------ */

static void on_looked_up(void *arg, const struct dt_addr *found, size_t count,
                         const struct dt_err *err)
{
    struct dt_store_dial *d = arg;
    d->lookup = NULL;
    d->names.next = d->names.count = 0;
    if (err) {
        d->why = *err;
        pause_or_give_up(d);
        return;
    }
    d->names.count = count;
    memcpy(d->names.found, found, count * sizeof *found);
    try_next_address(d);
}

static void start_round(struct dt_store_dial *d)
{
    enter(d, DT_STORE_DIAL_RESOLVING, DT_FOREVER);
    d->lookup = dt_lookup_start(d->loop, d->config->addr, DT_RENDEZVOUS_PORT, on_looked_up, d);
    if (!d->lookup) {
        dt_err_set(&d->why, DT_E_MEMORY, "no memory to look the name up");
        enter(d, DT_STORE_DIAL_PAUSING, dt_clock_after(now(d), d->config->backoff_most));
    }
}

static void on_dial_timer(uv_timer_t *t)
{
    struct dt_store_dial *d = dt_container_of(t, struct dt_store_dial, timer);
    if (d->state == DT_STORE_DIAL_CONNECTING)
        attempt_late(d);
    else if (now(d) >= d->give_up_at)
        give_up(d);
    else
        start_round(d);
}

/* -- from open to closed ---------------------------------------------------------------------- */

void dt_store_dial_open(struct dt_store_dial *d, uv_loop_t *loop,
                        const struct dt_store_client_config *config,
                        const struct dt_store_dial_events *events)
{
    *d = (struct dt_store_dial){
        .loop = loop, .config = config, .events = events, .dialect = DT_C10D_MODERN};
    d->backoff = (struct dt_backoff){
        .first = config->backoff_first, .most = config->backoff_most, .seed = dt_map_random_seed()};
    uv_timer_init(loop, &d->timer);
    d->give_up_at = dt_clock_after(now(d), config->open_timeout);
    start_round(d);
}

void dt_store_dial_close(struct dt_store_dial *d, void (*on_closed)(void *arg), void *arg)
{
    dt_ending_begin(&d->ending, NULL, NULL, on_closed, arg);
    if (d->link)
        dt_store_link_close(d->link);
    dt_lookup_forget(d->lookup);
    dt_ending_close(&d->ending, &d->timer);
}
