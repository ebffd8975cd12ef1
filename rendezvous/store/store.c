/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store/store.h"

#include "base/map.h"
#include "rendezvous/store/account.h"
#include "rendezvous/store/waits.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NUMBER_MOST 64

/* A key and its value in one allocation: key bytes, then value bytes, then spare room for the
 * value. */
struct entry {
    struct dt_map_node node;
    uint32_t len, room;
    uint8_t bytes[];
};

struct queue_item {
    struct dt_node in_queue;
    size_t len;
    uint8_t bytes[];
};

struct queue {
    struct dt_map_node node;
    struct dt_list items; /* oldest first; a queue without items is removed */
    uint64_t count;
    uint8_t name[];
};

struct dt_store {
    struct dt_store_account account;
    struct dt_map entries, queues;
    struct dt_store_waits waits;
};

struct dt_store *dt_store_create(const struct dt_store_limits *limits, uint64_t hash_seed)
{
    struct dt_store *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->account.limits = *limits;
    dt_map_init(&s->entries, offsetof(struct entry, bytes), hash_seed);
    dt_map_init(&s->queues, offsetof(struct queue, name), hash_seed);
    dt_store_waits_init(&s->waits, &s->account, hash_seed);
    return s;
}

static void free_queue(void *entry)
{
    struct queue *q = entry;
    for (struct dt_node *n; (n = dt_list_pop(&q->items));)
        free(dt_container_of(n, struct queue_item, in_queue));
    free(q);
}

void dt_store_destroy(struct dt_store *s)
{
    if (!s)
        return;
    dt_map_finish(&s->entries, free);
    dt_map_finish(&s->queues, free_queue);
    dt_store_waits_finish(&s->waits);
    free(s);
}

void dt_store_set_limits(struct dt_store *s, const struct dt_store_limits *limits)
{
    s->account.limits = *limits;
}

const struct dt_store_counts *dt_store_counts(const struct dt_store *s)
{
    return &s->account.counts;
}

/* -- waits ------------------------------------------------------------------------------------ */

int dt_store_wait_begin(struct dt_store *s, struct dt_store_waiter *w, uint64_t missing,
                        struct dt_err *err)
{
    return dt_store_waits_begin(&s->waits, w, missing, err);
}

int dt_store_wait_key(struct dt_store *s, struct dt_store_waiter *w, struct dt_bytes key,
                      struct dt_err *err)
{
    return dt_store_has(s, key) ? 0 : dt_store_waits_add(&s->waits, w, key, err);
}

void dt_store_wait_cancel(struct dt_store *s, struct dt_store_waiter *w)
{
    dt_store_waits_cancel(&s->waits, w);
}

size_t dt_store_wait_keys(const struct dt_store_waiter *w, struct dt_bytes *keys, size_t most)
{
    return dt_store_waits_names(w, keys, most);
}

/* -- keys ------------------------------------------------------------------------------------- */

static struct dt_bytes entry_value(const struct entry *e)
{
    return (struct dt_bytes){e->bytes + e->node.key_len, e->len};
}

static uint64_t entry_cost(const struct entry *e)
{
    return sizeof *e + e->node.key_len + e->room + DT_STORE_ALLOCATION_COST;
}

/* Room for a value of LEN: up to the end of the block that malloc hands out anyway, so that
 * counters grow in place. */
static uint32_t room_for(size_t key_len, size_t len)
{
    size_t head = sizeof(struct entry) + key_len;
    size_t block = (head + len + 8 + 15) & ~(size_t)15;
    return (uint32_t)(block - 8 - head);
}

static struct entry *create_entry(struct dt_store *s, struct dt_bytes key, size_t len,
                                  struct dt_err *err)
{
    uint32_t room = room_for(key.len, len);
    uint64_t cost = sizeof(struct entry) + key.len + room + DT_STORE_ALLOCATION_COST;
    if (dt_store_charge_name(&s->account, cost, err) < 0)
        return NULL;
    struct entry *e = malloc(sizeof *e + key.len + room);
    if (!e) {
        dt_store_no_memory(&s->account, cost, err);
        return NULL;
    }
    dt_bytes_copy(e->bytes, key);
    e->len = 0;
    e->room = room;
    if (dt_store_enter(&s->account, &s->entries, e, (uint32_t)key.len, err) < 0) {
        dt_store_credit(&s->account, cost);
        free(e);
        return NULL;
    }
    s->account.counts.keys++;
    s->account.counts.key_bytes += key.len;
    return e;
}

/* Gives the entry in SLOT room for LEN bytes of value, and takes room away that has become far too
 * much. */
static struct entry *resize_entry(struct dt_store *s, void **slot, size_t len, uint32_t room,
                                  struct dt_err *err)
{
    struct entry *e = *slot;
    if (len <= e->room && e->room / 2 <= len + 128)
        return e;
    uint32_t more = room > e->room ? room - e->room : 0, less = room < e->room ? e->room - room : 0;
    if (dt_store_charge(&s->account, more, err) < 0)
        return NULL;
    struct entry *resized = realloc(e, sizeof *e + e->node.key_len + room);
    if (!resized) {
        dt_store_no_memory(&s->account, more, err);
        return NULL;
    }
    dt_store_credit(&s->account, less);
    resized->room = room;
    return *slot = resized;
}

