/* SPDX-License-Identifier: Apache-2.0 */
/* A group of a device's memory beside one of the host's, of the same members. How its ranks find
 * each other is told through the host's group, which met before: what rank 0 sets, all others get,
 * by a broadcast, so both ends have to call as often and in one order. Behind a failure the host's
 * group is what the ranks still have to agree in. */
#include "worker_runtime/coll/inside.h"

#include <stdlib.h>
#include <string.h>

struct beside {
    struct dt_meeting meeting;
    struct dt_coll *host;
};

static int set(struct dt_meeting *m, const char *key, const void *value, size_t len,
               struct dt_err *err)
{
    struct beside *b = (struct beside *)m;
    void *copy = malloc(len ? len : 1);
    if (!copy)
        return dt_err_set(err, DT_E_MEMORY, "%s: no memory for %zu bytes", key, len);
    memcpy(copy, value, len); /* a broadcast's buffer may be written */
    int rc = dt_coll_broadcast(b->host, copy, len, DT_U8, 0, err);
    free(copy);
    return rc;
}

static int get(struct dt_meeting *m, const char *key, void *value, size_t len, dt_ms timeout,
               struct dt_err *err)
{
    struct beside *b = (struct beside *)m;
    (void)key;
    (void)timeout; /* the host group's own holds */
    return dt_coll_broadcast(b->host, value, len, DT_U8, 0, err);
}

struct dt_coll *dt_coll_open_beside(struct dt_coll *host, const struct dt_coll_group *g,
                                    struct dt_err *err)
{
    struct beside *b = calloc(1, sizeof *b);
    if (!b) {
        dt_err_set(err, DT_E_MEMORY, "group %s: no memory", g->name);
        return NULL;
    }
    *b = (struct beside){.meeting = {set, get}, .host = host};
    struct dt_coll *c = dt_coll_open(g, &b->meeting, err);
    if (!c) {
        free(b);
        return NULL;
    }
    c->host = host;
    return c;
}

struct dt_coll *dt_coll_beside(struct dt_coll *host, const struct dt_coll_backend *backend,
                               struct dt_device *device, struct dt_err *err)
{
    struct dt_coll_group g = host->group;
    g.backend = backend;
    g.device = device;
    g.timeout = atomic_load(&host->timeout);
    return dt_coll_open_beside(host, &g, err);
}
