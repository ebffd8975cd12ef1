/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store/peer.h"

#include "rendezvous/protocol/messages.h"
#include "rendezvous/store/room.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One peer's share of a loop turn. */
#define REQUESTS_PER_TURN 64
#define BYTES_PER_TURN (256u << 10)
/* How many requests of a peer go between two looks at the clock. */
#define REQUESTS_PER_LOOK 8

/* Of an incomplete request this much is carried over through the shared read buffer; more stays
 * where it is and the socket is read behind it. */
#define CARRY_SIZE (4u << 10)
/* Answers a peer may leave unread before its requests are no longer looked at. */
#define HIGH_WATER (1u << 20)
/* What a control peer's next message may make us answer: a page of status is the largest. */
#define CONTROL_ANSWER (128u << 10)

/* What a byte of a request may make malloc take: while its buffer doubles, the smaller ones before
 * it and the copies in them are up to three, and the store's value is one. */
#define GROWTH_OF_REQUEST UINT64_C(4)

/* Why no more requests are carried out now. */
enum pause {
    STARVED, /* what is left is an incomplete request */
    FULL,    /* it waits for room in the budget */
    LATER,   /* its share of the turn is spent, or it does not take its answers */
};

static dt_ms now_of(const struct dt_store_peer *p)
{
    return dt_store_peers_now(p->peers);
}

/* -- what a session asks for ------------------------------------------------------------------ */

static bool may_answer(struct dt_store_session *session, uint64_t n)
{
    struct dt_store_peer *p = dt_container_of(session, struct dt_store_peer, session);
    if (!dt_store_room_take_answer(p, n))
        return false;
    dt_store_peers_grow(p->peers, n);
    return true;
}

/* Asked for each request of a client until it is served. */
static bool may_serve(struct dt_store_session *session)
{
    struct dt_store_peer *p = dt_container_of(session, struct dt_store_peer, session);
    if (!dt_store_peers_seat(p))
        return false;
    session->may_serve = NULL;
    return true;
}

/* -- the end of a peer ------------------------------------------------------------------------ */

static void on_peer_closed(uv_handle_t *h)
{
    struct dt_store_peer *p = dt_container_of((union dt_uvx_stream *)h, struct dt_store_peer, io);
    struct dt_store_peers *peers = p->peers;
    dt_buf_finish(&p->sending); /* libuv may have looked at it until now */
    dt_store_budget_leave(&peers->budget, &p->holding);
    dt_store_sources_leave(&peers->sources, p->source);
    free(p); /* the only free of a peer */
    peers->count--;
    dt_store_room_offer(peers);
    peers->on_gone(peers);
}

void dt_store_peer_close(struct dt_store_peer *p)
{
    if (p->closing)
        return;
    p->closing = true;
    dt_list_remove(&p->in_list);
    dt_list_remove(&p->in_due);
    dt_list_remove(&p->in_newcomers);
    dt_store_peers_unseat(p);
    if (p->connected)
        p->peers->counters->connected--;
    if (p->control.conn)
        p->peers->control->closed(p->control.conn);
    else
        dt_store_session_finish(&p->session);
    dt_buf_finish(&p->in);
    dt_buf_finish(&p->session.out);
    dt_store_budget_leave(&p->peers->budget, &p->holding);
    dt_store_budget_set(&p->peers->budget, &p->holding, p->sending.size, now_of(p));
    uv_close(&p->io.handle, on_peer_closed);
}

