/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a model that one stage of a pipeline has: some blocks, in front of the first ones the
 * words, behind the last ones the head. A tied head is the words' matrix, so the last stage has a
 * copy of the words then. Units and tensors keep the numbers that they have in the whole model;
 * those of other stages are empty. Pure. */
#ifndef DT_WORKER_RUNTIME_MODEL_STAGE_H
#define DT_WORKER_RUNTIME_MODEL_STAGE_H

#include "worker_runtime/model/shape.h"

struct dt_stage {
    size_t first, end; /* blocks from FIRST to below END, one at least; END 0: all of the model */
};

/* The same with END written out. */
static inline struct dt_stage dt_stage_of(const struct dt_shape *s, struct dt_stage stage)
{
    return stage.end ? stage : (struct dt_stage){0, s->layers};
}

static inline bool dt_stage_is_first(const struct dt_stage *stage)
{
    return stage->first == 0;
}

static inline bool dt_stage_is_last(const struct dt_shape *s, const struct dt_stage *stage)
{
    return stage->end == s->layers;
}

/* Whether the stage has that unit of dt_shape_units(). */
bool dt_stage_has(const struct dt_shape *s, const struct dt_stage *stage, size_t unit);

/* TENSORS of S, as dt_shape_tensors() gives them: those of other stages lose all elements. */
void dt_stage_keep(const struct dt_shape *s, const struct dt_stage *stage,
                   struct dt_tensor *tensors);

#endif
