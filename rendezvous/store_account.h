/* SPDX-License-Identifier: Apache-2.0 */
/* What a store holds and what it may hold: the one book that keys, queues and waits are all entered
 * in. Pure; inside the store only. */
#ifndef DT_RENDEZVOUS_STORE_ACCOUNT_H
#define DT_RENDEZVOUS_STORE_ACCOUNT_H

#include "rendezvous/store.h"

/* What an allocation costs beyond its bytes: malloc's header and a slot of a map at its usual fill.
 */
#define DT_STORE_ALLOCATION_COST 40

struct dt_store_account {
    struct dt_store_limits limits;
    struct dt_store_counts counts;
};

/* Enters BYTES more, or refuses them. */
int dt_store_charge(struct dt_store_account *a, uint64_t bytes, struct dt_err *err);
/* The same for what takes a name of its own, a key or a queue. */
int dt_store_charge_name(struct dt_store_account *a, uint64_t bytes, struct dt_err *err);
void dt_store_credit(struct dt_store_account *a, uint64_t bytes);

/* Values have a limit of their own. */
int dt_store_check_value(struct dt_store_account *a, uint64_t len, struct dt_err *err);

/* Takes back BYTES that were charged for what could not be allocated. Returns -1. */
int dt_store_no_memory(struct dt_store_account *a, uint64_t bytes, struct dt_err *err);

#endif
