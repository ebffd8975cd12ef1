/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store_peers.h"

#include "base/uvx.h"
#include "rendezvous/protocol/messages.h"
#include "rendezvous/store_session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One peer's share of a loop turn. */
#define REQUESTS_PER_TURN 64
#define BYTES_PER_TURN (256u << 10)

/* Of an incomplete request this much is carried over through the shared read buffer; more stays
 * where it is and the socket is read behind it. */
#define CARRY_SIZE (4u << 10)
/* Answers a peer may leave unread before its requests are no longer looked at. */
#define HIGH_WATER (1u << 20)

struct peer {
    struct dt_node in_list;
    struct dt_node in_due; /* linked: has work for the next turn */
    union dt_uvx_stream io;
    struct dt_store_peers *peers;
    bool met; /* its first bytes have told whom it wants: the store, or the control handler */
    struct dt_store_session session; /* a control peer's is over, only its `out` is used */
    struct dt_control_peer control;  /* conn: NULL unless it is one */
    struct dt_buf in;                /* an incomplete request, or requests for later turns */
    struct dt_buf sending;           /* owned by `write` while it is under way */
    uv_write_t write;
    bool connected; /* counted as a client */
    bool writing, reading, closing;
    bool ended;    /* it will send no more; closed once it has taken its answers */
    uint64_t turn; /* the loop turn that the two shares below belong to */
    uint32_t turn_requests, turn_bytes;
    uint64_t held; /* its part of counters.buffered */
    dt_ms last_active;
};

/* -- the end of a peer ------------------------------------------------------------------------ */

static void on_peer_closed(uv_handle_t *h)
{
    struct peer *p = dt_container_of((union dt_uvx_stream *)h, struct peer, io);
    struct dt_store_peers *peers = p->peers;
    dt_buf_finish(&p->in);
    dt_buf_finish(&p->sending);
    dt_buf_finish(&p->session.out);
    free(p); /* the only free of a peer */
    peers->count--;
    peers->on_gone(peers);
}

static void peer_close(struct peer *p)
{
    if (p->closing)
        return;
    p->closing = true;
    dt_list_remove(&p->in_list);
    dt_list_remove(&p->in_due);
    p->peers->counters->buffered -= p->held;
    if (p->connected)
        p->peers->counters->connected--;
    if (p->control.conn)
        p->peers->control->closed(p->control.conn);
    else
        dt_store_session_finish(&p->session);
    uv_close(&p->io.handle, on_peer_closed);
}

/* Says why a peer is closed, unless peers of its kind have filled the log already. */
static void complain(struct peer *p, const char *during, const struct dt_err *err)
{
    struct dt_store_peers *peers = p->peers;
    uint64_t held_back;
    if (err->code == DT_E_PROTOCOL)
        peers->counters->violations++;
    else
        peers->counters->limits++;
    if (!dt_log_limit_pass(&peers->complaints, (dt_ms)uv_now(peers->loop), &held_back))
        return;
    char addr[DT_ADDR_TEXT];
    dt_addr_text(&p->control.addr, addr, sizeof addr);
    if (held_back)
        dt_warn("closed %s: %s: %s (and %" PRIu64 " other peers since the last such line)", addr,
                during, err->text, held_back);
    else
        dt_warn("closed %s: %s: %s", addr, during, err->text);
}

/* -- answers ---------------------------------------------------------------------------------- */

static size_t owed(const struct peer *p)
{
    return p->session.out.len + p->sending.len;
}

static void peer_later(struct peer *p);
static void peer_continue(struct peer *p);

static void on_peer_written(uv_write_t *req, int status)
{
    struct peer *p = dt_container_of(req, struct peer, write);
    p->writing = false;
    dt_buf_finish(&p->sending);
    if (p->closing)
        return;
    if (status < 0)
        peer_close(p);
    else
        peer_continue(p);
}

