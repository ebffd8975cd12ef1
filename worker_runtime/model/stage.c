/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/stage.h"

bool dt_stage_has(const struct dt_shape *s, const struct dt_stage *stage, size_t unit)
{
    bool last = dt_stage_is_last(s, stage);
    if (unit == 0)
        return dt_stage_is_first(stage) || (last && s->tied);
    if (unit > s->layers)
        return last;
    return unit > stage->first && unit <= stage->end;
}

void dt_stage_keep(const struct dt_shape *s, const struct dt_stage *stage,
                   struct dt_tensor *tensors)
{
    size_t count = dt_shape_tensor_count(s);
    for (struct dt_tensor *t = tensors; t < tensors + count; t++)
        if (!dt_stage_has(s, stage, t->unit))
            t->count = t->offset = t->dims[0] = 0;
}
