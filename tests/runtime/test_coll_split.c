/* SPDX-License-Identifier: Apache-2.0 */
/* Groups out of groups. */
#include "tests/runtime/ranks.h"

static int sum_of_world_ranks(struct dt_coll *c, int own)
{
    struct dt_err err;
    int32_t sum = own;
    CHECK_OK(dt_coll_all_reduce(c, &sum, 1, DT_I32, DT_SUM, &err), err);
    return sum;
}

static void by_colour_and_key(struct rank_self *me)
{
    struct dt_coll *world = rank_open(me), *half, *some;
    struct dt_err err;
    /* Even and odd, the highest rank first. */
    CHECK_OK(dt_coll_split(world, me->rank % 2, -me->rank, &half, &err), err);
    CHECK_EQ(dt_coll_size(half), 3);
    CHECK_EQ(dt_coll_rank(half), 2 - me->rank / 2);
    CHECK_EQ(sum_of_world_ranks(half, me->rank), me->rank % 2 ? 9 : 6);
    int32_t order[3], own = me->rank;
    CHECK_OK(dt_coll_all_gather(half, &own, order, 1, DT_I32, &err), err);
    CHECK_EQ(order[0], 4 + me->rank % 2);
    CHECK_EQ(order[2], me->rank % 2);
    /* Rank 0 wants none; all others have one key and come by rank. */
    CHECK_OK(dt_coll_split(world, me->rank ? 7 : -1, 0, &some, &err), err);
    CHECK_EQ(some == NULL, me->rank == 0);
    if (some) {
        CHECK_EQ(dt_coll_rank(some), me->rank - 1);
        CHECK_EQ(sum_of_world_ranks(some, me->rank), 15);
    }
    dt_coll_destroy(some);
    dt_coll_destroy(half);
    dt_coll_destroy(world);
}

TEST(a_group_is_split_by_colour_and_ordered_by_key)
{
    ranks_run(6, by_colour_and_key, NULL);
}

static void use_in_turns(struct rank_self *me)
{
    struct dt_coll *world = rank_open(me), *half, *pair, *self;
    struct dt_err err;
    CHECK_OK(dt_coll_split(world, me->rank / 4, 0, &half, &err), err);
    CHECK_OK(dt_coll_split(half, dt_coll_rank(half) / 2, 0, &pair, &err), err);
    CHECK_OK(dt_coll_split(pair, dt_coll_rank(pair), 0, &self, &err), err);
    CHECK_EQ(dt_coll_size(self), 1);
    for (int turn = 0; turn < 30; turn++) {
        CHECK_EQ(sum_of_world_ranks(world, me->rank), 28);
        CHECK_EQ(sum_of_world_ranks(pair, me->rank), me->rank / 2 * 4 + 1);
        CHECK_EQ(sum_of_world_ranks(half, me->rank), me->rank < 4 ? 6 : 22);
        CHECK_EQ(sum_of_world_ranks(self, me->rank), me->rank);
    }
    dt_coll_destroy(self);
    dt_coll_destroy(pair);
    dt_coll_destroy(half);
    dt_coll_destroy(world);
}

TEST(groups_within_groups_are_used_in_turns)
{
    ranks_run(8, use_in_turns, NULL);
}

static void split_often(struct rank_self *me)
{
    struct dt_coll *world = rank_open(me), *c;
    struct dt_err err;
    CHECK_FAIL(dt_coll_split(world, -2, 0, &c, &err), err, "no colour -2");
    for (int turn = 0; turn < 10; turn++) {
        CHECK_OK(dt_coll_split(world, 0, 0, &c, &err), err);
        CHECK_EQ(sum_of_world_ranks(c, 1), me->size);
        dt_coll_destroy(c);
    }
    dt_coll_destroy(world);
}

TEST(the_same_split_can_be_made_again)
{
    ranks_run(3, split_often, NULL);
}
