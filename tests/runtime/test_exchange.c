/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that share the experts of a model learn what one rank with all of them does: also those
 * that have no samples, and go through the blocks for others alone. */
#include "worker_runtime/model/exchange.h"

#include "tests/runtime/held_zero.h"
#include "tests/runtime/ranks.h"
#include "worker_runtime/model/transformer.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))
enum { POSITIONS = 5, BATCH = 3, RANKS_MOST = 4 };

static const struct dt_shape shapes[] = {
    {DT_MIXTRAL, 2, 4, 2, 6, 4, 5, POSITIONS, 11, 1e-6f, 100, 0.02f, .experts = 4,
     .expert_picks = 2, .expert_inner = 5, .weigh_picks = true, .balance_experts = true},
    {DT_QWEN2_MOE, 2, 4, 2, 6, 4, 1, POSITIONS, 11, 1e-6f, 100, 0.02f, .tied = true,
     .qkv_bias = true, .experts = 12, .expert_picks = 5, .expert_inner = 3, .shared_inner = 7},
};

struct play {
    const struct dt_shape *shape;
    size_t ranks, batch[RANKS_MOST]; /* samples of each */
    bool recompute;
};

/* A model, or what one rank has of it. */
struct model {
    struct dt_shape shape;
    struct dt_tensor *tensors;
    size_t count;
    struct dt_zero *z;
    struct dt_transformer *t;
};

static float weight(size_t tensor, size_t at)
{
    uint32_t x = (uint32_t)(tensor * 7919 + at) * 2654435761u;
    x = (x ^ x >> 15) * 2246822519u;
    return (float)(x >> 8) * 0x1p-24f - 0.5f;
}

/* Which tensor of the whole model that is, of those that a part has. */
static size_t whole_of(const struct play *p, const struct dt_tensor *part, size_t parts,
                       size_t index)
{
    struct dt_tensor *all = dt_shape_tensors(p->shape, NULL);
    bool own = dt_shape_is_of_expert(p->shape, part);
    size_t expert = own ? part->expert + index * (p->shape->experts / parts) : 0, i = 0;
    while (all[i].unit != part->unit || all[i].which != part->which || all[i].expert != expert)
        i++;
    free(all);
    return i;
}

/* TEAM NULL: all of it. */
static void open_model(struct model *m, const struct play *p, struct dt_device *device,
                       struct dt_team *team)
{
    struct dt_err err = {0};
    struct dt_unit *units;
    struct dt_param *params;
    size_t parts = team ? p->ranks : 1;
    const struct dt_transformer_options o = {
        .batch = BATCH, .positions = POSITIONS, .recompute = p->recompute, .experts = team};
    CHECK_OK(dt_shape_cut(p->shape, parts, &m->shape, &err), err);
    m->tensors = dt_shape_tensors(&m->shape, &err);
    m->count = dt_shape_tensor_count(&m->shape);
    CHECK_OK(dt_shape_units(&m->shape, m->tensors, &units, &params, &err), err);
    m->z = held_create(units, dt_shape_unit_count(&m->shape));
    for (const struct dt_tensor *t = m->tensors; t < m->tensors + m->count; t++) {
        size_t index = team ? (size_t)team->index : 0;
        size_t whole = whole_of(p, t, parts, index);
        for (size_t at = 0; at < t->count; at++)
            m->z->unit[t->unit].params[t->offset + at] = t->init_value + weight(whole, at);
    }
    m->t = dt_transformer_create(&m->shape, &o, device, &err);
    CHECK_OK(m->t ? 0 : -1, err);
    free(units);
    free(params);
}

static void close_model(struct model *m)
{
    dt_transformer_destroy(m->t);
    held_destroy(m->z);
    free(m->tensors);
}

/* What that rank reads; its gradients are added. */
static double train(struct model *m, const struct play *p, size_t rank)
{
    struct dt_err err = {0};
    int32_t ids[BATCH * POSITIONS], targets[BATCH * POSITIONS];
    double loss = 0;
    for (size_t i = 0; i < BATCH * POSITIONS; i++) {
        ids[i] = (int32_t)((i * i + 3 * rank + i) % p->shape->vocabulary);
        targets[i] = (int32_t)((i + rank) % p->shape->vocabulary);
    }
    if (p->shape->balance_experts)
        dt_transformer_balance(m->t, 0.7);
    CHECK_OK(dt_transformer_train(m->t, m->z, p->batch[rank], ids, targets, 1, &loss, &err), err);
    CHECK(held_all_back(m->z));
    return loss;
}

