/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over one connection, from connecting to closed; it is never used twice. For control.c,
 * which owns what they mean. Bounded both ways: a frame in, and what the other side does not take.
 * All calls belong to the loop's thread. */
#ifndef DT_AGENT_BACKEND_ELASTIC_LINK_H
#define DT_AGENT_BACKEND_ELASTIC_LINK_H

#include "base/loop/wire.h"
#include "rendezvous/protocol/messages.h"

struct dt_control_link;

/* Called from the loop, never from inside the calls below. After dt_control_link_close() only
 * `closed` follows. */
struct dt_control_link_events {
    void (*connected)(struct dt_control_link *l); /* the preamble is out */
    void (*frame)(struct dt_control_link *l, const struct dt_message *m);
    void (*lost)(struct dt_control_link *l, const struct dt_err *why); /* it is closing already */
    void (*closed)(struct dt_control_link *l); /* the last one: it is freed behind it */
};

struct dt_control_link {
    struct dt_wire wire;
    const struct dt_control_link_events *events;
    void *owner;
};

/* NULL: there will be no event. */
struct dt_control_link *dt_control_link_open(uv_loop_t *loop, const struct dt_addr *to,
                                             const struct dt_control_link_events *events,
                                             void *owner, struct dt_err *err);

/* Sends soon, behind what was said before; to a small message that is as good as at once. -1: the
 * other side has not taken what it was told for too long, or memory is out; the connection is of no
 * use any more. */
int dt_control_link_say(struct dt_control_link *l, const struct dt_message *m, struct dt_err *err);

void dt_control_link_close(struct dt_control_link *l);

#endif
