/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps one connection to a store up: looks the name up, tries its addresses, pauses longer and
 * longer, begins anew when the connection is lost, and gives up in the end. For client.c,
 * which decides what goes over it. */
#ifndef DT_RENDEZVOUS_CLIENT_DIAL_H
#define DT_RENDEZVOUS_CLIENT_DIAL_H

#include "base/backoff.h"
#include "base/loop/ending.h"
#include "base/loop/lookup.h"
#include "rendezvous/client/client.h"
#include "rendezvous/client/link.h"

enum dt_store_dial_state {
    DT_STORE_DIAL_RESOLVING,
    DT_STORE_DIAL_CONNECTING,
    DT_STORE_DIAL_UP,
    DT_STORE_DIAL_PAUSING,
    DT_STORE_DIAL_FAILED,
};

struct dt_store_dial;

/* Each may lead to dt_store_dial_close(). */
struct dt_store_dial_events {
    void (*up)(struct dt_store_dial *d);
    void (*moved)(struct dt_store_dial *d);
    void (*lost)(struct dt_store_dial *d, const struct dt_err *why);   /* it tries again */
    void (*failed)(struct dt_store_dial *d, const struct dt_err *why); /* it does no longer */
};

struct dt_store_dial {
    uv_loop_t *loop;
    const struct dt_store_client_config *config;
    const struct dt_store_dial_events *events;
    enum dt_store_dial_state state;
    bool was_up;
    struct dt_store_link *link;   /* to be used while UP */
    struct dt_addr at;            /* where that leads */
    enum dt_c10d_dialect dialect; /* MODERN, until somebody hangs up on it and answers to L1 */
    struct dt_err why;            /* the latest trouble; once FAILED the reason */
    struct dt_lookup *lookup;     /* while RESOLVING */
    struct {
        struct dt_addr found[DT_LOOKUP_ADDRESSES];
        size_t count, next;
    } names;
    struct dt_backoff backoff;
    uv_timer_t timer; /* CONNECTING: gives this address up. PAUSING: tries again */
    dt_ms act_at;     /* when it is due */
    dt_ms give_up_at; /* for good */
    struct dt_ending ending;
};

/* CONFIG must outlive D. Nothing is called before the loop runs. */
void dt_store_dial_open(struct dt_store_dial *d, uv_loop_t *loop,
                        const struct dt_store_client_config *config,
                        const struct dt_store_dial_events *events);
/* A look-up that is under way cannot be stopped, and may take as long as the resolver likes: it is
 * left to itself. The loop is alive until it is over. */
void dt_store_dial_close(struct dt_store_dial *d, void (*on_closed)(void *arg), void *arg);

/* What came over the connection is nonsense: drops it, as if it had been lost. */
void dt_store_dial_drop(struct dt_store_dial *d, const struct dt_err *why);

#endif