void dt_store_peer_complain(struct dt_store_peer *p, const char *during, const struct dt_err *err)
{
    struct dt_store_peers *peers = p->peers;
    uint64_t held_back;
    if (err->code == DT_E_PROTOCOL)
        peers->counters->violations++;
    else
        peers->counters->limits++;
    if (!dt_log_limit_pass(&peers->complaints, now_of(p), &held_back))
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

static size_t owed(const struct dt_store_peer *p)
{
    return p->session.out.len + p->sending.len;
}

static void on_peer_written(uv_write_t *req, int status)
{
    struct dt_store_peer *p = dt_container_of(req, struct dt_store_peer, write);
    if (p->closing)
        return; /* on_peer_closed() frees what was being sent */
    p->writing = false;
    dt_store_room_note_sent(p);
    dt_buf_finish(&p->sending);
    if (status < 0)
        dt_store_peer_close(p);
    else
        dt_store_peer_continue(p);
}

/* Hands what the socket did not take to libuv. The session goes on with an empty buffer. */
static void send_rest(struct dt_store_peer *p)
{
    p->sending = p->session.out;
    p->session.out = (struct dt_buf){0};
    dt_buf_trim(&p->sending);
    p->unsent = p->sending.len;
    uv_buf_t rest = uv_buf_init((char *)p->sending.at, (unsigned)p->sending.len);
    p->writing = true;
    if (uv_write(&p->write, &p->io.stream, &rest, 1, on_peer_written) < 0) {
        p->writing = false;
        dt_store_peer_close(p);
    }
}

static void peer_flush(struct dt_store_peer *p)
{
    struct dt_buf *out = &p->session.out;
    if (p->writing || out->len == 0)
        return;
    uv_buf_t whole = uv_buf_init((char *)out->at, (unsigned)out->len);
    int n = uv_try_write(&p->io.stream, &whole, 1);
    if (n < 0 && n != UV_EAGAIN) {
        dt_store_peer_close(p);
        return;
    }
    p->peers->counters->bytes_out += out->len;
    if (n > 0)
        dt_buf_consume(out, (size_t)n);
    if (out->len > 0)
        send_rest(p);
}

static void borrow_out(struct dt_store_peer *p)
{
    if (!p->session.out.base) {
        p->session.out = p->peers->spare_out;
        p->peers->spare_out = (struct dt_buf){0};
    }
}

static void give_back_out(struct dt_store_peer *p)
{
    struct dt_buf *out = &p->session.out;
    if (out->len > 0) {
        dt_buf_trim(out);
        return;
    }
    if (!p->peers->spare_out.base && out->size <= HIGH_WATER) {
        p->peers->spare_out = *out;
        *out = (struct dt_buf){0};
    } else {
        dt_buf_finish(out);
    }
}

/* -- whom a peer wants ------------------------------------------------------------------------ */

bool dt_store_peer_is_in(const struct dt_store_peer *p, const struct dt_cidr *ranges, size_t count)
{
    const struct dt_addr *addr = &p->control.addr;
    return count == 0 || addr->sa.ss_family == AF_UNIX || dt_cidr_any_contains(ranges, count, addr);
}

static void meet_client(struct dt_store_peer *p)
{
    p->met = true;
    p->session.holds_hello = p->peers->control != NULL;
    if (p->only_hello)
        dt_store_session_restrict(&p->session);
}

static int meet_control(struct dt_store_peer *p, struct dt_err *err)
{
    p->met = true;
    dt_store_session_finish(&p->session);
    p->control.out = &p->session.out;
    p->control.conn = p->peers->control->opened(p->peers->control_arg, &p->control);
    return p->control.conn
               ? 0
               : dt_err_set(err, DT_E_LIMIT, "the rendezvous takes no new connection now");
}

static enum dt_decoded meet(struct dt_store_peer *p, const uint8_t *bytes, size_t len,
                            struct dt_err *err)
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

/* Its own share, or that of all. */
static bool share_spent(struct dt_store_peer *p)
{
    if (p->turn != p->peers->turns.number) {
        p->turn = p->peers->turns.number;
        p->turn_requests = p->turn_bytes = 0;
    }
    return p->turn_requests >= REQUESTS_PER_TURN || p->turn_bytes >= BYTES_PER_TURN ||
           (p->turn_requests % REQUESTS_PER_LOOK == 0 && dt_store_turns_over(&p->peers->turns));
}

/* Takes at most one request, or frame, off the front. BAD: *DURING says about what. */
static enum dt_decoded peer_step(struct dt_store_peer *p, const uint8_t *bytes, size_t len,
                                 size_t *used, const char **during, struct dt_err *err)
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
    p->understood |= got == DT_DONE || p->session.decoder.begun || p->session.no_room;
    return got;
}

