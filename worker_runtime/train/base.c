/* SPDX-License-Identifier: Apache-2.0 */
/* The model that adapters are trained beside. It is in no checkpoint and in no vault: each world
 * reads it again from where the run began. */
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/train/init.h"
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

/* Free its tensors, which are NULL on failure. */
static struct dt_ckpt_model model_of(const struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_shape *shape = &t->config->model.shape;
    return (struct dt_ckpt_model){.shape = shape,
                                  .tensors = dt_shape_tensors(shape, err),
                                  .count = dt_shape_tensor_count(shape)};
}

int dt_base_load(struct dt_trainer *t, struct dt_err *err)
{
    if (!t->base)
        return 0;
    struct dt_ckpt_model model = model_of(t, err);
    int rc = dt_agree(t->world, model.tensors ? 0 : -1, err);
    if (rc == 0)
        rc = dt_ckpt_load_weights(t->weights, &model, t->base, err);
    free(model.tensors);
    return rc;
}

struct filling {
    const struct dt_trainer *t;
    struct dt_ckpt_model model;
    struct dt_ckpt_weights *weights;
    int rc; /* of the first failure */
    struct dt_err why;
};

/* What is saved of the model is alone in its unit: the first tensor, or the last. */
static void fill(void *arg, size_t unit, size_t param, size_t first, size_t count, float *out)
{
    struct filling *f = arg;
    const struct dt_trainer *t = f->t;
    const struct dt_lora *lora = t->saved.lora;
    size_t tensor = (size_t)(t->units[unit].params - t->params) + param;
    bool embedding = lora->saves_embedding && unit == 0;
    bool head = lora->saves_head && unit == t->unit_count - 1;
    if (!embedding && !head)
        dt_init_tensor(&t->saved.tensors[tensor], tensor, t->config->train.seed, first, count, out);
    else if (f->rc == 0)
        f->rc = dt_ckpt_weights_read(f->weights, embedding ? 0 : f->model.count - 1, first, count,
                                     out, &f->why);
}

int dt_base_fill(struct dt_trainer *t, struct dt_err *err)
{
    struct filling f = {.t = t, .model = model_of(t, err)};
    if (f.model.tensors)
        f.weights = dt_ckpt_weights_open(t->weights, &f.model, err);
    int rc = dt_agree(t->world, f.weights ? 0 : -1, err);
    if (rc == 0)
        rc = dt_zero_fill(t->zero, fill, &f, err);
    if (rc == 0) {
        if (f.rc < 0)
            *err = f.why;
        rc = dt_agree(t->world, f.rc, err);
    }
    dt_ckpt_weights_close(f.weights);
    free(f.model.tensors);
    return rc;
}
