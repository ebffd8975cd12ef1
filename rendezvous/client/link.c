/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/client/link.h"

#include "base/list.h"

#include <stdlib.h>
#include <unistd.h>

static struct dt_store_link *link_of(struct dt_wire *w)
{
    return dt_container_of(w, struct dt_store_link, wire);
}

/* -- requests --------------------------------------------------------------------------------- */

/* What there is no request for with several keys is asked for one by one; the answers are the same
 * bytes. */
static bool encode(struct dt_store_link *l, const struct dt_c10d_request *req)
{
    struct dt_c10d_request all = *req, one = {0};
    if (dt_c10d_encode(&l->wire.out, l->dialect, req))
        return true;
    if (req->op != DT_C10D_MULTI_GET && req->op != DT_C10D_MULTI_SET)
        return false;
    one.op = req->op == DT_C10D_MULTI_GET ? DT_C10D_GET : DT_C10D_SET;
    while (dt_c10d_next_item(&all, &one.key, &one.value))
        dt_c10d_encode(&l->wire.out, l->dialect, &one);
    return true;
}

int dt_store_link_send(struct dt_store_link *l, const struct dt_c10d_request *req,
                       struct dt_err *err)
{
    size_t before = l->wire.out.len;
    if (!encode(l, req))
        return dt_err_set(err, DT_E_PROTOCOL, "the store is of a PyTorch before 2.1 and has no %s",
                          dt_c10d_op_name(req->op));
    if (l->wire.out.bad) {
        l->wire.out.bad = false;
        l->wire.out.len = before;
        return dt_err_set(err, DT_E_MEMORY, "no memory for a request");
    }
    l->queued += l->wire.out.len - before;
    dt_wire_flush(&l->wire);
    return 0;
}

/* -- the greeting ----------------------------------------------------------------------------- */

static int64_t nonce(void)
{
    return (int64_t)getpid();
}

/* Asks what a store of its generation answers at once. A legacy one knows no greeting. */
static int greet(struct dt_store_link *l, struct dt_err *err)
{
    struct dt_c10d_request hello = {.op = DT_C10D_VALIDATE, .number = DT_C10D_MAGIC};
    struct dt_c10d_request ping = {.op = DT_C10D_PING, .number = nonce()};
    struct dt_buf items = {0};
    dt_c10d_put_item(&items, dt_bytes_of("/dtrun/hello"), NULL);
    struct dt_c10d_request check = {
        .op = DT_C10D_CHECK, .count = 1, .items = {items.at, items.len}};
    bool modern = l->dialect == DT_C10D_MODERN;
    dt_c10d_answer_expect(&l->answers, modern ? DT_C10D_PING : DT_C10D_CHECK, 1);
    if (modern)
        dt_c10d_encode(&l->wire.out, DT_C10D_MODERN, &hello); /* goes out with what follows */
    l->queued = l->wire.out.len;
    l->greeting = true;
    int rc = items.bad ? dt_err_set(err, DT_E_MEMORY, "no memory for a connection")
                       : dt_store_link_send(l, modern ? &ping : &check, err);
    dt_buf_finish(&items);
    return rc;
}

static void hear_greeting(struct dt_store_link *l)
{
    struct dt_c10d_reply pong;
    struct dt_err err;
    size_t used;
    if (dt_c10d_answer_decode(&l->answers, l->wire.in.at, l->wire.in.len, &pong, &used, &err) !=
        DT_DONE)
        return; /* neither is ever bad, it can only be short */
    if (l->dialect == DT_C10D_MODERN ? pong.number != nonce() : pong.number > DT_C10D_MISSING) {
        dt_err_set(&err, DT_E_PROTOCOL,
                   "it did not answer the greeting as a c10d store does; is the port right?");
        dt_wire_lose(&l->wire, &err);
        return;
    }
    dt_buf_consume(&l->wire.in, used);
    l->up = true;
    l->events->up(l);
}

/* -- the connection --------------------------------------------------------------------------- */

static void on_link_connected(struct dt_wire *w)
{
    struct dt_err err;
    if (greet(link_of(w), &err) < 0)
        dt_wire_lose(w, &err);
}

static void on_link_came(struct dt_wire *w)
{
    struct dt_store_link *l = link_of(w);
    if (!l->up)
        hear_greeting(l);
    if (l->up && !w->closing)
        l->events->moved(l);
}

static void on_link_wrote(struct dt_wire *w)
{
    struct dt_store_link *l = link_of(w);
    if (l->up)
        l->events->moved(l);
}

static void on_link_lost(struct dt_wire *w, const struct dt_err *why)
{
    struct dt_store_link *l = link_of(w);
    l->events->lost(l, why);
}

static void on_link_closed(struct dt_wire *w)
{
    struct dt_store_link *l = link_of(w);
    if (l->events)
        l->events->closed(l);
    free(l); /* the only free of a link */
}

static const struct dt_wire_events wire_events = {
    .connected = on_link_connected,
    .came = on_link_came,
    .wrote = on_link_wrote,
    .lost = on_link_lost,
    .closed = on_link_closed,
};

void dt_store_link_close(struct dt_store_link *l)
{
    dt_wire_close(&l->wire);
}

struct dt_store_link *dt_store_link_open(uv_loop_t *loop, const struct dt_addr *to,
                                         enum dt_c10d_dialect dialect,
                                         const struct dt_store_link_events *events, void *owner,
                                         struct dt_err *err)
{
    struct dt_store_link *l = calloc(1, sizeof *l);
    if (!l) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a connection");
        return NULL;
    }
    l->dialect = dialect;
    l->answers.limits = DT_C10D_ANSWER_LIMITS_DEFAULT;
    if (dt_wire_open(&l->wire, loop, to, &wire_events, err) < 0)
        return NULL; /* freed when it is closed */
    l->events = events;
    l->owner = owner;
    return l;
}
