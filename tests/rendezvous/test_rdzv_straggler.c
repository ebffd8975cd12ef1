/* SPDX-License-Identifier: Apache-2.0 */
/* Stories about one run in which a worker holds the others up. Each node has two of them. */
#include "tests/rendezvous/rdzv_story.h"

static int64_t window;
static int there; /* nodes, with spares */
static bool may_drain;
static char answer[DT_STRAGGLER_MAX]; /* to the last beat */
static bool holds_up;

static void tell(uint64_t id, const struct dt_own_time *own)
{
    struct dt_message m;
    frame(id, (struct dt_message){.type = DT_MSG_BEAT,
                                  .round = last_round[node_of(id)],
                                  .beat = {.step = -1, .own = *own}});
    for (size_t i = 0; i < done.len; i++)
        if (done.at[i].type == DT_DO_SEND && done.at[i].message == DT_MSG_BEAT) {
            dt_rdzv_message(&done, &done.at[i], "run", &m);
            snprintf(answer, sizeof answer, "%s", m.beat.straggler);
            holds_up = m.beat.holds_up;
        }
}

static struct dt_own_time own_of(uint64_t id, int own)
{
    return (struct dt_own_time){.window = window,
                                .steps = window * 10,
                                .ranks = 2,
                                .rank = world[node_of(id)].first_rank,
                                .own = own,
                                .median = own,
                                .may_drain = may_drain,
                                .reason = "its processors are too hot"};
}

/* COUNT windows, in which nodes 0 to N - 1 run and SLOW is slow; 0: nobody is. */
static void windows(int count, int n, uint64_t slow)
{
    for (int w = 0; w < count; w++) {
        now += 5 * DT_SECOND;
        window++;
        for (uint64_t id = 1000 + (uint64_t)n; id < 1000 + (uint64_t)there; id++)
            beat(id);
        for (uint64_t id = 1000; id < 1000 + (uint64_t)n; id++) {
            struct dt_own_time own = own_of(id, id == slow ? 900 : 400);
            tell(id, &own);
        }
    }
}

static void begin_measured(int n, int nodes)
{
    window = 0;
    there = nodes;
    may_drain = false;
    *answer = '\0';
    begin_running(nodes, n, n);
}

TEST(all_nodes_are_told_with_their_beats_until_it_is_over)
{
    begin_measured(3, 3);
    windows(8, 3, 1001);
    CHECK(dt_rdzv_straggler(run) != NULL);
    windows(1, 3, 1001);
    CHECK(strstr(answer, "rank 2 on node1, like most ranks there, holds the others up") != NULL);
    CHECK(strstr(answer, "its processors are too hot") != NULL);
    CHECK(holds_up);
    CHECK_STR(happened, "straggler/node1:2 ");
    windows(8, 3, 0);
    CHECK_STR(happened, "straggler/node1:2 straggler_over/node1:2 ");
    CHECK(strstr(answer, "rank 2 on node1 keeps up with the others again, after ") != NULL);
    CHECK(!holds_up);
    CHECK(dt_rdzv_straggler(run) == NULL);
    end();
}

TEST(a_node_tells_of_its_own_ranks_alone)
{
    begin_measured(3, 3);
    for (int w = 0; w < 20; w++) {
        windows(1, 2, 0);
        struct dt_own_time liar = own_of(1002, 900);
        liar.rank = world[0].first_rank;
        tell(1002, &liar);
        liar = own_of(1002, 900);
        liar.ranks = 1 << 20;
        tell(1002, &liar);
    }
    CHECK(dt_rdzv_straggler(run) == NULL);
    CHECK_STR(answer, "");
    end();
}

TEST(a_spare_takes_the_place_of_a_node_that_may_be_drained)
{
    begin_measured(2, 3);
    may_drain = true;
    windows(8, 2, 1001);
    CHECK(strstr(told[1], "stop-together") != NULL);
    CHECK(strstr(why[1], "rank 2 held the others up: its processors are too hot") != NULL);
    CHECK(dt_exclude_is_drained(&exclude, "node1"));
    forget_told();
    join(1000);
    join(1001);
    CHECK(strstr(told[2], "world 1:1/2") != NULL);
    CHECK(strstr(told[1], "park") != NULL);
    CHECK(dt_rdzv_straggler(run) == NULL); /* with the new round all is forgotten */
    CHECK_EQ(dt_members_find(&run->members, 1000)->lag.window, 0);
    window = 0;
    struct dt_own_time own = own_of(1000, 400);
    tell(1000, &own);
    CHECK_STR(answer, "");
    end();
}

/* What is slow on each node is no fault of theirs. */
TEST(a_rank_that_is_slow_everywhere_costs_one_spare_and_no_more)
{
    begin_measured(2, 4);
    may_drain = true;
    windows(8, 2, 1001);
    join(1000);
    join(1001);
    CHECK(strstr(told[2], "world 1:1/2") != NULL);
    for (int w = 0; w < 12; w++) {
        now += 5 * DT_SECOND;
        window++;
        beat(1001);
        beat(1003);
        struct dt_own_time fast = own_of(1000, 400), slow = own_of(1002, 900);
        tell(1000, &fast);
        tell(1002, &slow);
    }
    CHECK(dt_rdzv_straggler(run) != NULL);
    CHECK(!dt_exclude_is_drained(&exclude, "node2"));
    end();
}

TEST(without_a_spare_or_a_wish_nobody_is_drained)
{
    for (int spare = 0; spare < 2; spare++) {
        begin_measured(2, 2 + spare);
        may_drain = !spare;
        windows(20, 2, 1001);
        CHECK(dt_rdzv_straggler(run) != NULL);
        CHECK(!dt_exclude_is_drained(&exclude, "node1"));
        end();
    }
}
