/* SPDX-License-Identifier: Apache-2.0 */
/* Small models of each family, with weights, data and memory that is counted, and how two ways to
 * train one are compared. */
#ifndef DT_TESTS_RUNTIME_TRANSFORMER_WORLD_H
#define DT_TESTS_RUNTIME_TRANSFORMER_WORLD_H

#include "tests/lib/check.h"
#include "tests/runtime/held_zero.h"
#include "worker_runtime/model/transformer.h"
#include "worker_runtime/ops/ops.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

/* What all Gemmas have. */
#define GEMMA .tied = true, .norm_plus_one = true, .scaled_words = true, .gelu_gate = true

/* Sizes are odd on purpose: nothing here is a multiple of anything but what has to be. */
static const struct dt_shape shapes[] = {
    {DT_GPT2, 3, 2, 2, 10, 5, 13, 7, 11, 1e-5f, 0, 0.02f, .tied = true},
    {DT_GPT2, 2, 5, 5, 10, 2, 9, 6, 11, 1e-5f, 0, 0.02f, .tied = false},
    {DT_LLAMA, 3, 6, 2, 10, 4, 7, 6, 13, 1e-5f, 100, 0.02f, .tied = false},
    {DT_LLAMA, 2, 3, 3, 12, 4, 15, 6, 11, 1e-6f, 10000, 0.02f, .tied = true},
    {DT_LLAMA, 1, 4, 1, 6, 2, 5, 6, 11, 1e-6f, 10000, 0.02f, .tied = false},
    {DT_MISTRAL, 2, 4, 2, 6, 4, 5, 6, 11, 1e-6f, 100, 0.02f, .window = 3},
    {DT_QWEN2, 2, 4, 2, 6, 4, 5, 6, 11, 1e-6f, 100, 0.02f, .window = 3, .full_layers = 1,
     .qkv_bias = true},
    {DT_QWEN3, 2, 4, 2, 6, 4, 5, 6, 11, 1e-6f, 100, 0.02f, .qk_norm = true},
    {DT_GEMMA, 2, 4, 1, 6, 4, 5, 6, 11, 1e-6f, 100, 0.02f, GEMMA},
    {DT_GEMMA2, 2, 4, 2, 6, 4, 5, 6, 11, 1e-6f, 100, 0.02f, GEMMA, .branch_norms = true,
     .query_scalar = 3, .score_cap = 2, .logit_cap = 3, .window = 3, .full_every = 2},
    {DT_GEMMA3_TEXT, 3, 4, 2, 10, 4, 5, 6, 11, 1e-6f, 1000, 0.02f, GEMMA, .branch_norms = true,
     .query_scalar = 6, .qk_norm = true, .window = 3, .full_every = 3, .local_theta = 10},
    {DT_MIXTRAL, 2, 4, 2, 6, 4, 5, 6, 11, 1e-6f, 100, 0.02f, .experts = 5, .expert_picks = 2,
     .expert_inner = 5, .weigh_picks = true},
    {DT_QWEN2_MOE, 2, 4, 2, 6, 4, 1, 6, 11, 1e-6f, 100, 0.02f, .tied = true, .qkv_bias = true,
     .experts = 3, .expert_picks = 3, .expert_inner = 2, .shared_inner = 7},
    {DT_QWEN3_MOE, 2, 4, 2, 6, 4, 1, 6, 11, 1e-6f, 100, 0.02f, .qk_norm = true, .experts = 9,
     .expert_picks = 1, .expert_inner = 3, .balance_experts = true},
};

static inline const char *name_of(const struct dt_shape *s)
{
    static char text[100];
    snprintf(text, sizeof text, "%s, %zu layers, %zu heads reading %zu, %s", dt_shape_title(s),
             s->layers, s->heads, s->kv_heads, s->tied ? "tied" : "untied");
    return text;
}

/* Host memory, counted; the plain ops. */
struct counted {
    struct dt_device device;
    size_t bytes;
};

static inline void *counted_alloc(struct dt_device *d, size_t bytes, const char *what,
                                  struct dt_err *err)
{
    (void)what;
    (void)err;
    ((struct counted *)d)->bytes += bytes;
    return calloc(1, bytes);
}

/* Beside what is counted. */
static inline void *counted_alloc_host(struct dt_device *d, size_t bytes, struct dt_err *err)
{
    (void)d;
    (void)err;
    return calloc(1, bytes);
}

static inline void counted_free(struct dt_device *d, void *memory)
{
    (void)d;
    free(memory);
}

static inline void counted_clear(struct dt_device *d, void *at, size_t bytes)
{
    (void)d;
    memset(at, 0, bytes);
}

static inline void counted_copy(struct dt_device *d, void *to, const void *from, size_t bytes)
{
    (void)d;
    if (bytes > 0)
        memcpy(to, from, bytes);
}

static inline void counted_snap_fence(struct dt_device *d)
{
    (void)d;
}

static inline int counted_sync(struct dt_device *d, struct dt_err *err)
{
    (void)d;
    (void)err;
    return 0;
}

