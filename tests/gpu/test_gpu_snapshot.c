/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot of a rank's state is that of the moment it was asked for, however late it is copied:
 * steps that are made meanwhile wait for it before they change anything. */
#include "tests/runtime/ranks.h"
#include "worker_runtime/ckpt/inside.h"
#include "worker_runtime/ops/ops.h"
#include "worker_runtime/device/cuda_plugin.h"
#include "worker_runtime/zero/create.h"
#include "worker_runtime/zero/state.h"

enum { COUNT = 5000 };

/* CUDA does not survive a fork: only children call it. */
static void look_for_gpu(struct rank_self *me)
{
    struct dt_err *why = me->arg;
    const struct dt_cuda_plugin *p = dt_cuda_plugin_load(why);
    if (p && p->devices(why) > 0)
        *why = (struct dt_err){0};
}

BEFORE_ALL
{
    setenv("DT_EMULATOR_LAZY", "60000", 1); /* copies are made when somebody waits for them */
    struct dt_err *why =
        mmap(NULL, sizeof *why, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(why != MAP_FAILED);
    ranks_run(1, look_for_gpu, why);
    if (*why->text)
        SKIP("%s", why->text);
}

static float first_value(size_t i)
{
    return (float)(i % 97) / 64 - 0.7f;
}

static void fill(void *arg, size_t unit, size_t param, size_t first, size_t count, float *out)
{
    (void)arg;
    (void)unit;
    (void)param;
    for (size_t i = 0; i < count; i++)
        out[i] = first_value(first + i);
}

static struct dt_zero *open_zero(const struct dt_zero_place *place, enum dt_dtype type, int stage)
{
    struct dt_err err = {0};
    struct dt_param param = {.name = "weight", .count = COUNT, .decay = true};
    struct dt_unit unit = {.name = "unit", .params = &param, .param_count = 1};
    struct dt_zero_options o;
    dt_zero_defaults(&o);
    o.stage = stage;
    o.model_type = type;
    struct dt_zero *z = dt_zero_create_on(place, &unit, 1, &o, &err);
    CHECK_OK(z ? 0 : -1, err);
    CHECK_OK(dt_zero_fill(z, fill, NULL, &err), err);
    return z;
}

/* By gradients that are not 0, so that all values change. */
static void make_step(struct dt_zero *z, struct dt_device *d)
{
    struct dt_err err = {0};
    struct dt_zero_updated updated;
    struct dt_zero_update u = {.lr = 0.25f, .loss_scale = 1};
    float *ones = malloc(COUNT * sizeof *ones);
    for (size_t i = 0; i < COUNT; i++)
        ones[i] = 1;
    void *there = dt_device_alloc(d, COUNT * sizeof *ones, "a test", &err);
    CHECK_OK(there ? 0 : -1, err);
    d->table->from_host(d, there, ones, COUNT * sizeof *ones);
    dt_zero_begin(z, true, true);
    void *grads = dt_zero_grads(z, 0, &err);
    CHECK_OK(grads ? 0 : -1, err);
    d->ops->cast(COUNT, grads, d->ops->elem, there, DT_F32, d->stream);
    CHECK_OK(dt_zero_reduce(z, 0, &err), err);
    CHECK_OK(dt_zero_step(z, &u, &updated, &err), err);
    CHECK(!updated.overflow);
    dt_device_free(d, there);
    free(ones);
}

static void check_first_values(const struct dt_zero_state *s)
{
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_ROW("element %zu", i);
        CHECK(s->master[i] == first_value(i));
        CHECK(s->exp_avg[i] == 0 && s->exp_avg_sq[i] == 0);
    }
}

static void steps_go_on(struct rank_self *me)
{
    struct dt_err err = {0};
    const enum dt_dtype type = *(const enum dt_dtype *)me->arg;
    struct dt_device_wish w = {.kind = "cuda", .local_world = 1, .elem = type};
    struct dt_device *d = dt_device_open(&w, &err);
    CHECK_OK(d ? 0 : -1, err);
    struct dt_coll *group = rank_open(me);
    struct dt_zero_place place = {.device = d, .group = group, .sharing = 1};
    for (int stage = 0; stage < 4; stage++) {
        CHECK_ROW("stage %d", stage);
        int64_t steps = -1;
        struct dt_zero_state s = {.steps = &steps};
        struct dt_zero *z = open_zero(&place, type, stage);
        CHECK_OK(dt_ckpt_shards_init(&s, dt_zero_layout(z), 0, d, &err), err);
        CHECK_OK(dt_zero_save(z, &s, &err), err);
        make_step(z, d);
        make_step(z, d);
        CHECK_OK(d->table->snap_wait(d, &err), err);
        CHECK_EQ(steps, 0);
        check_first_values(&s);
        CHECK_OK(dt_zero_save(z, &s, &err), err);
        CHECK_OK(d->table->snap_wait(d, &err), err);
        CHECK_EQ(steps, 2);
        CHECK(s.master[0] < first_value(0) - 0.4f);
        dt_ckpt_shards_finish(&s, d);
        dt_zero_destroy(z);
    }
    dt_coll_destroy(group);
    dt_device_close(d);
}

TEST(steps_that_follow_a_snapshot_are_not_in_it)
{
    static enum dt_dtype types[] = {DT_F32, DT_BF16};
    for (size_t i = 0; i < 2; i++) {
        CHECK_ROW("type %d", types[i]);
        ranks_run(1, steps_go_on, &types[i]);
    }
}
