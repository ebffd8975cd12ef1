/* SPDX-License-Identifier: Apache-2.0 */
/* One way through a model, forward or back. For the files of the transformer. */
#ifndef DT_WORKER_RUNTIME_MODEL_PASS_H
#define DT_WORKER_RUNTIME_MODEL_PASS_H

#include "worker_runtime/model/work.h"

struct dt_pass {
    struct dt_transformer *t;
    struct dt_zero *z;
    size_t slot, batch;
    bool train, weighed;
    enum dt_half half; /* of the way back */
    float scale;
    struct dt_err *err;
};

/* Of whole samples, and of what of them is here. */
static inline size_t dt_pass_places(const struct dt_pass *p)
{
    return p->batch * p->t->options.positions;
}

static inline size_t dt_pass_rows(const struct dt_pass *p)
{
    return p->batch * dt_pieces_own(&p->t->options.pieces);
}

/* The blocks that the pass goes through. */
static inline const struct dt_chunk *dt_pass_chunk(const struct dt_pass *p)
{
    return &p->t->stage.chunk[p->t->a.slots[p->slot].chunk];
}

static inline bool dt_pass_is_first(const struct dt_pass *p)
{
    return dt_chunk_is_first(dt_pass_chunk(p));
}

static inline bool dt_pass_is_last(const struct dt_pass *p)
{
    return dt_chunk_is_last(&p->t->shape, dt_pass_chunk(p));
}

/* transformer_load.c. Ids and targets into its slot, once they are checked; of them a stage has
 * what it computes with. */
int dt_pass_load(const struct dt_pass *p, const int32_t *ids, const int32_t *targets);

#endif
