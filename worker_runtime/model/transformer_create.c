/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a transformer: where tensors are in their units, and the memory that it computes in. */
#include "worker_runtime/model/packed.h"
#include "worker_runtime/model/work.h"

#include <stdlib.h>
#include <string.h>

/* All blocks are alike: the first stands for them. */
static int find_tensors(struct dt_transformer *t, struct dt_err *err)
{
    enum dt_dtype type = t->device->ops->elem;
    bool packed = t->options.nf4;
    size_t count = dt_shape_tensor_count(&t->shape);
    size_t elem = packed ? sizeof(uint32_t) : dt_dtype_size(type);
    struct dt_tensor *tensors =
        packed ? dt_packed_tensors(&t->shape, type, err) : dt_shape_tensors(&t->shape, err);
    if (!tensors)
        return -1;
    for (const struct dt_tensor *n = tensors; n < tensors + count; n++) {
        if (n->unit == 0)
            t->embed_at[n->which] = n->offset * elem;
        else if (n->unit == 1 && n->expert == 0) { /* others of a row are behind the first */
            t->block_at[n->which] = n->offset * elem;
            t->block_count[n->which] = dt_packed_numbers(n);
        } else if (n->unit == dt_transformer_head_unit(t))
            t->head_at[n->which] = n->offset * elem;
    }
    free(tensors);
    return 0;
}

static int find_pairs(struct dt_transformer *t, struct dt_err *err)
{
    const struct dt_lora *lora = t->options.lora;
    struct dt_lora_pair found[DT_BLOCK_TENSORS_MOST];
    if (!lora)
        return 0;
    t->pair_count = (size_t)__builtin_popcount(lora->targets);
    t->pairs = calloc(t->shape.layers * t->pair_count + 1, sizeof *t->pairs);
    if (!t->pairs)
        return dt_err_set(err, DT_E_MEMORY, "no memory for adapters of %zu blocks",
                          t->shape.layers);
    for (size_t block = 0; block < t->shape.layers; block++) {
        size_t count;
        if (dt_lora_pairs(lora, &t->shape, block, found, &count, err) < 0)
            return -1;
        memcpy(t->pairs + block * t->pair_count, found, t->pair_count * sizeof *found);
    }
    return 0;
}

/* Work is not the same twice where chance is in it, and is more than ops where ranks sum up what
 * they compute. */
static bool uses_tapes(const struct dt_transformer *t)
{
    const struct dt_transformer_options *o = &t->options;
    bool drops = o->lora && o->lora->dropout > 0;
    bool same = !drops && !o->team && !o->context;
    return t->device->tapes && !o->op_by_op && !o->timed && same; /* who is timed waits between */
}

struct dt_transformer *dt_transformer_create(const struct dt_shape *shape,
                                             const struct dt_transformer_options *o,
                                             struct dt_device *device, struct dt_err *err)
{
    if (o->batch < 1 || o->positions < 1 || o->positions > shape->positions) {
        dt_err_set(err, DT_E_USAGE,
                   "%zu samples of %zu positions; this model takes 1 to %zu positions", o->batch,
                   o->positions, shape->positions);
        return NULL;
    }
    struct dt_transformer *t = calloc(1, sizeof *t);
    if (!t) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a model");
        return NULL;
    }
    t->shape = *shape;
    t->options = *o;
    if (o->words.parts == 0)
        t->options.words = dt_shape_words(shape, 1, 0);
    t->stage = dt_stage_of(shape, &o->stage);
    t->options.pieces.positions = o->positions;
    t->device = device;
    if (dt_activations_create(&t->a, shape, o, device, err) < 0 || find_tensors(t, err) < 0 ||
        find_pairs(t, err) < 0)
        goto fail;
    if (uses_tapes(t)) {
        t->tape = device->tapes->open(device, err);
        if (!t->tape)
            goto fail;
    }
    t->losses = calloc(o->batch * o->positions, sizeof *t->losses);
    t->places = calloc(o->batch * o->positions, sizeof *t->places);
    t->words = calloc(o->batch * o->positions, sizeof *t->words);
    if (t->losses && t->places && t->words)
        return t;
    dt_err_set(err, DT_E_MEMORY, "no memory for %zu losses", o->batch * o->positions);
fail:
    dt_transformer_destroy(t);
    return NULL;
}

void dt_transformer_destroy(struct dt_transformer *t)
{
    if (!t)
        return;
    if (t->tape)
        t->device->tapes->close(t->tape);
    dt_activations_destroy(&t->a, t->device);
    free(t->pairs);
    free(t->losses);
    free(t->places);
    free(t->words);
    free(t);
}
