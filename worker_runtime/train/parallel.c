/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of this world share the work, as the configuration wants it. */
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/train/inside.h"
#include "worker_runtime/zero/update.h"

#include <stdlib.h>

/* What ranks of one team sum, they sum several times a block: over a network that is most of a
 * step. */
static int check_hosts(const struct dt_trainer *t, struct dt_err *err)
{
    int tensor = t->config->parallel.tensor, local = dt_context_local_world(t->context);
    if (t->ranks % tensor)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.tensor: %d does not divide the number of ranks, %d: give "
                          "another --nproc-per-node, or another parallel.tensor",
                          tensor, t->ranks);
    if (local % tensor)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.tensor: %d does not divide the number of this host's ranks, "
                          "%d: those who share tensors are to be on one host; give another "
                          "parallel.tensor",
                          tensor, local);
    return 0;
}

/* Ranks of other meshes would wait for each other in groups that only some of them open. */
static int check_alike(struct dt_trainer *t, struct dt_err *err)
{
    int32_t own = t->config->parallel.tensor, first = own;
    if (dt_coll_broadcast(t->world, &first, 1, DT_I32, 0, err) < 0)
        return -1;
    int rc = own == first ? 0
                          : dt_err_set(err, DT_E_USAGE,
                                       "parallel.tensor is %d here, and %d where rank 0 is; give "
                                       "all hosts the same configuration",
                                       (int)own, (int)first);
    return dt_agree(t->world, rc, err);
}

int dt_parallel_open(struct dt_trainer *t, struct dt_err *err)
{
    int tensor = t->config->parallel.tensor;
    const struct dt_mesh_shape shape = {{[DT_MESH_PP] = 1,
                                         [DT_MESH_DP] = t->ranks / tensor,
                                         [DT_MESH_CP] = 1,
                                         [DT_MESH_EP] = 1,
                                         [DT_MESH_TP] = tensor}};
    if (check_alike(t, err) < 0)
        return -1;
    if (tensor > 1 && dt_agree(t->world, check_hosts(t, err), err) < 0)
        return -1;
    if (dt_mesh_open(&t->mesh, &shape, t->world, err) < 0)
        return -1;
    const struct dt_mesh_axis *axis = dt_trainer_tensor(t);
    t->team = (struct dt_team){.group = axis->group, .index = axis->index};
    t->recut = (struct dt_recut){.mesh = shape, .world = t->world};
    return 0;
}

int dt_parallel_cut(struct dt_trainer *t, struct dt_err *err)
{
    size_t tensor = (size_t)t->config->parallel.tensor;
    t->part = t->config->model.shape;
    if (tensor == 1)
        return 0;
    if (dt_shape_cut(&t->config->model.shape, tensor, &t->part, err) < 0)
        return -1;
    t->parts = dt_shape_tensors(&t->part, err);
    t->recut.parts = t->parts;
    t->saved.recut = &t->recut;
    return t->parts ? 0 : -1;
}

/* Of what is the same on each rank: a norm of queries or keys serves all heads, and the last norm
 * all words, of which each rank has some. */
static bool has_parts_of_gradients(const struct dt_trainer *t, const struct dt_tensor *one)
{
    size_t layers = t->config->model.shape.layers;
    bool block = one->unit > 0 && one->unit <= layers;
    if (one->unit > layers)
        return true;
    return t->config->model.shape.qk_norm && block &&
           (one->which == DT_LLAMA_Q_NORM || one->which == DT_LLAMA_K_NORM);
}

/* Ranks that have one key/value head each know what their own query heads mean for it. */
static int open_kv_team(struct dt_trainer *t, struct dt_err *err)
{
    int heads = (int)t->config->model.shape.kv_heads;
    const struct dt_mesh_axis *axis = dt_trainer_tensor(t);
    if (axis->size <= heads)
        return 0;
    return dt_coll_split(axis->group, axis->index / (axis->size / heads), axis->index, &t->kv_team,
                         err);
}

int dt_parallel_count(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_mesh_axis *axis = dt_trainer_tensor(t);
    if (open_kv_team(t, err) < 0)
        return -1;
    for (size_t i = 0; axis->size > 1 && i < t->saved.count; i++) {
        struct dt_tensor_part p;
        const struct dt_tensor *one = &t->saved.tensors[i];
        dt_shape_part(&t->config->model.shape, one, (size_t)axis->size, (size_t)axis->index, &p);
        if ((size_t)axis->index % p.copies > 0)
            dt_zero_count_elsewhere(t->zero, one->unit, one->index);
        if (p.whole && has_parts_of_gradients(t, one))
            dt_zero_sum_over(t->zero, one->unit, one->index, t->team.group);
        else if (!p.whole && p.copies > 1)
            dt_zero_sum_over(t->zero, one->unit, one->index, t->kv_team);
    }
    return 0;
}

struct dt_team *dt_parallel_team(struct dt_trainer *t)
{
    return dt_trainer_tensor(t)->size > 1 ? &t->team : NULL;
}

struct dt_words dt_parallel_words(const struct dt_trainer *t)
{
    const struct dt_mesh_axis *axis = dt_trainer_tensor(t);
    return dt_shape_words(&t->config->model.shape, (size_t)axis->size, (size_t)axis->index);
}

int dt_parallel_step(struct dt_trainer *t, const struct dt_zero_update *u,
                     struct dt_zero_updated *out, struct dt_err *err)
{
    double square;
    if (dt_trainer_tensor(t)->size == 1)
        return dt_zero_step(t->zero, u, out, err);
    if (dt_zero_norm(t->zero, &square, err) < 0 ||
        dt_coll_all_reduce(t->team.group, &square, 1, DT_F64, DT_SUM, err) < 0)
        return -1;
    double factor = dt_zero_factor(u, square, out);
    return out->overflow ? dt_zero_skip(t->zero, err) : dt_zero_apply(t->zero, u->lr, factor, err);
}

void dt_parallel_close(struct dt_trainer *t)
{
    dt_coll_destroy(t->kv_team);
    dt_mesh_close(&t->mesh);
    free(t->parts);
}
