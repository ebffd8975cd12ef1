/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define EMPTY 0u
#define MOVED 1u
#define FIRST_SIZE 16
/* Slots of the old table emptied per insert or remove. A table that grew is twice as large and
 * filled to 3/4 at most, so it takes at least size/4 inserts until the next growth: 8 a call
 * empties the old one well before that. One that shrank is half as large as the old one, of which
 * an eighth was in use; it shrinks again when half of that is gone: 16 a call are done just then.
 */
#define MOVE_PER_CALL_GROWING 8
#define MOVE_PER_CALL_SHRINKING 16

static uint32_t hash_of(const struct dt_map *m, struct dt_bytes key)
{
    uint64_t h = XXH3_64bits_withSeed(key.at, key.len, m->seed);
    uint32_t folded = (uint32_t)(h ^ h >> 32);
    return folded > MOVED ? folded : folded + 2;
}

static const uint8_t *key_of(const struct dt_map *m, const void *entry)
{
    return (const uint8_t *)entry + m->key_at;
}

static bool holds(const struct dt_map *m, const void *entry, struct dt_bytes key)
{
    const struct dt_map_node *n = entry;
    return dt_bytes_equal((struct dt_bytes){key_of(m, entry), n->key_len}, key);
}

static int table_init(struct dt_map_table *t, size_t size)
{
    *t = (struct dt_map_table){.size = size};
    t->hashes = calloc(size, sizeof *t->hashes);
    t->entries = malloc(size * sizeof *t->entries);
    if (t->hashes && t->entries)
        return 0;
    free(t->hashes);
    free(t->entries);
    *t = (struct dt_map_table){0};
    return -1;
}

static void table_finish(struct dt_map_table *t)
{
    free(t->hashes);
    free(t->entries);
    *t = (struct dt_map_table){0};
}

/* The slot of KEY in T, or -1. Ends at a free slot, of which a table always has some. */
static ptrdiff_t table_find(const struct dt_map *m, const struct dt_map_table *t, uint32_t hash,
                            struct dt_bytes key)
{
    if (t->size == 0)
        return -1;
    size_t mask = t->size - 1;
    for (size_t i = hash & mask; t->hashes[i] != EMPTY; i = (i + 1) & mask)
        if (t->hashes[i] == hash && holds(m, t->entries[i], key))
            return (ptrdiff_t)i;
    return -1;
}

static void table_add(struct dt_map_table *t, uint32_t hash, void *entry)
{
    size_t mask = t->size - 1, i = hash & mask;
    while (t->hashes[i] > MOVED)
        i = (i + 1) & mask;
    if (t->hashes[i] == EMPTY)
        t->filled++;
    t->hashes[i] = hash;
    t->entries[i] = entry;
}

static void move_some(struct dt_map *m, size_t slots)
{
    struct dt_map_table *old = &m->old;
    for (; slots && m->moved < old->size; slots--, m->moved++) {
        if (old->hashes[m->moved] > MOVED) {
            table_add(&m->now, old->hashes[m->moved], old->entries[m->moved]);
            old->hashes[m->moved] = MOVED; /* keeps later chains of the old table whole */
        }
    }
    if (old->size && m->moved == old->size)
        table_finish(old);
}

static void move_a_few(struct dt_map *m)
{
    move_some(m, m->now.size < m->old.size ? MOVE_PER_CALL_SHRINKING : MOVE_PER_CALL_GROWING);
}

/* Begins to move to a table of SIZE. */
static int begin_move(struct dt_map *m, size_t size)
{
    struct dt_map_table next;
    move_some(m, m->old.size); /* only after a burst of removes is anything left here */
    if (table_init(&next, size) < 0)
        return -1;
    m->old = m->now;
    m->now = next;
    m->moved = 0;
    if (m->old.size == 0)
        table_finish(&m->old);
    return 0;
}

/* The size that the table is to have for one more entry. */
static size_t size_for_one_more(const struct dt_map *m)
{
    if (m->now.size == 0)
        return FIRST_SIZE;
    return m->now.filled < m->now.size / 4 * 3 ? m->now.size : m->now.size * 2;
}

