/* SPDX-License-Identifier: Apache-2.0 */
/* Groups out of groups: each rank says which colour and key it has, and from these all work out the
 * same lists. */
#include "worker_runtime/coll/inside.h"

#include <stdio.h>
#include <stdlib.h>

struct choice {
    int32_t colour, key, rank;
};

static int by_key_then_rank(const void *a_v, const void *b_v)
{
    const struct choice *a = a_v, *b = b_v;
    int by_key = (a->key > b->key) - (a->key < b->key);
    return by_key ? by_key : (a->rank > b->rank) - (a->rank < b->rank);
}

/* Those of ALL with our colour, in the order of the new group; how many. */
static int choose_ours(struct choice *all, int n, int colour)
{
    int ours = 0;
    for (int r = 0; r < n; r++)
        if (all[r].colour == colour)
            all[ours++] = all[r];
    qsort(all, (size_t)ours, sizeof *all, by_key_then_rank);
    return ours;
}

static struct dt_coll *open_split(struct dt_coll *parent, const struct choice *ours, int n,
                                  struct dt_err *err)
{
    char name[200];
    struct dt_coll_member *members = calloc((size_t)n, sizeof *members);
    struct dt_coll_group g = parent->group;
    int len = snprintf(name, sizeof name, "%s/%d.%d", g.name, ours[0].colour, parent->splits);
    if (!members || len < 0 || (size_t)len >= sizeof name) {
        free(members);
        dt_err_set(err, DT_E_RUNTIME,
                   "group %s: no memory for a part of it, or its name is too long",
                   parent->group.name);
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        members[i] = parent->group.members[ours[i].rank];
        if (ours[i].rank == parent->group.rank)
            g.rank = i;
    }
    g.members = members;
    g.size = n;
    g.name = name;
    g.timeout = atomic_load(&parent->timeout);
    struct dt_coll *c = dt_coll_open(&g, parent->meeting, err);
    free(members);
    return c;
}

/* The host's group is split first; who has a part of that has one of the device's. A backend may
 * make parts out of the whole only if nobody stays out, for that takes all ranks. */
static int split_device(struct dt_coll *parent, int colour, int key, struct dt_coll **out,
                        struct dt_err *err)
{
    struct dt_coll *host;
    int32_t least = colour;
    if (dt_coll_all_reduce(parent->host, &least, 1, DT_I32, DT_MIN, err) < 0 ||
        dt_coll_split(parent->host, colour, key, &host, err) < 0)
        return -1;
    if (!host)
        return 0;
    struct dt_coll_group g = host->group;
    g.backend = parent->group.backend;
    g.device = parent->group.device;
    g.parent = least < 0 ? NULL : parent->state;
    g.colour = colour;
    g.key = key;
    g.timeout = atomic_load(&host->timeout);
    *out = dt_coll_open_beside(host, &g, err);
    if (!*out) {
        dt_coll_destroy(host);
        return -1;
    }
    (*out)->owns_host = true;
    return 0;
}

int dt_coll_split(struct dt_coll *parent, int colour, int key, struct dt_coll **out,
                  struct dt_err *err)
{
    *out = NULL;
    if (colour < -1)
        return dt_err_set(err, DT_E_RUNTIME, "a split of group %s: no colour %d",
                          parent->group.name, colour);
    if (parent->host)
        return split_device(parent, colour, key, out, err);
    struct choice own = {.colour = colour, .key = key, .rank = parent->group.rank};
    struct choice *all = calloc((size_t)parent->group.size, sizeof *all);
    if (!all)
        return dt_err_set(err, DT_E_MEMORY, "a split of group %s: no memory", parent->group.name);
    int rc = dt_coll_all_gather(parent, &own, all, sizeof own, DT_U8, err);
    if (rc == 0)
        parent->splits++;
    if (rc == 0 && colour >= 0) {
        int n = choose_ours(all, parent->group.size, colour);
        *out = open_split(parent, all, n, err);
        rc = *out ? 0 : -1;
    }
    free(all);
    return rc;
}
