/* SPDX-License-Identifier: Apache-2.0 */
/* Stories about one run: nodes are drained or kept out, and the run goes on without them. */
#include "tests/rendezvous/rdzv_story.h"

TEST(what_is_held_against_a_host_is_against_all_its_agents)
{
    begin(2, 4);
    struct dt_join j = join_of(1000);
    dt_exclude_drain(&exclude, "node0", false, "a fan is broken", now);
    frame(1000, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    frame(1001, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    join(1002);
    pass(spec.last_call + DT_SECOND, 7, 1);
    CHECK_STR(told[2], "");
    join(1003);
    pass(spec.last_call + DT_SECOND, 15, 1);
    CHECK_STR(told[2], "world 0:0/2 ");
    CHECK_STR(told[1], "park ");
    end();
}

TEST(a_drained_node_goes_at_once_and_comes_back_when_it_may)
{
    begin_running(3, 2, 3);
    dt_exclude_drain(&exclude, "node1", false, "a fan is broken", now);
    step(&(struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = "node1"});
    CHECK_STR(why[0], "node1 is drained (a fan is broken)");
    for (uint64_t id = 1000; id < 1003; id++)
        join(id);
    CHECK_STR(told[0], "stop-together world 1:0/2 ");
    CHECK_STR(told[1], "stop-together park ");
    forget_told();
    dt_exclude_drain(&exclude, "node1", true, "", now);
    step(&(struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = "node1"});
    CHECK_STR(told[0], "stop-together ");
    CHECK_STR(why[0], "node1 joins");
    end();
}

TEST(a_drain_that_leaves_too_few_is_told_with_its_reason)
{
    size_t left;
    begin_running(2, 2, 3);
    CHECK(!dt_rdzv_is_short(run, &left));
    dt_exclude_drain(&exclude, "node1", false, "a loud fan", now);
    step(&(struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = "node1"});
    CHECK(dt_rdzv_is_short(run, &left));
    CHECK_EQ(left, 1);
    join(1000);
    join(1001);
    CHECK_EQ(dt_rdzv_count_ready(run), 1);
    pass(600 * DT_SECOND, 3, 1);
    CHECK_EQ(run->state, DT_RUN_CLOSED);
    CHECK_STR(run->closed.why,
              "round 1: 1 of 2 nodes are ready; node1 is drained (a loud fan), after "
              "600 s (join_timeout)");
    end();
}

TEST(a_node_that_is_lost_three_times_is_kept_out_until_its_time_is_over)
{
    begin_running(3, 2, 3);
    for (int i = 0; i < 3; i++) {
        uint64_t id = 1001 + 1000 * (uint64_t)i;
        lose(id);
        now += DT_SECOND;
        tick();
        CHECK_EQ(strstr(happened, "node_quarantined/node1 ") != NULL, i == 2);
        obey_stops();
        last_round[1] = -1;
        forget_told();
        join(id + 1000);
        obey_stops();
    }
    CHECK_STR(told[1], "park ");
    CHECK(strstr(why[1], "kept out") != NULL);
    end();
}

TEST(somebody_kept_out_is_taken_where_there_would_be_too_few)
{
    begin(2, 3);
    for (int i = 0; i < 3; i++)
        dt_exclude_note(&exclude, "node1", DT_EVIDENCE_OFFLINE, "", 3, 600 * DT_SECOND, now);
    CHECK(dt_exclude_is_out(&exclude, "node1", now, NULL));
    join(1000);
    join(1001);
    pass(31 * DT_SECOND, 3, 1);
    CHECK_STR(told[1], "world 0:1/2 ");
    CHECK(strstr(happened, "node_taken_anyway/node1 round_began ") != NULL);
    end();
}

TEST(a_node_that_is_done_may_be_drained)
{
    begin_running(2, 2, 2);
    result(1000, true);
    dt_exclude_drain(&exclude, "node0", false, "a fan is broken", now);
    step(&(struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = "node0"});
    result(1001, true);
    CHECK_STR(told[1], "close-succeeded ");
    end();
}
