/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/transformer.h"

#include "tests/lib/check.h"
#include "tests/runtime/held_zero.h"
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

static const char *name_of(const struct dt_shape *s)
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

static void *counted_alloc(struct dt_device *d, size_t bytes, const char *what, struct dt_err *err)
{
    (void)what;
    (void)err;
    ((struct counted *)d)->bytes += bytes;
    return calloc(1, bytes);
}

/* Beside what is counted. */
static void *counted_alloc_host(struct dt_device *d, size_t bytes, struct dt_err *err)
{
    (void)d;
    (void)err;
    return calloc(1, bytes);
}

static void counted_free(struct dt_device *d, void *memory)
{
    (void)d;
    free(memory);
}

static void counted_clear(struct dt_device *d, void *at, size_t bytes)
{
    (void)d;
    memset(at, 0, bytes);
}

static void counted_copy(struct dt_device *d, void *to, const void *from, size_t bytes)
{
    (void)d;
    if (bytes > 0)
        memcpy(to, from, bytes);
}

static void counted_snap_fence(struct dt_device *d)
{
    (void)d;
}

static int counted_sync(struct dt_device *d, struct dt_err *err)
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

static uint64_t random_next(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15u;
    uint64_t x = *seed;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static float random_unit(uint64_t *seed) /* -1 to 1 */
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

static void open_transformer(struct world *w, bool recompute, size_t every)
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

static void fill_world(struct world *w)
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

static void open_world(struct world *w, const struct dt_shape *shape, size_t batch,
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

static void close_world(struct world *w)
{
    dt_transformer_destroy(w->t);
    held_destroy(w->z);
    free(w->tensors);
    free(w->ids);
    free(w->targets);
}

static double train(struct world *w, size_t batch, float scale)
{
    struct dt_err err = {0};
    double loss = 0;
    CHECK_OK(dt_transformer_train(w->t, w->z, batch, w->ids, w->targets, scale, &loss, &err), err);
    CHECK(held_all_back(w->z));
    return loss;
}

/* Of a way forward on which the same goes by dropout as in train(). */
static double dropped_loss_of(struct world *w)
{
    struct dt_err err = {0};
    float losses[64];
    double loss = 0;
    CHECK(w->batch * w->positions <= ROWS(losses));
    CHECK_OK(dt_transformer_lose(w->t, w->z, 0, w->batch, w->ids, w->targets, true, losses, &err),
             err);
    CHECK(held_all_back(w->z));
    for (size_t i = 0; i < w->batch * w->positions; i++)
        loss += (double)losses[i];
    return loss;
}

static double loss_of(struct world *w)
{
    struct dt_err err = {0};
    double loss = 0;
    CHECK_OK(dt_transformer_loss(w->t, w->z, w->batch, w->ids, w->targets, &loss, &err), err);
    CHECK(held_all_back(w->z));
    return loss;
}

/* All gradients in a row, for the caller to free. */
static float *grads_of(const struct world *w, size_t *count)
{
    float *all = calloc(dt_shape_params(&w->shape), sizeof *all);
    *count = 0;
    for (size_t i = 0; i < w->z->units; i++) {
        memcpy(all + *count, w->z->unit[i].sums, w->z->unit[i].size * sizeof *all);
        *count += w->z->unit[i].size;
    }
    return all;
}

static void check_same_bits(const float *a, const float *b, size_t count)
{
    CHECK_BYTES(a, count * sizeof *a, b, count * sizeof *b);
}

static void check_close(const float *a, const float *b, size_t count, double most)
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

/* The loss with this tensor moved by STEP along DIRECTION. */
static double loss_at(struct world *w, const struct dt_tensor *t, const float *direction,
                      float step)
{
    float *at = w->z->unit[t->unit].params + t->offset;
    float *was = malloc(t->count * sizeof *was);
    memcpy(was, at, t->count * sizeof *was);
    for (size_t i = 0; i < t->count; i++)
        at[i] += step * direction[i];
    double loss = dt_shape_drops(&w->shape) ? dropped_loss_of(w) : loss_of(w);
    memcpy(at, was, t->count * sizeof *was);
    free(was);
    return loss;
}

/* How fast the loss rises when this tensor goes along DIRECTION. The error of a difference over two
 * steps is four times that over one, which takes it out. */
static double slope(struct world *w, const struct dt_tensor *t, const float *direction)
{
    const float h = 0.003f;
    double one = loss_at(w, t, direction, h) - loss_at(w, t, direction, -h);
    double two = loss_at(w, t, direction, 2 * h) - loss_at(w, t, direction, -2 * h);
    return (8 * one - two) / (12 * (double)h);
}

static bool is_of_expert(const struct dt_tensor *t)
{
    return strstr(t->name, ".experts.") != NULL;
}

static void check_tensor_gradient(struct world *w, const struct dt_tensor *t, uint64_t *seed)
{
    const float *g = w->z->unit[t->unit].sums + t->offset;
    float *direction = calloc(t->count, sizeof *direction);
    double length = 0, along = 0, size = 0;
    for (size_t i = 0; i < t->count; i++)
        length += (double)g[i] * (double)g[i];
    length = sqrt(length);
    for (size_t i = 0; i < t->count && length > 0; i++)
        direction[i] = g[i] / (float)length;
    double steepest = slope(w, t, direction);
    for (size_t i = 0; i < t->count; i++) {
        direction[i] = random_unit(seed);
        size += (double)direction[i] * (double)direction[i];
    }
    for (size_t i = 0; i < t->count; i++) {
        direction[i] /= (float)sqrt(size);
        along += (double)direction[i] * (double)g[i];
    }
    double sideways = slope(w, t, direction);
    free(direction);
    CHECK_ROW("%s: gradient %g, slope along it %g; elsewhere %g, %g", t->name, length, steepest,
              along, sideways);
    /* An expert that no row takes has none. */
    CHECK(length > 0.01 || (is_of_expert(t) && length == 0));
    CHECK(fabs(length - steepest) < 0.002 * length + 0.002);
    CHECK(fabs(along - sideways) < 0.002 * length + 0.002);
}

TEST(gradients_are_the_slopes_of_the_loss)
{
    for (size_t i = 0; i < ROWS(shapes); i++) {
        CHECK_ROW("%s", name_of(&shapes[i]));
        struct world w;
        uint64_t seed = 3;
        open_world(&w, &shapes[i], 2, 5);
        double loss = train(&w, 2, 1);
        CHECK(loss > 10 && loss < 100);
        CHECK(loss == loss_of(&w));
        for (size_t k = 0; k < w.tensor_count; k++) {
            check_tensor_gradient(&w, &w.tensors[k], &seed);
        }
        close_world(&w);
    }
}

/* A GPT-2 drops everywhere, others drop weights of attention. */
static struct dt_shape dropping(const struct dt_shape *s)
{
    struct dt_shape with = *s;
    with.attention_dropout = 0.3f;
    if (s->family == DT_GPT2) {
        with.embedding_dropout = 0.2f;
        with.branch_dropout = 0.25f;
    }
    return with;
}

TEST(gradients_with_dropout_are_the_slopes_of_what_is_left)
{
    for (size_t i = 0; i < ROWS(shapes); i++) {
        CHECK_ROW("%s", name_of(&shapes[i]));
        struct dt_shape shape = dropping(&shapes[i]);
        struct world w;
        uint64_t seed = 3;
        open_world(&w, &shape, 2, 5);
        dt_transformer_count(w.t, 8); /* where no loss bends within a step of slope() */
        CHECK(train(&w, 2, 1) == dropped_loss_of(&w));
        for (size_t k = 0; k < w.tensor_count; k++)
            check_tensor_gradient(&w, &w.tensors[k], &seed);
        close_world(&w);
    }
}

/* The loss and all gradients of training on the sample number FIRST and the next one. */
static double train_from(struct world *w, uint64_t first, bool recompute, float **grads,
                         size_t *count)
{
    open_transformer(w, recompute, 1);
    dt_transformer_count(w->t, first);
    held_clear_grads(w->z);
    double loss = train(w, 2, 1);
    *grads = grads_of(w, count);
    return loss;
}

/* To the bit where blocks are gone through once more; and other samples of the run lose others. A
 * loss without a way back is one without dropout. */
TEST(dropout_is_of_training_alone_and_hangs_on_the_sample)
{
    for (size_t i = 0; i < 3; i += 2) {
        struct dt_shape shape = dropping(&shapes[i]);
        struct world w, plain;
        float *was, *now;
        size_t count;
        CHECK_ROW("%s", name_of(&shape));
        open_world(&w, &shape, 2, 5);
        open_world(&plain, &shapes[i], 2, 5);
        double loss = train_from(&w, 4, false, &was, &count);
        CHECK(train_from(&w, 4, true, &now, &count) == loss);
        check_same_bits(now, was, count);
        free(now);
        CHECK(train_from(&w, 5, false, &now, &count) != loss);
        CHECK(memcmp(now, was, count * sizeof *now) != 0);
        CHECK(loss_of(&w) == loss_of(&plain));
        CHECK(loss_of(&w) != loss);
        free(now);
        free(was);
        close_world(&w);
        close_world(&plain);
    }
}

/* Gradients of the sum of all losses, each times its row's weight, by the head that goes twice. */
static void weigh(struct world *w, const float *weights, float *losses)
{
    struct dt_err err = {0};
    double loss = 0;
    CHECK_OK(dt_transformer_lose(w->t, w->z, 0, w->batch, w->ids, w->targets, true, losses, &err),
             err);
    CHECK_OK(dt_transformer_weigh(w->t, w->z, 0, weights, 1, &err), err);
    CHECK_OK(dt_transformer_backward(w->t, w->z, 0, &loss, &err), err);
    CHECK(held_all_back(w->z));
}

/* Rows of weight 1 are as if there were no weights, to the bit; and a row of weight 0 as if its
 * target did not count. */
TEST(rows_of_the_loss_have_their_weights)
{
    enum { BATCH = 2, POSITIONS = 5, N = BATCH * POSITIONS };
    for (size_t i = 0; i < ROWS(shapes); i++) {
        float weights[N], losses[N], sum = 0;
        struct world w;
        size_t count;
        CHECK_ROW("%s", name_of(&shapes[i]));
        open_world(&w, &shapes[i], BATCH, POSITIONS);
        w.targets[3] = -1;
        double loss = train(&w, BATCH, 1);
        float *wanted = grads_of(&w, &count);
        for (size_t k = 0; k < N; k++)
            weights[k] = 1;
        held_clear_grads(w.z);
        weigh(&w, weights, losses);
        float *got = grads_of(&w, &count);
        check_same_bits(got, wanted, count);
        for (size_t k = 0; k < N; k++)
            sum += losses[k];
        CHECK(losses[3] == 0 && fabs((double)sum - loss) < 1e-4);
        free(got);
        free(wanted);
        /* Twice the first sample, and nothing of the second. */
        for (size_t k = 0; k < N; k++)
            weights[k] = k < POSITIONS ? 2 : 0;
        held_clear_grads(w.z);
        weigh(&w, weights, losses);
        got = grads_of(&w, &count);
        for (size_t k = POSITIONS; k < N; k++)
            w.targets[k] = -1;
        held_clear_grads(w.z);
        train(&w, BATCH, 2);
        wanted = grads_of(&w, &count);
        check_close(got, wanted, count, 1e-6);
        free(got);
        free(wanted);
        close_world(&w);
    }
}

TEST(what_is_recomputed_has_the_same_bits)
{
    struct dt_shape deep[] = {shapes[0], shapes[2]};
    for (size_t i = 0; i < ROWS(deep); i++) {
        struct world w;
        size_t count;
        deep[i].layers = 5;
        open_world(&w, &deep[i], 2, 6);
        double loss = train(&w, 2, 1);
        float *kept = grads_of(&w, &count);
        for (size_t every = 0; every <= 7; every++) {
            CHECK_ROW("%s: every %zu", name_of(&deep[i]), every);
            held_clear_grads(w.z);
            open_transformer(&w, true, every);
            CHECK(loss == train(&w, 2, 1));
            float *again = grads_of(&w, &count);
            check_same_bits(again, kept, count);
            free(again);
        }
        free(kept);
        close_world(&w);
    }
}

/* MICRO_BATCHES forward, and then backward from the first: what pipelines do. */
enum { MICRO_BATCHES = 3 };

static double train_at_once(struct world *w, int32_t *const *ids, const size_t *batch)
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

/* -- stages of a pipeline --------------------------------------------------------------------- */

/* The transformers of a pipeline's stages, all of them here, over one dt_zero. */
struct line {
    struct world *w;
    struct dt_transformer *t[3];
    size_t stages;
};

/* The auxiliary loss, where a model has one. */
static void balance(struct dt_transformer *t, const struct dt_shape *s)
{
    if (s->balance_experts)
        dt_transformer_balance(t, 0.7);
}

static size_t border_bytes(const struct world *w, size_t batch)
{
    size_t numbers = batch * w->positions * w->shape.width;
    return (numbers + dt_shape_pick_counts(&w->shape)) * sizeof(float);
}

static void open_line(struct line *l, struct world *w, size_t stages, bool recompute, bool halves)
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

static void close_line(struct line *l)
{
    for (size_t i = 0; i < l->stages; i++)
        dt_transformer_destroy(l->t[i]);
}

/* From the end of one stage to the beginning of the next. */
static void line_forward(struct line *l, size_t slot, size_t batch, const int32_t *ids)
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

/* The inputs' halves of all stages, and of each stage's weights' halves the oldest one micro-batch
 * later: as ZB-H1 has them behind each other. */
static void line_halves(struct line *l, const size_t *batch, double *loss)
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

TEST(units_are_asked_for_in_one_order)
{
    struct world w;
    open_world(&w, &shapes[0], 1, 4);
    train(&w, 1, 1);
    CHECK_STR(w.z->calls, "+0 -0 +1 -1 +2 -2 +3 -3 +4 +0 ~4 ~0 -0 -4 =4 "
                          "+3 ~3 -3 =3 +2 ~2 -2 =2 +1 ~1 -1 =1 ~0 =0");
    held_clear_grads(w.z);
    loss_of(&w);
    CHECK_STR(w.z->calls, "+0 -0 +1 -1 +2 -2 +3 -3 +4 +0 -0 -4");
    held_clear_grads(w.z);
    open_transformer(&w, true, 2);
    train(&w, 1, 1);
    CHECK_STR(w.z->calls, "+0 -0 +1 -1 +2 -2 +3 -3 +4 +0 ~4 ~0 -0 -4 =4 "
                          "+3 ~3 -3 =3 +1 -1 +2 ~2 -2 =2 +1 ~1 -1 =1 ~0 =0");
    close_world(&w);
}

TEST(an_empty_micro_step_makes_the_same_stops_and_adds_nothing)
{
    for (size_t i = 0; i < ROWS(shapes); i++) {
        for (size_t every = 0; every < 3; every++) {
            CHECK_ROW("%s, every %zu", name_of(&shapes[i]), every);
            struct world w;
            struct dt_err err = {0};
            double loss = 0;
            char calls[sizeof w.z->calls];
            size_t count;
            open_world(&w, &shapes[i], 1, 4);
            open_transformer(&w, every > 0, every);
            train(&w, 1, 1);
            memcpy(calls, w.z->calls, sizeof calls);
            held_clear_grads(w.z);
            CHECK_OK(dt_transformer_train(w.t, w.z, 0, NULL, NULL, 1, &loss, &err), err);
            CHECK_STR(w.z->calls, calls);
            CHECK(loss == 0);
            float *grads = grads_of(&w, &count);
            for (size_t k = 0; k < count; k++)
                CHECK(grads[k] == 0);
            free(grads);
            close_world(&w);
        }
    }
}

TEST(a_batch_that_is_not_full_is_as_one_of_its_size)
{
    struct world large, small;
    size_t count;
    open_world(&large, &shapes[2], 3, 5);
    open_world(&small, &shapes[2], 1, 5);
    memcpy(small.ids, large.ids, 5 * sizeof *small.ids);
    memcpy(small.targets, large.targets, 5 * sizeof *small.targets);
    train(&large, 3, 1); /* leaves its traces */
    held_clear_grads(large.z);
    CHECK(train(&large, 1, 1) == train(&small, 1, 1));
    float *a = grads_of(&large, &count), *b = grads_of(&small, &count);
    check_same_bits(a, b, count);
    free(a);
    free(b);
    close_world(&large);
    close_world(&small);
}

TEST(micro_steps_add_up_and_scale_multiplies_gradients_alone)
{
    struct world w;
    size_t count;
    open_world(&w, &shapes[0], 2, 5);
    double once = train(&w, 2, 1);
    float *a = grads_of(&w, &count);
    CHECK(train(&w, 2, 2) == once);
    float *b = grads_of(&w, &count);
    for (size_t i = 0; i < count; i++)
        a[i] *= 3;
    check_close(b, a, count, 1e-6);
    free(a);
    free(b);
    close_world(&w);
}

TEST(a_target_below_0_does_not_count)
{
    struct world w;
    size_t count;
    open_world(&w, &shapes[0], 2, 5);
    for (size_t i = 5; i < 10; i++)
        w.targets[i] = -100;
    double both = train(&w, 2, 1);
    float *a = grads_of(&w, &count);
    held_clear_grads(w.z);
    double first = train(&w, 1, 1);
    float *b = grads_of(&w, &count);
    CHECK(both == first);
    check_close(a, b, count, 1e-6);
    for (size_t i = 0; i < 5; i++)
        w.targets[i] = -1;
    held_clear_grads(w.z);
    CHECK(train(&w, 2, 1) == 0);
    free(b);
    b = grads_of(&w, &count);
    for (size_t i = 0; i < count; i++)
        CHECK(b[i] == 0);
    free(a);
    free(b);
    close_world(&w);
}

TEST(a_head_in_several_chunks_is_one_head)
{
    struct dt_shape shape = shapes[0];
    struct world both, one;
    size_t count, row = 200; /* two of these are more than a chunk */
    shape.positions = row;
    open_world(&both, &shape, 2, row);
    open_world(&one, &shape, 1, row);
    double loss = train(&both, 2, 1), parts = 0;
    for (size_t i = 0; i < 2; i++) {
        memcpy(one.ids, both.ids + i * row, row * sizeof *one.ids);
        memcpy(one.targets, both.targets + i * row, row * sizeof *one.targets);
        parts += train(&one, 1, 1);
    }
    CHECK(fabs(loss - parts) < 1e-9 * loss);
    float *a = grads_of(&both, &count), *b = grads_of(&one, &count);
    check_close(a, b, count, 1e-5);
    free(a);
    free(b);
    close_world(&both);
    close_world(&one);
}

/* Documents of 3, 2 and 1, and of 1 and 5 positions. */
enum { PACKED = 2, ALONE = 5, LONG = 6 };
static const int32_t packed_documents[PACKED * LONG] = {0, 0, 0, 3, 3, 5, 0, 1, 1, 1, 1, 1};

/* Row I of the packed samples is at *ROW of the samples in which each document is alone. */
static size_t alone_at(size_t i)
{
    size_t document = 0;
    for (size_t k = 1; k <= i; k++)
        document += k % LONG == 0 || packed_documents[k] != packed_documents[k - 1];
    return document * LONG + i % LONG - (size_t)packed_documents[i];
}

/* Each document in a sample of its own, with nothing to learn behind its end. */
static void unpack(struct world *alone, const struct world *packed)
{
    for (size_t i = 0; i < ALONE * LONG; i++) {
        alone->ids[i] = 0;
        alone->targets[i] = -1;
    }
    for (size_t i = 0; i < PACKED * LONG; i++) {
        alone->ids[alone_at(i)] = packed->ids[i];
        alone->targets[alone_at(i)] = packed->targets[i];
    }
}

TEST(documents_of_one_sample_learn_what_each_alone_would)
{
    for (size_t i = 0; i < ROWS(shapes); i++)
        for (int recompute = 0; recompute < 2; recompute++) {
            CHECK_ROW("%s, recompute %d", name_of(&shapes[i]), recompute);
            struct world packed, alone;
            size_t count;
            open_world(&packed, &shapes[i], PACKED, LONG);
            packed.documents = packed_documents;
            open_transformer(&packed, recompute, 1);
            packed.targets[4] = packed.targets[9] = -1; /* not trained on */
            open_world(&alone, &shapes[i], ALONE, LONG);
            unpack(&alone, &packed);
            double mixed = train(&packed, PACKED, 0.1f), apart = train(&alone, ALONE, 0.1f);
            CHECK(fabs(mixed - apart) < 1e-5 * apart);
            float *a = grads_of(&packed, &count), *b = grads_of(&alone, &count);
            check_close(a, b, count, 2e-5);
            free(a);
            free(b);
            packed.documents = NULL; /* they do see each other where nobody tells them apart */
            open_transformer(&packed, recompute, 1);
            CHECK(fabs(loss_of(&packed) - apart) > 1e-3 * apart);
            close_world(&packed);
            close_world(&alone);
        }
}

/* Notes which works it was given, and records none. */
enum { WORKS_MOST = 100, KEY_MOST = 256 };
struct dt_tape {
    size_t count;
    unsigned char keys[WORKS_MOST][KEY_MOST];
};
static struct dt_tape noting;

static struct dt_tape *noting_open(struct dt_device *d, struct dt_err *err)
{
    (void)d;
    (void)err;
    noting.count = 0;
    return &noting;
}

static void noting_play(struct dt_tape *t, const void *key, size_t bytes, dt_work_fn work,
                        void *arg)
{
    size_t i = 0;
    CHECK(bytes <= KEY_MOST);
    while (i < t->count && memcmp(t->keys[i], key, bytes) != 0)
        i++;
    CHECK(i < WORKS_MOST);
    memcpy(t->keys[i], key, bytes);
    t->count += i == t->count;
    work(arg);
}

static void noting_close(struct dt_tape *t)
{
    (void)t;
}

static const struct dt_tape_ops noting_tapes = {
    .open = noting_open, .play = noting_play, .close = noting_close};

/* Else a device would record the head anew at each step, and keep all recordings. */
TEST(steps_with_other_numbers_of_targets_are_the_same_work)
{
    for (size_t i = 0; i < ROWS(shapes); i++) {
        CHECK_ROW("%s", name_of(&shapes[i]));
        struct world w;
        open_world(&w, &shapes[i], PACKED, LONG);
        w.counted.device.tapes = &noting_tapes;
        w.documents = packed_documents;
        open_transformer(&w, false, 0);
        train(&w, PACKED, 1.0f / 12);
        loss_of(&w);
        size_t works = noting.count;
        CHECK(works > w.shape.layers);
        train(&w, PACKED, 1.0f / 7);
        loss_of(&w);
        CHECK_EQ(noting.count, works);
        close_world(&w);
    }
}

TEST(documents_that_do_not_lie_behind_each_other_are_refused)
{
    static const int32_t rows[][2 * 4] = {
        {1, 1, 1, 1, 0, 0, 0, 0}, {0, 0, 1, 1, 0, 0, 0, 0},  {0, 0, 2, 1, 0, 0, 0, 0},
        {0, 0, 3, 3, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, -1, 0}, {0, 0, 0, 2, 2, 2, 2, 2},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("row %zu", i);
        struct world w;
        struct dt_err err = {0};
        double loss = 0;
        open_world(&w, &shapes[0], 2, 4);
        w.documents = rows[i];
        open_transformer(&w, false, 0);
        CHECK_FAIL(dt_transformer_train(w.t, w.z, 2, w.ids, w.targets, 1, &loss, &err), err,
                   "is in a document that begins at");
        close_world(&w);
    }
}

TEST(a_word_outside_the_vocabulary_is_refused)
{
    struct world w;
    struct dt_err err = {0};
    double loss = 0;
    open_world(&w, &shapes[0], 2, 5);
    w.ids[7] = 11;
    CHECK_FAIL(dt_transformer_train(w.t, w.z, 2, w.ids, w.targets, 1, &loss, &err), err,
               "token 11 of sample 1 at position 2 is none of this model's 11 words");
    w.ids[7] = -1;
    CHECK_FAIL(dt_transformer_train(w.t, w.z, 2, w.ids, w.targets, 1, &loss, &err), err,
               "token -1 of sample 1");
    w.ids[7] = 0;
    w.targets[0] = 11;
    CHECK_FAIL(dt_transformer_loss(w.t, w.z, 2, w.ids, w.targets, &loss, &err), err,
               "target 11 of sample 0 at position 0");
    CHECK_FAIL(dt_transformer_train(w.t, w.z, 3, w.ids, w.targets, 1, &loss, &err), err,
               "3 samples, where there is room for 2");
    CHECK_STR(w.z->calls, "");
    close_world(&w);
}

TEST(a_unit_that_cannot_be_had_ends_the_pass)
{
    struct world w;
    open_world(&w, &shapes[0], 1, 4);
    for (size_t i = 1; i <= 9; i++) {
        struct dt_err err = {0};
        double loss = 0;
        w.z->gathers_left = i;
        CHECK_ROW("gather %zu", i);
        CHECK_FAIL(dt_transformer_train(w.t, w.z, 1, w.ids, w.targets, 1, &loss, &err), err,
                   "is lost");
    }
    close_world(&w);
}

static const struct dt_device_form cpu;

static void check_counted(const struct dt_shape *s, const struct dt_transformer_options *o,
                          struct dt_device_form form)
{
    struct dt_ops ops = dt_ops_reference;
    struct counted c = {.device = {.ops = &ops,
                                   .table = &counted_table,
                                   .head_rows = form.head_rows,
                                   .head_stride = form.head_stride,
                                   .gate_grain = form.gate_grain}};
    ops.elem = form.elem;
    struct dt_transformer *t = dt_transformer_create(s, o, &c.device, NULL);
    CHECK(t != NULL);
    CHECK_EQ(c.bytes, dt_transformer_bytes(s, o, form));
    dt_transformer_destroy(t);
}

TEST(the_memory_it_says_is_the_memory_it_takes)
{
    static const struct dt_transformer_options options[] = {
        {.batch = 3, .positions = 6},
        {.batch = 1, .positions = 1},
        {.batch = 3, .positions = 5, .recompute = true},
        {.batch = 2, .positions = 6, .recompute = true, .recompute_every = 2},
        {.batch = 2, .positions = 6, .slots = 3},
        {.batch = 2, .positions = 6, .slots = 2, .recompute = true, .recompute_every = 2},
        {.batch = 2, .positions = 6, .recompute = true, .recompute_every = 9}};
    for (size_t i = 0; i < ROWS(shapes); i++) {
        for (size_t k = 0; k < ROWS(options); k++) {
            CHECK_ROW("%s, options %zu", name_of(&shapes[i]), k);
            check_counted(&shapes[i], &options[k], cpu);
            check_counted(&shapes[i], &options[k], dt_gpu_form(DT_BF16));
            check_counted(&shapes[i], &options[k], (struct dt_device_form){DT_F32, 2, 8, 1});
        }
    }
}

TEST(recomputing_takes_less_memory)
{
    struct dt_shape s = {DT_GPT2, 12,    12,    12, 768,   64,          3072,
                         1024,    50257, 1e-5f, 0,  0.02f, .tied = true};
    struct dt_transformer_options all = {.batch = 4, .positions = 1024},
                                  none = {.batch = 4, .positions = 1024, .recompute = true};
    CHECK(dt_transformer_bytes(&s, &none, cpu) < dt_transformer_bytes(&s, &all, cpu) / 3);
}

TEST(what_cannot_be_made_is_refused)
{
    struct counted c = {.device = {.ops = &dt_ops_reference, .table = &counted_table}};
    struct dt_transformer_options long_ones = {.batch = 1, .positions = 8},
                                  none = {.batch = 0, .positions = 5};
    struct dt_transformer_options huge = {.batch = SIZE_MAX / 4, .positions = 6};
    struct dt_err err = {0};
    CHECK_FAIL(dt_transformer_create(&shapes[0], &long_ones, &c.device, &err) ? 0 : -1, err,
               "1 samples of 8 positions; this model takes 1 to 7 positions");
    CHECK_FAIL(dt_transformer_create(&shapes[0], &none, &c.device, &err) ? 0 : -1, err,
               "0 samples of 5");
    CHECK_EQ(dt_transformer_bytes(&shapes[0], &huge, cpu), SIZE_MAX);
    CHECK_FAIL(dt_transformer_create(&shapes[0], &huge, &c.device, &err) ? 0 : -1, err,
               "no memory for activations");
    CHECK_EQ(c.bytes, 0);
}

TEST(the_fast_ops_agree_with_the_plain_ones)
{
    for (size_t i = 0; i < ROWS(shapes); i++) {
        CHECK_ROW("%s", name_of(&shapes[i]));
        struct world plain, fast;
        struct dt_err err = {0};
        size_t count;
        open_world(&plain, &shapes[i], 2, 6);
        open_world(&fast, &shapes[i], 2, 6);
        fast.device = dt_device_open_cpu(2, &err);
        CHECK_OK(fast.device ? 0 : -1, err);
        dt_transformer_destroy(fast.t);
        fast.t = NULL;
        open_transformer(&fast, true, 2);
        double a = train(&plain, 2, 1), b = train(&fast, 2, 1);
        CHECK(fabs(a - b) < 1e-5 * a);
        float *p = grads_of(&plain, &count), *f = grads_of(&fast, &count);
        check_close(f, p, count, 1e-4);
        free(p);
        free(f);
        dt_transformer_destroy(fast.t);
        fast.t = NULL;
        dt_device_close(fast.device);
        fast.device = NULL;
        close_world(&fast);
        close_world(&plain);
    }
}

/* As a GPU asks for it: no vocabulary here is a multiple of 8. */
TEST(rows_of_logits_may_be_padded)
{
    for (size_t i = 0; i < ROWS(shapes); i++) {
        CHECK_ROW("%s", name_of(&shapes[i]));
        struct world packed, padded;
        size_t count;
        open_world(&packed, &shapes[i], 2, 6);
        open_world(&padded, &shapes[i], 2, 6);
        padded.counted.device.head_stride = 8;
        padded.counted.device.head_rows = packed.counted.device.head_rows = 5;
        open_transformer(&packed, false, 0);
        open_transformer(&padded, false, 0);
        packed.targets[3] = padded.targets[3] = -100;
        double a = loss_of(&packed), b = loss_of(&padded);
        CHECK(a == b);
        a = train(&packed, 2, 1);
        b = train(&padded, 2, 1);
        CHECK(a == b);
        float *p = grads_of(&packed, &count), *q = grads_of(&padded, &count);
        check_same_bits(q, p, count);
        free(p);
        free(q);
        close_world(&padded);
        close_world(&packed);
    }
}

static size_t products;

static void product_forward(const struct dt_linear *l, dt_elem *out, const dt_elem *x,
                            struct dt_stream *s)
{
    products++;
    dt_ops_reference.linear_forward(l, out, x, s);
}

static void product_backward(const struct dt_linear *l, dt_elem *dx, bool add, dt_elem *dweight,
                             dt_elem *dbias, const dt_elem *x, const dt_elem *dout,
                             struct dt_stream *s)
{
    products++;
    dt_ops_reference.linear_backward(l, dx, add, dweight, dbias, x, dout, s);
}

/* As a GPU asks for it: a product less on each way through a block. Sums are in another order. */
TEST(a_gate_may_be_one_product_with_what_it_lets_through)
{
    static const size_t batch[MICRO_BATCHES] = {2, 1, 2};
    struct dt_ops counting = dt_ops_reference;
    counting.linear_forward = product_forward;
    counting.linear_backward = product_backward;
    for (size_t i = 0; i < ROWS(shapes); i++) {
        struct world apart, joined;
        struct line l;
        size_t count, blocks = shapes[i].layers * MICRO_BATCHES;
        double loss = 0;
        if (shapes[i].experts)
            continue;
        CHECK_ROW("%s", name_of(&shapes[i]));
        open_world(&apart, &shapes[i], 2, 5);
        open_world(&joined, &shapes[i], 2, 5);
        apart.counted.device.ops = joined.counted.device.ops = &counting;
        joined.counted.device.gate_grain = 1;
        open_transformer(&apart, false, 0);
        open_transformer(&joined, false, 0);
        int32_t *const ids[MICRO_BATCHES] = {apart.ids, apart.targets, apart.ids};
        products = 0;
        double a = train_at_once(&apart, ids, batch);
        size_t before = products;
        double b = train_at_once(&joined, ids, batch);
        CHECK_EQ(products - before, before - (shapes[i].family == DT_GPT2 ? 0 : 2 * blocks));
        CHECK(fabs(a - b) < 1e-6 * a);
        float *p = grads_of(&apart, &count), *q = grads_of(&joined, &count);
        check_close(q, p, count, 1e-5);
        held_clear_grads(joined.z);
        open_transformer(&joined, true, 2);
        CHECK(train_at_once(&joined, ids, batch) == b);
        float *again = grads_of(&joined, &count);
        check_same_bits(again, q, count);
        free(again);
        held_clear_grads(joined.z);
        open_line(&l, &joined, shapes[i].layers, false, true);
        for (size_t m = 0; m < MICRO_BATCHES; m++)
            line_forward(&l, m, batch[m], ids[m]);
        line_halves(&l, batch, &loss);
        CHECK(loss == b);
        again = grads_of(&joined, &count);
        check_same_bits(again, q, count);
        free(again);
        free(p);
        free(q);
        close_line(&l);
        close_world(&joined);
        close_world(&apart);
    }
}

TEST(time_is_counted_until_it_is_asked_for)
{
    struct world w;
    uint64_t forward, backward;
    open_world(&w, &shapes[0], 2, 5);
    dt_transformer_times(w.t, &forward, &backward);
    CHECK(forward == 0 && backward == 0);
    loss_of(&w);
    dt_transformer_times(w.t, &forward, &backward);
    CHECK(forward > 0 && backward == 0);
    train(&w, 2, 1);
    dt_transformer_times(w.t, &forward, &backward);
    CHECK(forward > 0 && backward > 0);
    dt_transformer_times(w.t, &forward, &backward);
    CHECK(forward == 0 && backward == 0);
    close_world(&w);
}