static const struct dt_device_ops counted_table = {
    .alloc = counted_alloc,
    .free = counted_free,
    .clear = counted_clear,
    .to_host = counted_copy,
    .from_host = counted_copy,
    .snap = counted_copy,
    .snap_fence = counted_snap_fence,
    .snap_wait = counted_sync,
    .alloc_host = counted_alloc_host,
    .free_host = counted_free,
    .sync = counted_sync,
};

static inline uint64_t random_next(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15u;
    uint64_t x = *seed;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline float random_unit(uint64_t *seed) /* -1 to 1 */
{
    return (float)(random_next(seed) >> 40) / 8388608.0f - 1;
}

/* A model with weights that make themselves felt, data for it, and what holds it. */
struct world {
    struct dt_shape shape;
    struct dt_tensor *tensors;
    size_t tensor_count, batch, positions;
    struct dt_zero *z;
    struct counted counted;
    struct dt_device *device;
    struct dt_transformer *t;
    int32_t *ids, *targets;
    const int32_t *documents; /* NULL: a sample is one */
};

static inline void open_transformer(struct world *w, bool recompute, size_t every)
{
    struct dt_err err = {0};
    struct dt_transformer_options o = {.batch = w->batch,
                                       .positions = w->positions,
                                       .slots = 3,
                                       .recompute = recompute,
                                       .recompute_every = every,
                                       .documents = w->documents,
                                       .weighed = true};
    dt_transformer_destroy(w->t);
    w->t = dt_transformer_create(&w->shape, &o, w->device, &err);
    CHECK_OK(w->t ? 0 : -1, err);
}

static inline void fill_world(struct world *w)
{
    uint64_t seed = 7;
    for (size_t i = 0; i < w->tensor_count; i++) {
        const struct dt_tensor *t = &w->tensors[i];
        float *at = w->z->unit[t->unit].params + t->offset;
        for (size_t k = 0; k < t->count; k++)
            at[k] = t->init_value + random_unit(&seed) * (t->rank == 2 ? 0.5f : 0.2f);
    }
    for (size_t i = 0; i < w->batch * w->positions; i++) {
        w->ids[i] = (int32_t)(random_next(&seed) % w->shape.vocabulary);
        w->targets[i] = (int32_t)(random_next(&seed) % w->shape.vocabulary);
    }
}

static inline void open_world(struct world *w, const struct dt_shape *shape, size_t batch,
                              size_t positions)
{
    struct dt_err err = {0};
    struct dt_unit *units;
    struct dt_param *params;
    *w = (struct world){.shape = *shape, .batch = batch, .positions = positions};
    w->tensor_count = dt_shape_tensor_count(shape);
    w->tensors = dt_shape_tensors(shape, &err);
    CHECK(w->tensors != NULL);
    CHECK_OK(dt_shape_units(shape, w->tensors, &units, &params, &err), err);
    w->z = held_create(units, dt_shape_unit_count(shape));
    free(units);
    free(params);
    w->counted.device =
        (struct dt_device){.name = "counted", .ops = &dt_ops_reference, .table = &counted_table};
    w->device = &w->counted.device;
    w->ids = calloc(batch * positions, sizeof *w->ids);
    w->targets = calloc(batch * positions, sizeof *w->targets);
    fill_world(w);
    open_transformer(w, false, 0);
}

static inline void close_world(struct world *w)
{
    dt_transformer_destroy(w->t);
    held_destroy(w->z);
    free(w->tensors);
    free(w->ids);
    free(w->targets);
}

static inline double train(struct world *w, size_t batch, float scale)
{
    struct dt_err err = {0};
    double loss = 0;
    CHECK_OK(dt_transformer_train(w->t, w->z, batch, w->ids, w->targets, scale, &loss, &err), err);
    CHECK(held_all_back(w->z));
    return loss;
}

static inline double loss_of(struct world *w)
{
    struct dt_err err = {0};
    double loss = 0;
    CHECK_OK(dt_transformer_loss(w->t, w->z, w->batch, w->ids, w->targets, &loss, &err), err);
    CHECK(held_all_back(w->z));
    return loss;
}

/* All gradients in a row, for the caller to free. */
static inline float *grads_of(const struct world *w, size_t *count)
{
    float *all = calloc(dt_shape_params(&w->shape), sizeof *all);
    *count = 0;
    for (size_t i = 0; i < w->z->units; i++) {
        memcpy(all + *count, w->z->unit[i].sums, w->z->unit[i].size * sizeof *all);
        *count += w->z->unit[i].size;
    }
    return all;
}

static inline void check_same_bits(const float *a, const float *b, size_t count)
{
    CHECK_BYTES(a, count * sizeof *a, b, count * sizeof *b);
}

static inline void check_close(const float *a, const float *b, size_t count, double most)
{
    double largest = 0, apart = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)b[i]));
        apart = fmax(apart, fabs((double)a[i] - (double)b[i]));
    }
    CHECK(largest > 0);
    CHECK_ROW("%g apart, where the largest is %g", apart, largest);
    CHECK(apart <= most * largest);
}

/* A GPT-2 drops everywhere, others drop weights of attention. */
static inline struct dt_shape dropping(const struct dt_shape *s)
{
    struct dt_shape with = *s;
    with.attention_dropout = 0.3f;
    if (s->family == DT_GPT2) {
        with.embedding_dropout = 0.2f;
        with.branch_dropout = 0.25f;
    }
    return with;
}

#endif
