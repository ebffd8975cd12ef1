/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store/session.h"

#include "rendezvous/protocol/key_waits.h"
#include "rendezvous/protocol/messages.h"

#include <inttypes.h>

#define LARGE_ANSWER (64u << 10)

static void on_waiter_woken(struct dt_store_waiter *w)
{
    struct dt_store_session *s = dt_container_of(w, struct dt_store_session, waiter);
    dt_buf_put_u8(&s->out, DT_C10D_READY);
    s->on_wake(s);
}

void dt_store_session_init(struct dt_store_session *s, struct dt_store *store,
                           const struct dt_c10d_limits *limits, enum dt_c10d_dialect legacy,
                           uint64_t most_out, void (*on_wake)(struct dt_store_session *s))
{
    *s = (struct dt_store_session){
        .decoder = {.limits = *limits, .legacy = legacy},
        .most_out = most_out,
        .store = store,
        .waiter = {.woken = on_waiter_woken},
        .on_wake = on_wake,
    };
}

void dt_store_session_restrict(struct dt_store_session *s)
{
    s->only_hello = true;
    s->decoder.limits =
        (struct dt_c10d_limits){.key = strlen(DT_HELLO_KEY), .value = 0, .keys = 1, .whole = 64};
}

void dt_store_session_finish(struct dt_store_session *s)
{
    dt_store_wait_cancel(s->store, &s->waiter);
    dt_buf_finish(&s->out);
}

static int check_room(struct dt_store_session *s, uint64_t n)
{
    s->no_room = s->may_answer && !s->may_answer(s, n);
    return s->no_room ? -1 : 0;
}

/* Room for an answer that is large exactly: growing by doubling would take twice as much. */
static void make_room(struct dt_store_session *s, uint64_t n)
{
    if (n >= LARGE_ANSWER && dt_buf_free_room(&s->out) < n)
        dt_buf_resize(&s->out, s->out.len + n); /* a failure is met again when it is written */
}

/* Asked before an answer of N bytes is made, and before its request has any effect. */
static int check_answer(struct dt_store_session *s, uint64_t n, struct dt_err *err)
{
    if (n <= s->most_out && s->out.len <= s->most_out - n) {
        if (check_room(s, n) < 0)
            return -1;
        make_room(s, n);
        return 0;
    }
    return dt_err_set(err, DT_E_LIMIT,
                      "an answer of %" PRIu64 " bytes is over the limit of %" PRIu64
                      " for one peer",
                      n, s->most_out);
}

static int answer_value(struct dt_store_session *s, struct dt_bytes value, struct dt_err *err)
{
    if (check_answer(s, 8 + (uint64_t)value.len, err) < 0)
        return -1;
    dt_c10d_put_value(&s->out, value);
    return 0;
}

static bool is_hello(struct dt_bytes key)
{
    return dt_bytes_equal(key, dt_bytes_of(DT_HELLO_KEY));
}

/* The value is made as it is asked for. */
static bool is_waits(const struct dt_store_session *s, struct dt_bytes key)
{
    return s->put_waits && dt_bytes_equal(key, dt_bytes_of(DT_KEY_WAITS));
}

/* The keys that agents ask for are no entries of the store: nobody can remove them, and PyTorch's
 * clients count the keys that they have set. */
static bool has(const struct dt_store_session *s, struct dt_bytes key)
{
    return (s->holds_hello && is_hello(key)) || is_waits(s, key) || dt_store_has(s->store, key);
}

static uint64_t count_missing(const struct dt_store_session *s, struct dt_c10d_request req)
{
    struct dt_bytes key;
    uint64_t missing = 0;
    while (dt_c10d_next_item(&req, &key, NULL))
        missing += !has(s, key);
    return missing;
}

static int do_wait(struct dt_store_session *s, struct dt_c10d_request *req, struct dt_err *err)
{
    uint64_t missing = count_missing(s, *req);
    if (missing == 0) {
        dt_store_wait_cancel(s->store, &s->waiter); /* a new wait replaces an old one entirely */
        dt_buf_put_u8(&s->out, DT_C10D_READY);
        return 0;
    }
    if (dt_store_wait_begin(s->store, &s->waiter, missing, err) < 0)
        return -1;
    for (struct dt_bytes key; dt_c10d_next_item(req, &key, NULL);)
        if (!has(s, key) && dt_store_wait_key(s->store, &s->waiter, key, err) < 0)
            return -1;
    return 0;
}

