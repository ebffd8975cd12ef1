/* SPDX-License-Identifier: Apache-2.0 */
/* Making groups: which backend fits the members. */
#include "worker_runtime/coll/inside.h"

#include <stdlib.h>
#include <string.h>

static const struct dt_coll_backend *choose(const struct dt_coll_group *g)
{
    if (g->backend)
        return g->backend;
    if (g->size == 1)
        return &dt_coll_alone;
    for (int r = 1; r < g->size; r++)
        if (g->members[r].host != g->members[0].host)
            return &dt_coll_hosts;
    return &dt_coll_shm;
}

static int copy_group(struct dt_coll *c, const struct dt_coll_group *g)
{
    size_t n = (size_t)g->size;
    struct dt_coll_member *members = calloc(n, sizeof *members);
    c->group = *g;
    c->group.members = members;
    c->group.name = strdup(g->name);
    c->sends = calloc(n, sizeof *c->sends);
    c->recvs = calloc(n, sizeof *c->recvs);
    if (!members || !c->group.name || !c->sends || !c->recvs)
        return -1;
    memcpy(members, g->members, n * sizeof *members);
    return 0;
}

/* How many ranks share our host's cores, as far as this group can know. */
static int neighbours(const struct dt_coll_group *g)
{
    int n = 0;
    for (int r = 0; r < g->size; r++)
        n += g->members[r].host == g->members[g->rank].host;
    return n > g->neighbours ? n : g->neighbours;
}

struct dt_coll *dt_coll_open(const struct dt_coll_group *g, struct dt_meeting *m,
                             struct dt_err *err)
{
    struct dt_coll *c = calloc(1, sizeof *c);
    if (!c || copy_group(c, g) < 0) {
        dt_err_set(err, DT_E_MEMORY, "group %s: no memory", g->name);
        dt_coll_destroy(c);
        return NULL;
    }
    c->meeting = m;
    c->group.neighbours = neighbours(g);
    atomic_store(&c->timeout, g->timeout);
    c->backend = choose(&c->group);
    c->state = c->backend->open(&c->group, m, err);
    if (c->state)
        return c;
    dt_err_wrap(err, "group %s", g->name);
    dt_coll_destroy(c);
    return NULL;
}

void dt_coll_destroy(struct dt_coll *c)
{
    if (!c)
        return;
    if (c->state)
        c->backend->close(c->state);
    free((void *)(uintptr_t)c->group.members);
    free((void *)(uintptr_t)c->group.name);
    free(c->sends);
    free(c->recvs);
    if (c->host)
        free(c->meeting);
    if (c->owns_host)
        dt_coll_destroy(c->host);
    free(c);
}
