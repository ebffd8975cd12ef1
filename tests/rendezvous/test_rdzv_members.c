/* SPDX-License-Identifier: Apache-2.0 */
/* Stories about one run: its nodes come, fall silent, are back, or are started anew. */
#include "tests/rendezvous/rdzv_story.h"

TEST(a_connection_that_is_back_in_time_was_never_away)
{
    begin_running(3, 3, 3);
    lose(1001);
    now += DT_SECOND - 1;
    tick();
    come_back(1001, false);
    pass(20 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "");
    CHECK_STR(told[1], "");
    end();
}

/* A proxy that is started anew ends all connections, and its clients come one after the other. */
TEST(most_connections_that_are_lost_at_once_have_longer_to_come_back)
{
    begin_running(4, 2, 4);
    spec.reconnect_grace = run->spec.reconnect_grace = 100;
    for (uint64_t id = 1000; id < 1003; id++)
        lose(id);
    for (uint64_t id = 1000; id < 1003; id++) {
        now += 140;
        tick();
        come_back(id, false);
    }
    CHECK_STR(told[3], "");
    lose(1001); /* it may still be one of those */
    for (int i = 0; i < 4; i++, now += 100)
        tick();
    CHECK_STR(told[3], "");
    for (int i = 0; i < 2; i++, now += 100)
        tick();
    CHECK_STR(told[3], "stop ");
    end();
}

TEST(a_look_that_comes_late_finds_nobody_lost_that_may_be_back)
{
    begin_running(4, 2, 4);
    spec.reconnect_grace = run->spec.reconnect_grace = 100;
    lose(1001);
    now += 400; /* what was said meanwhile is yet to be read */
    tick();
    come_back(1001, false);
    CHECK_STR(told[0], "");
    end();
}

TEST(a_silent_node_is_given_up_after_three_beats_and_hears_of_it)
{
    begin_running(3, 2, 3);
    pass(14 * DT_SECOND, 5, 1);
    CHECK_STR(told[0], "");
    pass(2 * DT_SECOND, 5, 1);
    CHECK_STR(told[0], "stop ");
    beat(1001);
    CHECK_STR(told[1], "stale ");
    end();
}

TEST(a_pause_of_our_own_is_held_against_nobody)
{
    begin_running(3, 2, 3);
    now += 60 * DT_SECOND;
    tick();
    pass(10 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "");
    end();
}

TEST(a_pause_of_our_own_is_no_time_in_which_nodes_did_not_stop)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 1;
    result(1001, false);
    now += 60 * DT_SECOND;
    tick();
    CHECK_STR(told[0], "stop ");
    join(1000);
    join(1001);
    CHECK_STR(told[0], "stop world 1:0/2 ");
    end();
}

TEST(most_nodes_silent_at_once_get_one_more_window)
{
    begin_running(4, 1, 4);
    pass(16 * DT_SECOND, 1, 1);
    CHECK_STR(told[0], "");
    pass(16 * DT_SECOND, 1, 1);
    CHECK_STR(told[0], "stop ");
    end();
}

/* N nodes that run, each of which beats some 0.6 s after the one before. */
static void begin_spread(int n, int min, int max)
{
    begin_running(n, min, max);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < n; i++) {
            now += 5 * DT_SECOND / n;
            beat(1000 + (uint64_t)i);
        }
    }
}

static void come_back_all(int n)
{
    for (int i = 0; i < n; i++) {
        now += 700;
        come_back(1000 + (uint64_t)i, false);
    }
}

TEST(an_outage_of_our_own_link_restarts_nobody)
{
    for (int n = 1; n <= 8; n++) {
        begin_spread(n, (n + 1) / 2, n);
        for (int i = 0; i < 3; i++) {
            pass_in_silence(12 * DT_SECOND);
            come_back_all(n);
            pass(20 * DT_SECOND, (1u << n) - 1, 1);
        }
        CHECK_EQ(run->round, 0);
        CHECK_STR(told[0], "");
        CHECK_EQ(exclude.nodes.count, 0);
        end();
    }
}

TEST(a_connection_that_an_outage_broke_has_time_to_be_replaced)
{
    begin_spread(8, 4, 8);
    pass_in_silence(14 * DT_SECOND);
    for (uint64_t id = 1000; id < 1008; id++) {
        beat(id); /* sent long ago, and so was its end */
        lose(id);
    }
    pass_in_silence(4 * DT_SECOND);
    come_back_all(8);
    pass(40 * DT_SECOND, 255, 1);
    CHECK_STR(told[0], "");
    end();
}

TEST(who_stays_silent_with_the_crowd_is_lost_without_a_strike)
{
    begin_spread(8, 4, 8);
    pass_in_silence(12 * DT_SECOND);
    pass(20 * DT_SECOND, 0x7f, 1);
    CHECK_STR(told[0], "stop ");
    CHECK(strstr(why[0], "node7 went offline") != NULL);
    CHECK(!dt_members_find_name(&run->members, "node7"));
    CHECK_EQ(exclude.nodes.count, 0);
    end();
}

/* A scheduler that kills a job does so on all hosts; the same people start it again. */
TEST(nodes_that_are_killed_together_get_no_strike)
{
    for (int n = 1; n <= 8; n++) {
        CHECK_ROW("%d nodes", n);
        begin_running(n, 1, n);
        for (uint64_t id = 1000; id < 1000 + (uint64_t)n; id++)
            lose(id);
        pass_in_silence(2 * DT_SECOND);
        CHECK_EQ(run->members.count, 0);
        CHECK_EQ(exclude.nodes.count, 0);
        end();
    }
}

