/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/sync_client.h"

#include "base/backoff.h"
#include "base/map.h"
#include "base/str.h"
#include "rendezvous/protocol/c10d_answer.h"
#include "rendezvous/protocol/spec.h"
#include "rendezvous/protocol/sync_socket.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ADDRESSES 16 /* of one name that are tried */
/* For one address: the next one may answer. */
#define CONNECT_TIME (5 * DT_SECOND)
/* What an answer gets at least once a wait has had its time. */
#define ANSWER_TIME (5 * DT_SECOND)
/* A buffer that grew larger is given back after the call. */
#define KEEP_BUFFER ((size_t)256 << 10)

struct dt_sync_client {
    struct dt_sync_socket socket;
    struct dt_c10d_answer_decoder answers;
    struct dt_buf in; /* starts with the answer handed out last, `used` bytes of it */
    size_t used;
    struct dt_buf out, items;
    dt_ms timeout;
    char name[256];     /* the server's address as it was given */
    struct dt_err dead; /* code: every call fails, and why */
};

/* -- errors ----------------------------------------------------------------------------------- */

/* `WAIT for "/k" (and 2 more)` */
static const char *describe(const struct dt_c10d_request *req, char *out, size_t size)
{
    char printable[160];
    struct dt_bytes key = req->key, items = req->items;
    bool listed = dt_c10d_next_blob(&items, &key);
    if (!key.at) {
        snprintf(out, size, "%s", dt_c10d_op_name(req->op));
        return out;
    }
    int n = snprintf(out, size, "%s of \"%s\"", dt_c10d_op_name(req->op),
                     dt_str_printable(key, printable, sizeof printable));
    if (listed && req->count > 1)
        snprintf(out + n, size - (size_t)n, " and %" PRIu64 " more", req->count - 1);
    return out;
}

static int explain(const struct dt_sync_client *c, const struct dt_c10d_request *req,
                   const struct dt_err *cause, struct dt_err *err)
{
    char what[256];
    return dt_err_set(err, cause->code, "store %s: %s: %s", c->name,
                      describe(req, what, sizeof what), cause->text);
}

/* What is on the wire no longer tells which answer is whose, or there is no wire. */
static int give_up(struct dt_sync_client *c, const struct dt_c10d_request *req,
                   const struct dt_err *cause, struct dt_err *err)
{
    dt_sync_socket_disconnect(&c->socket);
    if (c->dead.code == DT_E_NONE)
        c->dead = *cause;
    return explain(c, req, cause, err);
}

/* -- one exchange ----------------------------------------------------------------------------- */

static void trim(struct dt_buf *b)
{
    if (b->size > KEEP_BUFFER || b->bad)
        dt_buf_finish(b);
    dt_buf_clear(b);
}

static int send_out(struct dt_sync_client *c, dt_ms deadline, struct dt_err *cause)
{
    int rc = c->out.bad ? dt_err_set(cause, DT_E_MEMORY, "no memory for the request")
                        : dt_sync_socket_send(&c->socket, (struct dt_bytes){c->out.at, c->out.len},
                                              deadline, cause);
    trim(&c->out);
    return rc;
}

static int receive_answer(struct dt_sync_client *c, enum dt_c10d_op op, uint64_t count,
                          dt_ms deadline, struct dt_c10d_reply *reply, struct dt_err *cause)
{
    dt_c10d_answer_expect(&c->answers, op, count);
    for (;;) {
        enum dt_decoded got =
            dt_c10d_answer_decode(&c->answers, c->in.at, c->in.len, reply, &c->used, cause);
        if (got == DT_DONE)
            return 0;
        if (got == DT_BAD)
            return -1;
        do {
            if (dt_sync_socket_receive(&c->socket, &c->in, deadline, cause) < 0)
                return -1;
        } while (c->in.len < c->answers.needed);
    }
}

/* Ends the last answer's views. Before a request nothing may be there to be read: what is can only
 * be the end of the connection, or bytes that nobody asked for. */
