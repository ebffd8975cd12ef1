/* SPDX-License-Identifier: Apache-2.0 */
/* How a store is spoken to: one table of functions per protocol, which append requests to a buffer
 * and recognise answers. Requests are formatted once, before the load begins; later only the
 * digits of the key are overwritten. Nothing here does I/O.
 *
 * Invariants: a request has at most one answer; answers arrive in the order of requests. */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/protocol/c10d.h"

enum { WIRE_KEYS_MAX = 4, WIRE_HEAD_MAX = 64 };

/* A key is "/", FAMILY, "kkk..." and hexadecimal DIGITS (1 to 8); size counts all of it. */
struct key {
    char family;
    unsigned digits;
    size_t size;
};

/* Request text. key_at[] remembers where the digits of each key begin. */
struct out {
    struct dt_buf text;
    size_t key_at[WIRE_KEYS_MAX];
    unsigned keys;
};

/* Appends LEN times C. */
void out_fill(struct dt_buf *b, char c, size_t len);
/* Appends K, with zeros for digits, where its digits are not to be found again. */
void out_key(struct dt_buf *b, const struct key *k);
/* The digits of K, which ends at END in O's text, begin there. */
void out_note_key(struct out *o, const struct key *k, size_t end);

/* How many hexadecimal digits number KEYS keys. */
unsigned key_digits(unsigned long keys);
void key_put_digits(uint8_t *at, unsigned digits, uint32_t number);

enum answer_kind {
    ANSWER_OK,         /* done, or present */
    ANSWER_NUMBER,     /* an integer */
    ANSWER_VALUE,      /* a value; its length is in body */
    ANSWER_REGISTERED, /* a wait has been taken down */
    ANSWER_WOKEN,      /* that wait is over */
};

struct answer {
    size_t head;    /* bytes consumed now */
    size_t body;    /* bytes that follow and may be skipped */
    size_t value;   /* ANSWER_VALUE: length of the value */
    int64_t number; /* ANSWER_NUMBER */
};

enum answer_state { ANSWER_MORE, ANSWER_DONE, ANSWER_BAD };

struct wire {
    const char *name;
    enum dt_c10d_dialect dialect; /* of c10d */
    /* First words on a connection (NULL: none) and the length of their answer. */
    void (*hello)(struct out *o);
    size_t hello_answer;

    void (*set)(const struct wire *w, struct out *o, const struct key *k, size_t value_size);
    bool set_is_answered; /* with ANSWER_OK; else ask probe() for a sign of life */
    void (*probe)(const struct wire *w, struct out *o);                    /* ANSWER_OK */
    void (*get)(const struct wire *w, struct out *o, const struct key *k); /* ANSWER_VALUE */
    void (*add)(const struct wire *w, struct out *o, const struct key *k); /* ANSWER_NUMBER */
    void (*count)(const struct wire *w, struct out *o);                    /* ANSWER_NUMBER */

    /* What real clients ask before a GET: ANSWER_OK. NULL where they ask nothing. */
    void (*present)(const struct wire *w, struct out *o, const struct key *k);
    /* Replaces a value by an equal one: ANSWER_VALUE. NULL where there is no such request. */
    void (*compare_set)(const struct wire *w, struct out *o, const struct key *k,
                        size_t value_size);

    /* A wait is answered twice: ANSWER_REGISTERED, and ANSWER_WOKEN later. wake() wakes all of
     * WAITERS; with forget(), sent afterwards, it has one ANSWER_NUMBER. */
    void (*wait)(const struct wire *w, struct out *o, const struct key *k);
    void (*wake)(const struct wire *w, struct out *o, const struct key *k, size_t waiters);
    void (*forget)(const struct wire *w, struct out *o, const struct key *k);

    /* Looks at the beginning of an answer; on MORE nothing is consumed and at most WIRE_HEAD_MAX
     * bytes have to be offered again. */
    enum answer_state (*answer)(enum answer_kind kind, const uint8_t *p, size_t n,
                                struct answer *a);
};

extern const struct wire wire_c10d;        /* PyTorch 2.2 and later */
extern const struct wire wire_c10d_legacy; /* PyTorch 1.13 and 2.0 */
extern const struct wire wire_redis;

#endif
