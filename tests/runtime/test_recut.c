/* SPDX-License-Identifier: Apache-2.0 */
/* Shards of models that a mesh cuts, to those of whole tensors and back. */
#include "tests/runtime/ranks.h"
#include "worker_runtime/ckpt/inside.h"
#include "worker_runtime/ckpt/recut.h"
#include "worker_runtime/model/lora_cut.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

static const struct dt_shape shapes[] = {
    {DT_GPT2, 2, 4, 4, 8, 2, 12, 6, 13, 1e-5f, 0, 0.02f, .tied = true},
    {DT_LLAMA, 2, 8, 4, 16, 2, 12, 6, 9, 1e-5f, 100, 0.02f, .tied = false},
    {DT_QWEN2, 1, 4, 2, 10, 4, 6, 6, 13, 1e-5f, 100, 0.02f, .qkv_bias = true},
    {DT_QWEN2, 1, 8, 2, 10, 4, 8, 6, 13, 1e-5f, 100, 0.02f, .qkv_bias = true},
    /* More words than one exchange takes. */
    {DT_LLAMA, 1, 4, 4, 8, 2, 12, 6, 140000, 1e-5f, 100, 0.02f, .tied = true},
    {DT_GPT2, 5, 4, 4, 8, 2, 12, 6, 13, 1e-5f, 0, 0.02f, .tied = true},
    {DT_LLAMA, 5, 4, 2, 8, 2, 12, 6, 9, 1e-5f, 100, 0.02f, .tied = false},
    {DT_QWEN2_MOE, 2, 4, 2, 10, 4, 6, 6, 13, 1e-5f, 100, 0.02f, .qkv_bias = true, .experts = 6,
     .expert_picks = 2, .expert_inner = 4, .shared_inner = 6},
};

struct play {
    const struct dt_shape *shape;
    const struct dt_lora *lora; /* NULL: the model is what is cut */
    int tensor, stages; /* of a model with experts: ranks that share these, in place of stages */
};

#define STAGES_MOST 6

/* All that stands between a model and its cut on one rank. */
struct cut {
    struct dt_shape part;
    struct dt_tensor *of_stage[STAGES_MOST], *parts; /* this rank's stage's */
    struct dt_ckpt_model whole, own;
    struct dt_recut recut;
    struct dt_layout files_layout, here_layout;
    int64_t steps;
    struct dt_zero_state files, here;
};

static struct dt_tensor *tensors_of(const struct play *p, const struct dt_shape *s, size_t *count)
{
    struct dt_err err = {0};
    *count = dt_shape_tensor_count(s);
    return p->lora ? dt_lora_tensors(p->lora, s, count, &err) : dt_shape_tensors(s, &err);
}