/* Hands what the socket did not take to libuv. The session goes on with an empty buffer. */
static void send_rest(struct peer *p)
{
    p->sending = p->session.out;
    p->session.out = (struct dt_buf){0};
    uv_buf_t rest = uv_buf_init((char *)p->sending.at, (unsigned)p->sending.len);
    p->writing = true;
    if (uv_write(&p->write, &p->io.stream, &rest, 1, on_peer_written) < 0) {
        p->writing = false;
        peer_close(p);
    }
}

static void peer_flush(struct peer *p)
{
    struct dt_buf *out = &p->session.out;
    if (p->writing || out->len == 0)
        return;
    uv_buf_t whole = uv_buf_init((char *)out->at, (unsigned)out->len);
    int n = uv_try_write(&p->io.stream, &whole, 1);
    if (n < 0 && n != UV_EAGAIN) {
        peer_close(p);
        return;
    }
    p->peers->counters->bytes_out += out->len;
    if (n > 0)
        dt_buf_consume(out, (size_t)n);
    if (out->len > 0)
        send_rest(p);
}

static void borrow_out(struct peer *p)
{
    if (!p->session.out.base) {
        p->session.out = p->peers->spare_out;
        p->peers->spare_out = (struct dt_buf){0};
    }
}

static void give_back_out(struct peer *p)
{
    struct dt_buf *out = &p->session.out;
    if (out->len > 0)
        return;
    if (!p->peers->spare_out.base && out->size <= HIGH_WATER) {
        p->peers->spare_out = *out;
        *out = (struct dt_buf){0};
    } else {
        dt_buf_finish(out);
    }
}

/* -- whom a peer wants ------------------------------------------------------------------------ */

/* A unix socket is guarded by its path's permissions. */
static bool in_ranges(const struct dt_cidr *ranges, size_t count, const struct dt_addr *addr)
{
    return count == 0 || addr->sa.ss_family == AF_UNIX || dt_cidr_any_contains(ranges, count, addr);
}

static void meet_client(struct peer *p)
{
    const struct dt_store_server_config *config = p->peers->config;
    p->met = true;
    p->session.holds_hello = p->peers->control != NULL;
    p->session.only_hello =
        !in_ranges(config->allow_c10d, config->allow_c10d_count, &p->control.addr);
}

static int meet_control(struct peer *p, struct dt_err *err)
{
    p->met = true;
    dt_store_session_finish(&p->session);
    p->control.out = &p->session.out;
    p->control.conn = p->peers->control->opened(p->peers->control_arg, &p->control);
    return p->control.conn ? 0 : dt_err_set(err, DT_E_LIMIT, "the rendezvous takes nobody now");
}

static enum dt_decoded meet(struct peer *p, const uint8_t *bytes, size_t len, struct dt_err *err)
{
    size_t n = strlen(DT_CONTROL_MAGIC);
    if (!p->peers->control || memcmp(bytes, DT_CONTROL_MAGIC, len < n ? len : n) != 0)
        meet_client(p);
    else if (len < n)
        return DT_MORE;
    else if (meet_control(p, err) < 0)
        return DT_BAD;
    return DT_DONE;
}

/* -- requests --------------------------------------------------------------------------------- */

static bool share_spent(struct peer *p)
{
    if (p->turn != p->peers->turns.number) {
        p->turn = p->peers->turns.number;
        p->turn_requests = p->turn_bytes = 0;
    }
    return p->turn_requests >= REQUESTS_PER_TURN || p->turn_bytes >= BYTES_PER_TURN;
}

/* Takes at most one request, or frame, off the front. BAD: *DURING says about what. */
static enum dt_decoded peer_step(struct peer *p, const uint8_t *bytes, size_t len, size_t *used,
                                 const char **during, struct dt_err *err)
{
    *during = "control protocol";
    if (!p->met) {
        enum dt_decoded got = meet(p, bytes, len, err);
        if (got != DT_DONE)
            return got;
    }
    if (p->control.conn)
        return p->peers->control->step(p->control.conn, bytes, len, used, err);
    enum dt_c10d_op op;
    enum dt_decoded got = dt_store_session_step(&p->session, bytes, len, used, &op, err);
    *during = op < DT_C10D_OPS ? dt_c10d_op_name(op) : "request";
    if (got == DT_DONE)
        p->peers->counters->requests[op]++;
    return got;
}

