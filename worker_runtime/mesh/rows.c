/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/mesh/rows.h"

#include <assert.h>

size_t dt_rows_own(const struct dt_team *team, size_t rows)
{
    return team && team->shares_rows ? rows / (size_t)dt_coll_size(team->group) : rows;
}

static size_t own_numbers(const struct dt_rows *r)
{
    return dt_rows_own(r->team, r->rows) * r->width;
}

void *dt_rows_place(const struct dt_rows *r, void *all)
{
    size_t before = dt_rows_shared(r) ? (size_t)r->team->index * own_numbers(r) : 0;
    return (char *)all + before * dt_dtype_size(r->type);
}

const void *dt_rows_gather(const struct dt_rows *r, void *all, const void *own)
{
    if (!dt_rows_shared(r))
        return own;
    dt_team_gather_from(r->team, all, own, own_numbers(r), r->type);
    return all;
}

void dt_rows_sum(const struct dt_rows *r, void *all, void *own)
{
    if (dt_rows_shared(r)) {
        dt_team_scatter_to(r->team, all, own, own_numbers(r), r->type);
        return;
    }
    assert(own == all);
    dt_team_sum(r->team, all, r->rows * r->width, r->type);
}
