/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps one connection to a server up: looks the name up, tries its addresses, each for some time,
 * pauses longer and longer, connects again when the connection is lost, and gives up in the end.
 * What goes over it is the owner's affair, which hears of bytes, greets, and says when the greeting
 * is through. A member of its owner. All calls belong to the loop's thread.
 *
 *    RESOLVING --> CONNECTING --> GREETING --dt_dial_up()--> UP
 *        ^           ^  |            |                       |
 *        |           |  +---- next <-+  <-- it had lasted ---+
 *        |      no address is left                           |
 *        +-- PAUSING <--+------------------- it had not -----+      any --> OVER: time is up */
#ifndef DT_BASE_LOOP_DIAL_H
#define DT_BASE_LOOP_DIAL_H

#include "base/backoff.h"
#include "base/loop/ending.h"
#include "base/loop/lookup.h"
#include "base/loop/wire.h"

enum dt_dial_state {
    DT_DIAL_RESOLVING,
    DT_DIAL_CONNECTING,
    DT_DIAL_GREETING,
    DT_DIAL_UP,
    DT_DIAL_PAUSING,
    DT_DIAL_OVER,
};

/* What follows when an address will not do. */
enum dt_dial_next {
    DT_DIAL_NEXT_ADDRESS,
    DT_DIAL_SAME_ADDRESS,
    DT_DIAL_PAUSE, /* before all of them are tried again */
    DT_DIAL_GIVE_UP,
};

struct dt_dial;

/* Called from the loop, never from inside a call below; each may call anything, also
 * dt_dial_close(). To end a connection from one of them is dt_wire_lose(), and tells of it. */
struct dt_dial_events {
    void (*connected)(struct dt_dial *d); /* time to greet over `wire` */
    void (*came)(struct dt_dial *d);      /* more is in wire->in */
    void (*wrote)(struct dt_dial *d);     /* wire->written has grown. May be NULL */
    /* An address will not do, and there is time left; only decides what is next. May be NULL, which
     * is DT_DIAL_NEXT_ADDRESS. */
    enum dt_dial_next (*missed)(struct dt_dial *d, const struct dt_err *why);
    void (*lost)(struct dt_dial *d, const struct dt_err *why);   /* was up; it tries again */
    void (*failed)(struct dt_dial *d, const struct dt_err *why); /* it has given up */
};

struct dt_dial_config {
    const char *addr; /* as dt_addr_resolve() takes it; outlives the dial */
    uint16_t default_port;
    dt_ms open_timeout;      /* until it is up for the first time */
    dt_ms reconnect_timeout; /* for each later time; 0: `failed` instead of `lost` */
    dt_ms attempt_timeout;   /* for one address to connect, and as long to greet */
    dt_ms backoff_first, backoff_most;
    dt_ms lasted; /* what was up for so long is connected again at once; DT_FOREVER: never */
    const struct dt_dial_events *events;
};

struct dt_dial {
    uv_loop_t *loop;
    struct dt_dial_config config;
    enum dt_dial_state state;
    struct dt_wire *wire; /* CONNECTING, GREETING, UP; else NULL */
    bool was_up;
    struct dt_err why; /* the latest trouble; none once it is up */
    struct dt_lookup *lookup;
    struct dt_addr found[DT_LOOKUP_ADDRESSES];
    size_t count, next; /* of these */
    /* The owner resets it when it is content: being up may be no success yet. */
    struct dt_backoff backoff;
    uv_timer_t timer; /* goes off where a state has an end */
    dt_ms up_since;
    dt_ms give_up_at;
    struct dt_ending ending; /* of the timer, and of connections */
};

/* Starts connecting; nothing is called before the loop runs. */
void dt_dial_open(struct dt_dial *d, uv_loop_t *loop, const struct dt_dial_config *config);

/* The greeting is through. */
void dt_dial_up(struct dt_dial *d);

/* Where `wire` leads. */
const struct dt_addr *dt_dial_at(const struct dt_dial *d);

/* The connection is of no use: makes a new one, after a pause. No event comes of it. */
void dt_dial_drop(struct dt_dial *d, const struct dt_err *why);

/* It is up, and of no use: `lost` follows from the loop. For callers outside of an event. */
void dt_dial_lose_soon(struct dt_dial *d, const struct dt_err *why);

/* Gives up; no event comes of it, or later. */
void dt_dial_stop(struct dt_dial *d);

/* The same; D is finished when ON_CLOSED is called. A look-up that is under way cannot be stopped
 * and is left to itself. */
void dt_dial_close(struct dt_dial *d, void (*on_closed)(void *arg), void *arg);

#endif
