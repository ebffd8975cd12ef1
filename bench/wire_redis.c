/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of redis that do what the store does: SET, GET, INCR; BLPOP and LPUSH for waiting
 * and waking. There is nothing like COMPARE_SET without a script. */
#include "bench/wire.h"

#include <stdio.h>
#include <string.h>

static void put_text(struct out *o, const char *text)
{
    dt_buf_put(&o->text, text, strlen(text));
}

static void put_size(struct out *o, char sign, size_t size)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%c%zu\r\n", sign, size);
    dt_buf_put(&o->text, text, (size_t)n);
}

static void put_key(struct out *o, const struct key *k)
{
    put_size(o, '$', k->size);
    out_key(&o->text, k);
    out_note_key(o, k, o->text.len);
    put_text(o, "\r\n");
}

static void set(const struct wire *w, struct out *o, const struct key *k, size_t value_size)
{
    (void)w;
    put_text(o, "*3\r\n$3\r\nSET\r\n");
    put_key(o, k);
    put_size(o, '$', value_size);
    out_fill(&o->text, 'v', value_size);
    put_text(o, "\r\n");
}

static void probe(const struct wire *w, struct out *o)
{
    (void)w;
    put_text(o, "*1\r\n$4\r\nPING\r\n");
}

static void get(const struct wire *w, struct out *o, const struct key *k)
{
    (void)w;
    put_text(o, "*2\r\n$3\r\nGET\r\n");
    put_key(o, k);
}

static void add(const struct wire *w, struct out *o, const struct key *k)
{
    (void)w;
    put_text(o, "*2\r\n$4\r\nINCR\r\n");
    put_key(o, k);
}

static void count(const struct wire *w, struct out *o)
{
    (void)w;
    put_text(o, "*1\r\n$6\r\nDBSIZE\r\n");
}

/* redis runs all commands of a segment before it sends answers, so the answer to the PING in front
 * proves that the BLPOP is registered. */
static void wait(const struct wire *w, struct out *o, const struct key *k)
{
    probe(w, o);
    put_text(o, "*3\r\n$5\r\nBLPOP\r\n");
    put_key(o, k);
    put_text(o, "$1\r\n0\r\n");
}

static void wake(const struct wire *w, struct out *o, const struct key *k, size_t waiters)
{
    (void)w;
    put_size(o, '*', 2 + waiters);
    put_text(o, "$5\r\nLPUSH\r\n");
    put_key(o, k);
    for (size_t i = 0; i < waiters; i++)
        put_text(o, "$1\r\nx\r\n");
}

/* The list is gone with its last element; LPUSH itself brings the number. */
static void forget(const struct wire *w, struct out *o, const struct key *k)
{
    (void)w;
    (void)o;
    (void)k;
}

/* Reads SIGN, digits and CRLF; *len is what that took. */
static enum answer_state number(const uint8_t *p, size_t n, char sign, int64_t *v, size_t *len)
{
    if (n > 0 && p[0] != (uint8_t)sign)
        return ANSWER_BAD;
    *v = 0;
    for (size_t i = 1; i < n; i++) {
        if (p[i] == '\n') {
            *len = i + 1;
            return ANSWER_DONE;
        }
        if (p[i] >= '0' && p[i] <= '9')
            *v = *v * 10 + (p[i] - '0');
        else if (p[i] != '\r' || i > 20)
            return ANSWER_BAD;
    }
    return ANSWER_MORE;
}

static enum answer_state literal(const char *text, const uint8_t *p, size_t n, struct answer *a)
{
    size_t len = strlen(text);
    a->head = len;
    if (memcmp(p, text, n < len ? n : len) != 0)
        return ANSWER_BAD;
    return n < len ? ANSWER_MORE : ANSWER_DONE;
}

/* "*2", then the key and the "x" as bulk strings. */
static enum answer_state woken(const uint8_t *p, size_t n, struct answer *a)
{
    int64_t len;
    size_t used;
    enum answer_state got = literal("*2\r\n", p, n, a);
    if (got == ANSWER_DONE)
        got = number(p + 4, n - 4, '$', &len, &used);
    if (got == ANSWER_DONE) {
        a->head = 4 + used;
        a->body = (size_t)len + strlen("\r\n$1\r\nx\r\n");
    }
    return got;
}

static enum answer_state answer(enum answer_kind kind, const uint8_t *p, size_t n, struct answer *a)
{
    *a = (struct answer){0};
    if (n == 0)
        return ANSWER_MORE;
    enum answer_state got = ANSWER_BAD;
    switch (kind) {
    case ANSWER_OK:
        return literal("+OK\r\n", p, n, a);
    case ANSWER_REGISTERED:
        return literal("+PONG\r\n", p, n, a);
    case ANSWER_WOKEN:
        return woken(p, n, a);
    case ANSWER_NUMBER:
        return number(p, n, ':', &a->number, &a->head);
    case ANSWER_VALUE:
        got = number(p, n, '$', &a->number, &a->head);
        a->value = (size_t)a->number;
        a->body = a->value + 2;
        return got;
    }
    return got;
}

const struct wire wire_redis = {
    .name = "redis",
    .set = set,
    .set_is_answered = true,
    .probe = probe,
    .get = get,
    .add = add,
    .count = count,
    .wait = wait,
    .wake = wake,
    .forget = forget,
    .answer = answer,
};