/* Whoever walks the map walks its table. Without memory for a smaller one it stays as it is. */
static void shrink_if_empty_enough(struct dt_map *m)
{
    if (m->count == 0) {
        table_finish(&m->now);
        table_finish(&m->old);
    } else if (m->now.size > FIRST_SIZE && m->old.size == 0 && m->count < m->now.size / 8)
        begin_move(m, m->now.size / 2);
}

void dt_map_init(struct dt_map *m, size_t key_at, uint64_t seed)
{
    *m = (struct dt_map){.key_at = key_at, .seed = seed};
}

void dt_map_finish(struct dt_map *m, void (*free_entry)(void *entry))
{
    size_t cursor = 0;
    for (void *e; free_entry && (e = dt_map_next(m, &cursor));)
        free_entry(e);
    table_finish(&m->now);
    table_finish(&m->old);
    m->count = 0;
}

uint64_t dt_map_random_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = (uint64_t)(uintptr_t)&seed; /* address randomisation is what is left */
    return seed;
}

void **dt_map_slot(const struct dt_map *m, struct dt_bytes key)
{
    uint32_t hash = hash_of(m, key);
    ptrdiff_t i = table_find(m, &m->now, hash, key);
    if (i >= 0)
        return &m->now.entries[i];
    i = table_find(m, &m->old, hash, key);
    return i >= 0 ? &m->old.entries[i] : NULL;
}

void *dt_map_find(const struct dt_map *m, struct dt_bytes key)
{
    void **slot = dt_map_slot(m, key);
    return slot ? *slot : NULL;
}

int dt_map_insert(struct dt_map *m, void *entry, uint32_t key_len)
{
    size_t size = size_for_one_more(m);
    if (size != m->now.size && begin_move(m, size) < 0)
        return -1;
    struct dt_map_node *n = entry;
    n->key_len = key_len;
    n->hash = hash_of(m, (struct dt_bytes){key_of(m, entry), key_len});
    table_add(&m->now, n->hash, entry);
    m->count++;
    move_a_few(m);
    return 0;
}

/* Frees the slot HOLE. What lies behind it, up to the next free slot, comes nearer to where its
 * hash wants it, so that nobody who looks for it ends at this one. */
static void close_up(struct dt_map_table *t, size_t hole)
{
    size_t mask = t->size - 1;
    for (size_t i = (hole + 1) & mask; t->hashes[i] != EMPTY; i = (i + 1) & mask) {
        size_t wanted = t->hashes[i] & mask;
        if (((i - wanted) & mask) < ((i - hole) & mask))
            continue;
        t->hashes[hole] = t->hashes[i];
        t->entries[hole] = t->entries[i];
        hole = i;
    }
    t->hashes[hole] = EMPTY;
    t->filled--;
}

void *dt_map_remove(struct dt_map *m, struct dt_bytes key)
{
    uint32_t hash = hash_of(m, key);
    void *entry = NULL;
    ptrdiff_t i = table_find(m, &m->now, hash, key);
    if (i >= 0) {
        entry = m->now.entries[i];
        close_up(&m->now, (size_t)i);
    } else if ((i = table_find(m, &m->old, hash, key)) >= 0) {
        entry = m->old.entries[i];
        m->old.hashes[i] = MOVED;
    }
    if (entry)
        m->count--;
    move_a_few(m);
    shrink_if_empty_enough(m);
    return entry;
}

static void *table_next(const struct dt_map_table *t, size_t *i)
{
    for (; *i < t->size; (*i)++)
        if (t->hashes[*i] > MOVED)
            return t->entries[(*i)++];
    return NULL;
}

void *dt_map_next(const struct dt_map *m, size_t *cursor)
{
    if (*cursor < m->now.size) {
        void *e = table_next(&m->now, cursor);
        if (e)
            return e;
    }
    size_t i = *cursor - m->now.size;
    void *e = table_next(&m->old, &i);
    *cursor = m->now.size + i;
    return e;
}

static size_t table_bytes(size_t size)
{
    return size * (sizeof(uint32_t) + sizeof(void *));
}

size_t dt_map_overhead(const struct dt_map *m)
{
    return table_bytes(m->now.size) + table_bytes(m->old.size);
}

size_t dt_map_growth(const struct dt_map *m)
{
    size_t size = size_for_one_more(m);
    return size == m->now.size ? 0 : table_bytes(size);
}
