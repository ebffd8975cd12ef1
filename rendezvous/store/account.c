/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store/account.h"

#include <inttypes.h>

int dt_store_charge(struct dt_store_account *a, uint64_t bytes, struct dt_err *err)
{
    if (bytes == 0)
        return 0; /* also above a limit that was lowered meanwhile */
    if (bytes <= a->limits.bytes && a->counts.bytes <= a->limits.bytes - bytes) {
        a->counts.bytes += bytes;
        return 0;
    }
    a->counts.refused++;
    return dt_err_set(err, DT_E_LIMIT,
                      "the store is full: %" PRIu64 " of %" PRIu64 " bytes are used and %" PRIu64
                      " more are wanted",
                      a->counts.bytes, a->limits.bytes, bytes);
}

int dt_store_charge_name(struct dt_store_account *a, uint64_t bytes, struct dt_err *err)
{
    if (a->counts.keys + a->counts.queues < a->limits.keys)
        return dt_store_charge(a, bytes, err);
    a->counts.refused++;
    return dt_err_set(err, DT_E_LIMIT, "the store is full: it holds %" PRIu64 " keys already",
                      a->limits.keys);
}

void dt_store_credit(struct dt_store_account *a, uint64_t bytes)
{
    a->counts.bytes -= bytes;
}

int dt_store_check_value(struct dt_store_account *a, uint64_t len, struct dt_err *err)
{
    if (len <= a->limits.value)
        return 0;
    a->counts.refused++;
    return dt_err_set(err, DT_E_LIMIT, "a value of %" PRIu64 " bytes is over the limit of %" PRIu64,
                      len, a->limits.value);
}

int dt_store_no_memory(struct dt_store_account *a, uint64_t bytes, struct dt_err *err)
{
    a->counts.bytes -= bytes;
    a->counts.refused++;
    return dt_err_set(err, DT_E_MEMORY, "the machine has no memory left for the store");
}

static void note_tables(struct dt_store_account *a, const struct dt_map *m, size_t before)
{
    a->counts.bytes += dt_map_overhead(m) - before;
}

int dt_store_enter(struct dt_store_account *a, struct dt_map *m, void *entry, uint32_t key_len,
                   struct dt_err *err)
{
    size_t before = dt_map_overhead(m), growth = dt_map_growth(m);
    if (dt_store_charge(a, growth, err) < 0)
        return -1;
    if (dt_map_insert(m, entry, key_len) < 0)
        return dt_store_no_memory(a, growth, err);
    dt_store_credit(a, growth);
    note_tables(a, m, before);
    return 0;
}

void *dt_store_take_out(struct dt_store_account *a, struct dt_map *m, struct dt_bytes key)
{
    size_t before = dt_map_overhead(m);
    void *entry = dt_map_remove(m, key);
    note_tables(a, m, before);
    return entry;
}
