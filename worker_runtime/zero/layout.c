/* SPDX-License-Identifier: Apache-2.0 */
/* The one place that knows how units are cut. Everything is a sum or a product of sizes, so all
 * that can go wrong is that one of them does not fit; that is found here, once, and nowhere else.
 */
#include "worker_runtime/zero/layout.h"

#include <stdlib.h>
#include <string.h>

/* Room for what follows a size: bytes of float, and sums of a few of them. */
#define ELEMENTS_MAX (SIZE_MAX / 64)

static int cut(struct dt_layout *l, struct dt_layout_unit *u, size_t size)
{
    if (size > ELEMENTS_MAX)
        return -1;
    size_t part = size / l->world + (size % l->world != 0);
    u->size = size;
    u->shard = (part + DT_SHARD_ALIGN - 1) / DT_SHARD_ALIGN * DT_SHARD_ALIGN;
    if (u->shard > ELEMENTS_MAX / l->world)
        return -1;
    u->padded = u->shard * l->world;
    u->payload_at = l->payload;
    u->padded_at = l->padded;
    u->shard_at = l->shard;
    l->payload += u->size;
    l->padded += u->padded;
    l->shard += u->shard;
    return l->padded > ELEMENTS_MAX ? -1 : 0;
}

int dt_layout_init(struct dt_layout *l, const size_t *unit_sizes, size_t units, size_t world,
                   struct dt_err *err)
{
    memset(l, 0, sizeof *l);
    if (world == 0)
        return dt_err_set(err, DT_E_USAGE, "a layout over 0 ranks; give at least one");
    l->unit = calloc(units ? units : 1, sizeof *l->unit);
    if (!l->unit)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the layout of %zu units", units);
    l->units = units;
    l->world = world;
    for (size_t i = 0; i < units; i++)
        if (cut(l, &l->unit[i], unit_sizes[i]) < 0) {
            dt_layout_finish(l);
            return dt_err_set(err, DT_E_LIMIT,
                              "unit %zu of %zu elements over %zu ranks: more than this machine can "
                              "count",
                              i, unit_sizes[i], world);
        }
    return 0;
}

void dt_layout_finish(struct dt_layout *l)
{
    free(l->unit);
    memset(l, 0, sizeof *l);
}

bool dt_layout_owned(const struct dt_layout *l, size_t rank, size_t *i, struct dt_stretch *out)
{
    while (*i < l->units) {
        const struct dt_layout_unit *u = &l->unit[*i];
        size_t first = rank * u->shard;
        (*i)++;
        if (first >= u->size)
            continue; /* nothing but padding */
        size_t left = u->size - first;
        *out = (struct dt_stretch){.payload_at = u->payload_at + first,
                                   .count = left < u->shard ? left : u->shard,
                                   .shard_at = u->shard_at,
                                   .unit = *i - 1};
        return true;
    }
    return false;
}
