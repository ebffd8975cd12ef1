/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop/wire.h"

#include "base/list.h"

#include <assert.h>
#include <sys/un.h>

#define READ_SIZE (64u << 10)
#define KEEP_SIZE (256u << 10)

static struct dt_wire *wire_of(const void *io)
{
    return dt_container_of((union dt_uvx_stream *)io, struct dt_wire, io);
}

static void on_wire_closed(uv_handle_t *h)
{
    struct dt_wire *w = wire_of(h);
    dt_buf_finish(&w->in);
    dt_buf_finish(&w->out);
    dt_buf_finish(&w->sending);
    w->events->closed(w);
}

void dt_wire_close(struct dt_wire *w)
{
    if (w->closing)
        return;
    w->closing = true;
    uv_close(&w->io.handle, on_wire_closed);
}

void dt_wire_lose(struct dt_wire *w, const struct dt_err *why)
{
    if (w->closing)
        return;
    dt_wire_close(w);
    w->events->lost(w, why);
}

static void lose_by_status(struct dt_wire *w, int status, const char *what)
{
    struct dt_err why;
    if (status == UV_EOF)
        dt_err_set(&why, DT_E_DISCONNECTED, "%s", what);
    else
        dt_uvx_err(&why, status, "%s", what);
    why.code = DT_E_DISCONNECTED;
    dt_wire_lose(w, &why);
}

/* Empties B, and gives back what one large message made it grow to. */
static void trim(struct dt_buf *b)
{
    if (b->size > KEEP_SIZE)
        dt_buf_finish(b);
    dt_buf_clear(b);
}

/* -- out -------------------------------------------------------------------------------------- */

static void on_wire_written(uv_write_t *req, int status)
{
    struct dt_wire *w = dt_container_of(req, struct dt_wire, write);
    w->writing = false;
    w->written += w->sending.len;
    trim(&w->sending);
    if (w->closing)
        return;
    if (status < 0) {
        lose_by_status(w, status, "the connection is lost");
        return;
    }
    dt_wire_flush(w);
    if (w->events->wrote)
        w->events->wrote(w);
}

/* What is queued while a write is under way goes out as one when that is done. libuv tries to write
 * at once, so what was said before a close has gone out unless the other side is stuck. */
void dt_wire_flush(struct dt_wire *w)
{
    if (w->writing || w->out.len == 0)
        return;
    struct dt_buf empty = w->sending;
    w->sending = w->out;
    w->out = empty;
    uv_buf_t all = uv_buf_init((char *)w->sending.at, (unsigned)w->sending.len);
    w->writing = true;
    int rc = uv_write(&w->write, &w->io.stream, &all, 1, on_wire_written);
    assert(rc == 0); /* the stream is open, and one buffer needs no memory */
    (void)rc;
}

/* -- in --------------------------------------------------------------------------------------- */

static void on_wire_alloc(uv_handle_t *h, size_t hint, uv_buf_t *buf)
{
    (void)hint;
    struct dt_wire *w = wire_of(h);
    if (w->in.len == 0)
        trim(&w->in);
    uint8_t *room = dt_buf_room(&w->in, READ_SIZE);
    *buf = uv_buf_init((char *)room, room ? READ_SIZE : 0); /* no room: read with ENOBUFS */
}

static void on_wire_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    struct dt_wire *w = wire_of(stream);
    if (n < 0) {
        lose_by_status(w, (int)n, "the server closed the connection");
        return;
    }
    dt_buf_grew(&w->in, (size_t)n);
    w->events->came(w);
}

/* -- opening ---------------------------------------------------------------------------------- */

static void on_wire_connected(uv_connect_t *req, int status)
{
    struct dt_wire *w = dt_container_of(req, struct dt_wire, connect);
    if (w->closing)
        return;
    if (status < 0) {
        lose_by_status(w, status, "cannot connect");
        return;
    }
    if (w->io.handle.type == UV_TCP) {
        uv_tcp_nodelay(&w->io.tcp, 1);
        uv_tcp_keepalive(&w->io.tcp, 1, 60); /* a host that lost power sends no FIN */
    }
    if ((status = uv_read_start(&w->io.stream, on_wire_alloc, on_wire_read)) < 0)
        lose_by_status(w, status, "cannot read");
    else
        w->events->connected(w);
}

static int start_connecting(struct dt_wire *w, const struct dt_addr *to)
{
    const struct sockaddr *sa = (const struct sockaddr *)&to->sa;
    if (w->io.handle.type == UV_TCP)
        return uv_tcp_connect(&w->connect, &w->io.tcp, sa, on_wire_connected);
    uv_pipe_connect(&w->connect, &w->io.pipe, ((const struct sockaddr_un *)&to->sa)->sun_path,
                    on_wire_connected);
    return 0;
}

int dt_wire_open(struct dt_wire *w, uv_loop_t *loop, const struct dt_addr *to,
                 const struct dt_wire_events *events, struct dt_err *err)
{
    w->events = events;
    dt_uvx_stream_init(loop, &w->io, to->sa.ss_family);
    int rc = start_connecting(w, to);
    if (rc == 0)
        return 0;
    dt_wire_close(w);
    return dt_uvx_err(err, rc, "cannot connect");
}
