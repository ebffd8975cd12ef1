/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store_link.h"

#include "base/list.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#define READ_SIZE (64u << 10)
#define KEEP_SIZE (256u << 10)

static void on_link_closed(uv_handle_t *h)
{
    struct dt_store_link *l = dt_container_of((union dt_uvx_stream *)h, struct dt_store_link, io);
    if (l->events)
        l->events->closed(l);
    dt_buf_finish(&l->in);
    dt_buf_finish(&l->out);
    dt_buf_finish(&l->sending);
    free(l); /* the only free of a link */
}

void dt_store_link_close(struct dt_store_link *l)
{
    if (l->closing)
        return;
    l->closing = true;
    uv_close(&l->io.handle, on_link_closed);
}

static void lose(struct dt_store_link *l, const struct dt_err *why)
{
    if (l->closing)
        return;
    dt_store_link_close(l);
    l->events->lost(l, why);
}

static void lose_by_status(struct dt_store_link *l, int status, const char *what)
{
    struct dt_err why;
    dt_uvx_err(&why, status, "%s", what);
    why.code = DT_E_DISCONNECTED;
    lose(l, &why);
}

/* -- out -------------------------------------------------------------------------------------- */

static void flush(struct dt_store_link *l);

/* Empties B, and gives back what one large message made it grow to. */
static void trim(struct dt_buf *b)
{
    if (b->size > KEEP_SIZE)
        dt_buf_finish(b);
    dt_buf_clear(b);
}

static void on_link_written(uv_write_t *req, int status)
{
    struct dt_store_link *l = dt_container_of(req, struct dt_store_link, write);
    l->writing = false;
    l->written += l->sending.len;
    trim(&l->sending);
    if (l->closing)
        return;
    if (status < 0) {
        lose_by_status(l, status, "the connection is lost");
        return;
    }
    flush(l);
    if (l->up)
        l->events->moved(l);
}

/* What is queued while a write is under way goes out as one when that is done. */
static void flush(struct dt_store_link *l)
{
    if (l->writing || l->out.len == 0)
        return;
    struct dt_buf empty = l->sending;
    l->sending = l->out;
    l->out = empty;
    uv_buf_t all = uv_buf_init((char *)l->sending.at, (unsigned)l->sending.len);
    l->writing = true;
    int rc = uv_write(&l->write, &l->io.stream, &all, 1, on_link_written);
    assert(rc == 0); /* the stream is open, and one buffer needs no memory */
    (void)rc;
}

/* What there is no request for with several keys is asked for one by one; the answers are the same
 * bytes. */
static bool encode(struct dt_store_link *l, const struct dt_c10d_request *req)
{
    struct dt_c10d_request all = *req, one = {0};
    if (dt_c10d_encode(&l->out, l->dialect, req))
        return true;
    if (req->op != DT_C10D_MULTI_GET && req->op != DT_C10D_MULTI_SET)
        return false;
    one.op = req->op == DT_C10D_MULTI_GET ? DT_C10D_GET : DT_C10D_SET;
    while (dt_c10d_next_item(&all, &one.key, &one.value))
        dt_c10d_encode(&l->out, l->dialect, &one);
    return true;
}

int dt_store_link_send(struct dt_store_link *l, const struct dt_c10d_request *req,
                       struct dt_err *err)
{
    size_t before = l->out.len;
    if (!encode(l, req))
        return dt_err_set(err, DT_E_PROTOCOL, "the store is of a PyTorch before 2.1 and has no %s",
                          dt_c10d_op_name(req->op));
    if (l->out.bad) {
        l->out.bad = false;
        l->out.len = before;
        return dt_err_set(err, DT_E_MEMORY, "no memory for a request");
    }
    l->queued += l->out.len - before;
    flush(l);
    return 0;
}

/* -- in --------------------------------------------------------------------------------------- */

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
        dt_c10d_encode(&l->out, DT_C10D_MODERN, &hello); /* goes out with what follows */
    l->queued = l->out.len;
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
    if (dt_c10d_answer_decode(&l->answers, l->in.at, l->in.len, &pong, &used, &err) != DT_DONE)
        return; /* neither is ever bad, it can only be short */
    if (l->dialect == DT_C10D_MODERN ? pong.number != nonce() : pong.number > DT_C10D_MISSING) {
        dt_err_set(&err, DT_E_PROTOCOL,
                   "it did not answer the greeting as a c10d store does; is the port right?");
        lose(l, &err);
        return;
    }
    dt_buf_consume(&l->in, used);
    l->up = true;
    l->events->up(l);
}

static void on_link_alloc(uv_handle_t *h, size_t hint, uv_buf_t *buf)
{
    (void)hint;
    struct dt_store_link *l = dt_container_of((union dt_uvx_stream *)h, struct dt_store_link, io);
    if (l->in.len == 0)
        trim(&l->in);
    uint8_t *room = dt_buf_room(&l->in, READ_SIZE);
    *buf = uv_buf_init((char *)room, room ? READ_SIZE : 0); /* no room: read with ENOBUFS */
}

static void on_link_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    struct dt_store_link *l =
        dt_container_of((union dt_uvx_stream *)stream, struct dt_store_link, io);
    if (n < 0) {
        lose_by_status(l, (int)n, "the server closed the connection");
        return;
    }
    dt_buf_grew(&l->in, (size_t)n);
    if (!l->up)
        hear_greeting(l);
    if (l->up && !l->closing)
        l->events->moved(l);
}

/* -- opening ---------------------------------------------------------------------------------- */

static void on_link_connected(uv_connect_t *req, int status)
{
    struct dt_store_link *l = dt_container_of(req, struct dt_store_link, connect);
    struct dt_err err;
    if (l->closing)
        return;
    if (status < 0) {
        lose_by_status(l, status, "cannot connect");
        return;
    }
    if (l->io.handle.type == UV_TCP) {
        uv_tcp_nodelay(&l->io.tcp, 1);
        uv_tcp_keepalive(&l->io.tcp, 1, 60); /* a host that lost power sends no FIN */
    }
    if (greet(l, &err) < 0)
        lose(l, &err);
    else if ((status = uv_read_start(&l->io.stream, on_link_alloc, on_link_read)) < 0)
        lose_by_status(l, status, "cannot read");
}

static int start_connecting(struct dt_store_link *l, const struct dt_addr *to)
{
    const struct sockaddr *sa = (const struct sockaddr *)&to->sa;
    if (l->io.handle.type == UV_TCP)
        return uv_tcp_connect(&l->connect, &l->io.tcp, sa, on_link_connected);
    uv_pipe_connect(&l->connect, &l->io.pipe, ((const struct sockaddr_un *)&to->sa)->sun_path,
                    on_link_connected);
    return 0;
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
    dt_uvx_stream_init(loop, &l->io, to->sa.ss_family);
    l->dialect = dialect;
    l->answers.limits = DT_C10D_ANSWER_LIMITS_DEFAULT;
    int rc = start_connecting(l, to);
    if (rc < 0) {
        dt_uvx_err(err, rc, "cannot connect");
        dt_store_link_close(l);
        return NULL;
    }
    l->events = events;
    l->owner = owner;
    return l;
}
