/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/coll/hosts/roster.h"

#include <stdlib.h>
#include <string.h>

static int find_host(const struct dt_roster *r, int rank)
{
    for (int q = rank - 1; q >= 0; q--)
        if (r->members[q].host == r->members[rank].host)
            return r->host_of[q];
    return r->hosts;
}

static void list_ranks(struct dt_roster *r)
{
    int *next = r->ranks;
    for (int h = 0; h < r->hosts; h++) {
        r->at[h].ranks = next;
        for (int q = 0; q < r->size; q++)
            if (r->host_of[q] == h) {
                if (q == r->rank)
                    r->local = (int)(next - r->at[h].ranks);
                *next++ = q;
            }
        r->at[h].n = (int)(next - r->at[h].ranks);
    }
    r->host = r->host_of[r->rank];
}

int dt_roster_init(struct dt_roster *r, const struct dt_coll_group *g, struct dt_err *err)
{
    size_t n = (size_t)g->size;
    *r = (struct dt_roster){.size = g->size, .rank = g->rank};
    r->at = calloc(n, sizeof *r->at);
    r->host_of = calloc(n, sizeof *r->host_of);
    r->members = calloc(n, sizeof *r->members);
    r->ranks = calloc(n, sizeof *r->ranks);
    if (!r->at || !r->host_of || !r->members || !r->ranks) {
        dt_roster_finish(r);
        return dt_err_set(err, DT_E_MEMORY, "no memory for a group of %d ranks", g->size);
    }
    memcpy(r->members, g->members, n * sizeof *r->members);
    for (int q = 0; q < r->size; q++) {
        r->host_of[q] = find_host(r, q);
        if (r->host_of[q] == r->hosts)
            r->hosts++;
    }
    list_ranks(r);
    return 0;
}

void dt_roster_finish(struct dt_roster *r)
{
    free(r->at);
    free(r->host_of);
    free(r->members);
    free(r->ranks);
    *r = (struct dt_roster){0};
}