/* A peer is no newcomer any more when it has said something that can be understood: a request of
 * the store, if it may ask for more than whether this is one of ours, or the control protocol's
 * first bytes, whose handler has a patience of its own. From then on a client needs a seat, also
 * while it only greets, or has sent half a request: else such clients could take all places. */
static void judge_newcomer(struct dt_store_peer *p)
{
    if (!dt_node_linked(&p->in_newcomers))
        return;
    if (p->control.conn || (p->understood && !p->only_hello)) {
        dt_list_remove(&p->in_newcomers);
        if (!p->control.conn)
            dt_store_peers_seat(p);
    } else if (!p->spoke) {
        p->spoke = true;
        dt_store_peers_expect(p);
    }
}

/* A client that does not take its answers is not listened to. Agents are sent more than they ask
 * for, so theirs are bounded in peer_settle() instead. */
static bool may_ask(const struct dt_store_peer *p)
{
    return !p->closing && (p->control.conn || owed(p) <= HIGH_WATER);
}

/* Room for what a control peer's next message may make us answer is asked for before. */
static bool may_step(struct dt_store_peer *p)
{
    return !p->control.conn || dt_store_room_take_answer(p, CONTROL_ANSWER);
}

/* Counts a request of USED bytes, whose answer began at BEFORE of `out`, towards its share. */
static void count_request(struct dt_store_peer *p, size_t used, size_t before)
{
    p->turn_requests++;
    p->turn_bytes += (uint32_t)used;
    if (p->control.conn) /* a page of status is asked for with few bytes */
        p->turn_bytes += (uint32_t)(p->session.out.len - before);
}

/* Carries out requests from the front of BYTES until there is a reason to pause; *DONE tells how
 * many bytes were dealt with. The peer may be closing afterwards. */
static enum pause work_through(struct dt_store_peer *p, const uint8_t *bytes, size_t len,
                               size_t *done)
{
    *done = 0;
    while (!share_spent(p) && may_ask(p)) {
        struct dt_err err;
        const char *during;
        size_t used, before = p->session.out.len;
        if (*done == len) /* BYTES may be NULL, which must not be moved */
            return STARVED;
        if (!may_step(p))
            return FULL;
        switch (peer_step(p, bytes + *done, len - *done, &used, &during, &err)) {
        case DT_DONE:
            *done += used;
            count_request(p, used, before);
            continue;
        case DT_BAD:
            dt_store_peer_complain(p, during, &err);
            peer_flush(p); /* answers to what came before the violation */
            dt_store_peer_close(p);
            return LATER;
        case DT_MORE:
            return p->session.no_room ? FULL : STARVED;
        }
    }
    return LATER;
}

/* -- reading ---------------------------------------------------------------------------------- */

/* How large `in` has to be for the next bytes of a request that is larger than CARRY_SIZE: twice as
 * large, but not beyond what the request is known to take. */
static size_t next_size(const struct dt_store_peer *p)
{
    uint64_t least = p->in.len + DT_STORE_READ_SIZE, needed = p->session.decoder.needed;
    uint64_t most = !p->control.conn && needed > least ? needed : least;
    uint64_t twice = 2 * (uint64_t)p->in.len;
    return (size_t)(twice < least ? least : twice < most ? twice : most);
}

/* Where the next bytes go; an empty place when there is none. */
static uv_buf_t place_for_more(struct dt_store_peer *p)
{
    uint8_t *shared = p->peers->read_buffer;
    if (p->in.len <= CARRY_SIZE) {
        if (!dt_store_room_take(p, DT_STORE_READ_SIZE, p->session.out.size))
            return uv_buf_init(NULL, 0);
        p->incoming = DT_STORE_READ_SIZE; /* all of it may have to be kept */
        dt_bytes_copy(shared, (struct dt_bytes){p->in.at, p->in.len});
        return uv_buf_init((char *)shared + p->in.len, (unsigned)(DT_STORE_READ_SIZE - p->in.len));
    }
    if (dt_buf_free_room(&p->in) == 0) {
        size_t size = next_size(p);
        if (!dt_store_room_take(p, size, p->session.out.size) || dt_buf_resize(&p->in, size) < 0)
            return uv_buf_init(NULL, 0);
    }
    return uv_buf_init((char *)p->in.at + p->in.len, (unsigned)dt_buf_free_room(&p->in));
}

