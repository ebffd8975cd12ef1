/* SPDX-License-Identifier: Apache-2.0 */
/* What a model says of the next token is the same however the text came to it. */
#include "worker_runtime/model/inference.h"

#include "tests/lib/check.h"
#include "tests/runtime/held_zero.h"
#include "worker_runtime/model/transformer.h"
#include "worker_runtime/ops/ops.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))
#define POSITIONS 150 /* more than are read at once, twice */

/* What all Gemmas have. */
#define GEMMA .tied = true, .norm_plus_one = true, .scaled_words = true, .gelu_gate = true

static const struct dt_shape shapes[] = {
    {DT_GPT2, 3, 2, 2, 10, 5, 13, POSITIONS, 11, 1e-5f, 0, 0.02f, .tied = true},
    {DT_GPT2, 2, 5, 5, 10, 2, 9, POSITIONS, 11, 1e-5f, 0, 0.02f, .tied = false},
    {DT_LLAMA, 3, 6, 2, 10, 4, 7, POSITIONS, 13, 1e-5f, 100, 0.02f, .tied = false},
    {DT_LLAMA, 1, 4, 1, 6, 2, 5, POSITIONS, 11, 1e-6f, 10000, 0.02f, .tied = true},
    {DT_LLAMA, 1, 2, 1, 6, 8, 5, POSITIONS, 11, 1e-6f, 100, 0.02f, .tied = true,
     .rope = {.kind = DT_ROPE_LLAMA3, .factor = 4, .original = 20, .low_freq = 1, .high_freq = 4}},
    {DT_MISTRAL, 2, 4, 2, 6, 4, 5, POSITIONS, 11, 1e-6f, 100, 0.02f, .window = 9},
    {DT_QWEN2, 2, 4, 2, 6, 4, 5, POSITIONS, 11, 1e-6f, 100, 0.02f, .window = 70, .full_layers = 1,
     .qkv_bias = true},
    {DT_QWEN3, 2, 4, 2, 6, 4, 5, POSITIONS, 11, 1e-6f, 100, 0.02f, .qk_norm = true},
    {DT_GEMMA, 2, 4, 1, 6, 4, 5, POSITIONS, 11, 1e-6f, 100, 0.02f, GEMMA},
    {DT_GEMMA2, 2, 4, 2, 6, 4, 5, POSITIONS, 11, 1e-6f, 100, 0.02f, GEMMA, .branch_norms = true,
     .query_scalar = 3, .score_cap = 2, .logit_cap = 3, .window = 9, .full_every = 2},
    {DT_GEMMA3_TEXT, 3, 4, 2, 10, 4, 5, POSITIONS, 11, 1e-6f, 1000, 0.02f, GEMMA,
     .branch_norms = true, .query_scalar = 6, .qk_norm = true, .window = 70, .full_every = 3,
     .local_theta = 10},
    {DT_MIXTRAL, 2, 4, 2, 6, 4, 5, POSITIONS, 11, 1e-6f, 100, 0.02f, .experts = 5,
     .expert_picks = 2, .expert_inner = 5, .weigh_picks = true},
    {DT_QWEN2_MOE, 2, 4, 2, 6, 4, 1, POSITIONS, 11, 1e-6f, 100, 0.02f, .tied = true,
     .qkv_bias = true, .experts = 3, .expert_picks = 3, .expert_inner = 2, .shared_inner = 7},
    {DT_QWEN3_MOE, 2, 4, 2, 6, 4, 1, POSITIONS, 11, 1e-6f, 100, 0.02f, .qk_norm = true,
     .experts = 9, .expert_picks = 1, .expert_inner = 3, .balance_experts = true},
};

