/* SPDX-License-Identifier: Apache-2.0 */
/* Records that the disk did not take yet: of each key the last one, in the order they were put.
 * Pure. */
#ifndef DT_RENDEZVOUS_JOURNAL_OWED_H
#define DT_RENDEZVOUS_JOURNAL_OWED_H

#include "base/list.h"
#include "base/map.h"

struct dt_journal_debt {
    struct dt_map_node node;
    struct dt_node in_order;
    struct dt_bytes key, value; /* both in BYTES */
    uint8_t bytes[];
};

struct dt_journal_owed {
    struct dt_map map;
    struct dt_list order;
};

void dt_journal_owed_init(struct dt_journal_owed *o);
void dt_journal_owed_finish(struct dt_journal_owed *o);

/* Behind all others; no record of KEY is there. -1: no memory. */
int dt_journal_owed_add(struct dt_journal_owed *o, struct dt_bytes key, struct dt_bytes value);

/* The record of KEY, if there is one. */
void dt_journal_owed_drop(struct dt_journal_owed *o, struct dt_bytes key);

/* NULL: there is none. */
struct dt_journal_debt *dt_journal_owed_first(const struct dt_journal_owed *o);

#endif
