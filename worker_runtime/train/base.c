/* SPDX-License-Identifier: Apache-2.0 */
/* The model that adapters are trained beside. It is in no checkpoint and in no vault: each world
 * reads it again from where the run began. */
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/train/inside.h"

#include <stdlib.h>

int dt_base_open(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_shape *shape = &t->config->model.shape;
    struct dt_zero_options o = t->config->zero;
    struct dt_unit *units = NULL;
    struct dt_param *params = NULL;
    if (t->config->lora.r == 0)
        return 0;
    o.frozen = true;
    struct dt_tensor *tensors = dt_shape_tensors(shape, err);
    int rc = tensors ? dt_shape_units(shape, tensors, &units, &params, err) : -1;
    rc = dt_agree(t->world, rc, err);
    if (rc == 0)
        t->base = dt_zero_create(t->context, dt_trainer_data(t)->group, units,
                                 dt_shape_unit_count(shape), &o, err);
    free(tensors);
    free(units);
    free(params);
    return rc < 0 || !t->base ? -1 : 0;
}

int dt_base_load(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_shape *shape = &t->config->model.shape;
    if (!t->base)
        return 0;
    struct dt_tensor *tensors = dt_shape_tensors(shape, err);
    struct dt_ckpt_model model = {
        .shape = shape, .tensors = tensors, .count = dt_shape_tensor_count(shape)};
    int rc = dt_agree(t->world, tensors ? 0 : -1, err);
    if (rc == 0)
        rc = dt_ckpt_load_weights(t->options->init_from, &model, t->base, err);
    free(tensors);
    return rc;
}