static void open_cut(struct cut *c, const struct play *p, struct dt_coll *world)
{
    struct dt_err err = {0};
    int rank = dt_coll_rank(world), ranks = dt_coll_size(world);
    int data = ranks / p->tensor / p->stages;
    size_t layers = p->shape->layers, stages = (size_t)p->stages, count;
    *c = (struct cut){.recut = {.mesh = {{p->stages, data, 1, 1, p->tensor}}, .world = world}};
    bool experts = p->shape->experts > 0;
    if (experts)
        c->recut.mesh = (struct dt_mesh_shape){{1, data, 1, p->stages, p->tensor}};
    CHECK_OK(dt_shape_cut(p->shape, (size_t)p->tensor, &c->part, &err), err);
    struct dt_mesh_place place = dt_mesh_place(&c->recut.mesh, rank);
    for (size_t i = 0; i < stages; i++) {
        const struct dt_stage stage = {.chunks = 1,
                                       .chunk = {{layers * i / stages, layers * (i + 1) / stages}}};
        c->of_stage[i] = tensors_of(p, &c->part, &count);
        if (p->lora)
            dt_lora_keep(p->lora, &c->part, &stage, c->of_stage[i], count);
        else if (experts)
            dt_shape_keep_experts(&c->part, stages, i, c->of_stage[i]);
        else
            dt_stage_keep(&c->part, &stage, c->of_stage[i]);
    }
    c->parts = c->of_stage[place.index[experts ? DT_MESH_EP : DT_MESH_PP]];
    c->recut.parts = c->of_stage;
    c->whole = (struct dt_ckpt_model){.shape = p->shape,
                                      .tensors = tensors_of(p, p->shape, &count),
                                      .count = count,
                                      .lora = p->lora,
                                      .recut = &c->recut};
    c->own = (struct dt_ckpt_model){
        .shape = &c->part, .tensors = c->parts, .count = count, .lora = p->lora};
    CHECK_OK(dt_ckpt_cut(&c->whole, (size_t)ranks, &c->files_layout, &err), err);
    CHECK_OK(dt_ckpt_cut(&c->own, (size_t)data, &c->here_layout, &err), err);
    c->files.steps = c->here.steps = &c->steps;
    CHECK_OK(dt_ckpt_shards_init(&c->files, &c->files_layout, (size_t)rank, NULL, &err), err);
    CHECK_OK(
        dt_ckpt_shards_init(&c->here, &c->here_layout, (size_t)place.index[DT_MESH_DP], NULL, &err),
        err);
}

static void close_cut(struct cut *c)
{
    dt_ckpt_shards_finish(&c->files, NULL);
    dt_ckpt_shards_finish(&c->here, NULL);
    dt_layout_finish(&c->files_layout);
    dt_layout_finish(&c->here_layout);
    free(c->whole.tensors);
    for (size_t i = 0; i < STAGES_MOST; i++)
        free(c->of_stage[i]);
}

/* An element of a whole model has its own number as its value: float holds as many of them. */
static float value(size_t payload, int array)
{
    return (float)(payload + 1) + 1e5f * (float)array;
}

static void fill_files(struct cut *c)
{
    float *const arrays[] = {c->files.master, c->files.exp_avg, c->files.exp_avg_sq};
    struct dt_stretch s;
    for (size_t i = 0; dt_layout_owned(&c->files_layout, c->files.rank, &i, &s);)
        for (size_t at = 0; at < s.count; at++)
            for (int a = 0; a < 3; a++)
                arrays[a][s.shard_at + at] = value(s.payload_at + at, a);
}

/* Each element of this rank's parts is what the walk through the whole tensor says. */
static void check_here(const struct cut *c)
{
    const float *const arrays[] = {c->here.master, c->here.exp_avg, c->here.exp_avg_sq};
    struct dt_stretch s;
    for (size_t i = 0; dt_layout_owned(&c->here_layout, c->here.rank, &i, &s);) {
        size_t unit_at = c->here_layout.unit[s.unit].payload_at;
        for (size_t at = 0; at < s.count; at++) {
            size_t in_unit = s.payload_at + at - unit_at, tensor = 0, one = 1;
            while (c->parts[tensor].unit != s.unit ||
                   c->parts[tensor].offset + c->parts[tensor].count <= in_unit)
                tensor++;
            const struct dt_tensor *whole = &c->whole.tensors[tensor];
            size_t there =
                dt_recut_place(&c->whole, tensor, in_unit - c->parts[tensor].offset, &one);
            size_t payload = c->files_layout.unit[s.unit].payload_at + whole->offset + there;
            bool padding = there == DT_PADDING;
            for (int a = 0; a < 3; a++)
                CHECK(arrays[a][s.shard_at + at] == (padding ? 0 : value(payload, a)));
        }
    }
}

static void check_files(const struct cut *c)
{
    const float *const arrays[] = {c->files.master, c->files.exp_avg, c->files.exp_avg_sq};
    struct dt_stretch s;
    for (size_t i = 0; dt_layout_owned(&c->files_layout, c->files.rank, &i, &s);)
        for (size_t at = 0; at < s.count; at++)
            for (int a = 0; a < 3; a++)
                CHECK(arrays[a][s.shard_at + at] == value(s.payload_at + at, a));
}

