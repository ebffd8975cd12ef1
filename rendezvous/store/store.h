/* SPDX-License-Identifier: Apache-2.0 */
/* The store: keys, counters, waits, queues and barriers, as PyTorch's TCPStore means them. Pure: no
 * socket, no clock, no thread; every call is atomic and takes effect in the order of the calls.
 *
 * The store owns copies of all keys and values. What it may hold is bounded by dt_store_limits:
 * keys, values, queue items and wait registrations all count towards one total. A call that would
 * pass a limit changes nothing and fails with DT_E_LIMIT. */
#ifndef DT_RENDEZVOUS_STORE_STORE_H
#define DT_RENDEZVOUS_STORE_STORE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_store;

struct dt_store_limits {
    uint64_t keys;  /* keys and queues together */
    uint64_t bytes; /* everything the store keeps */
    uint64_t value; /* bytes of one value, also after APPEND; at most 1 GiB */
};

/* Whoever can wait: one per connection, owned by the caller, zeroed and given its `woken` before
 * the first use. It waits for one set of keys at a time. WOKEN is called from inside the call that
 * made the last key present, once per wait; it may not call the store. */
struct dt_store_waiter {
    void (*woken)(struct dt_store_waiter *w);
    uint64_t missing; /* keys not seen yet; 0: not waiting */
    struct dt_store_ticket *tickets;
    size_t ticket_count;
};

/* NULL: no memory. */
struct dt_store *dt_store_create(const struct dt_store_limits *limits, uint64_t hash_seed);
void dt_store_destroy(struct dt_store *s); /* nobody may be waiting any more */

/* For a reload. Lower limits refuse what comes, they drop nothing. */
void dt_store_set_limits(struct dt_store *s, const struct dt_store_limits *limits);

int dt_store_set(struct dt_store *s, struct dt_bytes key, struct dt_bytes value,
                 struct dt_err *err);
int dt_store_append(struct dt_store *s, struct dt_bytes key, struct dt_bytes suffix,
                    struct dt_err *err);

/* Adds DELTA to the decimal number at KEY (absent: 0), wrapping. Fails on a value that is no
 * number. */
int dt_store_add(struct dt_store *s, struct dt_bytes key, int64_t delta, int64_t *result,
                 struct dt_err *err);

/* *ANSWER: the value that stands there afterwards, or EXPECTED when the key is absent and EXPECTED
 * not empty. It is a view, good until the next change of the store (or of the arguments). */
int dt_store_compare_set(struct dt_store *s, struct dt_bytes key, struct dt_bytes expected,
                         struct dt_bytes desired, struct dt_bytes *answer, struct dt_err *err);

/* A view, good until the next change. False, and an empty view, when the key is absent. */
bool dt_store_get(const struct dt_store *s, struct dt_bytes key, struct dt_bytes *value);

/* A key that is set, or a queue that is not empty. */
bool dt_store_has(const struct dt_store *s, struct dt_bytes key);

bool dt_store_delete(struct dt_store *s, struct dt_bytes key); /* true: it was there */

/* Waiting: count what dt_store_has() not; if that is nothing do not wait; else begin with that
 * count and name every key: those present are passed over. begin drops what W waited for before. A
 * key may be named twice. */
int dt_store_wait_begin(struct dt_store *s, struct dt_store_waiter *w, uint64_t missing,
                        struct dt_err *err);
int dt_store_wait_key(struct dt_store *s, struct dt_store_waiter *w, struct dt_bytes key,
                      struct dt_err *err); /* a failure ends the whole wait */
void dt_store_wait_cancel(struct dt_store *s,
                          struct dt_store_waiter *w); /* harmless when not waiting */

/* Names up to MOST of the keys that W still waits for; how many. Views, good until the next change.
 */
size_t dt_store_wait_keys(const struct dt_store_waiter *w, struct dt_bytes *keys, size_t most);

/* Counts the caller in at KEY. *OPEN: the barrier is full (its other waiters were woken), else W
 * waits for it. */
int dt_store_barrier(struct dt_store *s, struct dt_store_waiter *w, struct dt_bytes key,
                     int64_t world_size, bool *open, struct dt_err *err);

int dt_store_queue_push(struct dt_store *s, struct dt_bytes name, struct dt_bytes item,
                        struct dt_err *err);
/* *ITEM: the oldest one, a view. Returns how many there are; 0: none, and an empty view. */
uint64_t dt_store_queue_front(const struct dt_store *s, struct dt_bytes name,
                              struct dt_bytes *item);
void dt_store_queue_pop(struct dt_store *s, struct dt_bytes name); /* drops the oldest, if any */
uint64_t dt_store_queue_len(const struct dt_store *s, struct dt_bytes name);

/* Walks the keys (not the queues): start with *cursor = 0. The store must not change in between. */
bool dt_store_next_key(const struct dt_store *s, size_t *cursor, struct dt_bytes *key);

struct dt_store_counts {
    uint64_t keys;      /* entries of the map */
    uint64_t queues;    /* names with items */
    uint64_t waiting;   /* wait registrations, one per key waited for */
    uint64_t bytes;     /* counted towards the limit */
    uint64_t key_bytes; /* all keys' names, for the size of a LIST_KEYS answer */
    uint64_t woken;     /* waits answered, ever */
    uint64_t refused;   /* calls that met a limit, ever */
};
const struct dt_store_counts *dt_store_counts(const struct dt_store *s);

#endif
