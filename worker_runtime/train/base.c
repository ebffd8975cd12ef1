/* SPDX-License-Identifier: Apache-2.0 */
/* The model that adapters are trained beside, or that answers are compared with. It is in no
 * checkpoint and in no vault: each world reads it again from where the run began. */
#include "base/auto.h"
#include "worker_runtime/ckpt/adapted.h"
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/model/packed.h"
#include "worker_runtime/ops/ops.h"
#include "worker_runtime/train/init.h"
#include "worker_runtime/train/inside.h"
#include "worker_runtime/train/packed_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- which one it is -------------------------------------------------------------------------- */

/* Where adapters that are gone on with have their model; "": there are none, or they do not say. */
static void find_before(const struct dt_trainer *t, const struct dt_found *f, char out[PATH_MAX])
{
    char said[PATH_MAX], room[PATH_MAX];
    *out = '\0';
    if (dt_keeper_is_back(&t->keeper))
        snprintf(out, PATH_MAX, "%s", t->keeper.last->base);
    else if (f->path[0] && dt_ckpt_adapters_base(f->path, said, NULL) == 0)
        snprintf(out, PATH_MAX, "%s", dt_ckpt_weights_folder(said, room));
}

static bool is_same_folder(const char *one, const char *other)
{
    DT_AUTO_FREE char *a = realpath(one, NULL), *b = realpath(other, NULL);
    return strcmp(one, other) == 0 || (a && b && strcmp(a, b) == 0);
}

/* Whether CHECKPOINT, which is there, is one of the folder DIR. */
static bool is_one_of(const char *checkpoint, const char *dir)
{
    DT_AUTO_FREE char *there = realpath(checkpoint, NULL);
    char *slash = there ? strrchr(there, '/') : NULL;
    if (!slash)
        return false;
    *slash = '\0';
    return is_same_folder(there, dir);
}

/* Adapters fit any model of the same sizes, and are of use with one. */
void dt_base_settle(struct dt_trainer *t, const struct dt_found *f)
{
    char was[PATH_MAX];
    const char *source = dt_keeper_is_back(&t->keeper) ? "the vault" : f->path;
    const char *what = t->config->lora.r > 0 ? "adapters" : "weights";
    if (t->config->lora.r == 0 && !t->config->dpo.on)
        return;
    find_before(t, f, was);
    if (!*was || is_same_folder(was, t->weights))
        return;
    if (is_one_of(was, t->options->init_from)) {
        dt_buf_printf(&t->warnings,
                      "model.weights: %s is newer than the checkpoint that the %s in %s were "
                      "trained beside; the run stays with %s\n",
                      t->weights, what, source, was);
        snprintf(t->weights, sizeof t->weights, "%s", was);
        return;
    }
    dt_buf_printf(&t->warnings,
                  "the %s in %s were trained beside the model in %s; from here on it is the one in "
                  "%s\n",
                  what, source, was, t->weights);
}

/* -- having it -------------------------------------------------------------------------------- */

/* What of it this rank has. In NF4 the model is laid out in words, which are kept as they are. */
static struct dt_tensor *lay_out(const struct dt_trainer *t, struct dt_zero_options *o,
                                 struct dt_err *err)
{
    struct dt_tensor *tensors;
    if (t->config->lora_nf4) {
        o->words = true;
        o->model_type = DT_F32;
        tensors = dt_packed_tensors(&t->part, t->device->ops->elem, err);
    } else {
        tensors = dt_shape_tensors(&t->part, err);
    }
    if (tensors && t->parts)
        dt_stage_keep(&t->part, &t->stage, tensors);
    return tensors;
}

int dt_base_open(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_shape *shape = &t->part;
    struct dt_zero_options o = t->config->zero;
    struct dt_unit *units = NULL;
    struct dt_param *params = NULL;
    if (t->config->lora.r == 0 && !t->config->dpo.on)
        return 0;
    o.frozen = true;
    struct dt_tensor *tensors = lay_out(t, &o, err);
    int rc = tensors ? dt_shape_units(shape, tensors, &units, &params, err) : -1;
    rc = dt_agree(t->world, rc, err);
    if (rc == 0)
        t->base = dt_zero_create(t->context, dt_trainer_replicas(t)->group, units,
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
                                  .count = dt_shape_tensor_count(shape),
                                  .recut = t->saved.recut};
}

int dt_base_load(struct dt_trainer *t, struct dt_err *err)
{
    if (!t->base)
        return 0;
    struct dt_ckpt_model model = model_of(t, err);
    int rc = dt_agree(t->world, model.tensors ? 0 : -1, err);
    if (rc == 0)
        rc = t->config->lora_nf4
                 ? dt_packed_base_load(t->base, t->weights, &model, t->config->zero.model_type, err)
                 : dt_ckpt_load_weights(t->weights, &model, t->base, err);
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

/* The layer that the adapter's tensor T, of unit UNIT, stands beside. */
static size_t layer_beside(const struct filling *f, const struct dt_tensor *t, size_t unit)
{
    size_t block = unit - f->t->saved.lora->saves_embedding, i = 0;
    while (f->model.tensors[i].unit != block + 1 || f->model.tensors[i].which != t->which)
        i++;
    return i;
}

/* What is saved of the model is alone in its unit: the first tensor, or the last. Magnitudes begin
 * as what the layers have, whose weights are kept in the model's type. */
static int fill_run(struct filling *f, size_t unit, size_t tensor, size_t first, size_t count,
                    float *out)
{
    const struct dt_trainer *t = f->t;
    const struct dt_lora *lora = t->saved.lora;
    const struct dt_tensor *own = &t->saved.tensors[tensor];
    bool embedding = lora->saves_embedding && unit == 0;
    bool head = lora->saves_head && unit == t->unit_count - 1;
    if (embedding || head)
        return dt_ckpt_weights_read(f->weights, embedding ? 0 : f->model.count - 1, first, count,
                                    out, &f->why);
    if (own->rank == 1)
        return dt_ckpt_weights_norms(f->weights, layer_beside(f, own, unit),
                                     t->config->zero.model_type, first, count, out, &f->why);
    dt_init_tensor(own, tensor, t->config->train.seed, first, count, out);
    return 0;
}

static void fill(void *arg, size_t unit, size_t param, size_t first, size_t count, float *out)
{
    struct filling *f = arg;
    const struct dt_trainer *t = f->t;
    size_t tensor = (size_t)(t->units[unit].params - t->params) + param;
    while (f->rc == 0 && count > 0) {
        size_t run = count, there = dt_recut_place(&t->saved, tensor, first, &run);
        if (there == DT_PADDING)
            memset(out, 0, run * sizeof *out);
        else
            f->rc = fill_run(f, unit, tensor, there, run, out);
        first += run;
        count -= run;
        out += run;
    }
}

int dt_base_fill(struct dt_trainer *t, struct dt_err *err)
{
    struct filling f = {.t = t, .model = model_of(t, err)};
    if (f.model.tensors)
        f.weights = dt_ckpt_weights_open(t->weights, &f.model, err);
    if (f.weights && t->config->lora_nf4)
        dt_ckpt_weights_quantize(f.weights, t->config->zero.model_type);
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