/* Creates or replaces; wakes nobody. */
static int put(struct dt_store *s, struct dt_bytes key, struct dt_bytes value, struct dt_err *err)
{
    if (dt_store_check_value(&s->account, value.len, err) < 0)
        return -1;
    void **slot = dt_map_slot(&s->entries, key);
    struct entry *e = slot ? resize_entry(s, slot, value.len, room_for(key.len, value.len), err)
                           : create_entry(s, key, value.len, err);
    if (!e)
        return -1;
    dt_bytes_copy(e->bytes + key.len, value);
    e->len = (uint32_t)value.len;
    return 0;
}

int dt_store_set(struct dt_store *s, struct dt_bytes key, struct dt_bytes value, struct dt_err *err)
{
    if (put(s, key, value, err) < 0)
        return -1;
    dt_store_waits_wake_all(&s->waits, key);
    return 0;
}

int dt_store_append(struct dt_store *s, struct dt_bytes key, struct dt_bytes suffix,
                    struct dt_err *err)
{
    void **slot = dt_map_slot(&s->entries, key);
    if (!slot)
        return dt_store_set(s, key, suffix, err);
    struct entry *e = *slot;
    uint64_t len = e->len + (uint64_t)suffix.len;
    if (dt_store_check_value(&s->account, len, err) < 0)
        return -1;
    if (len > e->room) {
        /* Half as much again, so that many small appends copy little. */
        e = resize_entry(s, slot, len, room_for(key.len, len + len / 2), err);
        if (!e)
            return -1;
    }
    dt_bytes_copy(e->bytes + key.len + e->len, suffix);
    e->len = (uint32_t)len;
    dt_store_waits_wake_all(&s->waits, key);
    return 0;
}

/* As the original reads a stored number: C's strtoll over the bytes; what follows the digits does
 * not matter. Only the first NUMBER_MOST bytes are looked at: a value may have megabytes. */
static int parse_number(struct dt_bytes text, int64_t *out)
{
    size_t i = 0;
    if (text.len > NUMBER_MOST)
        text.len = NUMBER_MOST;
    while (i < text.len && isspace(text.at[i]))
        i++;
    bool negative = i < text.len && text.at[i] == '-';
    if (i < text.len && (text.at[i] == '-' || text.at[i] == '+'))
        i++;
    size_t first = i;
    int64_t v = 0;
    for (; i < text.len && text.at[i] >= '0' && text.at[i] <= '9'; i++) {
        int digit = text.at[i] - '0';
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, negative ? -digit : digit, &v))
            return -1;
    }
    *out = v;
    return i > first ? 0 : -1;
}

/* Adds; wakes nobody. */
static int add(struct dt_store *s, struct dt_bytes key, int64_t delta, int64_t *result,
               struct dt_err *err)
{
    struct dt_bytes value;
    int64_t old = 0;
    if (dt_store_get(s, key, &value) && parse_number(value, &old) < 0)
        return dt_err_set(err, DT_E_PROTOCOL, "the value to add to is not a 64-bit number");
    *result = (int64_t)((uint64_t)old + (uint64_t)delta);
    char text[24];
    int n = snprintf(text, sizeof text, "%" PRId64, *result);
    return put(s, key, (struct dt_bytes){(uint8_t *)text, (size_t)n}, err);
}

int dt_store_add(struct dt_store *s, struct dt_bytes key, int64_t delta, int64_t *result,
                 struct dt_err *err)
{
    if (add(s, key, delta, result, err) < 0)
        return -1;
    dt_store_waits_wake_all(&s->waits, key);
    return 0;
}

int dt_store_compare_set(struct dt_store *s, struct dt_bytes key, struct dt_bytes expected,
                         struct dt_bytes desired, struct dt_bytes *answer, struct dt_err *err)
{
    struct dt_bytes value;
    bool there = dt_store_get(s, key, &value);
    if (!there && expected.len > 0) {
        *answer = expected;
        return 0;
    }
    if (there && !dt_bytes_equal(value, expected)) {
        *answer = value;
        return 0;
    }
    if (put(s, key, desired, err) < 0)
        return -1;
    if (!there)
        dt_store_waits_wake_all(&s->waits, key);
    *answer = desired;
    return 0;
}

bool dt_store_get(const struct dt_store *s, struct dt_bytes key, struct dt_bytes *value)
{
    const struct entry *e = dt_map_find(&s->entries, key);
    *value = e ? entry_value(e) : (struct dt_bytes){0};
    return e;
}

bool dt_store_has(const struct dt_store *s, struct dt_bytes key)
{
    return dt_map_find(&s->entries, key) || (s->queues.count && dt_map_find(&s->queues, key));
}