TEST(nodes_that_are_killed_one_after_the_other_are_forgiven_when_none_is_left)
{
    for (int n = 2; n <= 4; n++) {
        CHECK_ROW("%d nodes", n);
        begin_running(n, 1, n);
        for (int i = 0; i < 2; i++)
            dt_exclude_note(&exclude, "node0", DT_EVIDENCE_OFFLINE, "other", 3, 600 * DT_SECOND,
                            now);
        for (uint64_t id = 1000; id < 1000 + (uint64_t)n; id++) {
            lose(id);
            pass_in_silence(2 * DT_SECOND);
            CHECK_EQ(dt_exclude_is_out(&exclude, "node0", now, NULL), id < 999 + (uint64_t)n);
        }
        CHECK_EQ(run->members.count, 0);
        CHECK_EQ(dt_exclude_find(&exclude, "node0")->strikes, 2);
        end();
    }
}

TEST(one_node_of_two_that_falls_silent_is_lost_in_time)
{
    begin_spread(2, 1, 2);
    pass(16 * DT_SECOND, 1, 1);
    CHECK_STR(told[0], "stop ");
    CHECK_EQ(exclude.nodes.count, 1);
    end();
}

/* N nodes, of which node 0 is on the server's own host and heard while the others are silent. */
static void outage_at_head(int n, int min, dt_ms time)
{
    at_home = 1;
    begin_spread(n, min, n);
    pass(time, 1, 1);
    for (int i = 1; i < n; i++)
        come_back(1000 + (uint64_t)i, false);
    pass(40 * DT_SECOND, (1u << n) - 1, 1);
}

TEST(a_node_beside_the_server_does_not_hide_an_outage_of_our_own_link)
{
    for (int n = 3; n <= 8; n++)
        for (int min = 1; min <= n; min++) {
            CHECK_ROW("%d nodes, at least %d", n, min);
            outage_at_head(n, min, 25 * DT_SECOND);
            CHECK_EQ(run->round, 0);
            CHECK_STR(told[0], "");
            CHECK_EQ(exclude.nodes.count, 0);
            end();
        }
}

TEST(the_only_remote_node_is_waited_for_where_the_job_cannot_go_on_without_it)
{
    outage_at_head(2, 2, 25 * DT_SECOND);
    CHECK_STR(told[0], "");
    pass(35 * DT_SECOND, 1, 1);
    CHECK_STR(told[0], "stop ");
    CHECK_EQ(exclude.nodes.count, 0);
    end();
}

TEST(the_only_remote_node_is_lost_in_time_where_others_can_go_on)
{
    at_home = 1;
    begin_spread(2, 1, 2);
    pass(16 * DT_SECOND, 1, 1);
    CHECK_STR(told[0], "stop ");
    CHECK_EQ(exclude.nodes.count, 0); /* nobody knows that it was not the network */
    end();
}

TEST(two_nodes_beside_the_server_wait_for_no_third)
{
    at_home = 3;
    begin_spread(3, 2, 3);
    pass(16 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "stop ");
    end();
}

TEST(a_node_beside_the_server_that_falls_silent_is_lost_in_time)
{
    at_home = 1;
    begin_spread(3, 2, 3);
    pass(16 * DT_SECOND, 6, 1);
    CHECK_STR(told[1], "stop ");
    CHECK_EQ(exclude.nodes.count, 1);
    end();
}

TEST(where_all_nodes_come_through_a_proxy_on_our_host_all_have_a_say)
{
    at_home = 0xf;
    begin_spread(4, 1, 4);
    pass(16 * DT_SECOND, 1, 1);
    CHECK_STR(told[0], "");
    end();
}

TEST(with_two_beats_a_crowd_is_known_before_its_first_node_is_lost)
{
    begin_spread(8, 4, 8);
    run->spec.beats = 2;
    pass_in_silence(9 * DT_SECOND);
    come_back_all(8);
    pass(20 * DT_SECOND, 255, 1);
    CHECK_STR(told[0], "");
    end();
}

/* Agents that were started together beat together: the other's next beat is due just then. */
TEST(a_beat_that_is_due_when_another_node_is_lost_makes_no_crowd)
{
    begin_running(2, 1, 2);
    for (int i = 0; i < 2; i++) {
        now += 5 * DT_SECOND;
        beat(1000);
        now += 1;
        tick();
    }
    pass_in_silence(5 * DT_SECOND);
    CHECK_STR(told[0], "stop ");
    end();
}

TEST(a_node_started_anew_takes_its_own_seat)
{
    begin_running(3, 3, 3);
    lose(1001);
    last_round[1] = -1;
    join(2001); /* before the old one's time is over */
    CHECK_STR(told[0], "stop ");
    join(1000);
    join(1002);
    CHECK_STR(told[1], "world 1:1/3 ");
    end();
}

TEST(agents_of_one_host_have_names_of_their_own)
{
    begin(2, 2);
    struct dt_join j = join_of(1000);
    frame(1000, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    frame(1001, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    CHECK_STR(told[0], "world 0:0/2 ");
    CHECK_STR(dt_members_find(&run->members, 1001)->name.text, "node0#2");
    end();
}

TEST(a_pause_of_our_own_is_no_time_in_which_a_node_could_have_come_back)
{
    begin_running(3, 3, 3);
    dt_rdzv_destroy(run);
    run = dt_rdzv_create("run", &exclude, 1);
    come_back(1000, false);
    now += 60 * DT_SECOND;
    tick();
    come_back(1001, false);
    come_back(1002, false);
    pass(60 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "");
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    end();
}

TEST(a_pause_of_our_own_is_no_time_in_which_workers_could_have_stopped)
{
    begin_running(3, 2, 3);
    result(1000, false);
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    now += 60 * DT_SECOND;
    tick();
    CHECK_EQ(run->members.count, 3);
    CHECK(strstr(told[1], "stale") == NULL);
    end();
}