/* A client that does not take its answers is not listened to. Agents are sent more than they ask
 * for, so theirs are bounded in peer_settle() instead. */
static bool may_ask(const struct peer *p)
{
    return !p->closing && (p->control.conn || owed(p) <= HIGH_WATER);
}

/* Carries out requests from the front of BYTES until they, the peer's share of this turn, or the
 * room for its answers are used up. Returns how many bytes were dealt with; *STARVED: what is left
 * is an incomplete request. The peer may be closing afterwards. */
static size_t work_through(struct peer *p, const uint8_t *bytes, size_t len, bool *starved)
{
    size_t done = 0;
    *starved = false;
    while (!share_spent(p) && may_ask(p)) {
        struct dt_err err;
        const char *during;
        size_t used;
        if (done == len) { /* BYTES may be NULL, which must not be moved */
            *starved = true;
            return done;
        }
        size_t before = p->session.out.len;
        switch (peer_step(p, bytes + done, len - done, &used, &during, &err)) {
        case DT_DONE:
            done += used;
            p->turn_requests++;
            p->turn_bytes += (uint32_t)used;
            if (p->control.conn) /* a page of status is asked for with few bytes */
                p->turn_bytes += (uint32_t)(p->session.out.len - before);
            continue;
        case DT_BAD:
            complain(p, during, &err);
            peer_flush(p); /* answers to what came before the violation */
            peer_close(p);
            return done;
        case DT_MORE:
            *starved = true;
            return done;
        }
    }
    return done;
}

/* Keeps the books on what is buffered for P, and closes it when all peers together hold too much.
 */
static void account(struct peer *p)
{
    struct dt_store_server_counters *counters = p->peers->counters;
    uint64_t held = p->in.size + p->session.out.size + p->sending.size;
    bool grew = held > p->held;
    counters->buffered += held - p->held;
    p->held = held;
    if (grew && counters->buffered > p->peers->config->buffered_bytes &&
        held > DT_STORE_READ_SIZE) {
        struct dt_err err;
        dt_err_set(&err, DT_E_LIMIT,
                   "%" PRIu64 " bytes are buffered for all peers, over the limit of %" PRIu64,
                   counters->buffered, p->peers->config->buffered_bytes);
        complain(p, "buffering", &err);
        peer_close(p);
    }
}

static void on_peer_alloc(uv_handle_t *h, size_t hint, uv_buf_t *buf)
{
    (void)hint;
    struct peer *p = dt_container_of((union dt_uvx_stream *)h, struct peer, io);
    if (p->in.len <= CARRY_SIZE) {
        uint8_t *shared = p->peers->read_buffer;
        dt_bytes_copy(shared, (struct dt_bytes){p->in.at, p->in.len});
        *buf = uv_buf_init((char *)shared + p->in.len, (unsigned)(DT_STORE_READ_SIZE - p->in.len));
        return;
    }
    uint8_t *room = dt_buf_room(&p->in, DT_STORE_READ_SIZE);
    /* Without room the read callback gets UV_ENOBUFS. */
    *buf = uv_buf_init((char *)room, room ? DT_STORE_READ_SIZE : 0);
}

static void on_peer_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

static void peer_read(struct peer *p, bool on)
{
    if (p->reading == on || p->closing)
        return;
    p->reading = on;
    if (!on)
        uv_read_stop(&p->io.stream);
    else if (uv_read_start(&p->io.stream, on_peer_alloc, on_peer_read) < 0)
        peer_close(p);
}

/* Closes a control peer that leaves too much untaken. */
static void check_untaken(struct peer *p)
{
    if (!p->control.conn || owed(p) <= DT_CONTROL_UNTAKEN_MAX)
        return;
    struct dt_err err;
    dt_err_set(&err, DT_E_LIMIT, "it does not read: %zu bytes are waiting for it", owed(p));
    complain(p, "control protocol", &err);
    peer_close(p);
}

/* After requests were worked through: send, decide whether to read on, and whether the next turn
 * has work. */
