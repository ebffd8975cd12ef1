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

/* This rank's place in ALL. */
static char *own_of(const struct dt_team *t, void *all, size_t count, enum dt_dtype type)
{
    return (char *)all + (size_t)t->index * count * dt_dtype_size(type);
}

void dt_team_gather(struct dt_team *t, void *all, size_t count, enum dt_dtype type)
{
    dt_team_gather_from(t, all, own_of(t, all, count, type), count, type);
}

void dt_team_gather_from(struct dt_team *t, void *all, const void *own, size_t count,
                         enum dt_dtype type)
{
    if (t->failed)
        return;
    int64_t from = dt_clock_monotonic_ns();
    t->failed = dt_coll_all_gather(t->group, own, all, count, type, &t->err) < 0;
    t->ns += (uint64_t)(dt_clock_monotonic_ns() - from);
}

void dt_team_scatter(struct dt_team *t, void *all, size_t count, enum dt_dtype type)
{
    dt_team_scatter_to(t, all, own_of(t, all, count, type), count, type);
}

void dt_team_scatter_to(struct dt_team *t, void *all, void *own, size_t count, enum dt_dtype type)
{
    if (t->failed)
        return;
    int64_t from = dt_clock_monotonic_ns();
    t->failed = dt_coll_reduce_scatter(t->group, all, own, count, type, DT_SUM, &t->err) < 0;
    t->ns += (uint64_t)(dt_clock_monotonic_ns() - from);
    t->bytes += (uint64_t)dt_coll_size(t->group) * count * dt_dtype_size(type);
}

void dt_team_swap(struct dt_team *t, const void *from, void *to, size_t count, enum dt_dtype type)
{
    if (t->failed || count == 0)
        return;
    int64_t since = dt_clock_monotonic_ns();
    t->failed = dt_coll_all_to_all(t->group, from, to, count, type, &t->err) < 0;
    t->ns += (uint64_t)(dt_clock_monotonic_ns() - since);
}

void dt_team_pass_on(struct dt_team *t, struct dt_team_round *r, const void *from, void *to,
                     size_t count, enum dt_dtype type)
{
    int ranks = dt_coll_size(t->group);
    struct dt_coll_call expect = {.kind = DT_RECV,
                                  .recv = to,
                                  .count = count,
                                  .type = type,
                                  .peer = (t->index + ranks - 1) % ranks};
    struct dt_coll_call give = {.kind = DT_SEND,
                                .send = from,
                                .count = count,
                                .type = type,
                                .peer = (t->index + 1) % ranks};
    if (t->failed)
        return;
    int64_t since = dt_clock_monotonic_ns();
    t->failed = dt_coll_start(t->group, &expect, &r->expected, &t->err) < 0 ||
                dt_coll_start(t->group, &give, &r->given, &t->err) < 0;
    r->under_way = !t->failed;
    t->ns += (uint64_t)(dt_clock_monotonic_ns() - since);
}

void dt_team_arrived(struct dt_team *t, struct dt_team_round *r)
{
    if (t->failed || !r->under_way)
        return;
    int64_t since = dt_clock_monotonic_ns();
    r->under_way = false;
    t->failed = dt_coll_wait(t->group, &r->expected, &t->err) < 0 ||
                dt_coll_wait(t->group, &r->given, &t->err) < 0;
    t->ns += (uint64_t)(dt_clock_monotonic_ns() - since);
}
