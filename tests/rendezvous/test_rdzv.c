/* SPDX-License-Identifier: Apache-2.0 */
/* Stories about one run: when its rounds begin, and how they and the run end. Stories that random
 * events bring to light are the simulator's; here is what a person would tell. */
#include "tests/rendezvous/rdzv_story.h"

#include <limits.h>

TEST(nodes_that_are_all_there_run_at_once)
{
    begin(3, 3);
    join(1000);
    join(1001);
    CHECK_STR(told[0], "");
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    join(1002);
    CHECK_STR(told[0], "world 0:0/3 ");
    CHECK_STR(told[1], "world 0:1/3 ");
    CHECK_STR(told[2], "world 0:2/3 ");
    CHECK_EQ(world[2].first_rank, 4);
    CHECK_EQ(world[2].size, 6);
    CHECK_EQ(world[2].role_size, 6);
    CHECK_STR(world[2].master_addr, "10.0.0.0");
    CHECK_EQ(world[2].master_port, 40000);
    CHECK_EQ(world[2].prev_rank, -1);
    end();
}

TEST(more_than_the_least_are_waited_for_until_the_last_call_is_over)
{
    begin(2, 4);
    join(1000);
    join(1001);
    pass(29 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "");
    join(1002);
    pass(2 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "world 0:0/3 ");
    end();
}