static void peer_settle(struct peer *p, bool starved)
{
    peer_flush(p);
    if (p->closing)
        return;
    give_back_out(p);
    check_untaken(p);
    if (!p->closing)
        account(p);
    if (p->closing)
        return;
    bool blocked = !may_ask(p); /* on_peer_written() goes on */
    if (p->ended && starved && owed(p) == 0) {
        p->peers->counters->cut_short += p->in.len > 0;
        peer_close(p);
        return;
    }
    bool read_on = starved && !p->ended && !blocked && !share_spent(p);
    peer_read(p, read_on);
    if (!blocked && !read_on && !(p->ended && starved))
        peer_later(p);
}

/* Goes on with what is in p->in already. */
static void peer_continue(struct peer *p)
{
    bool starved;
    borrow_out(p);
    size_t done = work_through(p, p->in.at, p->in.len, &starved);
    if (p->closing)
        return;
    dt_buf_consume(&p->in, done);
    if (p->in.len == 0)
        dt_buf_finish(&p->in);
    peer_settle(p, starved);
}

/* LEN bytes are in the shared read buffer, the first of them carried over from p->in. */
static void peer_take_shared(struct peer *p, size_t len)
{
    bool starved;
    borrow_out(p);
    const uint8_t *bytes = p->peers->read_buffer;
    size_t done = work_through(p, bytes, len, &starved);
    if (p->closing)
        return;
    dt_buf_clear(&p->in);
    dt_buf_put(&p->in, bytes + done, len - done);
    if (p->in.bad) {
        peer_close(p);
        return;
    }
    if (p->in.len == 0)
        dt_buf_finish(&p->in);
    peer_settle(p, starved);
}

static void touch(struct peer *p)
{
    p->last_active = (dt_ms)uv_now(p->peers->loop);
    dt_list_remove(&p->in_list);
    dt_list_append(&p->peers->list, &p->in_list);
}

static void on_peer_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    struct peer *p = dt_container_of((union dt_uvx_stream *)stream, struct peer, io);
    if (n == 0)
        return;
    if (n == UV_EOF) {
        /* Whoever only closed its sending side still gets its answers. */
        p->ended = true;
        peer_read(p, false);
        peer_continue(p);
        return;
    }
    if (n < 0) {
        p->peers->counters->cut_short += p->in.len > 0;
        peer_close(p);
        return;
    }
    touch(p);
    if (!p->control.conn)
        dt_store_turns_expect_more(&p->peers->turns, p->peers->config->spin);
    p->peers->counters->bytes_in += (uint64_t)n;
    if (p->in.len <= CARRY_SIZE) {
        peer_take_shared(p, p->in.len + (size_t)n);
    } else {
        dt_buf_grew(&p->in, (size_t)n);
        p->turn_bytes += (uint32_t)n;
        peer_continue(p);
    }
}

/* -- turns ------------------------------------------------------------------------------------ */

static void on_peer_due(struct dt_node *in_due)
{
    peer_continue(dt_container_of(in_due, struct peer, in_due));
}

static void peer_later(struct peer *p)
{
    dt_store_turns_add(&p->peers->turns, &p->in_due);
}

static void on_session_wake(struct dt_store_session *session)
{
    peer_later(dt_container_of(session, struct peer, session));
}

/* -- arrivals --------------------------------------------------------------------------------- */

static struct peer *peer_create(struct dt_store_peers *peers, int family)
{
    struct peer *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->peers = peers;
    dt_uvx_stream_init(peers->loop, &p->io, family);
    dt_store_session_init(&p->session, peers->store, &peers->config->request, peers->config->legacy,
                          peers->config->peer_bytes, on_session_wake);
    dt_node_init(&p->in_due);
    dt_list_append(&peers->list, &p->in_list);
    p->last_active = (dt_ms)uv_now(peers->loop);
    peers->count++;
    return p;
}

