/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/mesh/rows.h"

#include "tests/runtime/ranks.h"

enum { ROWS_EACH = 3, WIDTH = 5, RANKS_MOST = 4 };

/* Of all rows, by whom they were written. */
static float number(int rank, size_t i)
{
    return (float)(rank * 1000) + (float)i;
}

static void fill(float *at, size_t count, int rank)
{
    for (size_t i = 0; i < count; i++)
        at[i] = number(rank, i);
}

/* Of element I, over all ranks. */
static float sum(int ranks, size_t i)
{
    float all = 0;
    for (int rank = 0; rank < ranks; rank++)
        all += number(rank, i);
    return all;
}

static void share(struct rank_self *me)
{
    enum { OWN = ROWS_EACH * WIDTH };
    struct dt_team team = {.group = rank_open(me), .index = me->rank, .shares_rows = true};
    const struct dt_rows r = {&team, (size_t)me->size * ROWS_EACH, WIDTH, DT_F32};
    float all[OWN * RANKS_MOST], mine[OWN];
    size_t first = (size_t)me->rank * OWN;

    CHECK(dt_rows_shared(&r));
    CHECK_EQ(dt_rows_own(&team, r.rows), ROWS_EACH);
    CHECK(dt_rows_place(&r, all) == all + first);
    fill(mine, OWN, me->rank);
    CHECK(dt_rows_gather(&r, all, mine) == all);
    for (size_t i = 0; i < r.rows * WIDTH; i++)
        CHECK(all[i] == number((int)(i / OWN), i % OWN));

    fill(all, r.rows * WIDTH, me->rank);
    dt_rows_sum(&r, all, mine);
    for (size_t i = 0; i < OWN; i++)
        CHECK(mine[i] == sum(me->size, first + i));
    fill(all, r.rows * WIDTH, me->rank);
    dt_rows_sum(&r, all, all + first);
    CHECK_BYTES(all + first, sizeof mine, mine, sizeof mine);
    CHECK_EQ(team.bytes, 2 * r.rows * WIDTH * sizeof(float));
    CHECK(!team.failed);
    dt_coll_destroy(team.group);
}

TEST(each_rank_has_the_stretch_of_rows_that_is_at_its_place)
{
    for (int ranks = 1; ranks <= RANKS_MOST; ranks++) {
        CHECK_ROW("%d ranks", ranks);
        ranks_run(ranks, share, NULL);
    }
}

static void keep(struct rank_self *me)
{
    struct dt_team team = {.group = rank_open(me), .index = me->rank};
    const struct dt_rows r = {&team, ROWS_EACH, WIDTH, DT_F32};
    float all[ROWS_EACH * WIDTH];
    CHECK(!dt_rows_shared(&r));
    CHECK_EQ(dt_rows_own(&team, r.rows), ROWS_EACH);
    CHECK(dt_rows_place(&r, all) == all);
    CHECK(dt_rows_gather(&r, NULL, all) == all);
    fill(all, ROWS_EACH * WIDTH, me->rank);
    dt_rows_sum(&r, all, all);
    for (size_t i = 0; i < ROWS_EACH * WIDTH; i++)
        CHECK(all[i] == sum(me->size, i));
    dt_coll_destroy(team.group);
}

TEST(where_rows_are_not_shared_each_rank_has_all)
{
    ranks_run(2, keep, NULL);
}

TEST(a_rank_without_a_team_has_all_rows_as_they_are)
{
    const struct dt_rows r = {NULL, ROWS_EACH, WIDTH, DT_F32};
    float all[ROWS_EACH * WIDTH], was[ROWS_EACH * WIDTH];
    fill(all, ROWS_EACH * WIDTH, 1);
    fill(was, ROWS_EACH * WIDTH, 1);
    CHECK_EQ(dt_rows_own(NULL, r.rows), ROWS_EACH);
    CHECK(dt_rows_place(&r, all) == all);
    CHECK(dt_rows_gather(&r, NULL, all) == all);
    dt_rows_sum(&r, all, all);
    CHECK_BYTES(all, sizeof all, was, sizeof was);
}