/* A model with weights that make themselves felt, and a text. */
struct world {
    const struct dt_shape *shape;
    struct dt_device *device;
    struct dt_device plain; /* the CPU with the plain ops */
    struct dt_zero *z;
    const char *units[8];
    int32_t text[POSITIONS];
};

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void fill(struct world *w, const struct dt_tensor *tensors)
{
    uint32_t seed = 5;
    for (size_t i = 0; i < dt_shape_tensor_count(w->shape); i++) {
        float *at = w->z->unit[tensors[i].unit].params + tensors[i].offset;
        for (size_t k = 0; k < tensors[i].count; k++)
            at[k] = tensors[i].init_value + ((float)next_random(&seed) * 0x1p-24f - 0.5f);
    }
    for (size_t i = 0; i < POSITIONS; i++)
        w->text[i] = (int32_t)(next_random(&seed) % w->shape->vocabulary);
}

static void open_world(struct world *w, const struct dt_shape *shape, bool reference)
{
    struct dt_err err = {0};
    struct dt_unit *units;
    struct dt_param *params;
    struct dt_tensor *tensors = dt_shape_tensors(shape, &err);
    *w = (struct world){.shape = shape, .device = dt_device_open_cpu(2, &err)};
    CHECK(tensors && w->device);
    w->plain = *w->device;
    if (reference)
        w->plain.ops = &dt_ops_reference;
    CHECK_OK(dt_shape_units(shape, tensors, &units, &params, &err), err);
    w->z = held_create(units, dt_shape_unit_count(shape));
    fill(w, tensors);
    for (size_t u = 0; u < w->z->units; u++)
        w->units[u] = (const char *)w->z->unit[u].params;
    free(units);
    free(params);
    free(tensors);
}

static void close_world(struct world *w)
{
    held_destroy(w->z);
    dt_device_close(w->device);
}

static struct dt_inference *open_inference(struct world *w, size_t capacity)
{
    struct dt_err err = {0};
    struct dt_inference *i = dt_inference_create(w->shape, w->units, capacity, &w->plain, &err);
    CHECK_OK(i ? 0 : -1, err);
    return i;
}

/* Behind the first LENGTH tokens, which come PART at a time. */
static void read_text(struct world *w, size_t length, size_t part, float *logits)
{
    struct dt_err err = {0};
    struct dt_inference *i = open_inference(w, length);
    for (size_t at = 0; at < length; at += part) {
        size_t left = length - at;
        CHECK_OK(dt_inference_read(i, w->text + at, left < part ? left : part, logits, &err), err);
    }
    CHECK_EQ(dt_inference_length(i), length);
    dt_inference_destroy(i);
}

/* The same by training's way forward: the loss is what that token's logit lacks of all of them. */
static void losses_of(struct world *w, size_t length, double *losses)
{
    struct dt_err err = {0};
    const struct dt_transformer_options o = {.batch = 1, .positions = length};
    struct dt_transformer *t = dt_transformer_create(w->shape, &o, &w->plain, &err);
    int32_t targets[POSITIONS];
    CHECK_OK(t ? 0 : -1, err);
    for (size_t i = 0; i < length; i++)
        targets[i] = -1;
    for (size_t word = 0; word < w->shape->vocabulary; word++) {
        losses[word] = 0;
        targets[length - 1] = (int32_t)word;
        CHECK_OK(dt_transformer_loss(t, w->z, 1, w->text, targets, &losses[word], &err), err);
    }
    dt_transformer_destroy(t);
}

static void check_against_training(struct world *w, size_t length, const float *logits)
{
    double losses[16], sum = 0;
    losses_of(w, length, losses);
    for (size_t word = 0; word < w->shape->vocabulary; word++)
        sum += exp((double)logits[word]);
    for (size_t word = 0; word < w->shape->vocabulary; word++) {
        double loss = log(sum) - (double)logits[word];
        CHECK_ROW("%zu tokens, word %zu: %g, in training %g", length, word, loss, losses[word]);
        CHECK(fabs(loss - losses[word]) < 2e-5);
    }
}