static int do_get(struct dt_store_session *s, struct dt_bytes key, struct dt_err *err)
{
    struct dt_bytes value;
    struct dt_buf made = {0};
    if (is_waits(s, key)) {
        s->put_waits(s, &made);
        value = (struct dt_bytes){made.at, made.len};
    } else {
        dt_store_get(s->store, key, &value); /* absent: empty, which keeps the client alive */
    }
    int rc = answer_value(s, value, err);
    dt_buf_finish(&made);
    return rc;
}

static int do_multi_get(struct dt_store_session *s, struct dt_c10d_request *req, struct dt_err *err)
{
    struct dt_bytes key, value;
    uint64_t size = 0;
    for (struct dt_c10d_request again = *req; dt_c10d_next_item(&again, &key, NULL);) {
        dt_store_get(s->store, key, &value);
        size += 8 + (uint64_t)value.len; /* 131072 values of 1 GiB do not overflow */
    }
    if (check_answer(s, size, err) < 0)
        return -1;
    while (dt_c10d_next_item(req, &key, NULL)) {
        dt_store_get(s->store, key, &value);
        dt_c10d_put_value(&s->out, value);
    }
    return 0;
}

static int do_multi_set(struct dt_store_session *s, struct dt_c10d_request *req, struct dt_err *err)
{
    for (struct dt_bytes key, value; dt_c10d_next_item(req, &key, &value);)
        if (dt_store_set(s->store, key, value, err) < 0)
            return -1;
    return 0;
}

static size_t longest(struct dt_bytes a, struct dt_bytes b, struct dt_bytes c)
{
    size_t most = a.len > b.len ? a.len : b.len;
    return most > c.len ? most : c.len;
}

static int do_compare_set(struct dt_store_session *s, const struct dt_c10d_request *req,
                          struct dt_err *err)
{
    struct dt_bytes value;
    dt_store_get(s->store, req->key, &value);
    if (check_answer(s, 8 + (uint64_t)longest(value, req->value, req->desired), err) < 0 ||
        dt_store_compare_set(s->store, req->key, req->value, req->desired, &value, err) < 0)
        return -1;
    dt_c10d_put_value(&s->out, value);
    return 0;
}

static int do_list_keys(struct dt_store_session *s, struct dt_err *err)
{
    const struct dt_store_counts *c = dt_store_counts(s->store);
    if (check_answer(s, 8 + c->keys * 8 + c->key_bytes, err) < 0)
        return -1;
    dt_buf_put_i64(&s->out, (int64_t)c->keys);
    size_t cursor = 0;
    for (struct dt_bytes key; dt_store_next_key(s->store, &cursor, &key);)
        dt_c10d_put_value(&s->out, key);
    return 0;
}

static int do_queue_pop(struct dt_store_session *s, struct dt_bytes name, struct dt_err *err)
{
    struct dt_bytes front;
    uint64_t len = dt_store_queue_front(s->store, name, &front);
    if (check_answer(s, 16 + (uint64_t)front.len, err) < 0)
        return -1;
    dt_buf_put_i64(&s->out, (int64_t)len);
    if (len > 0) {
        dt_c10d_put_value(&s->out, front);
        dt_store_queue_pop(s->store, name);
    }
    return 0;
}

static int do_add(struct dt_store_session *s, const struct dt_c10d_request *req, struct dt_err *err)
{
    int64_t result;
    if (dt_store_add(s->store, req->key, req->number, &result, err) < 0)
        return -1;
    dt_buf_put_i64(&s->out, result);
    return 0;
}

static int do_barrier(struct dt_store_session *s, const struct dt_c10d_request *req,
                      struct dt_err *err)
{
    bool open;
    if (dt_store_barrier(s->store, &s->waiter, req->key, req->number, &open, err) < 0)
        return -1;
    if (open)
        dt_buf_put_u8(&s->out, DT_C10D_READY);
    return 0;
}

static void refuse_stranger(struct dt_err *err)
{
    dt_err_set(err, DT_E_LIMIT,
               "this server asks for a token, which PyTorch cannot show: its store is for the "
               "ranges given with --allow-c10d");
}

static bool may_stranger_ask(enum dt_c10d_op op)
{
    return op == DT_C10D_VALIDATE || op == DT_C10D_PING || op == DT_C10D_CHECK;
}

/* What an agent asks first, to learn whether it may speak the control protocol here. */
static bool asks_for_hello(struct dt_c10d_request req)
{
    struct dt_bytes key;
    if (req.op != DT_C10D_CHECK)
        return may_stranger_ask(req.op);
    return req.count == 1 && dt_c10d_next_item(&req, &key, NULL) && is_hello(key);
}

