/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/upload/share.h"

#include "base/auto.h"

#include <stdlib.h>

/* Number N of those who may carry: host after host, and then the next rank of each. */
static int carrier(const struct dt_share_ranks *r, int n)
{
    int hosts = r->hosts > 0 && r->world % r->hosts == 0 ? r->hosts : 1;
    return n % hosts * (r->world / hosts) + n / hosts;
}

/* The largest file that nobody has; the first of equal ones. */
static size_t next_file(const uint64_t *bytes, const bool *dealt, size_t count)
{
    size_t best = count;
    for (size_t i = 0; i < count; i++)
        if (!dealt[i] && (best == count || bytes[i] > bytes[best]))
            best = i;
    return best;
}

static int least_loaded(const uint64_t *load, int world)
{
    int best = 0;
    for (int n = 1; n < world; n++)
        if (load[n] < load[best])
            best = n;
    return best;
}

int dt_share_split(const struct dt_share_ranks *r, const uint64_t *bytes, size_t count, bool *mine,
                   struct dt_err *err)
{
    DT_AUTO_FREE uint64_t *load = calloc((size_t)r->world, sizeof *load);
    DT_AUTO_FREE bool *dealt = calloc(count + 1, sizeof *dealt);
    if (!load || !dealt)
        return dt_err_set(err, DT_E_MEMORY, "no memory to share %zu files", count);
    for (size_t done = 0; done < count; done++) {
        size_t i = next_file(bytes, dealt, count);
        int n = least_loaded(load, r->world);
        load[n] += bytes[i] + 1; /* an empty file is work, too */
        dealt[i] = true;
        mine[i] = carrier(r, n) == r->rank;
    }
    return 0;
}
