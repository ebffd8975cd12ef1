/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets room for bytes, who waits for it, and who has to go, without any socket. */
#include "rendezvous/store/budget.h"
#include "tests/lib/check.h"

#define MIB (UINT64_C(1) << 20)

struct world {
    struct dt_store_budget budget; /* 8 MiB, the last of them for those that hold little */
    struct dt_store_holding h[4];
};

static void world_open(struct world *w)
{
    dt_store_budget_init(&w->budget, 8 * MIB);
    for (int i = 0; i < 4; i++)
        dt_store_holding_init(&w->h[i]);
}

static bool take(struct world *w, int i, uint64_t bytes, dt_ms now)
{
    return dt_store_budget_take(&w->budget, &w->h[i], bytes, now);
}

/* Who is chosen to go, as a mask. */
static unsigned chosen(struct world *w, dt_ms now)
{
    struct dt_list gone;
    unsigned mask = 0;
    dt_list_init(&gone);
    dt_store_budget_choose(&w->budget, now, &gone);
    for (struct dt_node *n; (n = dt_list_pop(&gone));) {
        struct dt_store_holding *h = dt_container_of(n, struct dt_store_holding, in_holders);
        mask |= 1u << (h - w->h);
        dt_store_budget_leave(&w->budget, h);
    }
    return mask;
}

TEST(the_last_eighth_is_for_those_that_hold_little)
{
    struct world w;
    world_open(&w);
    CHECK(take(&w, 0, 7 * MIB, 0));
    CHECK(!take(&w, 1, 1 * MIB, 0));
    CHECK(take(&w, 2, 64 << 10, 0));
    CHECK_EQ(w.budget.held, 7 * MIB + (64 << 10));
    dt_store_budget_leave(&w.budget, &w.h[0]);
    CHECK_EQ(w.budget.held, 64 << 10);
}

TEST(who_waits_longest_tries_again_first_and_only_when_there_is_room)
{
    struct world w;
    world_open(&w);
    CHECK(take(&w, 0, 6 * MIB, 0));
    CHECK(!take(&w, 1, 2 * MIB, 0));
    CHECK(!take(&w, 2, 2 * MIB, 0));
    CHECK(dt_store_budget_next(&w.budget) == NULL);
    dt_store_budget_set(&w.budget, &w.h[0], 4 * MIB, 0);
    CHECK(dt_store_budget_next(&w.budget) == &w.h[1]);
    CHECK(take(&w, 1, 2 * MIB, 0));
    CHECK(dt_store_budget_next(&w.budget) == NULL);
}

TEST(bytes_that_do_not_move_end_whoever_holds_them)
{
    struct world w;
    world_open(&w);
    CHECK(take(&w, 0, 1 * MIB, 0));
    CHECK(take(&w, 1, 1 * MIB, 0));
    dt_store_budget_moved(&w.budget, &w.h[1], DT_STORE_MOVE_LEAST, 1000);
    dt_store_budget_moved(&w.budget, &w.h[0], DT_STORE_MOVE_LEAST - 1, 1000); /* a trickle */
    CHECK_EQ(chosen(&w, DT_STORE_MOVE_DEADLINE - 1), 0);
    CHECK_EQ(chosen(&w, DT_STORE_MOVE_DEADLINE), 1);
    CHECK_EQ(chosen(&w, DT_STORE_MOVE_DEADLINE + 1000), 2);
}

TEST(while_others_wait_those_that_hold_most_go_first)
{
    struct world w;
    world_open(&w);
    CHECK(take(&w, 0, 1 * MIB, 0));
    CHECK(take(&w, 1, 5 * MIB, 0));
    CHECK(take(&w, 2, 64 << 10, 0));
    CHECK_EQ(chosen(&w, DT_STORE_MOVE_PRESSED), 0); /* nobody waits */
    CHECK(!take(&w, 3, 2 * MIB, 0));
    CHECK_EQ(chosen(&w, DT_STORE_MOVE_PRESSED - 1), 0);
    CHECK_EQ(chosen(&w, DT_STORE_MOVE_PRESSED), 1 << 1);
    CHECK(dt_store_budget_next(&w.budget) == &w.h[3]);
    CHECK_EQ(chosen(&w, DT_STORE_MOVE_PRESSED), 0);
}

TEST(those_that_wait_for_room_do_not_keep_it_for_ever)
{
    struct world w;
    world_open(&w);
    CHECK(take(&w, 0, 4 * MIB, 0));
    CHECK(take(&w, 1, 3 * MIB, 0)); /* moves just enough, and so is never ended */
    CHECK(!take(&w, 0, 8 * MIB, 0));
    CHECK(!take(&w, 2, 1 * MIB, 0));
    dt_ms now = 0;
    for (; now < DT_STORE_MOVE_KEPT; now += 1000) {
        CHECK_EQ(chosen(&w, now), 0);
        dt_store_budget_moved(&w.budget, &w.h[1], DT_STORE_MOVE_LEAST, now);
    }
    CHECK_EQ(chosen(&w, now), 1);
    CHECK(dt_store_budget_next(&w.budget) == &w.h[2]);
}

TEST(of_those_that_wait_for_each_other_one_goes)
{
    struct world w;
    world_open(&w);
    CHECK(take(&w, 0, 3 * MIB, 0));
    CHECK(take(&w, 1, 4 * MIB, 0));
    CHECK(!take(&w, 0, 6 * MIB, 0));
    CHECK_EQ(chosen(&w, DT_STORE_MOVE_PRESSED - 1), 0);
    CHECK(!take(&w, 1, 8 * MIB, 0));
    CHECK_EQ(chosen(&w, DT_STORE_MOVE_PRESSED), 1 << 1);
    CHECK(dt_store_budget_next(&w.budget) == &w.h[0]);
}
