/* SPDX-License-Identifier: Apache-2.0 */
/* Where the last record of each key of a journal is, in the order of the file. Pure. */
#ifndef DT_RENDEZVOUS_JOURNAL_INDEX_H
#define DT_RENDEZVOUS_JOURNAL_INDEX_H

#include "base/list.h"
#include "base/map.h"

struct dt_journal_entry {
    struct dt_map_node node;
    struct dt_node in_order;
    uint64_t at, size; /* of the whole record; size 0: not placed yet */
    uint8_t key[];
};

struct dt_journal_index {
    struct dt_map map;
    struct dt_list order; /* entries by `at` */
    uint64_t live;        /* the sum of their sizes */
};

void dt_journal_index_init(struct dt_journal_index *x);
void dt_journal_index_finish(struct dt_journal_index *x);

struct dt_journal_entry *dt_journal_index_find(const struct dt_journal_index *x,
                                               struct dt_bytes key);

/* The entry of KEY, made where there is none. NULL: no memory. */
struct dt_journal_entry *dt_journal_index_take(struct dt_journal_index *x, struct dt_bytes key);

/* The last record of E is this one, behind all others. */
void dt_journal_index_place(struct dt_journal_index *x, struct dt_journal_entry *e, uint64_t at,
                            uint64_t size);

void dt_journal_index_remove(struct dt_journal_index *x, struct dt_journal_entry *e);

/* The entry whose place in the order N is. */
static inline struct dt_journal_entry *dt_journal_entry_of(struct dt_node *n)
{
    return dt_container_of(n, struct dt_journal_entry, in_order);
}

#endif
