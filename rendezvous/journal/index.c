/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/journal/index.h"

#include <stdlib.h>

void dt_journal_index_init(struct dt_journal_index *x)
{
    dt_map_init(&x->map, offsetof(struct dt_journal_entry, key), dt_map_random_seed());
    dt_list_init(&x->order);
    x->live = 0;
}

void dt_journal_index_finish(struct dt_journal_index *x)
{
    dt_map_finish(&x->map, free);
}

struct dt_journal_entry *dt_journal_index_find(const struct dt_journal_index *x,
                                               struct dt_bytes key)
{
    return dt_map_find(&x->map, key);
}

struct dt_journal_entry *dt_journal_index_take(struct dt_journal_index *x, struct dt_bytes key)
{
    struct dt_journal_entry *e = dt_map_find(&x->map, key);
    if (e)
        return e;
    e = calloc(1, sizeof *e + key.len);
    if (!e)
        return NULL;
    dt_bytes_copy(e->key, key);
    dt_node_init(&e->in_order);
    if (dt_map_insert(&x->map, e, (uint32_t)key.len) == 0)
        return e;
    free(e);
    return NULL;
}

void dt_journal_index_place(struct dt_journal_index *x, struct dt_journal_entry *e, uint64_t at,
                            uint64_t size)
{
    x->live += size - e->size;
    e->at = at;
    e->size = size;
    dt_list_remove(&e->in_order);
    dt_list_append(&x->order, &e->in_order);
}

void dt_journal_index_remove(struct dt_journal_index *x, struct dt_journal_entry *e)
{
    x->live -= e->size;
    dt_list_remove(&e->in_order);
    dt_map_remove(&x->map, (struct dt_bytes){e->key, e->node.key_len});
    free(e);
}
