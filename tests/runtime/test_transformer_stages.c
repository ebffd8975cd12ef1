/* SPDX-License-Identifier: Apache-2.0 */
/* Stages of a pipeline and halves of a way back are one model. */
#include "tests/runtime/transformer_line.h"

/* A tied matrix has its two gradients added in another order, all others in the same. */
TEST(several_micro_batches_may_be_under_way)
{
    static const size_t batch[MICRO_BATCHES] = {2, 1, 2};
    for (size_t i = 0; i < 2 * ROWS(shapes); i++) {
        struct world w;
        struct dt_err err = {0};
        size_t count, samples = 2 * 5;
        int32_t *ids[MICRO_BATCHES];
        double loss = 0;
        open_world(&w, &shapes[i / 2], 2, 5);
        open_transformer(&w, i % 2, 1);
        CHECK_ROW("%s, recompute %zu", name_of(&w.shape), i % 2);
        for (size_t m = 0; m < MICRO_BATCHES; m++) {
            ids[m] = calloc(samples, sizeof *ids[m]);
            for (size_t k = 0; k < samples; k++)
                ids[m][k] = w.ids[(k + m) % samples];
            CHECK_OK(dt_transformer_train(w.t, w.z, batch[m], ids[m], w.targets, 1, &loss, &err),
                     err);
        }
        float *one_by_one = grads_of(&w, &count);
        held_clear_grads(w.z);
        CHECK(train_at_once(&w, ids, batch) == loss);
        float *at_once = grads_of(&w, &count);
        if (w.shape.tied)
            check_close(at_once, one_by_one, count, 1e-6);
        else
            check_same_bits(at_once, one_by_one, count);
        for (size_t m = 0; m < MICRO_BATCHES; m++)
            free(ids[m]);
        free(one_by_one);
        free(at_once);
        close_world(&w);
    }
}

static void line_backward(struct line *l, size_t slot, size_t batch, double *loss)
{
    struct world *w = l->w;
    size_t bytes = border_bytes(w, batch);
    struct dt_err err = {0};
    for (size_t i = l->stages; i-- > 0;) {
        if (i + 1 < l->stages)
            memcpy(dt_transformer_border(l->t[i], slot), dt_transformer_border(l->t[i + 1], slot),
                   bytes);
        CHECK_OK(dt_transformer_backward(l->t[i], w->z, slot, loss, &err), err);
    }
}

/* Through four sections, of two stages in turn; SLOT: of each of the two chunks. */
static void sections_forward(struct line *l, const size_t *slot, const int32_t *ids)
{
    struct world *w = l->w;
    size_t bytes = border_bytes(w, w->batch);
    struct dt_err err = {0};
    for (size_t i = 0; i < 4; i++) {
        struct dt_transformer *t = l->t[i % 2], *before = l->t[!(i % 2)];
        dt_transformer_turn(t, slot[i / 2], i / 2);
        if (i > 0)
            memcpy(dt_transformer_input(t, slot[i / 2]),
                   dt_transformer_border(before, slot[(i - 1) / 2]), bytes);
        CHECK_OK(dt_transformer_forward(t, w->z, slot[i / 2], w->batch, ids, w->targets, 1, &err),
                 err);
    }
}

static void sections_backward(struct line *l, const size_t *slot, double *loss)
{
    struct world *w = l->w;
    size_t bytes = border_bytes(w, w->batch);
    struct dt_err err = {0};
    for (size_t i = 4; i-- > 0;) {
        struct dt_transformer *t = l->t[i % 2], *behind = l->t[!(i % 2)];
        if (i < 3)
            memcpy(dt_transformer_border(t, slot[i / 2]),
                   dt_transformer_border(behind, slot[(i + 1) / 2]), bytes);
        CHECK_OK(dt_transformer_backward(t, w->z, slot[i / 2], loss, &err), err);
    }
}

