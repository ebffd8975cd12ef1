/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a pipeline, one behind the other in one process, and several micro-batches under
 * way in them. */
#ifndef DT_TESTS_RUNTIME_TRANSFORMER_LINE_H
#define DT_TESTS_RUNTIME_TRANSFORMER_LINE_H

#include "tests/runtime/transformer_world.h"

/* MICRO_BATCHES forward, and then backward from the first: what pipelines do. */
enum { MICRO_BATCHES = 3 };

static inline double train_at_once(struct world *w, int32_t *const *ids, const size_t *batch)
{
    struct dt_err err = {0};
    double loss = 0;
    for (size_t i = 0; i < MICRO_BATCHES; i++)
        CHECK_OK(dt_transformer_forward(w->t, w->z, i, batch[i], ids[i], w->targets, 1, &err), err);
    for (size_t i = 0; i < MICRO_BATCHES; i++)
        CHECK_OK(dt_transformer_backward(w->t, w->z, i, &loss, &err), err);
    CHECK(held_all_back(w->z));
    return loss;
}

/* The transformers of a pipeline's stages, all of them here, over one dt_zero. */
struct line {
    struct world *w;
    struct dt_transformer *t[3];
    size_t stages;
};

/* The auxiliary loss, where a model has one. */
static inline void balance(struct dt_transformer *t, const struct dt_shape *s)
{
    if (s->balance_experts)
        dt_transformer_balance(t, 0.7);
}

static inline size_t border_bytes(const struct world *w, size_t batch)
{
    size_t numbers = batch * w->positions * w->shape.width;
    return (numbers + dt_shape_pick_counts(&w->shape)) * sizeof(float);
}

static inline void open_line(struct line *l, struct world *w, size_t stages, bool recompute,
                             bool halves)
{
    struct dt_err err = {0};
    size_t layers = w->shape.layers;
    *l = (struct line){.w = w, .stages = stages};
    for (size_t i = 0; i < stages; i++) {
        struct dt_transformer_options o = {
            .batch = w->batch,
            .positions = w->positions,
            .slots = MICRO_BATCHES,
            .recompute = recompute,
            .halves = halves,
            .stage = {.chunks = 1, .chunk = {{layers * i / stages, layers * (i + 1) / stages}}}};
        l->t[i] = dt_transformer_create(&w->shape, &o, w->device, &err);
        CHECK_OK(l->t[i] ? 0 : -1, err);
        balance(l->t[i], &w->shape);
    }
}

static inline void close_line(struct line *l)
{
    for (size_t i = 0; i < l->stages; i++)
        dt_transformer_destroy(l->t[i]);
}

/* From the end of one stage to the beginning of the next. */
static inline void line_forward(struct line *l, size_t slot, size_t batch, const int32_t *ids)
{
    struct world *w = l->w;
    size_t bytes = border_bytes(w, batch);
    struct dt_err err = {0};
    for (size_t i = 0; i < l->stages; i++) {
        bool last = i + 1 == l->stages;
        if (i > 0)
            memcpy(dt_transformer_input(l->t[i], slot), dt_transformer_border(l->t[i - 1], slot),
                   bytes);
        CHECK_OK(dt_transformer_forward(l->t[i], w->z, slot, batch, i ? NULL : ids,
                                        last ? w->targets : NULL, 1, &err),
                 err);
    }
}

/* The inputs' halves of all stages, and of each stage's weights' halves the oldest one micro-batch
 * later: as ZB-H1 has them behind each other. */
static inline void line_halves(struct line *l, const size_t *batch, double *loss)
{
    struct world *w = l->w;
    struct dt_err err = {0};
    for (size_t m = 0; m < MICRO_BATCHES + 1; m++)
        for (size_t i = l->stages; i-- > 0;) {
            size_t bytes = batch[m % MICRO_BATCHES] * w->positions * w->shape.width;
            if (m < MICRO_BATCHES && i + 1 < l->stages)
                memcpy(dt_transformer_border(l->t[i], m), dt_transformer_border(l->t[i + 1], m),
                       bytes * sizeof(float));
            if (m < MICRO_BATCHES)
                CHECK_OK(dt_transformer_backward_inputs(l->t[i], w->z, m, loss, &err), err);
            if (m > 0)
                CHECK_OK(dt_transformer_backward_weights(l->t[i], w->z, m - 1, &err), err);
        }
}

#endif
