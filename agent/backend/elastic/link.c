/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/link.h"

#include "base/list.h"

#include <stdlib.h>

#define UNTAKEN_MAX (1u << 20) /* an agent says a few hundred bytes a beat */

static struct dt_control_link *link_of(struct dt_wire *w)
{
    return dt_container_of(w, struct dt_control_link, wire);
}

int dt_control_link_say(struct dt_control_link *l, const struct dt_message *m, struct dt_err *err)
{
    dt_message_encode(&l->wire.out, m);
    if (l->wire.out.bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a message");
    if (l->wire.out.len > UNTAKEN_MAX)
        return dt_err_set(err, DT_E_LIMIT, "it does not take what it is told");
    dt_wire_flush(&l->wire);
    return 0;
}

/* Hands on the first frame; false: there is none, or nobody to hand it to. */
static bool take_frame(struct dt_control_link *l)
{
    struct dt_message m;
    struct dt_err err;
    size_t used;
    if (l->wire.closing)
        return false;
    switch (dt_message_decode(l->wire.in.at, l->wire.in.len, DT_FRAME_MAX, &m, &used, &err)) {
    case DT_MORE:
        return false;
    case DT_BAD:
        dt_err_wrap(&err, "it does not speak as a rendezvous does");
        err.code = DT_E_PROTOCOL;
        dt_wire_lose(&l->wire, &err);
        return false;
    case DT_DONE:
        break;
    }
    dt_buf_consume(&l->wire.in, used);
    l->events->frame(l, &m);
    dt_message_finish(&m);
    return true;
}

/* -- the connection --------------------------------------------------------------------------- */

static void on_link_connected(struct dt_wire *w)
{
    struct dt_control_link *l = link_of(w);
    dt_control_put_preamble(&w->out); /* goes out with what is said first */
    l->events->connected(l);
}

static void on_link_came(struct dt_wire *w)
{
    while (take_frame(link_of(w)))
        continue;
}

static void on_link_lost(struct dt_wire *w, const struct dt_err *why)
{
    struct dt_control_link *l = link_of(w);
    l->events->lost(l, why);
}

static void on_link_closed(struct dt_wire *w)
{
    struct dt_control_link *l = link_of(w);
    if (l->events)
        l->events->closed(l);
    free(l); /* the only free of a link */
}

static const struct dt_wire_events wire_events = {
    .connected = on_link_connected,
    .came = on_link_came,
    .lost = on_link_lost,
    .closed = on_link_closed,
};

void dt_control_link_close(struct dt_control_link *l)
{
    dt_wire_close(&l->wire);
}

struct dt_control_link *dt_control_link_open(uv_loop_t *loop, const struct dt_addr *to,
                                             const struct dt_control_link_events *events,
                                             void *owner, struct dt_err *err)
{
    struct dt_control_link *l = calloc(1, sizeof *l);
    if (!l) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a connection");
        return NULL;
    }
    if (dt_wire_open(&l->wire, loop, to, &wire_events, err) < 0)
        return NULL; /* freed when it is closed */
    l->events = events;
    l->owner = owner;
    return l;
}