/* Windows, speeds and the like of a block are those of its number in the whole model. */
TEST(stages_of_a_pipeline_are_one_model_to_the_bit)
{
    static const size_t batch[MICRO_BATCHES] = {2, 1, 2};
    for (size_t i = 0; i < 2 * ROWS(shapes); i++) {
        struct world w;
        struct line l;
        size_t count;
        double loss = 0;
        if (shapes[i / 2].layers < 2)
            continue;
        open_world(&w, &shapes[i / 2], 2, 5);
        open_transformer(&w, i % 2, 1);
        balance(w.t, &w.shape);
        CHECK_ROW("%s, recompute %zu", name_of(&w.shape), i % 2);
        int32_t *const ids[MICRO_BATCHES] = {w.ids, w.targets, w.ids};
        double wanted = train_at_once(&w, ids, batch);
        float *whole = grads_of(&w, &count);
        held_clear_grads(w.z);
        open_line(&l, &w, shapes[i / 2].layers, i % 2, false);
        for (size_t m = 0; m < MICRO_BATCHES; m++)
            line_forward(&l, m, batch[m], ids[m]);
        for (size_t m = 0; m < MICRO_BATCHES; m++)
            line_backward(&l, m, batch[m], &loss);
        CHECK(held_all_back(w.z));
        CHECK(loss == wanted);
        float *parts = grads_of(&w, &count);
        check_same_bits(parts, whole, count);
        free(whole);
        free(parts);
        close_line(&l);
        close_world(&w);
    }
}

/* Also where chance drops what is to be dropped on both ways, as it did forward. */
TEST(halves_of_a_way_back_are_the_whole_to_the_bit)
{
    static const size_t batch[MICRO_BATCHES] = {2, 1, 2};
    for (size_t i = 0; i < 2 * ROWS(shapes); i++) {
        struct dt_shape shape = i % 2 ? dropping(&shapes[i / 2]) : shapes[i / 2];
        struct world w;
        struct line l;
        size_t count;
        double loss = 0;
        if (shape.experts)
            continue;
        CHECK_ROW("%s%s", name_of(&shape), i % 2 ? ", with dropout" : "");
        open_world(&w, &shape, 2, 5);
        int32_t *const ids[MICRO_BATCHES] = {w.ids, w.targets, w.ids};
        double wanted = train_at_once(&w, ids, batch);
        float *whole = grads_of(&w, &count);
        held_clear_grads(w.z);
        open_line(&l, &w, shape.layers, false, true);
        for (size_t m = 0; m < MICRO_BATCHES; m++)
            line_forward(&l, m, batch[m], ids[m]);
        line_halves(&l, batch, &loss);
        CHECK(held_all_back(w.z));
        CHECK(loss == wanted);
        float *halves = grads_of(&w, &count);
        check_same_bits(halves, whole, count);
        free(whole);
        free(halves);
        close_line(&l);
        close_world(&w);
    }
}

/* Behind the inputs' half a stage has given its input's gradient, and those of norms; and weights,
 * biases and words have none yet. */
TEST(weights_have_no_gradients_before_their_half)
{
    struct dt_err err = {0};
    struct world w;
    struct line l;
    double loss = 0;
    open_world(&w, &shapes[1], 2, 5);
    open_line(&l, &w, 1, false, true);
    line_forward(&l, 0, 2, w.ids);
    CHECK_OK(dt_transformer_backward_inputs(l.t[0], w.z, 0, &loss, &err), err);
    for (struct dt_tensor *t = w.tensors; t < w.tensors + w.tensor_count; t++) {
        bool norm =
            t->unit > 0 && (t->which <= DT_GPT2_LN_1_BIAS || t->which == DT_GPT2_LN_2_WEIGHT ||
                            t->which == DT_GPT2_LN_2_BIAS);
        const float *grads = w.z->unit[t->unit].sums + t->offset;
        float most = 0;
        for (size_t k = 0; k < t->count; k++)
            most = fmaxf(most, fabsf(grads[k]));
        CHECK_ROW("tensor %zu of unit %zu", t->which, t->unit);
        if (t->unit <= shapes[1].layers)
            CHECK_EQ(most > 0, norm);
    }
    CHECK_OK(dt_transformer_backward_weights(l.t[0], w.z, 0, &err), err);
    close_line(&l);
    close_world(&w);
}

/* As halves.h counts them, for each row of each block of each slot. */
TEST(what_is_held_for_weights_is_counted)
{
    const struct dt_device_form form = {.elem = DT_F32};
    static const size_t rows = 2 * 32; /* so that arrays are whole lines */
    for (size_t i = 0; i < ROWS(shapes); i++) {
        const struct dt_shape *s = &shapes[i];
        struct dt_shape wide = *s;
        wide.positions = 32;
        struct dt_transformer_options o = {.batch = 2, .positions = 32, .slots = 3};
        size_t plain = dt_transformer_bytes(&wide, &o, form);
        size_t numbers = 2 * s->width + (s->heads + 2 * s->kv_heads) * s->head_dim +
                         (s->family == DT_GPT2 ? 1 : 2) * s->inner;
        if (s->experts)
            continue;
        CHECK_ROW("%s", name_of(s));
        o.halves = true;
        CHECK_EQ(dt_transformer_bytes(&wide, &o, form) - plain,
                 3 * s->layers * rows * numbers * sizeof(float));
    }
}

