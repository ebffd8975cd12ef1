/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/mesh/mesh.h"

#include "tests/runtime/ranks.h"

static int ranks_of(const struct dt_mesh_shape *s)
{
    int all = 1;
    for (int d = 0; d < DT_MESH_DIMS; d++)
        all *= s->size[d];
    return all;
}

TEST(a_rank_and_its_place_are_each_others)
{
    static const struct dt_mesh_shape shapes[] = {
        {{1, 1, 1, 1, 1}}, {{1, 6, 1, 1, 1}}, {{2, 3, 1, 1, 4}},
        {{2, 2, 2, 2, 2}}, {{1, 1, 5, 1, 3}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int rank = 0; rank < ranks_of(&shapes[i]); rank++) {
            struct dt_mesh_place p = dt_mesh_place(&shapes[i], rank);
            CHECK_ROW("shape %zu, rank %d", i, rank);
            for (int d = 0; d < DT_MESH_DIMS; d++)
                CHECK(p.index[d] >= 0 && p.index[d] < shapes[i].size[d]);
            CHECK_EQ(dt_mesh_rank(&shapes[i], &p), rank);
        }
    }
}

TEST(neighbours_in_the_last_dimension_are_neighbours)
{
    static const struct dt_mesh_shape s = {{2, 3, 1, 1, 4}};
    static const int places[][DT_MESH_DIMS] = {
        {0, 0, 0, 0, 0}, {0, 0, 0, 0, 3}, {0, 1, 0, 0, 0}, {1, 0, 0, 0, 0}, {1, 2, 0, 0, 3}};
    static const int ranks[] = {0, 3, 4, 12, 23};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        struct dt_mesh_place p = dt_mesh_place(&s, ranks[i]);
        CHECK_ROW("rank %d", ranks[i]);
        CHECK_BYTES(p.index, sizeof p.index, places[i], sizeof places[i]);
    }
}

/* The sum of the world's ranks in a group. */
static int sum_of_ranks(const struct dt_mesh *m, enum dt_mesh_dim dim)
{
    struct dt_err err = {0};
    int32_t sum = dt_coll_rank(m->world);
    if (m->axis[dim].group)
        CHECK_OK(dt_coll_all_reduce(m->axis[dim].group, &sum, 1, DT_I32, DT_SUM, &err), err);
    return sum;
}

static void in_groups(struct rank_self *me)
{
    static const struct dt_mesh_shape s = {{1, 3, 1, 1, 2}};
    struct dt_mesh m;
    struct dt_err err = {0};
    struct dt_coll *world = rank_open(me);
    CHECK_OK(dt_mesh_open(&m, &s, world, &err), err);
    CHECK_EQ(m.axis[DT_MESH_DP].size, 3);
    CHECK_EQ(m.axis[DT_MESH_DP].index, me->rank / 2);
    CHECK_EQ(dt_coll_rank(m.axis[DT_MESH_DP].group), me->rank / 2);
    CHECK_EQ(sum_of_ranks(&m, DT_MESH_DP), me->rank % 2 ? 1 + 3 + 5 : 0 + 2 + 4);
    CHECK_EQ(m.axis[DT_MESH_TP].size, 2);
    CHECK_EQ(m.axis[DT_MESH_TP].index, me->rank % 2);
    CHECK_EQ(dt_coll_rank(m.axis[DT_MESH_TP].group), me->rank % 2);
    CHECK_EQ(sum_of_ranks(&m, DT_MESH_TP), me->rank / 2 * 4 + 1);
    CHECK(m.axis[DT_MESH_PP].group == NULL && m.axis[DT_MESH_CP].group == NULL);
    CHECK_EQ(m.axis[DT_MESH_EP].size, 1);
    CHECK_EQ(m.axis[DT_MESH_EP].index, 0);
    dt_mesh_close(&m);
    CHECK_OK(dt_coll_barrier(world, &err), err);
    dt_coll_destroy(world);
}

TEST(each_dimension_has_a_group)
{
    ranks_run(6, in_groups, NULL);
}

/* Two teams of tensors; in each, two data ranks with two ranks to a sample. */
static void in_replicas(struct rank_self *me)
{
    static const struct dt_mesh_shape s = {{1, 2, 2, 1, 2}};
    struct dt_mesh m;
    struct dt_err err = {0};
    struct dt_coll *world = rank_open(me);
    int32_t sum = me->rank;
    CHECK_OK(dt_mesh_open(&m, &s, world, &err), err);
    CHECK_EQ(m.axis[DT_MESH_CP].index, me->rank / 2 % 2);
    CHECK_EQ(sum_of_ranks(&m, DT_MESH_CP), me->rank / 4 * 8 + me->rank % 2 * 2 + 2);
    CHECK_EQ(m.axis[DT_MESH_DP].index, me->rank / 4);
    CHECK_EQ(m.replicas.size, 4);
    CHECK_EQ(m.replicas.index, me->rank / 2);
    CHECK_EQ(dt_coll_rank(m.replicas.group), me->rank / 2);
    CHECK_OK(dt_coll_all_reduce(m.replicas.group, &sum, 1, DT_I32, DT_SUM, &err), err);
    CHECK_EQ(sum, me->rank % 2 ? 1 + 3 + 5 + 7 : 0 + 2 + 4 + 6);
    dt_mesh_close(&m);
    CHECK_OK(dt_coll_barrier(world, &err), err);
    dt_coll_destroy(world);
}