TEST(a_scheduler_that_said_how_many_there_are_cuts_the_last_call_short)
{
    begin(2, 4);
    for (uint64_t id = 1000; id < 1003; id++) {
        struct dt_join j = join_of(id);
        j.node.expected = 3;
        frame(id, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    }
    CHECK_STR(told[0], "world 0:0/3 ");
    end();
}

TEST(who_comes_too_late_parks_and_takes_the_seat_of_one_who_goes)
{
    begin_running(3, 3, 3);
    join(1003);
    CHECK_STR(told[3], "park ");
    lose(1001);
    now += DT_SECOND;
    tick();
    CHECK_STR(told[0], "stop ");
    CHECK(strstr(why[0], "node1 went offline") != NULL);
    join(1000);
    CHECK_STR(told[0], "stop ");
    join(1002);
    CHECK_STR(told[0], "stop world 1:0/3 ");
    CHECK_STR(told[2], "stop world 1:2/3 ");
    CHECK_STR(told[3], "park world 1:1/3 ");
    for (int i = 0; i < 4; i += i == 0 ? 2 : 1) /* all but node1 */
        CHECK_STR(news[i], "node1 went offline (its connection closed, and it was not back within "
                           "1 s); node3 takes seat 1 of node1");
    CHECK_EQ(world[2].prev_rank, 4);
    CHECK_EQ(world[3].prev_rank, -1);
    CHECK_EQ(world[0].restarts, 0);
    end();
}

TEST(survivors_go_on_alone_when_they_are_enough)
{
    begin_running(3, 2, 3);
    lose(1000);
    now += DT_SECOND;
    tick();
    join(1002);
    CHECK_STR(told[2], "stop ");
    join(1001);
    CHECK_STR(told[1], "stop world 1:1/2 ");
    CHECK_STR(told[2], "stop world 1:0/2 "); /* the highest moves into the hole */
    CHECK_STR(world[1].master_addr, "10.0.0.2");
    CHECK(strstr(world[1].news, "node0 went offline") != NULL);
    CHECK(strstr(world[1].news, "node2 takes seat 0 of node0; 2 nodes instead of 3") != NULL);
    end();
}

/* It says why its workers are gone, and then that they are; what it said over the connection before
 * comes first. */
TEST(who_was_ready_for_a_world_is_not_done_with_it)
{
    begin_running(2, 2, 3);
    run->spec.max_restarts = 1;
    result(1001, false);
    lose(1001);
    join(1001);
    forget_told();
    int before = last_round[1];
    join(1000);
    CHECK_STR(told[1], "world 1:1/2 ");
    join(1002);
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    last_round[1] = before;
    join(1001); /* said before it heard of round 1 */
    last_round[1] = 1;
    join(1000);
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    join(1001);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    end();
}

TEST(a_world_that_was_lost_with_its_connection_is_not_waited_for)
{
    begin_running(2, 2, 3);
    run->spec.max_restarts = 1;
    result(1001, false);
    join(1001);
    int before = last_round[1];
    join(1000);
    join(1002);
    lose(1001);
    last_round[1] = before;
    join(1001);
    join(1000);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    end();
}

TEST(no_round_begins_while_workers_of_the_last_may_live)
{
    begin_running(3, 2, 3);
    run->spec.max_restarts = 1;
    result(1000, false);
    join(1000);
    join(1001);
    pass(34 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "stop ");
    pass(2 * DT_SECOND, 7, 1); /* the time for that is over */
    CHECK_STR(told[0], "stop world 1:0/2 ");
    CHECK(strncmp(told[2], "stop stale ", 11) == 0);
    CHECK(strstr(told[2], "world") == NULL);
    end();
}

TEST(all_done_is_success_for_spares_too)
{
    begin_running(2, 2, 2);
    join(1002);
    result(1000, true);
    CHECK_STR(told[0], "");
    result(1001, true);
    CHECK_STR(told[0], "close-succeeded ");
    CHECK_STR(told[1], "close-succeeded ");
    CHECK_STR(told[2], "park close-succeeded ");
    end();
}

TEST(one_who_is_done_may_go_but_a_loss_before_that_runs_all_again)
{
    begin_running(3, 2, 3);
    result(1000, true);
    frame(1000, (struct dt_message){.type = DT_MSG_LEAVE, .round = 0, .why = "SIGTERM"});
    CHECK_STR(told[1], "");
    result(1001, true);
    lose(1002);
    now += DT_SECOND;
    tick();
    CHECK_STR(told[1], "stop ");
    end();
}

TEST(leaving_ends_the_round_and_not_the_job)
{
    begin_running(3, 2, 3);
    frame(1001, (struct dt_message){.type = DT_MSG_LEAVE, .round = 0, .why = "SIGTERM"});
    CHECK_STR(told[0], "stop ");
    CHECK_STR(why[0], "node1 leaves (SIGTERM)");
    join(1000);
    join(1002);
    CHECK_STR(told[0], "stop world 1:0/2 ");
    CHECK(dt_exclude_find(&exclude, "node1") == NULL ||
          !dt_exclude_find(&exclude, "node1")->strikes);
    end();
}

static void leave(uint64_t id, bool stopping, const char *text)
{
    frame(id, (struct dt_message){.type = DT_MSG_LEAVE,
                                  .round = last_round[node_of(id)],
                                  .leave = {.stopping = stopping},
                                  .why = text});
}

TEST(who_leaves_with_workers_is_waited_for_until_they_are_gone)
{
    begin_running(3, 2, 3);
    leave(1001, true, "SIGTERM");
    for (int i = 0; i < 3; i++) {
        CHECK_STR(told[i], "stop-together ");
        CHECK_STR(why[i], "node1 leaves (SIGTERM)");
    }
    CHECK_EQ(run->budget.losses, 1);
    join(1000);
    join(1002);
    pass(9 * DT_SECOND, 5, 1);
    tick();
    beat(1001); /* of no workers */
    pass(11 * DT_SECOND, 5, 1);
    CHECK(strstr(told[0], "world") == NULL);
    CHECK(strstr(why[0], "missing node1 (its workers are gone, what they started is not, 25 s more "
                         "at most)") != NULL);
    leave(1001, false, "its workers are gone");
    CHECK(strstr(told[0], "world 1:0/2 ") != NULL);
    CHECK_STR(news[0], "node1 leaves (SIGTERM); node2 takes seat 1 of node1; 2 nodes instead of 3");
    CHECK(dt_exclude_find(&exclude, "node1") == NULL);
    CHECK_EQ(run->budget.losses, 1);
    end();
}

TEST(who_leaves_is_waited_for_no_longer_than_the_others_are)
{
    for (int i = 0; i < 2; i++) {
        CHECK_ROW("%s", i ? "its connection is lost" : "its workers do not end");
        begin_running(3, 2, 3);
        leave(1001, true, "SIGTERM");
        forget_told();
        join(1000);
        join(1002);
        if (i) {
            lose(1001);
            pass(2 * DT_SECOND, 5, 1);
        } else {
            pass(spec.stop_bound + DT_SECOND, 7, 1);
            CHECK(strstr(told[1], "stale ") != NULL);
        }
        CHECK_EQ(run->state, DT_RUN_RUNNING);
        CHECK(dt_exclude_find(&exclude, "node1") == NULL); /* it was told to go: no strike */
        end();
    }
}

TEST(who_leaves_when_the_round_is_over_is_waited_for_too)
{
    begin_running(3, 2, 3);
    lose(1002);
    pass(DT_SECOND, 3, 1);
    CHECK_STR(told[0], "stop ");
    join(1000);
    leave(1001, true, "SIGTERM");
    forget_told();
    pass(20 * DT_SECOND, 3, 1);
    leave(1001, false, "its workers are gone");
    CHECK_EQ(run->state, DT_RUN_GATHERING); /* of two, one is left */
    CHECK_EQ(run->members.count, 1);
    end();
}

/* As a world without it is no whole one, and some may wait in it for those that are gone. */
TEST(workers_that_stop_together_are_told_when_one_of_them_is_lost)
{
    begin_running(4, 2, 4);
    leave(1001, true, "SIGTERM");
    join(1000);
    forget_told();
    lose(1002);
    pass(2 * DT_SECOND, 11, 1);
    CHECK_STR(told[0], ""); /* its workers are gone */
    CHECK_STR(told[1], "stop ");
    CHECK_STR(told[3], "stop ");
    lose(1003);
    pass(2 * DT_SECOND, 3, 1);
    CHECK_STR(told[1], "stop "); /* once is enough */
    end();
}

TEST(too_few_are_named_when_time_is_over)
{
    begin_running(3, 3, 3);
    lose(1001);
    now += DT_SECOND;
    tick();
    join(1000);
    join(1002);
    pass(601 * DT_SECOND, 5, 1);
    CHECK_STR(told[0], "stop close-timeout ");
    CHECK(strstr(why[0], "2 of 3 nodes are ready; missing node1 (gone 60") != NULL);
    end();
}

TEST(a_last_call_ends_with_those_who_heard_it)
{
    begin_running(2, 1, 3);
    pass(2 * spec.beat * spec.beats + DT_SECOND, 0, 1);
    join(1002); /* begins the job anew, and leaves before it has a world */
    CHECK(run->gathering.last_call > 0);
    frame(1002, (struct dt_message){.type = DT_MSG_LEAVE, .why = ""});
    CHECK(dt_rdzv_is_empty(run));
    now += spec.last_call;
    join(1003);
    CHECK_STR(told[3], "");
    pass(spec.last_call + DT_SECOND, 8, 1);
    CHECK_STR(told[3], "world 1:0/1 ");
    end();
}

TEST(a_run_that_all_have_left_is_forgotten_at_once)
{
    begin_running(1, 1, 1);
    frame(1000, (struct dt_message){.type = DT_MSG_LEAVE, .why = ""});
    CHECK(dt_rdzv_is_idle(run, now));
    end();
}

TEST(a_world_that_was_lost_with_its_connection_is_said_again)
{
    begin_running(2, 2, 2);
    last_round[1] = -1; /* it never got it */
    lose(1001);
    join(1001);
    CHECK_STR(told[1], "world 0:1/2 ");
    CHECK_STR(told[0], "");
    end();
}

TEST(a_seat_that_a_smaller_world_lacks_is_nobodys)
{
    begin_running(3, 2, 3);
    dt_exclude_drain(&exclude, "node2", false, "a fan is broken", now);
    step(&(struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = "node2"});
    for (uint64_t id = 1002; id >= 1000; id--)
        join(id);
    CHECK_STR(told[0], "stop-together world 1:0/2 ");
    CHECK_STR(told[2], "stop-together park ");
    end();
}

TEST(the_next_job_of_a_name_begins_when_the_last_is_over)
{
    begin_running(2, 2, 2);
    result(1000, true);
    result(1001, true);
    forget_told();
    last_round[0] = last_round[1] = -1;
    now += 40 * DT_SECOND;
    join(2000);
    CHECK_STR(why[0],
              "run \"run\" ended 40 s ago (all nodes (2) have succeeded); this node begins the "
              "next job of that name, and needs 2 nodes for it");
    join(2001);
    CHECK_STR(told[0], "world 1:0/2 ");
    CHECK_EQ(world[0].restarts, 0);
    end();
}

TEST(a_late_loser_of_a_closed_job_hears_how_it_ended)
{
    begin_running(2, 2, 2);
    result(1000, true);
    result(1001, true);
    lose(1000);
    now += 2 * DT_SECOND;
    tick();
    forget_told();
    come_back(1000, true);
    CHECK_STR(told[0], "close-succeeded ");
    end();
}

TEST(a_spare_that_was_away_when_the_job_closed_does_not_begin_it_again)
{
    begin_running(2, 2, 2);
    join(1002);
    lose(1002);
    now += DT_SECOND;
    result(1000, true);
    result(1001, true);
    struct dt_join j = join_of(1002);
    j.claim.again = true;
    frame(1002, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    CHECK_STR(told[2], "park close-succeeded ");
    end();
}

TEST(equal_wishes_for_a_rank_are_named_and_do_no_harm)
{
    begin(2, 2);
    for (uint64_t id = 1000; id < 1002; id++) {
        struct dt_join j = join_of(id);
        j.node.order = 0;
        frame(id, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    }
    CHECK_STR(told[1], "world 0:1/2 ");
    bool named = false;
    for (size_t i = 0; i < done.len; i++)
        named = named || strstr(dt_rdzv_text(&done, done.at[i].text), "both ask for --node-rank 0");
    CHECK(named);
    end();
}

/* What an agent says of itself may be anything that a frame can hold. */
TEST(numbers_beyond_all_reason_do_no_harm)
{
    begin(1, 2);
    spec.join_timeout = spec.last_call = spec.stop_bound = spec.grow_interval = DT_FOREVER;
    struct dt_message m = {.type = DT_MSG_JOIN, .round = INT_MAX, .join = join_of(1000)};
    frame(1000, m);
    CHECK_STR(told[0], "close-refused ");
    m.round = -1;
    frame(1000, m);
    pass(40 * DT_SECOND, 1, 1);
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    CHECK(dt_rdzv_next(run) > now);
    m = (struct dt_message){.type = DT_MSG_JOIN, .round = INT_MAX, .join = join_of(1001)};
    m.join.claim = (struct dt_claim){.running = true, .seat = 0, .seats = 1, .size = 2};
    frame(1001, m);
    m.round = 0;
    m.join.claim.first_rank = 2;
    frame(1001, m);
    CHECK_STR(told[1], "close-refused close-refused ");
    end();
}

/* A server that forgot everything learns of the round from node 0, which is done; it is gone before
 * the others are back, and then there again. */
TEST(who_is_done_twice_counts_once)
{
    begin_running(3, 3, 3);
    dt_rdzv_destroy(run);
    run = dt_rdzv_create("run", &exclude, 1);
    come_back(1000, true);
    come_back(1001, false);
    come_back(1002, false);
    lose(1000);
    pass(2 * DT_SECOND, 6, 1);
    CHECK(dt_members_find(&run->members, 1000) == NULL);
    come_back(1000, true);
    CHECK_STR(told[0], "");
    result(1001, true);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    result(1002, true);
    CHECK_STR(told[2], "close-succeeded ");
    end();
}