/* Bytes of it wait for their turn. */
static bool has_its_turn_to_come(const struct dt_store_peer *p)
{
    return p->in.len > 0 && dt_node_linked(&p->in_due);
}

static void on_peer_alloc(uv_handle_t *h, size_t hint, uv_buf_t *buf)
{
    struct dt_store_peer *p = dt_container_of((union dt_uvx_stream *)h, struct dt_store_peer, io);
    (void)hint;
    *buf = has_its_turn_to_come(p) ? uv_buf_init(NULL, 0) : place_for_more(p);
}

static void on_peer_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

void dt_store_peer_read(struct dt_store_peer *p, bool on)
{
    if (p->reading == on || p->closing)
        return;
    p->reading = on;
    if (!on)
        uv_read_stop(&p->io.stream);
    else if (uv_read_start(&p->io.stream, on_peer_alloc, on_peer_read) < 0)
        dt_store_peer_close(p);
}

/* Closes a control peer that leaves too much untaken. */
static void check_untaken(struct dt_store_peer *p)
{
    if (!p->control.conn || owed(p) <= DT_CONTROL_UNTAKEN_MAX)
        return;
    struct dt_err err;
    dt_err_set(&err, DT_E_LIMIT, "it does not read: %zu bytes are waiting for it", owed(p));
    dt_store_peer_complain(p, "control protocol", &err);
    dt_store_peer_close(p);
}

/* Closes it when what it waits for is more than there can ever be. */
static void check_wanted(struct dt_store_peer *p)
{
    uint64_t most = dt_store_budget_most(&p->peers->budget);
    if (p->holding.wanted <= most)
        return;
    struct dt_err err;
    dt_err_set(&err, DT_E_LIMIT,
               "%" PRIu64 " bytes would be buffered for it, and the limit for all peers leaves one "
               "%" PRIu64,
               p->holding.wanted, most);
    dt_store_peer_complain(p, "buffering", &err);
    dt_store_peer_close(p);
}

/* Everything is sent that it is owed, and it asks for no more. */
static void leave(struct dt_store_peer *p)
{
    p->peers->counters->cut_short += p->in.len > 0;
    dt_store_peer_close(p);
}

/* Decides what comes next, once it has paused for that reason. */
static void go_on(struct dt_store_peer *p, enum pause why)
{
    bool blocked = !may_ask(p); /* on_peer_written() goes on */
    bool finished = p->ended && why == STARVED;
    bool read_on = why == STARVED && !p->ended && !blocked && !share_spent(p);
    if (read_on)
        dt_list_remove(&p->in_due); /* what it had to send has been sent */
    if (why != FULL && !blocked && !finished && !read_on) {
        dt_store_peer_later(p); /* stops reading only if more comes before: that takes three calls
                                   of the system, and most wait for an answer first */
        return;
    }
    dt_store_peer_read(p, read_on);
    if (p->closing)
        return;
    if (why == FULL)
        check_wanted(p); /* else dt_store_room_offer() goes on */
    else if (finished && owed(p) == 0)
        leave(p);
}

/* After requests were worked through: sends, and keeps no more than is needed. */
static void peer_settle(struct dt_store_peer *p, enum pause why)
{
    peer_flush(p);
    if (p->closing)
        return;
    give_back_out(p);
    judge_newcomer(p);
    dt_store_room_account(p);
    check_untaken(p);
    if (!p->closing)
        go_on(p, why);
}

void dt_store_peer_continue(struct dt_store_peer *p)
{
    size_t done;
    borrow_out(p);
    enum pause why = work_through(p, p->in.at, p->in.len, &done);
    if (p->closing)
        return;
    dt_buf_consume(&p->in, done);
    if (p->in.len == 0)
        dt_buf_finish(&p->in);
    peer_settle(p, why);
}

