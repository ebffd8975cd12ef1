/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop/dial.h"

#include "base/list.h"
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

/* One connection, from connecting to closed. While an old one closes there may be a new one. */
struct attempt {
    struct dt_wire wire;
    struct dt_dial *dial;
};

static void try_next_address(struct dt_dial *d);
static void on_timer(uv_timer_t *t);

static dt_ms now(const struct dt_dial *d)
{
    return (dt_ms)uv_now(d->loop);
}

static dt_ms sooner(dt_ms a, dt_ms b)
{
    return a < b ? a : b;
}

/* The only assignment to state. AT: when on_timer() is wanted in it, or DT_FOREVER. */
static void enter(struct dt_dial *d, enum dt_dial_state state, dt_ms at)
{
    d->state = state;
    uv_timer_stop(&d->timer);
    if (at != DT_FOREVER)
        uv_timer_start(&d->timer, on_timer, at > now(d) ? (uint64_t)(at - now(d)) : 0, 0);
}

/* -- ways down -------------------------------------------------------------------------------- */

static void give_up(struct dt_dial *d)
{
    enter(d, DT_DIAL_OVER, DT_FOREVER);
    d->config.events->failed(d, &d->why);
}

/* When the time is up, so is the pause, and on_timer() gives up. */
static void pause_then_try(struct dt_dial *d)
{
    dt_ms next = dt_clock_after(now(d), dt_backoff_next(&d->backoff));
    enter(d, DT_DIAL_PAUSING, sooner(next, d->give_up_at));
}

static void close_wire(struct dt_dial *d)
{
    if (d->wire)
        dt_wire_close(d->wire);
    d->wire = NULL;
}

/* This address will not do. */
static void miss(struct dt_dial *d, const struct dt_err *why)
{
    const struct dt_dial_events *events = d->config.events;
    enum dt_dial_next next = events->missed ? events->missed(d, why) : DT_DIAL_NEXT_ADDRESS;
    d->why = *why;
    switch (next) {
    case DT_DIAL_SAME_ADDRESS:
        d->next--;
        try_next_address(d);
        break;
    case DT_DIAL_NEXT_ADDRESS:
        try_next_address(d);
        break;
    case DT_DIAL_PAUSE:
        pause_then_try(d);
        break;
    case DT_DIAL_GIVE_UP:
        give_up(d);
        break;
    }
}

/* A whole attempt tells more than one that was cut short. */
static void miss_by_time(struct dt_dial *d)
{
    static const struct dt_err late = {
        .code = DT_E_TIMEOUT, .text = "it did not answer in time; perhaps a firewall is between"};
    bool over = now(d) >= d->give_up_at;
    close_wire(d);
    if (d->why.code == DT_E_NONE)
        d->why = late;
    if (over)
        give_up(d);
    else
        miss(d, &late);
}

/* At the address that was good until now, without a pause or a name server, where the connection
 * lasted: whoever lives is back before the server takes it for lost. */
static void lose(struct dt_dial *d, const struct dt_err *why)
{
    d->why = *why;
    d->give_up_at = dt_clock_after(now(d), d->config.reconnect_timeout);
    if (d->config.reconnect_timeout == 0) {
        give_up(d);
        return;
    }
    if (now(d) - d->up_since < d->config.lasted) {
        pause_then_try(d);
    } else {
        d->next--;
        try_next_address(d);
    }
    d->config.events->lost(d, why);
}

/* -- one attempt ------------------------------------------------------------------------------ */

static struct dt_dial *dial_of(struct dt_wire *w)
{
    return dt_container_of(w, struct attempt, wire)->dial;
}

static dt_ms attempt_end(const struct dt_dial *d)
{
    return sooner(dt_clock_after(now(d), d->config.attempt_timeout), d->give_up_at);
}

static void on_wire_connected(struct dt_wire *w)
{
    struct dt_dial *d = dial_of(w);
    enter(d, DT_DIAL_GREETING, attempt_end(d));
    d->config.events->connected(d);
}

static void on_wire_came(struct dt_wire *w)
{
    struct dt_dial *d = dial_of(w);
    d->config.events->came(d);
}

static void on_wire_wrote(struct dt_wire *w)
{
    struct dt_dial *d = dial_of(w);
    if (d->config.events->wrote)
        d->config.events->wrote(d);
}

static void on_wire_lost(struct dt_wire *w, const struct dt_err *why)
{
    struct dt_dial *d = dial_of(w);
    struct dt_err cause = *why; /* may be d->why */
    d->wire = NULL;
    if (d->state == DT_DIAL_UP)
        lose(d, &cause);
    else
        miss(d, &cause);
}