TEST(ranks_with_the_same_parameters_have_a_group)
{
    ranks_run(8, in_replicas, NULL);
}

static int32_t sum_in(struct dt_coll *group, int rank)
{
    struct dt_err err = {0};
    int32_t sum = rank;
    CHECK_OK(dt_coll_all_reduce(group, &sum, 1, DT_I32, DT_SUM, &err), err);
    return sum;
}

/* Two stages; in each, two ranks to a sample with two that share experts. */
static void in_learners(struct rank_self *me)
{
    static const struct dt_mesh_shape s = {{2, 1, 2, 2, 1}};
    struct dt_mesh m;
    struct dt_err err = {0};
    struct dt_coll *world = rank_open(me);
    int stage = me->rank / 4, experts = me->rank % 2, context = me->rank / 2 % 2;
    CHECK_OK(dt_mesh_open(&m, &s, world, &err), err);
    CHECK_EQ(m.replicas.size, 2);
    CHECK_EQ(m.replicas.index, context);
    CHECK_EQ(sum_in(m.replicas.group, me->rank), 8 * stage + 2 * experts + 2);
    CHECK_EQ(m.samples.size, 2);
    CHECK_EQ(m.samples.index, experts);
    CHECK_EQ(sum_in(m.samples.group, me->rank), 8 * stage + 4 * context + 1);
    CHECK_EQ(m.learners.size, 4);
    CHECK_EQ(m.learners.index, 2 * context + experts);
    CHECK_EQ(dt_coll_rank(m.learners.group), 2 * context + experts);
    CHECK_EQ(sum_in(m.learners.group, me->rank), 16 * stage + 6);
    dt_mesh_close(&m);
    CHECK_OK(dt_coll_barrier(world, &err), err);
    dt_coll_destroy(world);
}

TEST(ranks_with_other_samples_and_those_that_learn_together_have_groups)
{
    ranks_run(8, in_learners, NULL);
}

/* Whoever has them along one dimension alone needs no further group. */
static void in_one_axis(struct rank_self *me)
{
    static const struct dt_mesh_shape shapes[] = {{{1, 4, 1, 1, 1}},
                                                  {{1, 2, 1, 1, 2}},
                                                  {{1, 1, 4, 1, 1}},
                                                  {{1, 1, 2, 1, 2}},
                                                  {{1, 2, 2, 1, 1}}};
    struct dt_mesh m;
    struct dt_err err = {0};
    struct dt_coll *world = rank_open(me);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int *size = shapes[i].size;
        CHECK_ROW("shape %zu", i);
        CHECK_OK(dt_mesh_open(&m, &shapes[i], world, &err), err);
        CHECK_EQ(m.replicas.size, size[DT_MESH_DP] * size[DT_MESH_CP]);
        CHECK_EQ(dt_coll_size(m.replicas.group), m.replicas.size);
        CHECK_EQ(m.replicas.index, me->rank / size[DT_MESH_TP]);
        CHECK_EQ(m.replicas.group == world, size[DT_MESH_TP] == 1);
        dt_mesh_close(&m);
    }
    CHECK_OK(dt_coll_barrier(world, &err), err);
    dt_coll_destroy(world);
}

TEST(an_axis_may_have_all_ranks_with_the_same_parameters)
{
    ranks_run(4, in_one_axis, NULL);
}

static void all_along_one(struct rank_self *me)
{
    struct dt_mesh_shape s = {{1, me->size, 1, 1, 1}}, other = {{1, me->size, 1, 1, 2}};
    struct dt_mesh m;
    struct dt_err err = {0};
    struct dt_coll *world = rank_open(me);
    CHECK_OK(dt_mesh_open(&m, &s, world, &err), err);
    CHECK_EQ(m.axis[DT_MESH_DP].size, me->size);
    CHECK_EQ(m.axis[DT_MESH_DP].index, me->rank);
    CHECK(m.axis[DT_MESH_DP].group == world);
    dt_mesh_close(&m);
    CHECK_FAIL(dt_mesh_open(&m, &other, world, &err), err, "is none for a world of");
    dt_mesh_close(&m);
    s.size[DT_MESH_DP] = 0;
    CHECK_FAIL(dt_mesh_open(&m, &s, world, &err), err, "a mesh of 1 x 0 x 1 x 1 x 1 ranks");
    dt_mesh_close(&m);
    CHECK_OK(dt_coll_barrier(world, &err), err);
    dt_coll_destroy(world);
}

TEST(a_dimension_of_all_ranks_has_the_world_for_its_group)
{
    ranks_run(1, all_along_one, NULL);
    ranks_run(3, all_along_one, NULL);
}