/* LEN bytes are in the shared read buffer, the first of them carried over from p->in. */
static void peer_take_shared(struct dt_store_peer *p, size_t len)
{
    size_t done;
    borrow_out(p);
    const uint8_t *bytes = p->peers->read_buffer;
    enum pause why = work_through(p, bytes, len, &done);
    if (p->closing)
        return;
    dt_buf_clear(&p->in);
    dt_buf_put(&p->in, bytes + done, len - done);
    if (p->in.bad) {
        dt_store_peer_close(p);
        return;
    }
    if (p->in.len == 0)
        dt_buf_finish(&p->in);
    peer_settle(p, why);
}

static void touch(struct dt_store_peer *p, size_t n)
{
    struct dt_store_peers *peers = p->peers;
    p->last_active = now_of(p);
    dt_list_remove(&p->in_list);
    dt_list_append(&peers->list, &p->in_list);
    peers->counters->bytes_in += n;
    dt_store_peers_grow(peers, n * GROWTH_OF_REQUEST);
    dt_store_budget_moved(&peers->budget, &p->holding, n, now_of(p));
    if (!p->control.conn)
        dt_store_turns_expect_more(&peers->turns, peers->config->spin);
}

/* Reading has ended, or there is no place for more. */
static void on_no_bytes(struct dt_store_peer *p, ssize_t status)
{
    if (status == UV_ENOBUFS && has_its_turn_to_come(p)) {
        dt_store_peer_read(p, false);
        return;
    }
    if (status == UV_ENOBUFS && dt_store_room_is_awaited(p)) {
        go_on(p, FULL);
        return;
    }
    if (status != UV_EOF) {
        leave(p);
        return;
    }
    dt_store_peer_end(p); /* whoever only closed its sending side still gets its answers */
    dt_store_peer_continue(p);
}

static void on_peer_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    struct dt_store_peer *p =
        dt_container_of((union dt_uvx_stream *)stream, struct dt_store_peer, io);
    if (n == 0) {
        dt_store_room_account(p); /* what the read might have brought is not held */
        return;
    }
    if (n < 0) {
        on_no_bytes(p, n);
        return;
    }
    touch(p, (size_t)n);
    if (p->in.len <= CARRY_SIZE) {
        peer_take_shared(p, p->in.len + (size_t)n);
    } else {
        dt_buf_grew(&p->in, (size_t)n);
        p->turn_bytes += (uint32_t)n;
        dt_store_peer_continue(p);
    }
}

/* -- beginning, and turns --------------------------------------------------------------------- */

void dt_store_peer_later(struct dt_store_peer *p)
{
    dt_store_turns_add(&p->peers->turns, &p->in_due);
}

void dt_store_peer_end(struct dt_store_peer *p)
{
    p->ended = true;
    dt_store_peer_read(p, false);
}

static void on_session_wake(struct dt_store_session *session)
{
    dt_store_peer_later(dt_container_of(session, struct dt_store_peer, session));
}

static void put_waits(const struct dt_store_session *session, struct dt_buf *out)
{
    struct dt_key_waits waits = {.len = 0};
    dt_store_peers_note_waits(dt_container_of(session, struct dt_store_peer, session), &waits);
    dt_key_waits_put(&waits, out);
}

struct dt_store_peer *dt_store_peer_create(struct dt_store_peers *peers, int family)
{
    struct dt_store_peer *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->peers = peers;
    dt_uvx_stream_init(peers->loop, &p->io, family);
    dt_store_session_init(&p->session, peers->store, &peers->config->request, peers->config->legacy,
                          peers->config->peer_bytes, on_session_wake);
    p->session.may_serve = may_serve;
    p->session.may_answer = may_answer;
    p->session.put_waits = put_waits;
    dt_store_holding_init(&p->holding);
    dt_node_init(&p->in_due);
    dt_node_init(&p->in_newcomers);
    dt_node_init(&p->in_standing);
    dt_list_append(&peers->list, &p->in_list);
    p->last_active = now_of(p);
    peers->count++;
    return p;
}
