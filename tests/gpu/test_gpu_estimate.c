/* SPDX-License-Identifier: Apache-2.0 */
/* That ranks on GPUs hold what `dtrun-train --estimate` said they would. CUDA does not survive a
 * fork: this process never calls it. */
#include "tests/gpu/gpu_ranks.h"
#include "worker_runtime/model/transformer.h"
#include "worker_runtime/ops/ops.h"
#include "worker_runtime/device/cuda_plugin.h"
#include "worker_runtime/train/estimate.h"
#include "worker_runtime/zero/create.h"

#define MODEL                                                                                      \
    "\"train_micro_batch_size_per_gpu\": 2, \"model\": {\"config\": {\"model_type\": \"gpt2\", "   \
    "\"vocab_size\": 320, \"n_positions\": 64, \"n_embd\": 128, \"n_layer\": 2, \"n_head\": 2, "   \
    "\"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0}}}"

static int gpus;

BEFORE_ALL
{
    gpus = gpu_ranks_or_skip("2");
}

static struct dt_gpu_memory memory_of(int rank)
{
    struct dt_gpu_memory m = {0};
    struct dt_err err = {0};
    const struct dt_cuda_plugin *p = dt_cuda_plugin_load(&err);
    CHECK_OK(p ? p->memory(rank, &m, &err) : -1, err);
    return m;
}

static struct dt_device *open_device(const struct rank_self *me, const struct dt_config *c)
{
    struct dt_err err = {0};
    struct dt_device_wish w = {.kind = "cuda",
                               .local_rank = me->rank,
                               .local_world = me->size,
                               .elem = dt_config_gpu_elem(c)};
    struct dt_device *d = dt_device_open(&w, &err);
    CHECK_OK(d ? 0 : -1, err);
    return d;
}

/* A driver and libraries take memory of their own, which nobody can foretell. */
static void opening_takes_the_scratch(struct rank_self *me)
{
    const size_t most_of_others = (size_t)1 << 30;
    struct dt_gpu_memory before = memory_of(me->rank);
    CHECK(strncmp(before.name, "GPU 0, ", 7) == 0);
    CHECK(before.scratch > 0 && before.free <= before.total);
    struct dt_device *d = open_device(me, me->arg);
    struct dt_gpu_memory now = memory_of(me->rank);
    CHECK_EQ(now.total, before.total);
    CHECK(before.free - now.free >= before.scratch);
    CHECK(before.free - now.free < before.scratch + most_of_others);
    dt_device_close(d);
}

/* SHAPE: what of the model this rank has. */
static void check_stage(const struct dt_config *c, const struct dt_shape *shape,
                        const struct dt_estimate_place *at, const struct dt_zero_place *place,
                        int stage)
{
    struct dt_err err = {0};
    struct dt_unit *units;
    struct dt_param *params;
    struct dt_zero_memory m;
    struct dt_estimate e;
    struct dt_zero_options o = c->zero;
    struct dt_tensor *tensors = dt_shape_tensors(shape, &err);
    CHECK(tensors != NULL);
    CHECK_OK(dt_shape_units(shape, tensors, &units, &params, &err), err);
    o.stage = stage;
    o.full_gradients = c->batch.accumulation > 1 && !o.offload;
    struct dt_zero *z = dt_zero_create_on(place, units, dt_shape_unit_count(shape), &o, &err);
    CHECK_OK(z ? 0 : -1, err);
    dt_zero_memory(z, &m);
    CHECK_OK(dt_estimate(c, at, stage, &e, &err), err);
    CHECK_ROW("%d ranks, stage %d", at->world, stage);
    CHECK_EQ(e.optimizer, m.optimizer);
    CHECK_EQ(e.offloaded, m.offloaded);
    if (stage == 3 &&
        (at->world > 1 || o.offload_params)) /* units are gathered when they are asked for */
        CHECK(e.params + e.grads >= m.params + m.grads + m.scratch);
    else
        CHECK_EQ(e.params + e.grads, m.params + m.grads + m.scratch);
    dt_zero_destroy(z);
    free(units);
    free(params);
    free(tensors);
}

/* By the device's own word on its elements and logits. PARTS: ranks that share the words; WIDENED:
 * bytes of the stream in which they sum it. */
static void check_activations(const struct dt_config *c, const struct dt_shape *shape,
                              const struct dt_estimate_place *at, struct dt_device *d, size_t parts,
                              size_t widened)
{
    struct dt_err err = {0};
    struct dt_estimate e;
    struct dt_transformer_options o = {.batch = 2, .positions = 64, .words.parts = parts};
    struct dt_device_form form = {d->ops->elem, d->head_rows, d->head_stride, d->gate_grain};
    CHECK_OK(dt_estimate(c, at, 0, &e, &err), err);
    CHECK_EQ(e.activations, dt_transformer_bytes(shape, &o, form) + widened);
}

