/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/stage.h"

struct dt_chunk dt_chunk_units(const struct dt_shape *s, const struct dt_chunk *c)
{
    return (struct dt_chunk){dt_chunk_is_first(c) ? 0 : c->first + 1,
                             dt_chunk_is_last(s, c) ? s->layers + 2 : c->end + 1};
}

const struct dt_chunk *dt_stage_longest(const struct dt_stage *stage)
{
    const struct dt_chunk *most = stage->chunk;
    for (const struct dt_chunk *c = stage->chunk; c < stage->chunk + stage->chunks; c++)
        most = c->end - c->first > most->end - most->first ? c : most;
    return most;
}

bool dt_stage_is_last(const struct dt_shape *s, const struct dt_stage *stage)
{
    return dt_chunk_is_last(s, &stage->chunk[stage->chunks - 1]);
}

bool dt_stage_is_whole(const struct dt_shape *s, const struct dt_stage *stage)
{
    return dt_chunk_is_first(&stage->chunk[0]) && dt_chunk_is_last(s, &stage->chunk[0]);
}

bool dt_stage_has(const struct dt_shape *s, const struct dt_stage *stage, size_t unit)
{
    if (unit == 0 && s->tied && dt_stage_is_last(s, stage))
        return true;
    for (size_t i = 0; i < stage->chunks; i++) {
        struct dt_chunk units = dt_chunk_units(s, &stage->chunk[i]);
        if (unit >= units.first && unit < units.end)
            return true;
    }
    return false;
}

void dt_stage_keep(const struct dt_shape *s, const struct dt_stage *stage,
                   struct dt_tensor *tensors)
{
    size_t count = dt_shape_tensor_count(s);
    for (struct dt_tensor *t = tensors; t < tensors + count; t++)
        if (!dt_stage_has(s, stage, t->unit))
            t->count = t->offset = t->dims[0] = 0;
}
