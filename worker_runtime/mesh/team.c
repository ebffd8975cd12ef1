/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/mesh/team.h"

#include "base/clock.h"

void dt_team_sum(struct dt_team *t, void *x, size_t count, enum dt_dtype type)
{
    if (!t || t->failed)
        return;
    int64_t from = dt_clock_monotonic_ns();
    t->failed = dt_coll_all_reduce(t->group, x, count, type, DT_SUM, &t->err) < 0;
    t->ns += (uint64_t)(dt_clock_monotonic_ns() - from);
    t->bytes += count * dt_dtype_size(type);
}

void dt_team_gather(struct dt_team *t, void *all, size_t count, enum dt_dtype type)
{
    if (t->failed)
        return;
    const char *own = (const char *)all + (size_t)t->index * count * dt_dtype_size(type);
    int64_t from = dt_clock_monotonic_ns();
    t->failed = dt_coll_all_gather(t->group, own, all, count, type, &t->err) < 0;
    t->ns += (uint64_t)(dt_clock_monotonic_ns() - from);
}