static void check_parts(struct world *w)
{
    static const size_t lengths[] = {1, 2, 7, 64, 65, POSITIONS};
    static const size_t parts[] = {1, 3, 64, POSITIONS};
    float logits[16], again[16];
    for (size_t i = 0; i < ROWS(lengths); i++) {
        read_text(w, lengths[i], lengths[i], logits);
        check_against_training(w, lengths[i], logits);
        for (size_t k = 0; k < ROWS(parts); k++) {
            read_text(w, lengths[i], parts[k], again);
            for (size_t word = 0; word < w->shape->vocabulary; word++) {
                CHECK_ROW("%zu tokens by %zu: %g, at once %g", lengths[i], parts[k],
                          (double)again[word], (double)logits[word]);
                CHECK(fabs((double)again[word] - (double)logits[word]) < 2e-5);
            }
        }
    }
}

TEST(logits_are_those_of_training_in_any_parts)
{
    for (size_t i = 0; i < ROWS(shapes); i++) {
        for (int reference = 0; reference <= 1; reference++) {
            struct world w;
            open_world(&w, &shapes[i], reference);
            check_parts(&w);
            close_world(&w);
        }
    }
}

static volatile sig_atomic_t stop;
static int layers_read;
static dt_attention_forward_fn *attention;

/* Somebody gives up while the first layer of the second part is computed. */
static void attend_and_give_up(const struct dt_attention *a, dt_elem *out, struct dt_stream *s)
{
    attention(a, out, s);
    stop = ++layers_read == 4;
}

TEST(a_text_that_nobody_wants_read_is_given_up_between_layers)
{
    struct world w;
    struct dt_err err = {0};
    float logits[16];
    open_world(&w, &shapes[0], false);
    struct dt_ops ops = *w.device->ops;
    attention = ops.attention_forward;
    ops.attention_forward = attend_and_give_up;
    w.plain.ops = &ops;
    struct dt_inference *i = open_inference(&w, POSITIONS);
    dt_inference_heed(i, &stop);
    CHECK(dt_inference_read(i, w.text, POSITIONS, logits, &err) < 0);
    CHECK_EQ(err.code, DT_E_CANCELED);
    CHECK_EQ(layers_read, 4); /* of three layers, and three parts */
    CHECK_EQ(dt_inference_length(i), 64);
    stop = 0;
    CHECK_OK(dt_inference_read(i, w.text + 64, 1, logits, &err), err);
    dt_inference_destroy(i);
    close_world(&w);
}

TEST(a_part_of_other_size_has_its_place)
{
    struct world w;
    struct dt_err err = {0};
    float logits[16];
    open_world(&w, &shapes[2], false);
    struct dt_inference *i = open_inference(&w, 100);
    CHECK_OK(dt_inference_read(i, w.text, 3, logits, &err), err);
    CHECK_OK(dt_inference_read(i, w.text + 3, 70, logits, &err), err);
    CHECK_OK(dt_inference_read(i, w.text + 73, 1, logits, &err), err);
    check_against_training(&w, 74, logits);
    dt_inference_destroy(i);
    close_world(&w);
}

TEST(what_has_no_room_and_no_word_is_refused)
{
    struct world w;
    struct dt_err err = {0};
    float logits[16];
    open_world(&w, &shapes[0], false);
    struct dt_inference *i = open_inference(&w, 4);
    CHECK(dt_inference_read(i, w.text, 5, logits, &err) < 0);
    CHECK_STR(err.text, "5 tokens behind 0, where there is room for 4");
    CHECK(dt_inference_read(i, w.text, 0, logits, &err) < 0);
    CHECK(dt_inference_read(i, &(int32_t){11}, 1, logits, &err) < 0);
    CHECK_STR(err.text,
              "token 11 is none of this model's 11; the text was made into tokens for another "
              "model");
    CHECK(dt_inference_read(i, &(int32_t){-1}, 1, logits, &err) < 0);
    CHECK_OK(dt_inference_read(i, w.text, 4, logits, &err), err);
    CHECK(dt_inference_read(i, w.text, 1, logits, &err) < 0);
    dt_inference_destroy(i);
    CHECK(!dt_inference_create(w.shape, w.units, POSITIONS + 1, w.device, &err));
    CHECK(!dt_inference_create(w.shape, w.units, 0, w.device, &err));
    close_world(&w);
}
