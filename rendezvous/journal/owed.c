/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/journal/owed.h"

#include <stdlib.h>

void dt_journal_owed_init(struct dt_journal_owed *o)
{
    dt_map_init(&o->map, offsetof(struct dt_journal_debt, bytes), dt_map_random_seed());
    dt_list_init(&o->order);
}

void dt_journal_owed_finish(struct dt_journal_owed *o)
{
    dt_map_finish(&o->map, free);
}

int dt_journal_owed_add(struct dt_journal_owed *o, struct dt_bytes key, struct dt_bytes value)
{
    struct dt_journal_debt *d = calloc(1, sizeof *d + key.len + value.len);
    if (!d)
        return -1;
    dt_bytes_copy(d->bytes, key);
    dt_bytes_copy(d->bytes + key.len, value);
    d->key = (struct dt_bytes){d->bytes, key.len};
    d->value = (struct dt_bytes){d->bytes + key.len, value.len};
    if (dt_map_insert(&o->map, d, (uint32_t)key.len) < 0) {
        free(d);
        return -1;
    }
    dt_list_append(&o->order, &d->in_order);
    return 0;
}

void dt_journal_owed_drop(struct dt_journal_owed *o, struct dt_bytes key)
{
    struct dt_journal_debt *d = dt_map_remove(&o->map, key);
    if (!d)
        return;
    dt_list_remove(&d->in_order);
    free(d);
}

struct dt_journal_debt *dt_journal_owed_first(const struct dt_journal_owed *o)
{
    struct dt_node *n = dt_list_first(&o->order);
    return n ? dt_container_of(n, struct dt_journal_debt, in_order) : NULL;
}
