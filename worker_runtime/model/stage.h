/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a model that one stage of a pipeline has: some blocks, in front of the first ones the
 * words, behind the last ones the head. They may be in several chunks, which are apart in the
 * model. A tied head is the words' matrix, so the last stage has a copy of the words then. Units
 * and tensors keep the numbers that they have in the whole model; those of other stages are empty.
 * Pure. */
#ifndef DT_WORKER_RUNTIME_MODEL_STAGE_H
#define DT_WORKER_RUNTIME_MODEL_STAGE_H

#include "worker_runtime/model/shape.h"

#define DT_STAGE_CHUNKS_MOST 16

struct dt_chunk {
    size_t first, end; /* blocks from FIRST to below END, one at least */
};

struct dt_stage {
    size_t chunks;                               /* 0: all of the model */
    struct dt_chunk chunk[DT_STAGE_CHUNKS_MOST]; /* in the order of the model */
};

/* The same with what it has written out. */
static inline struct dt_stage dt_stage_of(const struct dt_shape *s, const struct dt_stage *stage)
{
    return stage->chunks ? *stage : (struct dt_stage){.chunks = 1, .chunk = {{0, s->layers}}};
}

static inline bool dt_chunk_is_first(const struct dt_chunk *c)
{
    return c->first == 0;
}

static inline bool dt_chunk_is_last(const struct dt_shape *s, const struct dt_chunk *c)
{
    return c->end == s->layers;
}

/* Its units of dt_shape_units(), likewise; without the copy of the words. */
struct dt_chunk dt_chunk_units(const struct dt_shape *s, const struct dt_chunk *c);

/* Of the chunks of a stage that is written out. */
const struct dt_chunk *dt_stage_longest(const struct dt_stage *stage);
bool dt_stage_is_last(const struct dt_shape *s, const struct dt_stage *stage);
bool dt_stage_is_whole(const struct dt_shape *s, const struct dt_stage *stage);

/* Whether the stage has that unit. */
bool dt_stage_has(const struct dt_shape *s, const struct dt_stage *stage, size_t unit);

/* TENSORS of S, as dt_shape_tensors() gives them: those of other stages lose all elements. */
void dt_stage_keep(const struct dt_shape *s, const struct dt_stage *stage,
                   struct dt_tensor *tensors);

#endif
