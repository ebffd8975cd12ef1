/* SPDX-License-Identifier: Apache-2.0 */
/* Adapters of a small model, of which one rank has all: their gradients are the slopes of its loss,
 * they change nothing before they are trained, and dropout is the same wherever samples are. */
#include "base/json.h"
#include "tests/runtime/ops_kit.h"
#include "tests/runtime/ranks.h"
#include "worker_runtime/model/packed.h"
#include "worker_runtime/model/transformer.h"
#include "worker_runtime/ops/nf4.h"
#include "worker_runtime/ops/ops.h"
#include "worker_runtime/zero/stage.h"

enum { BATCH = 2, POSITIONS = 5, SAMPLES = 4 };

static const struct dt_shape shapes[] = {
    {.family = DT_GPT2,
     .layers = 2,
     .heads = 2,
     .kv_heads = 2,
     .width = 10,
     .head_dim = 5,
     .inner = 13,
     .positions = 7,
     .vocabulary = 11,
     .norm_eps = 1e-5f,
     .init_std = 0.02f,
     .tied = true},
    {.family = DT_LLAMA,
     .layers = 2,
     .heads = 6,
     .kv_heads = 2,
     .width = 10,
     .head_dim = 4,
     .inner = 7,
     .positions = 6,
     .vocabulary = 13,
     .norm_eps = 1e-5f,
     .rope_theta = 100,
     .init_std = 0.02f},
    {.family = DT_LLAMA,
     .layers = 3,
     .heads = 3,
     .kv_heads = 3,
     .width = 12,
     .head_dim = 4,
     .inner = 15,
     .positions = 6,
     .vocabulary = 11,
     .norm_eps = 1e-6f,
     .rope_theta = 10000,
     .init_std = 0.02f,
     .tied = true},
    {.family = DT_GPT2,
     .layers = 2,
     .heads = 5,
     .kv_heads = 5,
     .width = 10,
     .head_dim = 2,
     .inner = 9,
     .positions = 6,
     .vocabulary = 11,
     .norm_eps = 1e-5f,
     .init_std = 0.02f},
    {.family = DT_LLAMA,
     .layers = 2,
     .heads = 4,
     .kv_heads = 2,
     .width = 10,
     .head_dim = 4,
     .inner = 7,
     .positions = 6,
     .vocabulary = 13,
     .norm_eps = 1e-5f,
     .rope_theta = 100,
     .init_std = 0.02f,
     .qkv_bias = true,
     .qk_norm = true},
    {.family = DT_GEMMA2,
     .layers = 2,
     .heads = 4,
     .kv_heads = 2,
     .width = 10,
     .head_dim = 4,
     .inner = 7,
     .positions = 6,
     .vocabulary = 13,
     .norm_eps = 1e-5f,
     .rope_theta = 100,
     .init_std = 0.02f,
     .tied = true,
     .window = 3,
     .full_every = 2,
     .norm_plus_one = true,
     .scaled_words = true,
     .gelu_gate = true,
     .branch_norms = true,
     .score_cap = 2,
     .logit_cap = 3},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

struct world {
    struct dt_shape shape;
    struct dt_lora lora;
    struct dt_device *device;
    struct dt_coll *coll;
    struct dt_tensor *base_tensors, *tensors; /* tensors: of the adapters */
    size_t count;
    struct kit k;
    bool nf4;       /* the base is kept in it */
    float **values; /* of each tensor of the adapters */
    struct dt_zero *base, *z;
    struct dt_transformer *t;
    int32_t ids[SAMPLES * POSITIONS], targets[SAMPLES * POSITIONS];
};

/* What magnitudes are divided by is a constant for their gradients: found once, and then held. */
static void hold_norms(const struct dt_linear *l, size_t r, float scale, const dt_elem *a,
                       const dt_elem *b, float *rnorms, struct dt_stream *s)
{
    if (!(rnorms[0] > 0))
        dt_ops_reference.magnitude_norms(l, r, scale, a, b, rnorms, s);
}

static struct dt_ops held;

/* Weights that make themselves felt. */
static void fill_base(void *arg, size_t unit, size_t param, size_t first, size_t count, float *out)
{
    const struct world *w = arg;
    const struct dt_tensor *t = w->base_tensors;
    struct kit k = {.state = unit * 100 + param};
    while (t->unit != unit || t->index != param)
        t++;
    for (size_t i = 0; i < first; i++)
        kit_number(&k);
    for (size_t i = 0; i < count; i++)
        out[i] = t->init_value + kit_number(&k) * (t->rank == 2 ? 0.3f : 0.1f);
}

/* The same, of a tensor that is laid out in words. */
static void fill_packed(void *arg, size_t unit, size_t param, size_t first, size_t count,
                        float *out)
{
    const struct world *w = arg;
    const struct dt_tensor *t = w->base_tensors;
    struct kit room = {0};
    struct dt_err err = {0};
    struct dt_nf4_writer to;
    while (t->unit != unit || t->index != param)
        t++;
    size_t numbers = dt_packed_numbers(t);
    float *x = kit_alloc(&room, numbers * sizeof *x);
    fill_base(arg, unit, param, 0, numbers, x);
    if (!dt_packed_is_nf4(&w->shape, t)) {
        memcpy(out, x + first, count * sizeof *out);
    } else {
        float *packed = kit_alloc(&room, t->count * sizeof *packed);
        CHECK_OK(dt_nf4_open(&to, packed, numbers, &err), err);
        CHECK_OK(dt_nf4_write(&to, x, numbers, &err), err);
        dt_nf4_finish(&to);
        dt_nf4_close(&to);
        memcpy(out, packed + first, count * sizeof *out);
    }
    kit_free(&room);
}

static void fill_adapters(void *arg, size_t unit, size_t param, size_t first, size_t count,
                          float *out)
{
    const struct world *w = arg;
    size_t i = 0;
    while (w->tensors[i].unit != unit || w->tensors[i].index != param)
        i++;
    memcpy(out, w->values[i] + first, count * sizeof *out);
}

static void put_values(struct world *w)
{
    struct dt_err err = {0};
    CHECK_OK(dt_zero_fill(w->z, fill_adapters, w, &err), err);
}

static struct dt_zero *open_zero(struct world *w, const struct dt_tensor *tensors, size_t count,
                                 size_t units, bool frozen)
{
    struct dt_err err = {0};
    struct dt_zero_options o;
    struct dt_unit *unit;
    struct dt_param *param;
    const struct dt_zero_place place = {.device = w->device, .group = w->coll, .sharing = 1};
    dt_zero_defaults(&o);
    o.stage = 1;
    o.frozen = frozen;
    o.words = frozen && w->nf4;
    CHECK_OK(dt_tensor_units(tensors, count, units, &unit, &param, &err), err);
    struct dt_zero *z = dt_zero_create_on(&place, unit, units, &o, &err);
    CHECK_OK(z ? 0 : -1, err);
    free(unit);
    free(param);
    return z;
}

static void open_transformer(struct world *w, size_t recompute)
{
    struct dt_err err = {0};
    struct dt_transformer_options o = {.batch = SAMPLES,
                                       .positions = POSITIONS,
                                       .recompute = recompute > 0,
                                       .recompute_every = recompute,
                                       .lora = &w->lora,
                                       .nf4 = w->nf4};
    dt_transformer_destroy(w->t);
    w->t = dt_transformer_create(&w->shape, &o, w->device, &err);
    CHECK_OK(w->t ? 0 : -1, err);
    dt_transformer_adapt(w->t, w->z);
}

static void open_tensors(struct world *w)
{
    struct dt_err err = {0};
    w->base_tensors =
        w->nf4 ? dt_packed_tensors(&w->shape, DT_F32, &err) : dt_shape_tensors(&w->shape, &err);
    w->tensors = dt_lora_tensors(&w->lora, &w->shape, &w->count, &err);
    CHECK(w->base_tensors && w->tensors);
    w->values = kit_alloc(&w->k, w->count * sizeof *w->values);
    for (size_t i = 0; i < w->count; i++) {
        w->values[i] = kit_numbers(&w->k, w->tensors[i].count);
        for (size_t e = 0; e < w->tensors[i].count; e++)
            w->values[i][e] = (w->tensors[i].rank == 1) + 0.3f * w->values[i][e];
    }
    for (size_t i = 0; i < SAMPLES * POSITIONS; i++) {
        w->ids[i] = (int32_t)(kit_random(&w->k) % w->shape.vocabulary);
        w->targets[i] = (int32_t)(kit_random(&w->k) % w->shape.vocabulary);
    }
}

/* TARGETS: NULL-ended; the first NULL: all. */
static void open_world_in(struct world *w, struct rank_self *me, const struct dt_shape *shape,
                          const struct dt_lora *lora, const char *const *targets, bool nf4)
{
    struct dt_err err = {0};
    *w = (struct world){.shape = *shape, .lora = *lora, .k = {.state = 5}, .nf4 = nf4};
    held = dt_ops_reference;
    held.magnitude_norms = hold_norms;
    if (!*targets)
        CHECK_OK(dt_lora_target_all(&w->lora, shape, &err), err);
    for (; *targets; targets++)
        CHECK_OK(dt_lora_target(&w->lora, shape, *targets, &err), err);
    w->coll = rank_open(me);
    w->device = dt_device_open_cpu(1, &err);
    CHECK_OK(w->device ? 0 : -1, err);
    w->device->ops = lora->dora ? &held : &dt_ops_reference;
    open_tensors(w);
    w->base = open_zero(w, w->base_tensors, dt_shape_tensor_count(shape),
                        dt_shape_unit_count(shape), true);
    w->z = open_zero(w, w->tensors, w->count, dt_lora_unit_count(&w->lora, shape), false);
    CHECK_OK(dt_zero_fill(w->base, nf4 ? fill_packed : fill_base, w, &err), err);
    put_values(w);
    open_transformer(w, 0);
}

static void open_world(struct world *w, struct rank_self *me, const struct dt_shape *shape,
                       const struct dt_lora *lora, const char *const *targets)
{
    open_world_in(w, me, shape, lora, targets, false);
}

static void close_world(struct world *w)
{
    dt_transformer_destroy(w->t);
    dt_zero_destroy(w->z);
    dt_zero_destroy(w->base);
    dt_coll_destroy(w->coll);
    dt_device_close(w->device);
    free(w->base_tensors);
    free(w->tensors);
    kit_free(&w->k);
}

static void begin(struct world *w, bool train)
{
    dt_zero_begin(w->base, train, true);
    dt_zero_begin(w->z, train, true);
}

static double train(struct world *w, size_t first, size_t batch)
{
    struct dt_err err = {0};
    double loss = 0;
    begin(w, true);
    dt_transformer_count(w->t, first);
    CHECK_OK(dt_transformer_train(w->t, w->base, batch, w->ids + first * POSITIONS,
                                  w->targets + first * POSITIONS, 1, &loss, &err),
             err);
    return loss;
}

static double loss_of(struct world *w)
{
    struct dt_err err = {0};
    double loss = 0;
    begin(w, false);
    CHECK_OK(dt_transformer_loss(w->t, w->base, BATCH, w->ids, w->targets, &loss, &err), err);
    return loss;
}

/* The gradient of tensor I, which stage 1 keeps whole. */
static const float *grad_of(const struct world *w, size_t i)
{
    return (float *)dt_row_at(w->z, &w->z->grads, w->tensors[i].unit, 0) + w->tensors[i].offset;
}

static double loss_at(struct world *w, size_t i, const float *way, float step, bool drops)
{
    float *was = kit_copy(&w->k, w->tensors[i].count, w->values[i]);
    for (size_t e = 0; e < w->tensors[i].count; e++)
        w->values[i][e] += step * way[e];
    put_values(w);
    double loss = drops ? train(w, 0, BATCH) : loss_of(w);
    memcpy(w->values[i], was, w->tensors[i].count * sizeof *was);
    return loss;
}

/* Along the gradient itself, so that a part of it that is wrong shows in its length. */
static void check_gradient(struct world *w, size_t i, bool drops)
{
    const float h = 0.003f;
    size_t n = w->tensors[i].count;
    float *way = kit_copy(&w->k, n, grad_of(w, i));
    double length = 0;
    for (size_t e = 0; e < n; e++)
        length += (double)way[e] * (double)way[e];
    length = sqrt(length);
    for (size_t e = 0; e < n; e++)
        way[e] /= (float)length;
    double one = loss_at(w, i, way, h, drops) - loss_at(w, i, way, -h, drops);
    double two = loss_at(w, i, way, 2 * h, drops) - loss_at(w, i, way, -2 * h, drops);
    double slope = (8 * one - two) / (12 * (double)h);
    CHECK_ROW("%s: gradient %g, slope %g", w->tensors[i].name, length, slope);
    CHECK(length > 0.01 && fabs(length - slope) < 0.003 * length + 0.003);
}

/* All gradients of a micro-batch, before anything else is added to them. */
static float **grads_after(struct world *w, size_t first, size_t batch)
{
    float **all = kit_alloc(&w->k, w->count * sizeof *all);
    w->device->table->clear(w->device, w->z->grads.at, w->z->grads.bytes);
    train(w, first, batch);
    for (size_t i = 0; i < w->count; i++)
        all[i] = kit_copy(&w->k, w->tensors[i].count, grad_of(w, i));
    return all;
}

static const char *const all[] = {NULL};
static const char *const some_of_llama[] = {"q_proj", "self_attn.v_proj", "down_proj", NULL};
static const char *const some_of_gpt2[] = {"c_attn", "mlp.c_fc", NULL};

static void check_slopes(struct rank_self *me, const struct dt_shape *shape, float dropout,
                         const char *const *targets, bool saves, bool dora, bool nf4)
{
    struct dt_lora lora = {.r = 3,
                           .alpha = 2,
                           .dropout = dropout,
                           .dora = dora,
                           .seed = 11,
                           .saves_embedding = saves,
                           .saves_head = saves};
    struct world w;
    open_world_in(&w, me, shape, &lora, targets, nf4);
    float **grads = grads_after(&w, 0, BATCH);
    for (size_t i = 0; i < w.count; i++) {
        w.device->table->clear(w.device, w.z->grads.at, w.z->grads.bytes);
        memcpy((float *)dt_row_at(w.z, &w.z->grads, w.tensors[i].unit, 0) + w.tensors[i].offset,
               grads[i], w.tensors[i].count * sizeof *grads[i]);
        check_gradient(&w, i, dropout > 0);
    }
    close_world(&w);
}

static void slopes_of(struct rank_self *me, bool dora)
{
    for (size_t i = 0; i < SHAPES; i++)
        for (int row = 0; row < (shapes[i].tied || dora ? 4 : 8); row++) {
            const char *const *some = shapes[i].family == DT_GPT2 ? some_of_gpt2 : some_of_llama;
            CHECK_ROW("shape %zu, row %d", i, row);
            check_slopes(me, &shapes[i], row & 1 ? 0.3f : 0, row & 2 ? some : all, row & 4, dora,
                         false);
        }
}

static void slopes_in_nf4(struct rank_self *me)
{
    for (size_t i = 0; i < SHAPES; i++)
        for (int row = 0; row < 3; row++) {
            CHECK_ROW("shape %zu, row %d", i, row);
            check_slopes(me, &shapes[i], (i + row) % 2 ? 0.3f : 0, all, false, row > 0, true);
        }
}

TEST(gradients_beside_a_model_in_nf4_are_the_slopes_of_the_loss)
{
    ranks_run(1, slopes_in_nf4, NULL);
}

static void slopes(struct rank_self *me)
{
    slopes_of(me, false);
}

TEST(gradients_of_adapters_are_the_slopes_of_the_loss)
{
    ranks_run(1, slopes, NULL);
}

static void slopes_with_magnitudes(struct rank_self *me)
{
    slopes_of(me, true);
}

TEST(gradients_with_magnitudes_are_the_slopes_of_the_loss)
{
    ranks_run(1, slopes_with_magnitudes, NULL);
}

static double base_alone(struct world *w)
{
    dt_transformer_adapt(w->t, NULL);
    double loss = loss_of(w);
    dt_transformer_adapt(w->t, w->z);
    return loss;
}

static void begins_as_nothing(struct rank_self *me)
{
    for (size_t i = 0; i < SHAPES; i++) {
        struct dt_lora lora = {.r = 2, .alpha = 16, .rslora = true};
        struct world w;
        open_world(&w, me, &shapes[i], &lora, all);
        CHECK(fabs(loss_of(&w) - base_alone(&w)) > 0.01);
        for (size_t k = 1; k < w.count; k += 2)
            memset(w.values[k], 0, w.tensors[k].count * sizeof *w.values[k]);
        put_values(&w);
        CHECK(loss_of(&w) == base_alone(&w));
        close_world(&w);
    }
}

/* The norms of the layer that tensor I, its magnitudes, stands beside. */
static void put_norms(struct world *w, size_t i)
{
    const struct dt_tensor *own = &w->tensors[i], *t = w->base_tensors;
    while (t->unit != own->unit + 1 || t->which != own->which)
        t++;
    float *x = kit_alloc(&w->k, t->count * sizeof *x);
    fill_base(w, t->unit, t->index, 0, t->count, x);
    bool in_out = w->shape.family == DT_GPT2;
    for (size_t o = 0; o < own->count; o++) {
        double square = 0;
        for (size_t c = 0; c < t->count / own->count; c++) {
            double one = (double)x[in_out ? c * own->count + o : o * t->dims[1] + c];
            square += one * one;
        }
        w->values[i][o] = (float)sqrt(square);
    }
}

static void begins_as_nothing_with_magnitudes(struct rank_self *me)
{
    for (size_t i = 0; i < SHAPES; i++) {
        struct dt_lora lora = {.r = 2, .alpha = 16, .dora = true};
        struct world w;
        open_world(&w, me, &shapes[i], &lora, all);
        w.device->ops = &dt_ops_reference;
        for (size_t k = 0; k < w.count; k += 3) {
            memset(w.values[k + 1], 0, w.tensors[k + 1].count * sizeof *w.values[k + 1]);
            put_norms(&w, k + 2);
        }
        put_values(&w);
        CHECK(fabs(loss_of(&w) - base_alone(&w)) < 1e-5 * base_alone(&w));
        w.values[2][1] *= 1.5f;
        put_values(&w);
        CHECK(fabs(loss_of(&w) - base_alone(&w)) > 1e-5);
        close_world(&w);
    }
}

TEST(magnitudes_that_are_the_model_s_change_nothing)
{
    ranks_run(1, begins_as_nothing_with_magnitudes, NULL);
}

TEST(adapters_whose_b_is_0_change_nothing)
{
    ranks_run(1, begins_as_nothing, NULL);
}

static void recomputes(struct rank_self *me)
{
    for (size_t i = 0; i < SHAPES; i++) {
        struct dt_lora lora = {.r = 3, .alpha = 3, .dropout = 0.2f, .seed = 1, .dora = i & 1};
        struct dt_shape deep = shapes[i];
        struct world w;
        deep.layers = 5;
        open_world(&w, me, &deep, &lora, all);
        float **kept = grads_after(&w, 0, BATCH);
        for (size_t every = 1; every < 4; every++) {
            open_transformer(&w, every);
            float **again = grads_after(&w, 0, BATCH);
            for (size_t k = 0; k < w.count; k++)
                CHECK_BYTES(again[k], w.tensors[k].count * 4, kept[k], w.tensors[k].count * 4);
        }
        close_world(&w);
    }
}

TEST(what_is_recomputed_drops_out_the_same)
{
    ranks_run(1, recomputes, NULL);
}

/* Two micro-batches of one sample each are, added up, one of two: whoever goes through a sample
 * drops the same of it. Another sample of the run, with the same tokens, is dropped from otherwise.
 */
static void drops_by_sample(struct rank_self *me)
{
    struct dt_lora lora = {.r = 3, .alpha = 3, .dropout = 0.4f, .seed = 9};
    struct world w;
    open_world(&w, me, &shapes[1], &lora, all);
    double both = train(&w, 1, 2), apart = train(&w, 1, 1) + train(&w, 2, 1);
    CHECK(fabs(both - apart) < 1e-5 * both);
    memcpy(w.ids, w.ids + POSITIONS, POSITIONS * sizeof *w.ids);
    memcpy(w.targets, w.targets + POSITIONS, POSITIONS * sizeof *w.targets);
    CHECK(fabs(train(&w, 0, 1) - train(&w, 1, 1)) > 1e-3);
    close_world(&w);
}

TEST(dropout_is_of_the_sample_and_not_of_who_trains_on_it)
{
    ranks_run(1, drops_by_sample, NULL);
}

TEST(targets_are_found_by_their_ends)
{
    struct dt_lora l = {.r = 4};
    struct dt_err err = {0};
    CHECK_OK(dt_lora_target(&l, &shapes[0], "c_proj", &err), err);
    CHECK_EQ(l.targets, 1u << DT_GPT2_ATTN_PROJ_WEIGHT | 1u << DT_GPT2_MLP_PROJ_WEIGHT);
    l.targets = 0;
    CHECK_OK(dt_lora_target(&l, &shapes[0], "attn.c_proj", &err), err);
    CHECK_EQ(l.targets, 1u << DT_GPT2_ATTN_PROJ_WEIGHT);
    l.targets = 0;
    CHECK_OK(dt_lora_target_all(&l, &shapes[1], &err), err);
    CHECK_EQ(__builtin_popcount(l.targets), 7);
    CHECK_FAIL(dt_lora_target(&l, &shapes[1], "proj", &err), err,
               "\"proj\" is no linear layer of each block; those are self_attn.q_proj, "
               "self_attn.k_proj, self_attn.v_proj, self_attn.o_proj, mlp.gate_proj, mlp.up_proj, "
               "mlp.down_proj");
    CHECK_FAIL(dt_lora_target(&l, &shapes[1], "layers.0.self_attn.q_proj", &err), err, "each");
    CHECK_FAIL(dt_lora_target(&l, &shapes[1], "lm_head", &err), err, "lm_head");
    CHECK_FAIL(dt_lora_target(&l, &shapes[1], "", &err), err, "is no linear layer");
}

TEST(names_and_shapes_are_those_of_peft)
{
    static const struct {
        size_t shape, tensor;
        const char *name;
        size_t dims[2];
        bool dora;
    } rows[] = {
        {0, 2, "base_model.model.transformer.h.0.attn.c_attn.lora_magnitude_vector", {30, 1}, true},
        {1, 38, "base_model.model.model.layers.1.mlp.up_proj.lora_magnitude_vector", {7, 1}, true},
        {1, 40, "base_model.model.model.layers.1.mlp.down_proj.lora_B.weight", {10, 3}, true},
        {0, 0, "base_model.model.transformer.h.0.attn.c_attn.lora_A.weight", {3, 10}, false},
        {0, 1, "base_model.model.transformer.h.0.attn.c_attn.lora_B.weight", {30, 3}, false},
        {0, 15, "base_model.model.transformer.h.1.mlp.c_proj.lora_B.weight", {10, 3}, false},
        {1, 3, "base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight", {8, 3}, false},
        {1, 26, "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight", {3, 7}, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_lora l = {.r = 3, .dora = rows[i].dora};
        struct dt_err err = {0};
        size_t count;
        CHECK_OK(dt_lora_target_all(&l, &shapes[rows[i].shape], &err), err);
        struct dt_tensor *all_of = dt_lora_tensors(&l, &shapes[rows[i].shape], &count, &err);
        const struct dt_tensor *t = &all_of[rows[i].tensor];
        CHECK_STR(t->name, rows[i].name);
        CHECK_EQ(t->dims[0], rows[i].dims[0]);
        CHECK_EQ(t->dims[1], rows[i].dims[1]);
        CHECK_EQ(t->rank, strstr(t->name, "magnitude") ? 1 : 2);
        free(all_of);
    }
}

static int read_config(struct dt_lora *l, const struct dt_shape *s, const char *text,
                       struct dt_err *err)
{
    struct dt_json doc;
    CHECK_OK(dt_json_parse(&doc, text, strlen(text), strlen(text), err), *err);
    int rc = dt_lora_read(l, s, &doc, err);
    dt_json_finish(&doc);
    return rc;
}

TEST(what_is_written_for_peft_is_read_again)
{
    for (size_t i = 0; i < SHAPES; i++) {
        struct dt_lora l = {
            .r = 6, .alpha = 12.5f, .dropout = 0.05f, .rslora = i & 1, .dora = i & 2};
        struct dt_lora again = {0};
        struct dt_buf text = {0};
        struct dt_err err = {0};
        l.saves_embedding = l.saves_head = !shapes[i].tied;
        CHECK_OK(dt_lora_target_all(&l, &shapes[i], &err), err);
        dt_lora_write(&l, &shapes[i], i ? "/models/\"a\"" : NULL, &text);
        CHECK_OK(read_config(&again, &shapes[i], dt_buf_cstr(&text), &err), err);
        CHECK_EQ(again.r, l.r);
        CHECK_EQ(again.dora, l.dora);
        CHECK(again.alpha == l.alpha && again.dropout == l.dropout && again.rslora == l.rslora);
        CHECK_EQ(again.targets, l.targets);
        CHECK(again.saves_embedding == l.saves_embedding && again.saves_head == l.saves_head);
        if (shapes[i].family == DT_GPT2)
            CHECK(strstr(dt_buf_cstr(&text), "\"attn.c_proj\"") &&
                  strstr(dt_buf_cstr(&text), "\"fan_in_fan_out\": true"));
        dt_buf_finish(&text);
    }
}

TEST(adapters_of_other_kinds_are_refused_by_name)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"{}", "peft_type"},
        {"{\"peft_type\": \"LOHA\"}", "peft_type: \"LOHA\" is not LORA"},
        {"{\"peft_type\": \"LORA\"}", "target_modules: expected a list"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"x\"]}", "target_modules: \"x\" is no"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [1]}", "target_modules: expected names"},
        {"{\"peft_type\": \"LORA\", \"use_dora\": 1}", "use_dora: expected true or false"},
        {"{\"peft_type\": \"LORA\", \"bias\": \"all\"}", "bias: adapters with it"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": \"all-linear\", \"rank_pattern\": "
         "{\"q_proj\": 0}}",
         "rank_pattern: \"q_proj\": expected a whole number"},
        {"{\"peft_type\": \"LORA\", \"init_lora_weights\": \"pissa_niter_4\"}",
         "init_lora_weights: adapters that begin as \"pissa_niter_4\" change the model"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": \"all-linear\", \"modules_to_save\": "
         "[\"norm\"]}",
         "modules_to_save: \"norm\" is not trained beside adapters; embed_tokens and lm_head can "
         "be"},
        {"{\"peft_type\": \"LORA\", \"r\": 0}", "r: expected a whole number"},
        {"{\"peft_type\": \"LORA\", \"lora_alpha\": 0}", "lora_alpha 0 or lora_dropout 0"},
        {"{\"peft_type\": \"LORA\", \"lora_dropout\": 1}", "lora_dropout 1 cannot be"},
        {"{\"peft_type\": \"LORA\", \"lora_dropout\": 0.999999999}", "lora_dropout 1 cannot be"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_lora l = {0};
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].text);
        CHECK_FAIL(read_config(&l, &shapes[1], rows[i].text, &err), err, rows[i].error);
        dt_lora_finish(&l);
    }
    struct dt_lora l = {0};
    struct dt_err err = {0};
    CHECK_OK(read_config(&l, &shapes[1],
                         "{\"peft_type\": \"LORA\", \"target_modules\": \"all-linear\", "
                         "\"init_lora_weights\": \"gaussian\"}",
                         &err),
             err);
    CHECK_OK(read_config(&l, &shapes[1],
                         "{\"peft_type\": \"LORA\", \"target_modules\": \"all-linear\", "
                         "\"modules_to_save\": [\"lm_head\"]}",
                         &err),
             err);
    CHECK(l.saves_head && !l.saves_embedding);
    CHECK_FAIL(dt_lora_save(&l, &shapes[2], "lm_head", &err), err, "are one matrix in this model");
    CHECK(l.r == 8 && l.alpha == 8 && l.dropout == 0 && __builtin_popcount(l.targets) == 7);
}

TEST(what_is_saved_stands_before_and_behind_the_blocks)
{
    struct dt_lora l = {.r = 2};
    struct dt_err err = {0};
    size_t count;
    CHECK_OK(dt_lora_target(&l, &shapes[3], "c_attn", &err), err);
    CHECK_OK(dt_lora_save(&l, &shapes[3], "wte", &err), err);
    CHECK_OK(dt_lora_save(&l, &shapes[3], "lm_head", &err), err);
    struct dt_tensor *t = dt_lora_tensors(&l, &shapes[3], &count, &err);
    CHECK_EQ(count, 6);
    CHECK_STR(t[0].name, "base_model.model.transformer.wte.weight");
    CHECK_STR(t[0].unit_name, "embed");
    CHECK_STR(t[1].name, "base_model.model.transformer.h.0.attn.c_attn.lora_A.weight");
    CHECK_EQ(t[1].unit, 1);
    CHECK_STR(t[5].name, "base_model.model.lm_head.weight");
    CHECK(t[5].unit == 3 && t[5].index == 0 && t[5].offset == 0 && t[5].dims[0] == 11);
    free(t);
}
