/* SPDX-License-Identifier: Apache-2.0 */
/* The store protocol of PyTorch: opcode byte, then arguments with 64-bit lengths in front. The two
 * generations differ in the hello and in a shift of the first opcodes. Numbers are little-endian,
 * as on every machine that PyTorch runs on.
 *
 * SET has no answer. Where one is needed (to measure it, or to know that all has arrived), a CHECK
 * of no keys follows in the same segment; it is always answered with one byte 0. */
#include "bench/wire.h"

#include <string.h>

enum legacy_op { SET, COMPARE_SET, GET, ADD, CHECK, WAIT, GETNUMKEYS, DELETE_KEY = 8 };

static void put_opcode(const struct wire *w, struct out *o, enum legacy_op op)
{
    uint8_t code = (uint8_t)(op == DELETE_KEY ? op : op + w->opcode_shift);
    out_bytes(o, &code, 1);
}

static void put_number(struct out *o, uint64_t v)
{
    out_bytes(o, &v, sizeof(v));
}

static void put_key(struct out *o, const struct key *k)
{
    put_number(o, k->size);
    out_key(o, k);
}

static void put_value(struct out *o, size_t size)
{
    put_number(o, size);
    out_fill(o, 'v', size);
}

/* VALIDATE and PING in one segment, as PyTorch 2.5 and later open a connection. */
static void hello(struct out *o)
{
    static const uint8_t text[] = {0x00, 0xce, 0xf7, 0x85, 0x3c, 0x0d, 'd', 't', 'r', 'b'};
    out_bytes(o, text, sizeof(text));
}

static void set(const struct wire *w, struct out *o, const struct key *k, size_t value_size)
{
    put_opcode(w, o, SET);
    put_key(o, k);
    put_value(o, value_size);
}

static void probe(const struct wire *w, struct out *o)
{
    put_opcode(w, o, CHECK);
    put_number(o, 0);
}

static void get(const struct wire *w, struct out *o, const struct key *k)
{
    put_opcode(w, o, GET);
    put_key(o, k);
}

static void add(const struct wire *w, struct out *o, const struct key *k)
{
    put_opcode(w, o, ADD);
    put_key(o, k);
    put_number(o, 1);
}

static void count(const struct wire *w, struct out *o)
{
    put_opcode(w, o, GETNUMKEYS);
}

static void present(const struct wire *w, struct out *o, const struct key *k)
{
    put_opcode(w, o, WAIT);
    put_number(o, 1);
    put_key(o, k);
}

static void compare_set(const struct wire *w, struct out *o, const struct key *k, size_t value_size)
{
    put_opcode(w, o, COMPARE_SET);
    put_key(o, k);
    put_value(o, value_size);
    put_value(o, value_size);
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
    put_opcode(w, o, DELETE_KEY);
    put_key(o, k);
}

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
    .opcode_shift = 1,
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
    .opcode_shift = 0,
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