static void there_and_back(struct rank_self *me)
{
    struct cut c;
    struct dt_err err = {0};
    struct dt_coll *world = rank_open(me);
    open_cut(&c, me->arg, world);
    fill_files(&c);
    struct dt_recut_room *room = dt_recut_room_open(&c.whole, c.here_layout.units, &err);
    CHECK_OK(room ? 0 : -1, err);
    CHECK_OK(dt_recut_from_files(room, &c.files, &c.here, &err), err);
    check_here(&c);
    memset(c.files.master, 0, c.files_layout.shard * sizeof(float));
    memset(c.files.exp_avg, 0, c.files_layout.shard * sizeof(float));
    memset(c.files.exp_avg_sq, 0, c.files_layout.shard * sizeof(float));
    CHECK_OK(dt_recut_to_files(room, &c.here, &c.files, &err), err);
    check_files(&c);
    dt_recut_room_close(room);
    close_cut(&c);
    CHECK_OK(dt_coll_barrier(world, &err), err);
    dt_coll_destroy(world);
}

TEST(elements_go_to_who_has_them_and_back)
{
    static const struct {
        int shape, ranks, tensor, stages;
    } rows[] = {{0, 2, 2, 1}, {0, 4, 2, 1}, {0, 4, 4, 1}, {1, 4, 4, 1}, {1, 6, 2, 1}, {1, 4, 2, 1},
                {2, 2, 2, 1}, {2, 6, 2, 1}, {3, 4, 4, 1}, {3, 8, 4, 1}, {4, 4, 2, 1}, {5, 2, 1, 2},
                {5, 6, 1, 3}, {5, 8, 2, 2}, {5, 8, 2, 4}, {6, 3, 1, 3}, {6, 8, 2, 2}, {6, 8, 4, 2},
                {7, 2, 1, 2}, {7, 6, 1, 3}, {7, 6, 1, 6}, {7, 4, 1, 2}, {7, 2, 2, 1}, {7, 4, 2, 2},
                {7, 8, 2, 2}, {7, 12, 2, 3}};
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct play p = {&shapes[rows[i].shape], NULL, rows[i].tensor, rows[i].stages};
        CHECK_ROW("shape %d, %d ranks, %d of them for tensors, %d stages", rows[i].shape,
                  rows[i].ranks, rows[i].tensor, rows[i].stages);
        ranks_run(rows[i].ranks, there_and_back, &p);
    }
}

/* Of all layers, and of all blocks alike but one; SAVES: words and head, too. */
TEST(adapters_go_to_who_has_their_layers_and_back)
{
    static const struct {
        int shape, ranks, tensor, stages;
        bool saves, dora;
    } rows[] = {{0, 2, 2, 1, false, false}, {0, 4, 4, 1, false, true}, {1, 4, 4, 1, true, false},
                {1, 6, 2, 1, true, true},   {3, 8, 4, 1, true, false}, {5, 6, 1, 3, false, true},
                {5, 8, 2, 4, false, false}, {6, 3, 1, 3, true, true},  {6, 8, 2, 2, true, false},
                {6, 8, 4, 2, true, true}};
    struct dt_err err = {0};
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct dt_shape *s = &shapes[rows[i].shape];
        struct dt_lora l = {.r = 2,
                            .alpha = 4,
                            .dora = rows[i].dora,
                            .saves_embedding = rows[i].saves,
                            .saves_head = rows[i].saves};
        CHECK_OK(dt_lora_target_all(&l, s, &err), err);
        struct play p = {s, &l, rows[i].tensor, rows[i].stages};
        CHECK_ROW("shape %d, %d ranks, %d of them for tensors, %d stages", rows[i].shape,
                  rows[i].ranks, rows[i].tensor, rows[i].stages);
        ranks_run(rows[i].ranks, there_and_back, &p);
    }
}