static void admit(struct peer *p)
{
    struct dt_store_server_counters *counters = p->peers->counters;
    counters->accepted++;
    if (dt_uvx_remote(&p->io, &p->control.addr) < 0) {
        peer_close(p); /* gone already */
        return;
    }
    const struct dt_store_server_config *config = p->peers->config;
    if (!in_ranges(config->allow, config->allow_count, &p->control.addr)) {
        struct dt_err err;
        counters->not_allowed++;
        dt_err_set(&err, DT_E_LIMIT, "its address is in none of the ranges given with --allow");
        complain(p, "connection", &err);
        peer_close(p);
        return;
    }
    if (p->io.handle.type == UV_TCP) {
        uv_tcp_nodelay(&p->io.tcp, 1);
        uv_tcp_keepalive(&p->io.tcp, 1, 60); /* a host that lost power sends no FIN */
    }
    p->connected = true;
    counters->connected++;
    if (dt_log_wants(DT_LOG_DEBUG)) {
        char text[DT_ADDR_TEXT];
        dt_debug("%s connected", dt_addr_text(&p->control.addr, text, sizeof text));
    }
    peer_read(p, true);
}

int dt_store_peers_accept(struct dt_store_peers *peers, uv_stream_t *listener)
{
    struct peer *p = peer_create(peers, listener->type == UV_TCP ? AF_INET : AF_UNIX);
    if (!p)
        return -1;
    if (uv_accept(listener, &p->io.stream) < 0)
        peer_close(p);
    else
        admit(p);
    return 0;
}

/* -- all of them ------------------------------------------------------------------------------ */

static void on_turns_closed(struct dt_store_turns *t)
{
    struct dt_store_peers *peers = dt_container_of(t, struct dt_store_peers, turns);
    dt_buf_finish(&peers->spare_out);
    peers->on_closed(peers);
}

void dt_store_peers_open(struct dt_store_peers *peers)
{
    dt_list_init(&peers->list);
    peers->complaints = (struct dt_log_limit){.burst = 10, .every = DT_SECOND};
    peers->turns = (struct dt_store_turns){
        .loop = peers->loop, .on_due = on_peer_due, .on_closed = on_turns_closed};
    dt_store_turns_open(&peers->turns);
}

void dt_store_peers_close(struct dt_store_peers *peers)
{
    dt_store_turns_close(&peers->turns);
}

void dt_store_peers_end_all(struct dt_store_peers *peers)
{
    dt_list_each(&peers->list, n)
    {
        struct peer *p = dt_container_of(n, struct peer, in_list);
        if (p->control.conn) {
            peer_close(p); /* its handler has said to it what there was to say */
            continue;
        }
        p->ended = true;
        peer_read(p, false);
        peer_continue(p); /* closes it when nothing is owed */
    }
}

void dt_store_peers_close_all(struct dt_store_peers *peers)
{
    dt_list_each(&peers->list, n) peer_close(dt_container_of(n, struct peer, in_list));
}

void dt_store_peers_close_clients(struct dt_store_peers *peers)
{
    dt_list_each(&peers->list, n)
    {
        struct peer *p = dt_container_of(n, struct peer, in_list);
        if (!p->control.conn)
            peer_close(p);
    }
}

void dt_store_peers_close_idle(struct dt_store_peers *peers, dt_ms before)
{
    dt_list_each(&peers->list, n)
    {
        struct peer *p = dt_container_of(n, struct peer, in_list);
        if (p->last_active > before)
            break; /* the list is ordered by activity */
        if (p->session.waiter.missing > 0 || p->control.conn)
            continue;
        peers->counters->idle++;
        peer_close(p);
    }
}

/* -- control peers ---------------------------------------------------------------------------- */

static struct peer *peer_of(struct dt_control_peer *control)
{
    return dt_container_of(control, struct peer, control);
}

void dt_control_peer_send(struct dt_control_peer *control)
{
    peer_later(peer_of(control));
}

void dt_control_peer_end(struct dt_control_peer *control)
{
    struct peer *p = peer_of(control);
    p->ended = true;
    peer_read(p, false);
    peer_later(p);
}

void dt_control_peer_close(struct dt_control_peer *control)
{
    peer_close(peer_of(control));
}