static int begin(struct dt_sync_client *c, struct dt_err *cause)
{
    bool input;
    if (c->dead.code != DT_E_NONE)
        return dt_err_set(cause, c->dead.code, "the connection was given up: %.300s", c->dead.text);
    dt_buf_consume(&c->in, c->used);
    c->used = 0;
    if (c->in.len == 0)
        trim(&c->in);
    if (dt_sync_socket_peek(&c->socket, &input, cause) < 0)
        return -1;
    if (input && dt_sync_socket_receive(&c->socket, &c->in, 0, cause) < 0)
        return -1;
    if (c->in.len > 0)
        return dt_err_set(cause, DT_E_PROTOCOL, "the server sent what nobody asked for");
    return 0;
}

static int send_request(struct dt_sync_client *c, const struct dt_c10d_request *req, dt_ms deadline,
                        struct dt_err *cause)
{
    if (begin(c, cause) < 0)
        return -1;
    bool known = dt_c10d_encode(&c->out, DT_C10D_MODERN, req);
    assert(known);
    (void)known;
    return send_out(c, deadline, cause);
}

/* The views in REPLY are good until the next request. */
static int call_until(struct dt_sync_client *c, const struct dt_c10d_request *req, dt_ms deadline,
                      struct dt_c10d_reply *reply, struct dt_err *err)
{
    struct dt_err cause;
    if (send_request(c, req, deadline, &cause) < 0 ||
        receive_answer(c, req->op, req->count, deadline, reply, &cause) < 0)
        return give_up(c, req, &cause, err);
    return 0;
}

static dt_ms from_now(dt_ms timeout)
{
    return dt_clock_after(dt_clock_monotonic(), timeout);
}

static int call(struct dt_sync_client *c, const struct dt_c10d_request *req,
                struct dt_c10d_reply *reply, struct dt_err *err)
{
    return call_until(c, req, from_now(c->timeout), reply, err);
}

/* Takes a wait back. Its `ready` may have been on the way and then comes first; after the
 * `canceled` it cannot. */
static int cancel_wait(struct dt_sync_client *c, bool *ready, struct dt_err *cause)
{
    static const struct dt_c10d_request cancel = {.op = DT_C10D_CANCEL_WAIT};
    struct dt_c10d_reply reply;
    dt_ms deadline = from_now(ANSWER_TIME);
    *ready = false;
    dt_c10d_encode(&c->out, DT_C10D_MODERN, &cancel);
    if (send_out(c, deadline, cause) < 0)
        return -1;
    for (;;) {
        if (receive_answer(c, DT_C10D_CANCEL_WAIT, 1, deadline, &reply, cause) < 0)
            return -1;
        if (reply.number == DT_C10D_CANCELED)
            return 0;
        if (*ready)
            return dt_err_set(cause, DT_E_PROTOCOL, "one wait was answered twice");
        *ready = true;
        dt_buf_consume(&c->in, c->used);
    }
}

/* A request whose answer may take as long as it likes: WAIT and BARRIER. */
static int block(struct dt_sync_client *c, const struct dt_c10d_request *req, dt_ms timeout,
                 struct dt_err *err)
{
    struct dt_c10d_reply reply;
    struct dt_err cause, late;
    char time[32];
    bool ready;
    dt_ms deadline = from_now(timeout);
    if (send_request(c, req, timeout > ANSWER_TIME ? deadline : from_now(ANSWER_TIME), &cause) < 0)
        return give_up(c, req, &cause, err);
    if (receive_answer(c, req->op, 1, deadline, &reply, &late) == 0) {
        if (reply.number == DT_C10D_READY)
            return 0;
        dt_err_set(&cause, DT_E_PROTOCOL, "the server took it back unasked");
        return give_up(c, req, &cause, err);
    }
    if (late.code != DT_E_TIMEOUT)
        return give_up(c, req, &late, err);
    if (cancel_wait(c, &ready, &cause) < 0)
        return give_up(c, req, &cause, err);
    if (ready)
        return 0;
    dt_err_set(&late, DT_E_TIMEOUT, "still nothing after %s",
               dt_str_from_duration(timeout, time, sizeof time));
    return explain(c, req, &late, err);
}

/* -- connecting ------------------------------------------------------------------------------- */

