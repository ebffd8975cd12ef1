/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that share the experts of a model, or each expert, learn what one rank with all of them
 * does: also those that have no samples, and go through the blocks for others alone. */
#include "worker_runtime/model/exchange.h"

#include "tests/runtime/held_zero.h"
#include "tests/runtime/ranks.h"
#include "worker_runtime/model/work.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))
enum { POSITIONS = 6, BATCH = 3, RANKS_MOST = 4 };

static const struct dt_shape shapes[] = {
    {DT_MIXTRAL, 2, 4, 2, 6, 4, 6, POSITIONS, 11, 1e-6f, 100, 0.02f, .experts = 4,
     .expert_picks = 2, .expert_inner = 6, .weigh_picks = true, .balance_experts = true},
    {DT_QWEN2_MOE, 2, 4, 2, 6, 4, 1, POSITIONS, 11, 1e-6f, 100, 0.02f, .tied = true,
     .qkv_bias = true, .experts = 12, .expert_picks = 5, .expert_inner = 4, .shared_inner = 8},
};

struct play {
    const struct dt_shape *shape;
    size_t ranks, batch[RANKS_MOST]; /* who share experts, and samples of each */
    size_t tensor;                   /* who share each expert, in place of one of these ranks */
    bool rows;                       /* they share the rows of the stream, too */
    bool recompute;
};