static void holds(struct rank_self *me)
{
    const struct dt_config *c = me->arg;
    struct dt_device *device = open_device(me, c);
    struct dt_coll *group = rank_open(me);
    struct dt_estimate_place at = {
        .world = me->size, .local = me->size, .on_gpu = true, .gpus = me->size};
    struct dt_zero_place place = {.device = device, .group = group, .sharing = 1};
    for (int stage = 0; stage < 4; stage++)
        check_stage(c, &c->model.shape, &at, &place, stage);
    check_activations(c, &c->model.shape, &at, device, 0, 0);
    dt_coll_destroy(group);
    dt_device_close(device);
}

/* Two ranks that share each block, and nothing else. */
static void holds_its_part(struct rank_self *me)
{
    const struct dt_config *c = me->arg;
    struct dt_err err = {0};
    struct dt_shape part;
    struct dt_device *device = open_device(me, c);
    struct dt_coll *group = rank_open(me), *own;
    struct dt_estimate_place at = {.world = 2, .local = 2, .on_gpu = true, .gpus = 2};
    CHECK_OK(dt_coll_split(group, me->rank, 0, &own, &err), err);
    CHECK_OK(dt_shape_cut(&c->model.shape, 2, &part, &err), err);
    struct dt_zero_place place = {.device = device, .group = own, .sharing = 1};
    for (int stage = 0; stage < 4; stage++)
        check_stage(c, &part, &at, &place, stage);
    size_t widened = c->train.wide_sums && device->ops->elem == DT_BF16 ? 2 * 64 * 128 * 4 : 0;
    check_activations(c, &part, &at, device, 2, widened);
    dt_coll_destroy(own);
    dt_coll_destroy(group);
    dt_device_close(device);
}

/* Two ranks that share each sample: what they sum of keys and values is of all positions. */
static void holds_its_pieces(struct rank_self *me)
{
    const struct dt_config *c = me->arg;
    struct dt_device *device = open_device(me, c);
    struct dt_estimate_place at = {.world = 2, .local = 2, .on_gpu = true, .gpus = 2};
    struct dt_transformer_options o = {
        .batch = 2, .positions = 64, .pieces = {2, (size_t)me->rank, 64, c->parallel.context_by}};
    struct dt_device_form form = {device->ops->elem, device->head_rows, device->head_stride,
                                  device->gate_grain};
    bool widens =
        c->train.wide_sums && device->ops->elem == DT_BF16 && c->parallel.context_by == DT_BY_KEYS;
    size_t widened = widens ? 2 * 64 * 2 * 128 * sizeof(float) : 0;
    struct dt_err err = {0};
    struct dt_estimate e;
    CHECK_OK(dt_estimate(c, &at, 0, &e, &err), err);
    CHECK_EQ(e.activations, dt_transformer_bytes(&c->model.shape, &o, form) + widened);
    dt_device_close(device);
}

static struct dt_config parsed(const char *text)
{
    struct dt_config c;
    struct dt_err err = {0};
    CHECK_OK(dt_config_parse(&c, text, strlen(text), "text", "", NULL, &err), err);
    return c;
}

TEST(what_a_gpu_has_free_is_told_and_what_a_worker_takes_of_it)
{
    struct dt_config c = parsed("{" MODEL);
    ranks_run(1, opening_takes_the_scratch, &c);
    dt_config_finish(&c);
}

TEST(ranks_on_gpus_hold_what_was_estimated)
{
    static const char *const texts[] = {
        "{" MODEL,
        "{\"bf16\": {\"enabled\": true}, " MODEL,
        "{\"fp16\": {\"enabled\": true}, " MODEL,
        "{\"bf16\": {\"enabled\": true}, \"gradient_accumulation_steps\": 2, "
        "\"data_types\": {\"grad_accum_dtype\": \"fp32\"}, " MODEL,
        "{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\"}}, "
        "\"bf16\": {\"enabled\": true}, " MODEL,
        "{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\"}, "
        "\"offload_param\": {\"device\": \"cpu\"}}, " MODEL,
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int world = 1; world <= 2 && world <= gpus; world++) {
            struct dt_config c = parsed(texts[i]);
            CHECK_ROW("%s", texts[i]);
            ranks_run(world, holds, &c);
            dt_config_finish(&c);
        }
}

#define SUMS_IN_FLOAT "\"bf16\": {\"enabled\": true}, \"communication_data_type\": \"fp32\", "

TEST(ranks_that_share_blocks_or_samples_hold_what_was_estimated)
{
    static const struct {
        const char *text;
        void (*holds)(struct rank_self *me);
    } rows[] = {
        {"{\"parallel\": {\"tensor\": 2}, " MODEL, holds_its_part},
        {"{\"parallel\": {\"tensor\": 2}, " SUMS_IN_FLOAT MODEL, holds_its_part},
        {"{\"parallel\": {\"context\": 2}, " MODEL, holds_its_pieces},
        {"{\"parallel\": {\"context\": 2}, " SUMS_IN_FLOAT MODEL, holds_its_pieces},
        {"{\"parallel\": {\"context\": 2, \"context_by\": \"heads\"}, " SUMS_IN_FLOAT MODEL,
         holds_its_pieces},
    };
    if (gpus < 2)
        SKIP("2 GPUs are needed, and there is one");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_config c = parsed(rows[i].text);
        CHECK_ROW("%s", rows[i].text);
        ranks_run(2, rows[i].holds, &c);
        dt_config_finish(&c);
    }
}