static int greet(struct dt_sync_client *c, dt_ms deadline, struct dt_err *cause)
{
    struct dt_c10d_request hello = {.op = DT_C10D_VALIDATE, .number = DT_C10D_MAGIC};
    struct dt_c10d_request ping = {.op = DT_C10D_PING, .number = getpid()};
    struct dt_c10d_reply pong;
    dt_buf_clear(&c->in);
    c->used = 0;
    dt_c10d_encode(&c->out, DT_C10D_MODERN, &hello);
    dt_c10d_encode(&c->out, DT_C10D_MODERN, &ping);
    if (send_out(c, deadline, cause) < 0 ||
        receive_answer(c, DT_C10D_PING, 1, deadline, &pong, cause) < 0)
        return dt_err_wrap(cause, "no answer to the greeting");
    if (pong.number != ping.number)
        return dt_err_set(
            cause, DT_E_PROTOCOL,
            "it did not answer the greeting as a c10d store does; is the port right?");
    return 0;
}

/* A connection that dies before its greeting is answered may be a server that is just starting or
 * stopping. */
static int try_addresses(struct dt_sync_client *c, const char *addr, dt_ms deadline,
                         struct dt_err *cause)
{
    struct dt_addr to[ADDRESSES];
    size_t count;
    if (dt_addr_resolve(addr, DT_RENDEZVOUS_PORT, to, ADDRESSES, &count, cause) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        dt_ms soon = from_now(CONNECT_TIME);
        if (dt_sync_socket_connect(&c->socket, &to[i], soon < deadline ? soon : deadline, cause) ==
                0 &&
            greet(c, deadline, cause) == 0)
            return 0;
        dt_sync_socket_disconnect(&c->socket);
        if (cause->code != DT_E_DISCONNECTED && cause->code != DT_E_TIMEOUT)
            return -1;
    }
    return -1;
}

static bool may_pass(const struct dt_err *cause)
{
    return cause->code == DT_E_DISCONNECTED || cause->code == DT_E_TIMEOUT ||
           cause->code == DT_E_RUNTIME;
}

static int connect_to(struct dt_sync_client *c, const char *addr, dt_ms timeout, struct dt_err *err)
{
    struct dt_backoff backoff = {.first = 20, .most = 2 * DT_SECOND, .seed = dt_map_random_seed()};
    dt_ms deadline = from_now(timeout);
    struct dt_err cause;
    char time[32];
    snprintf(c->name, sizeof c->name, "%s", addr);
    c->timeout = timeout;
    while (try_addresses(c, addr, deadline, &cause) < 0) {
        dt_ms now = dt_clock_monotonic(), next = dt_clock_after(now, dt_backoff_next(&backoff));
        if (may_pass(&cause) && now >= deadline)
            return dt_err_set(err, DT_E_TIMEOUT, "store %s: cannot be reached within %s: %s", addr,
                              dt_str_from_duration(timeout, time, sizeof time), cause.text);
        if (!may_pass(&cause))
            return dt_err_set(err, cause.code, "store %s: %s", addr, cause.text);
        dt_sync_socket_pause(next < deadline ? next : deadline);
    }
    return 0;
}

struct dt_sync_client *dt_sync_client_open(const char *addr, dt_ms timeout, struct dt_err *err)
{
    struct dt_sync_client *c = calloc(1, sizeof *c);
    if (!c) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a store client");
        return NULL;
    }
    c->answers.limits = DT_C10D_ANSWER_LIMITS_DEFAULT;
    c->socket.fd = -1;
    if (connect_to(c, addr, timeout, err) < 0) {
        dt_sync_client_close(c);
        return NULL;
    }
    return c;
}

void dt_sync_client_close(struct dt_sync_client *c)
{
    if (!c)
        return;
    dt_sync_socket_disconnect(&c->socket);
    dt_buf_finish(&c->in);
    dt_buf_finish(&c->out);
    dt_buf_finish(&c->items);
    free(c);
}

void dt_sync_client_set_timeout(struct dt_sync_client *c, dt_ms timeout)
{
    c->timeout = timeout;
}

/* -- the operations --------------------------------------------------------------------------- */

