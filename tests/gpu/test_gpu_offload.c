/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer in the host's memory makes the steps of one in the GPU's: with shards that cross in
 * several pieces, of which the last is shorter, or in one; with several micro-steps; with rounding
 * by chance. Copies are as late as they may be, so that who does not wait for one is found out. */
#include "tests/gpu/gpu_ranks.h"
#include "worker_runtime/device/cuda_plugin.h"
#include "worker_runtime/ops/ops.h"
#include "worker_runtime/zero/create.h"
#include "worker_runtime/zero/state.h"

#include <math.h>

enum { UNITS = 4, STEPS = 3, SMALL = 97, LARGE = 1003, ALL = 3 * LARGE + SMALL };

static const size_t sizes[UNITS] = {LARGE, LARGE, SMALL, LARGE};

static int gpus;

BEFORE_ALL
{
    setenv("DT_EMULATOR_LAZY", "60000", 1);
    gpus = gpu_ranks_or_skip("2");
}

struct row {
    const char *name;
    int world, stage, micro_steps;
    enum dt_dtype elem, model_type;
    bool by_chance;
    size_t piece;
    bool params; /* are offloaded too */
    bool float_sums;
};

/* What a rank has after its steps; of the first of them, the norm. */
struct outcome {
    float params[ALL];
    double norm;
    struct dt_zero_memory memory;
};

static float value(size_t i, size_t salt)
{
    return (float)((i * 31 + salt * 17) % 61) / 64 - 0.45f;
}

static void fill(void *arg, size_t unit, size_t param, size_t first, size_t count, float *out)
{
    (void)arg;
    (void)param;
    for (size_t i = 0; i < count; i++)
        out[i] = value(first + i, unit);
}

static struct dt_zero *open_zero(const struct dt_zero_place *place, const struct row *r,
                                 bool offload)
{
    static const char *const names[UNITS] = {"a", "b", "c", "d"};
    struct dt_err err = {0};
    struct dt_param params[UNITS];
    struct dt_unit units[UNITS];
    struct dt_zero_options o;
    for (size_t u = 0; u < UNITS; u++) {
        params[u] = (struct dt_param){.name = names[u], .count = sizes[u], .decay = u % 2};
        units[u] = (struct dt_unit){.name = names[u], .params = &params[u], .param_count = 1};
    }
    dt_zero_defaults(&o);
    o.stage = r->stage;
    o.model_type = r->model_type;
    o.weight_decay = 0.1f;
    o.offload = offload;
    o.offload_params = offload && r->params;
    o.persist_below = 0;
    o.float_sums = r->float_sums;
    o.stochastic_rounding = r->by_chance;
    o.seed = 5;
    struct dt_zero *z = dt_zero_create_on(place, units, UNITS, &o, &err);
    CHECK_OK(z ? 0 : -1, err);
    CHECK_OK(dt_zero_fill(z, fill, NULL, &err), err);
    return z;
}

/* Gradients of small whole numbers, so that sums have no rounding, whichever comes first. */
static void give_gradients(struct dt_zero *z, struct dt_device *d, size_t unit, size_t salt)
{
    struct dt_err err = {0};
    size_t n = sizes[unit];
    float numbers[LARGE];
    void *grads = dt_zero_grads(z, unit, &err);
    float *there = dt_device_alloc(d, n * sizeof *there, "a test", &err);
    void *rounded = dt_device_alloc(d, n * sizeof *there, "a test", &err);
    CHECK_OK(grads && there && rounded ? 0 : -1, err);
    for (size_t i = 0; i < n; i++)
        numbers[i] = (float)((i + unit * 3 + salt) % 9) - 4;
    d->table->from_host(d, there, numbers, n * sizeof *numbers);
    d->ops->cast(n, rounded, d->ops->elem, there, DT_F32, d->stream);
    d->ops->add(n, grads, rounded, d->stream);
    dt_device_free(d, rounded);
    dt_device_free(d, there);
    CHECK_OK(dt_zero_reduce(z, unit, &err), err);
}

static void take_params(struct dt_zero *z, struct dt_device *d, float *out)
{
    struct dt_err err = {0};
    float *there = dt_device_alloc(d, LARGE * sizeof *out, "a test", &err);
    CHECK_OK(there ? 0 : -1, err);
    dt_zero_begin(z, false, false);
    for (size_t u = 0; u < UNITS; out += sizes[u], u++) {
        const void *params = dt_zero_gather(z, u, &err);
        CHECK_OK(params ? 0 : -1, err);
        d->ops->cast(sizes[u], there, DT_F32, params, d->ops->elem, d->stream);
        d->table->to_host(d, out, there, sizes[u] * sizeof *out);
        dt_zero_release(z, u);
    }
    dt_device_free(d, there);
    CHECK_OK(dt_device_sync(d, &err), err);
}

