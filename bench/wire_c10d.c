/* SPDX-License-Identifier: Apache-2.0 */
/* The store protocol of PyTorch in two generations, as rendezvous/protocol/c10d.h writes it.
 *
 * SET has no answer. Where one is needed (to measure it, or to know that all has arrived), a CHECK
 * of no keys follows in the same segment; it is always answered with one byte 0. */
#include "bench/wire.h"

#include <string.h>

/* Appends REQ about K, which stands in front of BEHIND other bytes of it. */
static void put(const struct wire *w, struct out *o, struct dt_c10d_request req,
                const struct key *k, size_t behind)
{
    struct dt_buf key = {0};
    out_key(&key, k);
    req.key = (struct dt_bytes){key.at, key.len};
    dt_c10d_encode(&o->text, w->dialect, &req);
    o->text.bad |= key.bad;
    out_note_key(o, k, o->text.len - behind);
    dt_buf_finish(&key);
}

/* VALIDATE and PING in one segment, as PyTorch 2.5 and later open a connection. */
static void hello(struct out *o)
{
    struct dt_c10d_request validate = {.op = DT_C10D_VALIDATE, .number = DT_C10D_MAGIC};
    struct dt_c10d_request ping = {.op = DT_C10D_PING, .number = 1};
    dt_c10d_encode(&o->text, DT_C10D_MODERN, &validate);
    dt_c10d_encode(&o->text, DT_C10D_MODERN, &ping);
}

static void set(const struct wire *w, struct out *o, const struct key *k, size_t value_size)
{
    struct dt_buf value = {0};
    out_fill(&value, 'v', value_size);
    put(w, o, (struct dt_c10d_request){.op = DT_C10D_SET, .value = {value.at, value.len}}, k,
        sizeof(uint64_t) + value_size);
    o->text.bad |= value.bad;
    dt_buf_finish(&value);
}

static void probe(const struct wire *w, struct out *o)
{
    dt_c10d_encode(&o->text, w->dialect, &(struct dt_c10d_request){.op = DT_C10D_CHECK});
}

static void get(const struct wire *w, struct out *o, const struct key *k)
{
    put(w, o, (struct dt_c10d_request){.op = DT_C10D_GET}, k, 0);
}

static void add(const struct wire *w, struct out *o, const struct key *k)
{
    put(w, o, (struct dt_c10d_request){.op = DT_C10D_ADD, .number = 1}, k, sizeof(uint64_t));
}

static void count(const struct wire *w, struct out *o)
{
    dt_c10d_encode(&o->text, w->dialect, &(struct dt_c10d_request){.op = DT_C10D_GETNUMKEYS});
}

static void present(const struct wire *w, struct out *o, const struct key *k)
{
    struct dt_buf key = {0}, items = {0};
    out_key(&key, k);
    dt_c10d_put_item(&items, (struct dt_bytes){key.at, key.len}, NULL);
    struct dt_c10d_request req = {.op = DT_C10D_WAIT, .count = 1, .items = {items.at, items.len}};
    dt_c10d_encode(&o->text, w->dialect, &req);
    o->text.bad |= key.bad || items.bad;
    out_note_key(o, k, o->text.len);
    dt_buf_finish(&key);
    dt_buf_finish(&items);
}

static void compare_set(const struct wire *w, struct out *o, const struct key *k, size_t value_size)
{
    struct dt_buf value = {0};
    out_fill(&value, 'v', value_size);
    struct dt_bytes same = {value.at, value.len};
    put(w, o, (struct dt_c10d_request){.op = DT_C10D_COMPARE_SET, .value = same, .desired = same},
        k, 2 * (sizeof(uint64_t) + value_size));
    o->text.bad |= value.bad;
    dt_buf_finish(&value);
}

/* A WAIT does not block its connection, so the answer to the probe that follows proves that the
 * wait is registered. */
static void wait(const struct wire *w, struct out *o, const struct key *k)
{
    present(w, o, k);
    probe(w, o);
}

static void wake(const struct wire *w, struct out *o, const struct key *k, size_t waiters)
{
    (void)waiters;
    set(w, o, k, 1);
}

static void forget(const struct wire *w, struct out *o, const struct key *k)
{
    put(w, o, (struct dt_c10d_request){.op = DT_C10D_DELETE_KEY}, k, 0);
}

/* By hand: a measured value is skipped, not stored, and answers of redis are looked at alike. */
static enum answer_state answer(enum answer_kind kind, const uint8_t *p, size_t n, struct answer *a)
{
    uint64_t word;
    *a = (struct answer){0};
    switch (kind) {
    case ANSWER_OK:
    case ANSWER_REGISTERED:
    case ANSWER_WOKEN:
        if (n < 1)
            return ANSWER_MORE;
        a->head = 1;
        return p[0] == 0 ? ANSWER_DONE : ANSWER_BAD;
    case ANSWER_NUMBER:
    case ANSWER_VALUE:
        if (n < sizeof(word))
            return ANSWER_MORE;
        memcpy(&word, p, sizeof(word));
        a->head = sizeof(word);
        a->number = (int64_t)word;
        if (kind == ANSWER_VALUE)
            a->body = a->value = (size_t)word;
        return ANSWER_DONE;
    }
    return ANSWER_BAD;
}

const struct wire wire_c10d = {
    .name = "c10d",
    .dialect = DT_C10D_MODERN,
    .hello = hello,
    .hello_answer = 4,
    .set = set,
    .probe = probe,
    .get = get,
    .add = add,
    .count = count,
    .present = present,
    .compare_set = compare_set,
    .wait = wait,
    .wake = wake,
    .forget = forget,
    .answer = answer,
};

const struct wire wire_c10d_legacy = {
    .name = "c10d-legacy",
    .dialect = DT_C10D_L1,
    .set = set,
    .probe = probe,
    .get = get,
    .add = add,
    .count = count,
    .present = present,
    .compare_set = compare_set,
    .wait = wait,
    .wake = wake,
    .forget = forget,
    .answer = answer,
};