static int hand_out(struct dt_bytes from, struct dt_buf *to, struct dt_err *err)
{
    dt_buf_clear(to);
    dt_buf_put(to, from.at, from.len);
    return to->bad ? dt_err_set(err, DT_E_MEMORY, "no memory for a value") : 0;
}

/* The request is good until the next one is made. */
static struct dt_c10d_request of_keys(struct dt_sync_client *c, enum dt_c10d_op op,
                                      const struct dt_bytes *keys, size_t count)
{
    trim(&c->items);
    for (size_t i = 0; i < count; i++)
        dt_c10d_put_item(&c->items, keys[i], NULL);
    c->out.bad |= c->items.bad; /* told when it is sent */
    return (struct dt_c10d_request){.op = op, .count = count, .items = {c->items.at, c->items.len}};
}

/* As real clients do: a server may close the connection of who asks for a key that is not there. */
static int wait_and_ask(struct dt_sync_client *c, const struct dt_c10d_request *wait,
                        const struct dt_c10d_request *req, struct dt_c10d_reply *reply,
                        struct dt_err *err)
{
    dt_ms deadline = from_now(c->timeout);
    if (block(c, wait, c->timeout, err) < 0)
        return -1;
    dt_ms least = from_now(ANSWER_TIME);
    return call_until(c, req, least > deadline ? least : deadline, reply, err);
}

int dt_sync_client_set(struct dt_sync_client *c, struct dt_bytes key, struct dt_bytes value,
                       struct dt_err *err)
{
    struct dt_c10d_request req = {.op = DT_C10D_SET, .key = key, .value = value};
    struct dt_c10d_reply none;
    return call(c, &req, &none, err);
}

int dt_sync_client_get(struct dt_sync_client *c, struct dt_bytes key, struct dt_buf *value,
                       struct dt_err *err)
{
    struct dt_c10d_request wait = of_keys(c, DT_C10D_WAIT, &key, 1);
    struct dt_c10d_request get = {.op = DT_C10D_GET, .key = key};
    struct dt_c10d_reply reply;
    return wait_and_ask(c, &wait, &get, &reply, err) < 0 ? -1 : hand_out(reply.value, value, err);
}

int dt_sync_client_compare_set(struct dt_sync_client *c, struct dt_bytes key,
                               struct dt_bytes expected, struct dt_bytes desired,
                               struct dt_buf *stands, struct dt_err *err)
{
    struct dt_c10d_request req = {
        .op = DT_C10D_COMPARE_SET, .key = key, .value = expected, .desired = desired};
    struct dt_c10d_reply reply;
    return call(c, &req, &reply, err) < 0 ? -1 : hand_out(reply.value, stands, err);
}

int dt_sync_client_check(struct dt_sync_client *c, const struct dt_bytes *keys, size_t count,
                         bool *all_there, struct dt_err *err)
{
    struct dt_c10d_request req = of_keys(c, DT_C10D_CHECK, keys, count);
    struct dt_c10d_reply reply;
    if (call(c, &req, &reply, err) < 0)
        return -1;
    *all_there = reply.number == DT_C10D_READY;
    return 0;
}

int dt_sync_client_wait(struct dt_sync_client *c, const struct dt_bytes *keys, size_t count,
                        dt_ms timeout, struct dt_err *err)
{
    struct dt_c10d_request req = of_keys(c, DT_C10D_WAIT, keys, count);
    return block(c, &req, timeout, err);
}

int dt_sync_client_multi_get(struct dt_sync_client *c, const struct dt_bytes *keys, size_t count,
                             struct dt_buf *values, struct dt_err *err)
{
    struct dt_c10d_request wait = of_keys(c, DT_C10D_WAIT, keys, count), get = wait;
    struct dt_c10d_reply reply;
    get.op = DT_C10D_MULTI_GET;
    return wait_and_ask(c, &wait, &get, &reply, err) < 0 ? -1 : hand_out(reply.items, values, err);
}

int dt_sync_client_barrier(struct dt_sync_client *c, struct dt_bytes key, int64_t world_size,
                           dt_ms timeout, struct dt_err *err)
{
    struct dt_c10d_request req = {.op = DT_C10D_BARRIER, .key = key, .number = world_size};
    return block(c, &req, timeout, err);
}