static void train(const struct dt_zero_place *place, const struct row *r, bool offload,
                  struct outcome *out)
{
    struct dt_err err = {0};
    struct dt_zero_updated done;
    struct dt_zero *z = open_zero(place, r, offload);
    int rank = dt_coll_rank(place->group);
    for (int step = 0; step < STEPS; step++) {
        for (int micro = 0; micro < r->micro_steps; micro++) {
            dt_zero_begin(z, true, micro + 1 == r->micro_steps);
            for (size_t u = UNITS; u-- > 0;)
                if (u != 2 || step != 1) /* nobody has any for that one then */
                    give_gradients(z, place->device, u, (size_t)(step * 5 + micro + 2 * rank));
        }
        struct dt_zero_update u = {.lr = 0.01f, .loss_scale = 4};
        CHECK_OK(dt_zero_step(z, &u, &done, &err), err);
        CHECK(!done.overflow);
        out->norm = step == 0 ? done.grad_norm : out->norm;
    }
    CHECK_EQ(dt_zero_steps(z), STEPS);
    take_params(z, place->device, out->params);
    dt_zero_memory(z, &out->memory);
    dt_zero_destroy(z);
}

/* A processor without fused multiplication rounds once more: 3 steps of 0.01 stay near. A step that
 * rounds by chance, or to 16 bits, may then fall to the other side. */
static void check_same(const struct row *r, const struct outcome *a, const struct outcome *b)
{
    double least = r->model_type == DT_F32 ? 1e-6 : 0x1p-7;
    size_t others = 0;
    for (size_t i = 0; i < ALL; i++) {
        CHECK_ROW("%s, parameter %zu: %.9g and %.9g", r->name, i, (double)a->params[i],
                  (double)b->params[i]);
        CHECK(fabs((double)a->params[i] - (double)b->params[i]) <= least);
        others += a->params[i] != b->params[i];
    }
    CHECK_ROW("%s: %zu parameters of %d differ", r->name, others, (int)ALL);
    CHECK(r->model_type == DT_F32 || others <= ALL / 100);
    CHECK(fabs(a->norm - b->norm) <= 1e-12 * b->norm);
}

static void check_memory(const struct row *r, const struct outcome *plain,
                         const struct outcome *offloaded)
{
    CHECK_ROW("%s", r->name);
    CHECK(plain->memory.optimizer > 0 && plain->memory.offloaded == 0);
    CHECK_EQ(offloaded->memory.optimizer, 0);
    CHECK(offloaded->memory.offloaded >= 3 * sizeof(float) * ALL / (size_t)r->world);
    if (r->stage > 1)
        CHECK_EQ(offloaded->memory.grads, 0);
    CHECK_EQ(offloaded->memory.params, r->params ? 0 : plain->memory.params);
}

static void both(struct rank_self *me)
{
    const struct row *r = me->arg;
    struct dt_err err = {0};
    struct dt_device_wish w = {
        .kind = "cuda", .local_rank = me->rank, .local_world = me->size, .elem = r->elem};
    struct dt_device *d = dt_device_open(&w, &err);
    CHECK_OK(d ? 0 : -1, err);
    struct dt_coll *group = rank_open(me);
    struct dt_zero_place place = {
        .device = d, .group = group, .sharing = 1, .threads = 2, .piece = r->piece};
    struct outcome *plain = calloc(1, sizeof *plain), *offloaded = calloc(1, sizeof *offloaded);
    train(&place, r, false, plain);
    train(&place, r, true, offloaded);
    check_same(r, offloaded, plain);
    check_memory(r, plain, offloaded);
    free(plain);
    free(offloaded);
    dt_coll_destroy(group);
    dt_device_close(d);
}

TEST(steps_are_those_of_an_optimizer_in_the_gpu)
{
    /* clang-format off */
    static struct row rows[] = {
        {"floats, whole shards", 1, 1, 1, DT_F32, DT_F32, false, 0, false, false},
        {"floats, stage 2, pieces of 300", 1, 2, 1, DT_F32, DT_F32, false, 300, false, false},
        {"floats, 2 ranks, stage 2, 3 micro-steps", 2, 2, 3, DT_F32, DT_F32, false, 128, false, false},
        {"halves, stage 1, pieces", 1, 1, 2, DT_BF16, DT_BF16, false, 300, false, false},
        {"halves, stage 2, pieces, micro-steps", 1, 2, 3, DT_BF16, DT_BF16, false, 77, false, false},
        {"halves added up in float, stage 1, pieces", 1, 1, 3, DT_BF16, DT_BF16, false, 300, false, true},
        {"halves added up in float, 2 ranks, stage 2, pieces", 2, 2, 3, DT_BF16, DT_BF16, false, 77, false, true},
        {"halves by chance, 2 ranks, stage 2, pieces", 2, 2, 2, DT_BF16, DT_BF16, true, 100, false, false},
        {"halves, 2 ranks, stage 3", 2, 3, 1, DT_BF16, DT_BF16, false, 100, false, false},
        {"fp16 in floats, stage 2", 1, 2, 1, DT_F32, DT_F16, false, 300, false, false},
        {"floats and parameters, a rank alone", 1, 3, 2, DT_F32, DT_F32, false, 300, true, false},
        {"halves and parameters, 2 ranks", 2, 3, 2, DT_BF16, DT_BF16, true, 77, true, false},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].world <= gpus)
            ranks_run(rows[i].world, both, &rows[i]);
}