/* Of a rank; both NULL: it has all of the model. */
struct teams {
    struct dt_team *experts, *tensor;
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

static size_t index_of(const struct dt_team *team)
{
    return team ? (size_t)team->index : 0;
}

/* Which tensor of the whole model, whose tensors are ALL, that is, of those that a part has. */
static size_t whole_of(const struct play *p, const struct dt_tensor *all,
                       const struct dt_tensor *part, const struct teams *teams)
{
    bool own = teams->experts && dt_shape_is_of_expert(p->shape, part);
    size_t before = own ? index_of(teams->experts) * (p->shape->experts / p->ranks) : 0, i = 0;
    while (all[i].unit != part->unit || all[i].which != part->which ||
           all[i].expert != part->expert + before)
        i++;
    return i;
}

/* Where element AT of this rank's part of WHOLE is in it; DT_PADDING: nowhere. */
static size_t place_of(const struct play *p, const struct dt_tensor *whole,
                       const struct teams *teams, size_t at)
{
    struct dt_tensor_part part;
    size_t run;
    if (!teams->tensor)
        return at;
    dt_shape_part(p->shape, whole, p->tensor, index_of(teams->tensor), &part);
    return dt_tensor_part_run(whole, &part, at, &run);
}

static void fill(struct model *m, const struct play *p, const struct teams *teams)
{
    struct dt_tensor *all = dt_shape_tensors(p->shape, NULL);
    for (const struct dt_tensor *t = m->tensors; t < m->tensors + m->count; t++) {
        size_t whole = whole_of(p, all, t, teams);
        for (size_t at = 0; at < t->count; at++) {
            size_t there = place_of(p, &all[whole], teams, at);
            m->z->unit[t->unit].params[t->offset + at] =
                there == DT_PADDING ? 0 : t->init_value + weight(whole, there);
        }
    }
    free(all);
}

static void open_model(struct model *m, const struct play *p, struct dt_device *device,
                       struct teams teams)
{
    struct dt_err err = {0};
    struct dt_unit *units;
    struct dt_param *params;
    size_t tensor = teams.tensor ? p->tensor : 1, experts = teams.experts ? p->ranks : 1;
    const struct dt_transformer_options o = {
        .batch = BATCH,
        .positions = POSITIONS,
        .recompute = p->recompute,
        .team = teams.tensor,
        .words = dt_shape_words(p->shape, tensor, index_of(teams.tensor)),
        .experts = teams.experts,
    };
    CHECK_OK(dt_shape_cut(p->shape, tensor, &m->shape, &err), err);
    CHECK_OK(dt_shape_share_experts(&m->shape, experts, &m->shape, &err), err);
    m->tensors = dt_shape_tensors(&m->shape, &err);
    m->count = dt_shape_tensor_count(&m->shape);
    CHECK_OK(dt_shape_units(&m->shape, m->tensors, &units, &params, &err), err);
    m->z = held_create(units, dt_shape_unit_count(&m->shape));
    fill(m, p, &teams);
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

/* Of what each rank of those that share tensors has all of: whether each has a part of its
 * gradients alone. */
static bool in_parts(const struct play *p, const struct dt_tensor *t)
{
    bool block = t->unit > 0 && t->unit <= p->shape->layers;
    bool weighs = t->which == DT_LLAMA_ROUTER || t->which == DT_LLAMA_SHARED_SWITCH;
    return t->unit > p->shape->layers || (block && (p->rows || weighs));
}

/* Tensor T of OWN has the gradients of its whole in LIKE, which has all of the model. */
static void check_gradients(const struct play *p, const struct model *own,
                            const struct dt_tensor *t, const struct model *like,
                            const struct teams *teams)
{
    const struct dt_tensor *whole = &like->tensors[whole_of(p, like->tensors, t, teams)];
    float *is = calloc(t->count, sizeof *is), *wanted = calloc(t->count, sizeof *wanted);
    memcpy(is, sums_of(own, t), t->count * sizeof *is);
    for (size_t at = 0; at < t->count; at++) {
        size_t there = place_of(p, whole, teams, at);
        wanted[at] = there == DT_PADDING ? 0 : sums_of(like, whole)[there];
    }
    if (t->count == whole->count && in_parts(p, t))
        dt_team_sum(teams->tensor, is, t->count, DT_F32);
    check_near(t, is, wanted);
    free(is);
    free(wanted);
}

/* Who shares each expert has picked the same, by the same bits. */
static void check_picks(const struct play *p, const struct model *own, const struct teams *teams)
{
    enum { MOST = BATCH * POSITIONS * 12 };
    const struct dt_kept *kept = &own->t->a.slots[0].kept[p->shape->layers - 1];
    size_t rows = p->batch[index_of(teams->experts)] * POSITIONS, probs = rows * p->shape->experts;
    float all[RANKS_MOST * MOST] = {0};
    CHECK(probs <= MOST);
    if (!teams->tensor)
        return;
    memcpy(all + index_of(teams->tensor) * probs, kept->probs, probs * sizeof *all);
    dt_team_gather(teams->tensor, all, probs, DT_F32);
    for (size_t rank = 1; rank < p->tensor; rank++)
        CHECK_BYTES(all + rank * probs, probs * sizeof *all, all, probs * sizeof *all);
}

static void learn(struct rank_self *me)
{
    const struct play *p = me->arg;
    struct dt_err err = {0};
    struct dt_coll *world = rank_open(me);
    const struct dt_mesh_shape shape = {{1, 1, 1, (int)p->ranks, (int)p->tensor}};
    struct dt_mesh mesh;
    CHECK_OK(dt_mesh_open(&mesh, &shape, world, &err), err);
    const struct dt_mesh_axis *ep = &mesh.axis[DT_MESH_EP], *tp = &mesh.axis[DT_MESH_TP];
    struct dt_team experts = {.group = ep->group, .index = ep->index};
    struct dt_team tensor = {.group = tp->group, .index = tp->index, .shares_rows = p->rows};
    const struct teams none = {0},
                       teams = {ep->size > 1 ? &experts : NULL, tp->size > 1 ? &tensor : NULL};
    struct dt_device *device = dt_device_open_cpu(1, &err);
    struct model own, all, mine; /* MINE: all experts, and the samples of this rank alone */
    CHECK_OK(device ? 0 : -1, err);
    open_model(&own, p, device, teams);
    open_model(&all, p, device, none);
    open_model(&mine, p, device, none);
    double loss = train(&own, p, (size_t)ep->index), wanted = train(&mine, p, (size_t)ep->index);
    CHECK(fabs(loss - wanted) <= 1e-5 * wanted);
    for (size_t rank = 0; rank < p->ranks; rank++)
        train(&all, p, rank);
    for (const struct dt_tensor *t = own.tensors; t < own.tensors + own.count; t++)
        check_gradients(p, &own, t, dt_shape_is_of_expert(p->shape, t) ? &all : &mine, &teams);
    check_picks(p, &own, &teams);
    close_model(&own);
    close_model(&all);
    close_model(&mine);
    dt_device_close(device);
    CHECK_OK(dt_coll_barrier(world, &err), err);
    dt_mesh_close(&mesh);
    dt_coll_destroy(world);
}

TEST(gradients_are_those_of_one_rank_with_all_experts)
{
    static const struct {
        size_t ranks, batch[RANKS_MOST];
    } rows[] = {{2, {2, 3}}, {2, {3, 0}}, {2, {0, 1}}, {4, {1, 0, 3, 0}}, {2, {0, 0}}};
    for (size_t i = 0; i < 2 * ROWS(shapes) * ROWS(rows); i++) {
        size_t row = i / 2 / ROWS(shapes);
        struct play p = {
            .shape = &shapes[i / 2 % ROWS(shapes)], .ranks = rows[row].ranks, .tensor = 1};
        memcpy(p.batch, rows[row].batch, sizeof p.batch);
        p.recompute = i % 2;
        CHECK_ROW("%s, row %zu, recompute %d", dt_shape_title(p.shape), row, p.recompute);
        ranks_run((int)p.ranks, learn, &p);
    }
}

TEST(gradients_are_those_of_one_rank_with_all_of_each_expert)
{
    static const struct {
        size_t ranks, batch[RANKS_MOST];
    } rows[] = {{1, {3}}, {2, {2, 3}}, {2, {0, 1}}};
    for (size_t i = 0; i < 4 * ROWS(shapes) * ROWS(rows); i++) {
        size_t row = i / 4 / ROWS(shapes);
        struct play p = {
            .shape = &shapes[i / 4 % ROWS(shapes)], .ranks = rows[row].ranks, .tensor = 2};
        memcpy(p.batch, rows[row].batch, sizeof p.batch);
        p.recompute = i % 2;
        p.rows = i / 2 % 2;
        CHECK_ROW("%s, row %zu, recompute %d, rows shared %d", dt_shape_title(p.shape), row,
                  p.recompute, p.rows);
        ranks_run((int)(p.ranks * p.tensor), learn, &p);
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
    open_model(&own, &p, device, (struct teams){.experts = &team});
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
    struct play p = {.shape = &shapes[1], .ranks = 2, .tensor = 1};
    ranks_run(2, has_too_many, &p);
}