bool dt_store_delete(struct dt_store *s, struct dt_bytes key)
{
    struct entry *e = dt_store_take_out(&s->account, &s->entries, key);
    if (!e)
        return false;
    s->account.counts.keys--;
    s->account.counts.key_bytes -= e->node.key_len;
    dt_store_credit(&s->account, entry_cost(e));
    free(e);
    return true;
}

bool dt_store_next_key(const struct dt_store *s, size_t *cursor, struct dt_bytes *key)
{
    const struct entry *e = dt_map_next(&s->entries, cursor);
    if (e)
        *key = (struct dt_bytes){e->bytes, e->node.key_len};
    return e;
}

/* -- barriers and queues ---------------------------------------------------------------------- */

int dt_store_barrier(struct dt_store *s, struct dt_store_waiter *w, struct dt_bytes key,
                     int64_t world_size, bool *open, struct dt_err *err)
{
    /* Registered before counted: a barrier that cannot be waited for must not be counted in. */
    int64_t arrived;
    if (dt_store_waits_begin(&s->waits, w, 1, err) < 0 ||
        dt_store_waits_add(&s->waits, w, key, err) < 0)
        return -1;
    if (add(s, key, 1, &arrived, err) < 0) {
        dt_store_wait_cancel(s, w);
        return -1;
    }
    *open = arrived >= world_size;
    if (*open) {
        dt_store_wait_cancel(s, w);
        dt_store_waits_wake_all(&s->waits, key);
    }
    return 0;
}

static uint64_t queue_cost(size_t name_len)
{
    return sizeof(struct queue) + name_len + DT_STORE_ALLOCATION_COST;
}

static uint64_t item_cost(size_t len)
{
    return sizeof(struct queue_item) + len + DT_STORE_ALLOCATION_COST;
}

static struct queue *find_or_create_queue(struct dt_store *s, struct dt_bytes name,
                                          struct dt_err *err)
{
    struct queue *q = dt_map_find(&s->queues, name);
    if (q)
        return q;
    if (dt_store_charge_name(&s->account, queue_cost(name.len), err) < 0)
        return NULL;
    q = malloc(sizeof *q + name.len);
    if (!q) {
        dt_store_no_memory(&s->account, queue_cost(name.len), err);
        return NULL;
    }
    dt_bytes_copy(q->name, name);
    q->count = 0;
    dt_list_init(&q->items);
    if (dt_store_enter(&s->account, &s->queues, q, (uint32_t)name.len, err) < 0) {
        dt_store_credit(&s->account, queue_cost(name.len));
        free(q);
        return NULL;
    }
    s->account.counts.queues++;
    return q;
}

static void forget_queue_if_empty(struct dt_store *s, struct queue *q)
{
    if (q->count > 0)
        return;
    dt_store_take_out(&s->account, &s->queues, (struct dt_bytes){q->name, q->node.key_len});
    s->account.counts.queues--;
    dt_store_credit(&s->account, queue_cost(q->node.key_len));
    free(q);
}

int dt_store_queue_push(struct dt_store *s, struct dt_bytes name, struct dt_bytes item,
                        struct dt_err *err)
{
    if (dt_store_check_value(&s->account, item.len, err) < 0)
        return -1;
    struct queue *q = find_or_create_queue(s, name, err);
    if (!q)
        return -1;
    struct queue_item *i = NULL;
    if (dt_store_charge(&s->account, item_cost(item.len), err) == 0) {
        i = malloc(sizeof *i + item.len);
        if (!i)
            dt_store_no_memory(&s->account, item_cost(item.len), err);
    }
    if (!i) {
        forget_queue_if_empty(s, q);
        return -1;
    }
    i->len = item.len;
    dt_bytes_copy(i->bytes, item);
    dt_list_append(&q->items, &i->in_queue);
    q->count++;
    dt_store_waits_wake_one(&s->waits, name);
    return 0;
}

uint64_t dt_store_queue_len(const struct dt_store *s, struct dt_bytes name)
{
    const struct queue *q = dt_map_find(&s->queues, name);
    return q ? q->count : 0;
}

static struct queue_item *oldest_item(const struct queue *q)
{
    return dt_container_of(dt_list_first(&q->items), struct queue_item, in_queue);
}

uint64_t dt_store_queue_front(const struct dt_store *s, struct dt_bytes name, struct dt_bytes *item)
{
    const struct queue *q = dt_map_find(&s->queues, name);
    *item = (struct dt_bytes){0};
    if (!q)
        return 0;
    struct queue_item *i = oldest_item(q);
    *item = (struct dt_bytes){i->bytes, i->len};
    return q->count;
}

void dt_store_queue_pop(struct dt_store *s, struct dt_bytes name)
{
    struct queue *q = dt_map_find(&s->queues, name);
    if (!q)
        return;
    struct queue_item *i = oldest_item(q);
    dt_list_remove(&i->in_queue);
    q->count--;
    dt_store_credit(&s->account, item_cost(i->len));
    free(i);
    forget_queue_if_empty(s, q);
}