static const float *sums_of(const struct model *m, const struct dt_tensor *t)
{
    return m->z->unit[t->unit].sums + t->offset;
}

static void check_near(const struct dt_tensor *t, const float *is, const float *wanted)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < t->count; i++) {
        apart += ((double)is[i] - (double)wanted[i]) * ((double)is[i] - (double)wanted[i]);
        size += (double)wanted[i] * (double)wanted[i];
    }
    CHECK_ROW("%s: %g apart, of %g", t->name, sqrt(apart), sqrt(size));
    CHECK(sqrt(apart) <= 1e-5 * sqrt(size));
}

static void learn(struct rank_self *me)
{
    const struct play *p = me->arg;
    struct dt_err err = {0};
    struct dt_coll *world = rank_open(me);
    struct dt_team team = {.group = world, .index = me->rank};
    struct dt_device *device = dt_device_open_cpu(1, &err);
    struct model own, all, mine; /* MINE: all experts, and the samples of this rank alone */
    CHECK_OK(device ? 0 : -1, err);
    open_model(&own, p, device, &team);
    open_model(&all, p, device, NULL);
    open_model(&mine, p, device, NULL);
    double loss = train(&own, p, (size_t)me->rank), wanted = train(&mine, p, (size_t)me->rank);
    CHECK(fabs(loss - wanted) <= 1e-5 * wanted);
    for (size_t rank = 0; rank < p->ranks; rank++)
        train(&all, p, rank);
    for (const struct dt_tensor *t = own.tensors; t < own.tensors + own.count; t++) {
        size_t i = whole_of(p, t, p->ranks, (size_t)me->rank);
        bool expert = dt_shape_is_of_expert(p->shape, t);
        const struct model *like = expert ? &all : &mine;
        check_near(t, sums_of(&own, t), sums_of(like, &like->tensors[i]));
    }
    close_model(&own);
    close_model(&all);
    close_model(&mine);
    dt_device_close(device);
    CHECK_OK(dt_coll_barrier(world, &err), err);
    dt_coll_destroy(world);
}

TEST(gradients_are_those_of_one_rank_with_all_experts)
{
    static const struct {
        size_t ranks, batch[RANKS_MOST];
    } rows[] = {{2, {2, 3}}, {2, {3, 0}}, {2, {0, 1}}, {4, {1, 0, 3, 0}}, {2, {0, 0}}};
    for (size_t i = 0; i < 2 * ROWS(shapes) * ROWS(rows); i++) {
        size_t row = i / 2 / ROWS(shapes);
        struct play p = {.shape = &shapes[i / 2 % ROWS(shapes)], .ranks = rows[row].ranks};
        memcpy(p.batch, rows[row].batch, sizeof p.batch);
        p.recompute = i % 2;
        CHECK_ROW("%s, row %zu, recompute %d", dt_shape_title(p.shape), row, p.recompute);
        ranks_run((int)p.ranks, learn, &p);
    }
}

/* Nothing is read from where there is no room. */
static void has_too_many(struct rank_self *me)
{
    struct play p = *(const struct play *)me->arg;
    struct dt_err err = {0};
    struct dt_coll *world = rank_open(me);
    struct dt_team team = {.group = world, .index = me->rank};
    struct dt_device *device = dt_device_open_cpu(1, &err);
    struct model own;
    double loss = 0;
    int32_t ids[BATCH * POSITIONS] = {0};
    CHECK_OK(device ? 0 : -1, err);
    open_model(&own, &p, device, &team);
    size_t batch = BATCH;
    if (me->rank == 1) { /* has room for one sample, where the others have three */
        const struct dt_transformer_options o = {
            .batch = 1, .positions = POSITIONS, .experts = &team};
        dt_transformer_destroy(own.t);
        own.t = dt_transformer_create(&own.shape, &o, device, &err);
        batch = 1;
    }
    CHECK(own.t != NULL);
    int rc = dt_transformer_loss(own.t, own.z, batch, ids, ids, &loss, &err);
    if (me->rank == 1)
        CHECK_FAIL(rc, err, "another rank has more rows for the experts of one than there is room");
    else
        CHECK(rc < 0);
    close_model(&own);
    dt_device_close(device);
    dt_coll_destroy(world);
}

TEST(more_rows_than_there_is_room_for_are_refused)
{
    struct play p = {.shape = &shapes[1], .ranks = 2};
    ranks_run(2, has_too_many, &p);
}
