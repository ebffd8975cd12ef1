/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/lora_cut.h"

static bool is_saved(const struct dt_lora *l, const struct dt_shape *s, size_t unit)
{
    return (l->saves_embedding && unit == 0) ||
           (l->saves_head && unit == dt_lora_unit_count(l, s) - 1);
}

/* The unit of the model that is saved as UNIT, or that it stands beside. */
static size_t model_unit(const struct dt_lora *l, size_t unit)
{
    return l->saves_embedding ? unit : unit + 1;
}

void dt_lora_keep(const struct dt_lora *l, const struct dt_shape *s, const struct dt_stage *stage,
                  struct dt_tensor *tensors, size_t count)
{
    for (struct dt_tensor *t = tensors; t < tensors + count; t++)
        if (!dt_stage_has(s, stage, model_unit(l, t->unit)))
            t->count = t->offset = t->dims[0] = 0;
}

struct dt_chunk dt_lora_units(const struct dt_lora *l, const struct dt_shape *s,
                              const struct dt_chunk *c)
{
    return (struct dt_chunk){dt_chunk_is_first(c) ? 0 : dt_lora_block_unit(l, c->first),
                             dt_chunk_is_last(s, c) ? dt_lora_unit_count(l, s)
                                                    : dt_lora_block_unit(l, c->end)};
}

void dt_lora_part(const struct dt_lora *l, const struct dt_shape *s, const struct dt_tensor *t,
                  size_t parts, size_t index, struct dt_tensor_part *out)
{
    struct dt_tensor own = *t;
    own.unit = model_unit(l, t->unit);
    dt_shape_part(s, &own, parts, index, out);
    if (is_saved(l, s, t->unit))
        return;
    bool by_outputs = out->dim == (s->family == DT_GPT2 ? 1 : 0);
    bool has_inputs = t->index % dt_lora_each(l) == 0; /* it is A */
    if (by_outputs == has_inputs)
        *out = (struct dt_tensor_part){
            .whole = true, .copies = parts, .stretches = 1, .stretch = {{0, t->dims[0]}}};
    else
        out->dim = has_inputs ? 1 : 0;
}
