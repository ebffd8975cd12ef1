/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/client/link.h"

#include <unistd.h>

/* -- requests --------------------------------------------------------------------------------- */

/* What there is no request for with several keys is asked for one by one; the answers are the same
 * bytes. */
static bool encode(struct dt_store_link *l, const struct dt_c10d_request *req)
{
    struct dt_c10d_request all = *req, one = {0};
    if (dt_c10d_encode(&l->wire->out, l->dialect, req))
        return true;
    if (req->op != DT_C10D_MULTI_GET && req->op != DT_C10D_MULTI_SET)
        return false;
    one.op = req->op == DT_C10D_MULTI_GET ? DT_C10D_GET : DT_C10D_SET;
    while (dt_c10d_next_item(&all, &one.key, &one.value))
        dt_c10d_encode(&l->wire->out, l->dialect, &one);
    return true;
}

int dt_store_link_send(struct dt_store_link *l, const struct dt_c10d_request *req,
                       struct dt_err *err)
{
    size_t before = l->wire->out.len;
    if (!encode(l, req))
        return dt_err_set(err, DT_E_PROTOCOL, "the store is of a PyTorch before 2.1 and has no %s",
                          dt_c10d_op_name(req->op));
    if (l->wire->out.bad) {
        l->wire->out.bad = false;
        l->wire->out.len = before;
        return dt_err_set(err, DT_E_MEMORY, "no memory for a request");
    }
    l->queued += l->wire->out.len - before;
    dt_wire_flush(l->wire);
    return 0;
}

/* -- the greeting ----------------------------------------------------------------------------- */

static int64_t nonce(void)
{
    return (int64_t)getpid();
}

/* Asks what a store of its generation answers at once. A legacy one knows no greeting. */
int dt_store_link_greet(struct dt_store_link *l, struct dt_wire *wire, enum dt_c10d_dialect dialect,
                        struct dt_err *err)
{
    struct dt_c10d_request hello = {.op = DT_C10D_VALIDATE, .number = DT_C10D_MAGIC};
    struct dt_c10d_request ping = {.op = DT_C10D_PING, .number = nonce()};
    struct dt_buf items = {0};
    dt_c10d_put_item(&items, dt_bytes_of("/dtrun/hello"), NULL);
    struct dt_c10d_request check = {
        .op = DT_C10D_CHECK, .count = 1, .items = {items.at, items.len}};
    bool modern = dialect == DT_C10D_MODERN;
    *l = (struct dt_store_link){.wire = wire, .dialect = dialect};
    l->answers.limits = DT_C10D_ANSWER_LIMITS_DEFAULT;
    dt_c10d_answer_expect(&l->answers, modern ? DT_C10D_PING : DT_C10D_CHECK, 1);
    if (modern)
        dt_c10d_encode(&wire->out, DT_C10D_MODERN, &hello); /* goes out with what follows */
    l->queued = wire->out.len;
    int rc = items.bad ? dt_err_set(err, DT_E_MEMORY, "no memory for a connection")
                       : dt_store_link_send(l, modern ? &ping : &check, err);
    dt_buf_finish(&items);
    return rc;
}

enum dt_decoded dt_store_link_hear_greeting(struct dt_store_link *l, struct dt_err *err)
{
    struct dt_c10d_reply pong;
    size_t used;
    if (dt_c10d_answer_decode(&l->answers, l->wire->in.at, l->wire->in.len, &pong, &used, err) !=
        DT_DONE)
        return DT_MORE; /* neither is ever bad, it can only be short */
    if (l->dialect == DT_C10D_MODERN ? pong.number != nonce() : pong.number > DT_C10D_MISSING) {
        dt_err_set(err, DT_E_PROTOCOL,
                   "it did not answer the greeting as a c10d store does; is the port right?");
        return DT_BAD;
    }
    dt_buf_consume(&l->wire->in, used);
    l->up = true;
    return DT_DONE;
}
