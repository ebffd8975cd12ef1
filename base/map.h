/* SPDX-License-Identifier: Apache-2.0 */
/* Hash map keyed by bytes, made for millions of small entries.
 *
 * An entry is one allocation of the caller's: a dt_map_node first, and its key somewhere at a fixed
 * offset behind it. The map holds pointers only (open addressing, 12 bytes a slot) and owns none.
 * Growing, and shrinking when most entries are gone, is spread over the calls that follow, a few
 * slots each, so that no single call walks the whole table. Hashes are seeded: a peer who picks
 * keys cannot make them collide. */
#ifndef DT_BASE_MAP_H
#define DT_BASE_MAP_H

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

struct dt_map_node {
    uint32_t hash;
    uint32_t key_len;
};

struct dt_map_table {
    uint32_t *hashes; /* 0: free, 1: moved away (in old only), else the entry's hash */
    void **entries;
    size_t size;   /* 0 or a power of two */
    size_t filled; /* slots that are not free */
};

struct dt_map {
    size_t key_at;
    uint64_t seed;
    size_t count;
    struct dt_map_table now, old; /* old: being emptied into now, or of size 0 */
    size_t moved;                 /* slots of old already emptied */
};

/* KEY_AT: offset of the key's bytes inside an entry. */
void dt_map_init(struct dt_map *m, size_t key_at, uint64_t seed);
/* Frees the tables and hands each entry to FREE_ENTRY (NULL: entries stay). */
void dt_map_finish(struct dt_map *m, void (*free_entry)(void *entry));

/* A seed from the kernel. */
uint64_t dt_map_random_seed(void);

void *dt_map_find(const struct dt_map *m, struct dt_bytes key);

/* Adds ENTRY, whose key must be in place and not in the map. The node is filled here. -1: no
 * memory. */
int dt_map_insert(struct dt_map *m, void *entry, uint32_t key_len);

/* The slot that holds the entry of KEY, or NULL. Good for putting a reallocated entry back; valid
 * until the next insert or remove. */
void **dt_map_slot(const struct dt_map *m, struct dt_bytes key);

/* Takes the entry out and returns it, or NULL. */
void *dt_map_remove(struct dt_map *m, struct dt_bytes key);

/* Walks all entries: start with *cursor = 0; NULL at the end. The map must not change meanwhile. */
void *dt_map_next(const struct dt_map *m, size_t *cursor);

/* Bytes of the tables, for accounting. */
size_t dt_map_overhead(const struct dt_map *m);
/* By how much the next insert will make them larger. */
size_t dt_map_growth(const struct dt_map *m);

#endif
