/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for which names. A wait is a count of names that have not come, with a ticket on each;
 * whether a name is there is the store's business. Pure; inside the store only. */
#ifndef DT_RENDEZVOUS_STORE_WAITS_H
#define DT_RENDEZVOUS_STORE_WAITS_H

#include "base/map.h"
#include "rendezvous/store/account.h"

struct dt_store_waits {
    struct dt_map awaited;
    struct dt_store_account *account;
};

void dt_store_waits_init(struct dt_store_waits *w, struct dt_store_account *account,
                         uint64_t hash_seed);
void dt_store_waits_finish(struct dt_store_waits *w); /* nobody may be waiting any more */

/* Begins a wait for MOST names, in place of what WHO waited for before; then each is added. A
 * failure ends the whole wait. */
int dt_store_waits_begin(struct dt_store_waits *w, struct dt_store_waiter *who, uint64_t most,
                         struct dt_err *err);
int dt_store_waits_add(struct dt_store_waits *w, struct dt_store_waiter *who, struct dt_bytes name,
                       struct dt_err *err);
void dt_store_waits_cancel(struct dt_store_waits *w, struct dt_store_waiter *who);

/* Up to MOST of the names that have not come. Views, good until the next change. */
size_t dt_store_waits_names(const struct dt_store_waiter *who, struct dt_bytes *names, size_t most);

/* NAME has come: for all who wait for it, or for the one who has waited longest. */
void dt_store_waits_wake_all(struct dt_store_waits *w, struct dt_bytes name);
void dt_store_waits_wake_one(struct dt_store_waits *w, struct dt_bytes name);

#endif
