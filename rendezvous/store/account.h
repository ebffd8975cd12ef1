/* SPDX-License-Identifier: Apache-2.0 */
/* What a store holds and what it may hold: the one book that keys, queues and waits are all entered
 * in. Pure; inside the store only. */
#ifndef DT_RENDEZVOUS_STORE_ACCOUNT_H
#define DT_RENDEZVOUS_STORE_ACCOUNT_H

#include "base/map.h"
#include "rendezvous/store/store.h"

/* What an allocation costs beyond its bytes: malloc's header, and what it rounds up. The tables of
 * maps are entered when they change. */
#define DT_STORE_ALLOCATION_COST 16

struct dt_store_account {
    struct dt_store_limits limits;
    struct dt_store_counts counts;
};

/* Enters BYTES more, or refuses them. */
int dt_store_charge(struct dt_store_account *a, uint64_t bytes, struct dt_err *err);
/* The same for what takes a name of its own, a key or a queue. */
int dt_store_charge_name(struct dt_store_account *a, uint64_t bytes, struct dt_err *err);
void dt_store_credit(struct dt_store_account *a, uint64_t bytes);

/* Puts ENTRY, which was charged, into a map of the store, if its table may grow for that. */
int dt_store_enter(struct dt_store_account *a, struct dt_map *m, void *entry, uint32_t key_len,
                   struct dt_err *err);
/* Takes the entry of KEY out, or returns NULL; its cost is for the caller to credit. */
void *dt_store_take_out(struct dt_store_account *a, struct dt_map *m, struct dt_bytes key);

/* Values have a limit of their own. */
int dt_store_check_value(struct dt_store_account *a, uint64_t len, struct dt_err *err);

/* Takes back BYTES that were charged for what could not be allocated. Returns -1. */
int dt_store_no_memory(struct dt_store_account *a, uint64_t bytes, struct dt_err *err);

#endif
