/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/prefix.h"

#include "agent/env.h"
#include "base/buf.h"

/* "0-3,6" */
static void put_ranges(struct dt_buf *out, const int *ranks, size_t count, int add)
{
    for (size_t i = 0, last; i < count; i = last + 1) {
        for (last = i; last + 1 < count && ranks[last + 1] == ranks[last] + 1;)
            last++;
        dt_buf_printf(out, "%s%d", i ? "," : "", ranks[i] + add);
        if (last > i)
            dt_buf_printf(out, "-%d", ranks[last] + add);
    }
}

char *dt_prefix_many(const struct dt_plan *plan, const int *local_ranks, size_t count,
                     int first_rank)
{
    static const char *const names[] = {"role_name", "rank", "local_rank", NULL};
    struct dt_buf rank = {0}, local = {0};
    put_ranges(&rank, local_ranks, count, first_rank);
    put_ranges(&local, local_ranks, count, 0);
    const char *const values[] = {plan->role, dt_buf_cstr(&rank), dt_buf_cstr(&local), NULL};
    const char *form = plan->line_prefix ? plan->line_prefix : "[${role_name}${local_rank}]:";
    char *made = dt_env_substitute(form, names, values);
    dt_buf_finish(&rank);
    dt_buf_finish(&local);
    return made;
}

char *dt_prefix_one(const struct dt_plan *plan, int local_rank, int first_rank)
{
    return dt_prefix_many(plan, &local_rank, 1, first_rank);
}