/* Two stages, whose sections lie one behind the other in turns: what a slot is of follows the
 * micro-batch through them. */
TEST(stages_in_chunks_are_one_model_to_the_bit)
{
    static const size_t ends[] = {0, 2, 3, 5, 6};
    static const size_t slots[MICRO_BATCHES][2] = {{3, 0}, {1, 2}, {5, 4}};
    for (size_t row = 0; row < 2 * 3; row++) {
        struct dt_shape deep = shapes[row % 2 ? ROWS(shapes) - 1 : 0];
        size_t recompute = row / 2;
        deep.layers = 6;
        struct world w;
        struct line l = {.w = &w, .stages = 2};
        struct dt_err err = {0};
        size_t count;
        double loss = 0;
        CHECK_ROW("%s, recompute every %zu", name_of(&deep), recompute);
        open_world(&w, &deep, 2, 5);
        open_transformer(&w, false, 1);
        balance(w.t, &deep);
        int32_t *const ids[MICRO_BATCHES] = {w.ids, w.targets, w.ids};
        double wanted = train_at_once(&w, ids, (size_t[]){2, 2, 2});
        float *whole = grads_of(&w, &count);
        held_clear_grads(w.z);
        for (size_t i = 0; i < 2; i++) {
            struct dt_transformer_options o = {
                .batch = 2,
                .positions = 5,
                .slots = 2 * MICRO_BATCHES,
                .recompute = recompute > 0,
                .recompute_every = recompute,
                .stage = {.chunks = 2,
                          .chunk = {{ends[i], ends[i + 1]}, {ends[i + 2], ends[i + 3]}}}};
            l.t[i] = dt_transformer_create(&deep, &o, w.device, &err);
            CHECK_OK(l.t[i] ? 0 : -1, err);
            balance(l.t[i], &deep);
        }
        for (size_t m = 0; m < MICRO_BATCHES; m++)
            sections_forward(&l, slots[m], ids[m]);
        for (size_t m = 0; m < MICRO_BATCHES; m++)
            sections_backward(&l, slots[m], &loss);
        CHECK(held_all_back(w.z));
        CHECK(loss == wanted);
        float *parts = grads_of(&w, &count);
        if (deep.tied)
            check_close(parts, whole, count, 1e-6);
        else
            check_same_bits(parts, whole, count);
        free(whole);
        free(parts);
        close_line(&l);
        close_world(&w);
    }
}

/* A slot has room for the longest chunk, whichever is in it. */
TEST(a_stage_takes_memory_for_its_longest_chunk)
{
    const struct dt_device_form form = {.elem = DT_F32};
    struct dt_shape deep = shapes[0];
    deep.layers = 6;
    struct dt_transformer_options o = {
        .batch = 2, .positions = 5, .stage = {.chunks = 1, .chunk = {{2, 5}}}};
    size_t alone = dt_transformer_bytes(&deep, &o, form);
    o.stage = (struct dt_stage){.chunks = 2, .chunk = {{0, 1}, {2, 5}}};
    CHECK_EQ(dt_transformer_bytes(&deep, &o, form), alone);
}

TEST(a_stage_takes_memory_for_its_own_blocks)
{
    const struct dt_device_form form = {.elem = DT_F32};
    const struct dt_shape *s = &shapes[0];
    struct dt_transformer_options o = {.batch = 2, .positions = 5};
    size_t all = dt_transformer_bytes(s, &o, form), blocks = 0, one[3];
    for (size_t i = 0; i < 3; i++) {
        o.stage = (struct dt_stage){.chunks = 1, .chunk = {{i, i + 1}}};
        one[i] = dt_transformer_bytes(s, &o, form);
        blocks += one[i];
    }
    CHECK(one[0] < all && one[1] == one[0] && blocks > all);
    o.slots = 3;
    CHECK(dt_transformer_bytes(s, &o, form) > one[2] * 2);
}