/* Bytes of the answer where each has as many; other operations look at what they answer. */
static uint64_t fixed_answer(enum dt_c10d_op op)
{
    switch (dt_c10d_answer_of(op)) {
    case DT_C10D_ANSWER_U8:
        return 1;
    case DT_C10D_ANSWER_U32:
        return 4;
    case DT_C10D_ANSWER_I64:
        return 8;
    case DT_C10D_NO_ANSWER:
    case DT_C10D_ANSWER_VALUE:
    case DT_C10D_ANSWER_VALUES:
    case DT_C10D_ANSWER_POP:
    case DT_C10D_ANSWER_KEYS:
        break;
    }
    return 0;
}

static int do_request(struct dt_store_session *s, struct dt_c10d_request *req, struct dt_err *err)
{
    struct dt_store *store = s->store;
    uint64_t fixed = fixed_answer(req->op);
    if (fixed > 0 && check_room(s, fixed) < 0)
        return -1;
    switch (req->op) {
    case DT_C10D_VALIDATE:
        return 0;
    case DT_C10D_SET:
        return dt_store_set(store, req->key, req->value, err);
    case DT_C10D_COMPARE_SET:
        return do_compare_set(s, req, err);
    case DT_C10D_GET:
        return do_get(s, req->key, err);
    case DT_C10D_ADD:
        return do_add(s, req, err);
    case DT_C10D_CHECK:
        dt_buf_put_u8(&s->out, count_missing(s, *req) ? DT_C10D_MISSING : DT_C10D_READY);
        return 0;
    case DT_C10D_WAIT:
        return do_wait(s, req, err);
    case DT_C10D_GETNUMKEYS:
        dt_buf_put_i64(&s->out, (int64_t)dt_store_counts(store)->keys);
        return 0;
    case DT_C10D_DELETE_KEY:
        dt_buf_put_i64(&s->out, dt_store_delete(store, req->key));
        return 0;
    case DT_C10D_APPEND:
        return dt_store_append(store, req->key, req->value, err);
    case DT_C10D_MULTI_GET:
        return do_multi_get(s, req, err);
    case DT_C10D_MULTI_SET:
        return do_multi_set(s, req, err);
    case DT_C10D_CANCEL_WAIT:
        dt_store_wait_cancel(store, &s->waiter);
        dt_buf_put_u8(&s->out, DT_C10D_CANCELED);
        return 0;
    case DT_C10D_PING:
        dt_buf_put_u32(&s->out, (uint32_t)req->number);
        return 0;
    case DT_C10D_QUEUE_PUSH:
        return dt_store_queue_push(store, req->key, req->value, err);
    case DT_C10D_QUEUE_POP:
        return do_queue_pop(s, req->key, err);
    case DT_C10D_QUEUE_LEN:
        dt_buf_put_i64(&s->out, (int64_t)dt_store_queue_len(store, req->key));
        return 0;
    case DT_C10D_LIST_KEYS:
        return do_list_keys(s, err);
    case DT_C10D_BARRIER:
        return do_barrier(s, req, err);
    case DT_C10D_WATCH_KEY: /* no client that Python code can make sends it; acknowledged, never
                               fired */
        dt_buf_put_u8(&s->out, DT_C10D_WATCHING);
        return 0;
    case DT_C10D_OPS:
        break;
    }
    return dt_err_set(err, DT_E_PROTOCOL, "no such operation");
}

enum dt_decoded dt_store_session_step(struct dt_store_session *s, const uint8_t *bytes, size_t len,
                                      size_t *used, enum dt_c10d_op *op, struct dt_err *err)
{
    struct dt_c10d_request req;
    s->no_room = false;
    enum dt_decoded got = dt_c10d_decode(&s->decoder, bytes, len, &req, used, err);
    if (got != DT_DONE) {
        *op = s->decoder.op;
        if (!s->only_hello || !s->decoder.begun || may_stranger_ask(*op))
            return got;
        refuse_stranger(err); /* before its lengths make us keep anything */
        return DT_BAD;
    }
    *op = req.op;
    /* A legacy client never cancels. It is synchronous, so whatever it asks while a wait is open
     * means that it gave the wait up; answering it later would shift every answer that follows by a
     * byte. */
    if (s->decoder.dialect != DT_C10D_MODERN && s->waiter.missing > 0)
        dt_store_wait_cancel(s->store, &s->waiter);
    if (s->only_hello && !asks_for_hello(req)) {
        refuse_stranger(err);
        return DT_BAD;
    }
    if (s->may_serve && !asks_for_hello(req) && !s->may_serve(s)) {
        s->no_room = true;
        return DT_MORE;
    }
    if (do_request(s, &req, err) < 0)
        return s->no_room ? DT_MORE : DT_BAD;
    if (s->out.bad) {
        dt_err_set(err, DT_E_MEMORY, "the machine has no memory left for the answer");
        return DT_BAD;
    }
    return DT_DONE;
}
