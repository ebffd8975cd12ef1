/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/mesh/mesh.h"

#include <stdint.h>

struct dt_mesh_place dt_mesh_place(const struct dt_mesh_shape *s, int rank)
{
    struct dt_mesh_place p;
    for (int d = DT_MESH_DIMS; d-- > 0; rank /= s->size[d])
        p.index[d] = rank % s->size[d];
    return p;
}

int dt_mesh_rank(const struct dt_mesh_shape *s, const struct dt_mesh_place *p)
{
    int rank = 0;
    for (int d = 0; d < DT_MESH_DIMS; d++)
        rank = rank * s->size[d] + p->index[d];
    return rank;
}

static bool has_ranks(const struct dt_mesh_shape *s, int ranks)
{
    int64_t all = 1;
    for (int d = 0; d < DT_MESH_DIMS; d++) {
        if (s->size[d] < 1 || s->size[d] > ranks)
            return false;
        all *= s->size[d];
        if (all > ranks)
            return false;
    }
    return all == ranks;
}

/* The group of this axis has the number of its first rank as its colour. */
static int open_axis(struct dt_mesh *m, const struct dt_mesh_shape *s, int dim, struct dt_err *err)
{
    struct dt_mesh_place place = dt_mesh_place(s, dt_coll_rank(m->world));
    struct dt_mesh_axis *axis = &m->axis[dim];
    *axis = (struct dt_mesh_axis){.size = s->size[dim], .index = place.index[dim]};
    if (axis->size == dt_coll_size(m->world))
        axis->group = m->world;
    bool wanted = axis->size > 1 || dim == DT_MESH_DP;
    if (axis->group || !wanted)
        return 0;
    place.index[dim] = 0;
    return dt_coll_split(m->world, dt_mesh_rank(s, &place), axis->index, &axis->group, err);
}

/* Behind the axes, of which it may be one. */
static int open_replicas(struct dt_mesh *m, const struct dt_mesh_shape *s, struct dt_err *err)
{
    const struct dt_mesh_axis *data = &m->axis[DT_MESH_DP], *context = &m->axis[DT_MESH_CP];
    struct dt_mesh_place place = dt_mesh_place(s, dt_coll_rank(m->world));
    m->replicas = context->size == 1 ? *data : *context;
    if (context->size == 1 || data->size == 1)
        return 0;
    m->replicas = (struct dt_mesh_axis){.size = data->size * context->size,
                                        .index = data->index * context->size + context->index};
    if (m->replicas.size == dt_coll_size(m->world)) {
        m->replicas.group = m->world;
        return 0;
    }
    place.index[DT_MESH_DP] = place.index[DT_MESH_CP] = 0;
    return dt_coll_split(m->world, dt_mesh_rank(s, &place), m->replicas.index, &m->replicas.group,
                         err);
}

static bool owns_replicas(const struct dt_mesh *m)
{
    const struct dt_coll *group = m->replicas.group;
    return group != m->world && group != m->axis[DT_MESH_DP].group &&
           group != m->axis[DT_MESH_CP].group;
}

int dt_mesh_open(struct dt_mesh *m, const struct dt_mesh_shape *s, struct dt_coll *world,
                 struct dt_err *err)
{
    *m = (struct dt_mesh){.world = world};
    if (!has_ranks(s, dt_coll_size(world)))
        return dt_err_set(
            err, DT_E_USAGE,
            "a mesh of %d x %d x %d x %d x %d ranks (pipeline, data, context, experts, "
            "tensors) is none for a world of %d",
            s->size[DT_MESH_PP], s->size[DT_MESH_DP], s->size[DT_MESH_CP], s->size[DT_MESH_EP],
            s->size[DT_MESH_TP], dt_coll_size(world));
    for (int d = 0; d < DT_MESH_DIMS; d++)
        if (open_axis(m, s, d, err) < 0)
            return -1;
    return open_replicas(m, s, err);
}

void dt_mesh_close(struct dt_mesh *m)
{
    if (owns_replicas(m))
        dt_coll_destroy(m->replicas.group);
    for (int d = DT_MESH_DIMS; d-- > 0;)
        if (m->axis[d].group != m->world)
            dt_coll_destroy(m->axis[d].group);
    *m = (struct dt_mesh){0};
}