static void on_wire_closed(struct dt_wire *w)
{
    struct attempt *a = dt_container_of(w, struct attempt, wire);
    struct dt_dial *d = a->dial;
    free(a); /* the only free of an attempt */
    dt_ending_step(&d->ending);
}

static const struct dt_wire_events wire_events = {
    .connected = on_wire_connected,
    .came = on_wire_came,
    .wrote = on_wire_wrote,
    .lost = on_wire_lost,
    .closed = on_wire_closed,
};

static struct dt_wire *open_wire(struct dt_dial *d, const struct dt_addr *to)
{
    struct attempt *a = calloc(1, sizeof *a);
    if (!a) {
        dt_err_set(&d->why, DT_E_MEMORY, "no memory for a connection");
        return NULL;
    }
    a->dial = d;
    dt_ending_add(&d->ending);
    return dt_wire_open(&a->wire, d->loop, to, &wire_events, &d->why) < 0 ? NULL : &a->wire;
}

static void try_next_address(struct dt_dial *d)
{
    while (d->next < d->count) {
        d->wire = open_wire(d, &d->found[d->next++]);
        if (d->wire) {
            enter(d, DT_DIAL_CONNECTING, attempt_end(d));
            return;
        }
    }
    pause_then_try(d);
}

/* -- a round: the name, and its addresses ----------------------------------------------------- */

static void on_looked_up(void *arg, const struct dt_addr *found, size_t count,
                         const struct dt_err *err)
{
    struct dt_dial *d = arg;
    d->lookup = NULL;
    d->next = 0;
    d->count = err ? 0 : count;
    if (err)
        d->why = *err;
    else
        memcpy(d->found, found, count * sizeof *found);
    if (err && err->code == DT_E_USAGE)
        give_up(d); /* the name will not get better */
    else
        try_next_address(d);
}

static void start_round(struct dt_dial *d)
{
    enter(d, DT_DIAL_RESOLVING, DT_FOREVER);
    d->lookup = dt_lookup_start(d->loop, d->config.addr, d->config.default_port, on_looked_up, d);
    if (d->lookup)
        return;
    dt_err_set(&d->why, DT_E_MEMORY, "no memory to look the name up");
    pause_then_try(d);
}

static void on_timer(uv_timer_t *t)
{
    struct dt_dial *d = dt_container_of(t, struct dt_dial, timer);
    switch (d->state) {
    case DT_DIAL_CONNECTING:
    case DT_DIAL_GREETING:
        miss_by_time(d);
        break;
    case DT_DIAL_UP:
        dt_wire_lose(d->wire, &d->why); /* see dt_dial_lose_soon() */
        break;
    case DT_DIAL_PAUSING:
        (now(d) >= d->give_up_at ? give_up : start_round)(d);
        break;
    case DT_DIAL_RESOLVING:
    case DT_DIAL_OVER:
        break;
    }
}

/* -- from open to closed ---------------------------------------------------------------------- */

void dt_dial_open(struct dt_dial *d, uv_loop_t *loop, const struct dt_dial_config *config)
{
    *d = (struct dt_dial){.loop = loop, .config = *config};
    d->backoff = (struct dt_backoff){
        .first = config->backoff_first, .most = config->backoff_most, .seed = dt_map_random_seed()};
    uv_timer_init(loop, &d->timer);
    d->give_up_at = dt_clock_after(now(d), config->open_timeout);
    start_round(d);
}

void dt_dial_up(struct dt_dial *d)
{
    d->was_up = true;
    d->why = (struct dt_err){0};
    d->up_since = now(d);
    enter(d, DT_DIAL_UP, DT_FOREVER);
}

const struct dt_addr *dt_dial_at(const struct dt_dial *d)
{
    return &d->found[d->next - 1];
}

void dt_dial_drop(struct dt_dial *d, const struct dt_err *why)
{
    d->why = *why;
    if (d->state == DT_DIAL_UP)
        d->give_up_at = dt_clock_after(now(d), d->config.reconnect_timeout);
    close_wire(d);
    pause_then_try(d);
}

void dt_dial_lose_soon(struct dt_dial *d, const struct dt_err *why)
{
    d->why = *why;
    enter(d, DT_DIAL_UP, now(d));
}

void dt_dial_stop(struct dt_dial *d)
{
    dt_lookup_forget(d->lookup);
    d->lookup = NULL;
    close_wire(d);
    enter(d, DT_DIAL_OVER, DT_FOREVER);
}

void dt_dial_close(struct dt_dial *d, void (*on_closed)(void *arg), void *arg)
{
    dt_dial_stop(d);
    dt_ending_begin(&d->ending, NULL, NULL, on_closed, arg);
    dt_ending_close(&d->ending, &d->timer);
}
