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

/* Dimensions, a bit each. */
enum { DP = 1 << DT_MESH_DP, CP = 1 << DT_MESH_CP, EP = 1 << DT_MESH_EP };

/* The group along DIMS, where an axis has it: the only one that has several ranks, or data, where
 * none has. */
static struct dt_coll *axis_group(const struct dt_mesh *m, unsigned dims)
{
    int several = 0, which = DT_MESH_DP;
    for (int d = 0; d < DT_MESH_DIMS; d++)
        if (dims & 1u << d && m->axis[d].size > 1) {
            several++;
            which = d;
        }
    return several <= 1 ? m->axis[which].group : NULL;
}

/* Behind the axes. OWN: where its group is kept, if it is a new one. */
static int open_joint(struct dt_mesh *m, const struct dt_mesh_shape *s, unsigned dims,
                      struct dt_mesh_axis *out, struct dt_coll **own, struct dt_err *err)
{
    struct dt_mesh_place place = dt_mesh_place(s, dt_coll_rank(m->world));
    *out = (struct dt_mesh_axis){.size = 1, .group = axis_group(m, dims)};
    for (int d = 0; d < DT_MESH_DIMS; d++) {
        if (!(dims & 1u << d))
            continue;
        out->size *= s->size[d];
        out->index = out->index * s->size[d] + place.index[d];
        place.index[d] = 0;
    }
    if (!out->group && out->size == dt_coll_size(m->world))
        out->group = m->world;
    if (out->group)
        return 0;
    if (dt_coll_split(m->world, dt_mesh_rank(s, &place), out->index, own, err) < 0)
        return -1;
    out->group = *own;
    return 0;
}

static int open_joints(struct dt_mesh *m, const struct dt_mesh_shape *s, struct dt_err *err)
{
    if (open_joint(m, s, DP | CP, &m->replicas, &m->own[0], err) < 0 ||
        open_joint(m, s, DP | EP, &m->samples, &m->own[1], err) < 0)
        return -1;
    m->learners = m->axis[DT_MESH_CP].size == 1 ? m->samples : m->replicas;
    if (m->axis[DT_MESH_CP].size == 1 || m->axis[DT_MESH_EP].size == 1)
        return 0;
    return open_joint(m, s, DP | CP | EP, &m->learners, &m->own[2], err);
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
    return open_joints(m, s, err);
}

void dt_mesh_close(struct dt_mesh *m)
{
    for (size_t i = sizeof m->own / sizeof *m->own; i-- > 0;)
        dt_coll_destroy(m->own[i]);
    for (int d = DT_MESH_DIMS; d-- > 0;)
        if (m->axis[d].group != m->world)
            dt_coll_destroy(m->axis[d].group);
    *m = (struct dt_mesh){0};
}
