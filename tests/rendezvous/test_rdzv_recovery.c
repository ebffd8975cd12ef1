/* SPDX-License-Identifier: Apache-2.0 */
/* Stories about one run: the server knows nothing of a round, and learns of it from the nodes. */
#include "tests/rendezvous/rdzv_story.h"

/* As it does when it is on a new connection, and its round is over for TEXT. */
static void come_back_from_round_over(uint64_t id, bool has_workers, const char *text)
{
    int i = node_of(id);
    struct dt_message m = {.type = DT_MSG_JOIN, .round = last_round[i], .join = join_of(id)};
    m.join.claim = (struct dt_claim){.running = has_workers,
                                     .again = true,
                                     .seat = world[i].seat,
                                     .seats = world[i].seats,
                                     .first_rank = world[i].first_rank,
                                     .size = world[i].size,
                                     .over = text};
    frame(id, m);
}

static void forget_everything(void)
{
    dt_rdzv_destroy(run);
    run = dt_rdzv_create("run", &exclude, 2);
    forget_told();
}

TEST(a_server_that_forgot_everything_learns_that_a_round_is_over)
{
    begin_running(3, 2, 3);
    lose(1002);
    now += spec.reconnect_grace;
    tick();
    CHECK_STR(told[0], "stop ");
    forget_everything();
    come_back_from_round_over(1000, true, "node2 went offline");
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    come_back(1001, false); /* which never heard of it */
    CHECK_STR(told[1], "stop ");
    CHECK_STR(why[1], "node2 went offline");
    join(1000);
    join(1001);
    CHECK_STR(told[1], "stop "); /* the third may yet come back, with workers */
    pass(spec.beat * spec.beats + spec.reconnect_grace, 3, 1);
    CHECK_STR(told[1], "stop world 1:1/2 ");
    CHECK_EQ(world[0].restarts, 0);
    end();
}

TEST(a_node_that_is_back_without_workers_is_not_told_to_stop_them)
{
    begin_running(3, 3, 3);
    forget_everything();
    come_back_from_round_over(1000, false, "node2 went offline");
    come_back_from_round_over(1001, false, "node2 went offline");
    CHECK_STR(told[0], "");
    CHECK_STR(told[1], "");
    come_back_from_round_over(1002, true, "node2 went offline");
    CHECK_STR(told[2], "stop ");
    join(1002);
    CHECK_STR(told[0], "world 1:0/3 ");
    CHECK_STR(told[1], "world 1:1/3 ");
    CHECK_STR(told[2], "stop world 1:2/3 ");
    end();
}

TEST(a_server_that_forgot_everything_begins_no_round_twice)
{
    begin_running(3, 3, 3);
    forget_everything();
    come_back_from_round_over(1000, false, "node2 went offline");
    last_round[3] = 5;
    join(1003); /* it was in a later round, of which nobody else has told yet */
    CHECK_EQ(run->round, 6);
    last_round[1] = 3;
    come_back(1001, false);
    CHECK_STR(told[1], "stale ");
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    CHECK_EQ(run->round, 6);
    last_round[2] = 6;
    come_back(1002, false); /* this one is news */
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    CHECK_EQ(run->round, 6);
    end();
}

TEST(a_failure_that_the_server_forgot_is_charged_once)
{
    for (int i = 0; i < 3; i++) {
        CHECK_ROW("%s comes first", i == 0 ? "the failed node" : i == 1 ? "one told" : "one not");
        begin(2, 2);
        spec.max_restarts = 3;
        join(1000);
        join(1001);
        result(1000, false);
        forget_everything();
        if (i == 1)
            come_back_from_round_over(1001, true, "rank 0 exited with 1");
        else if (i == 2)
            come_back(1001, false);
        come_back_from_round_over(1000, true, "rank 0 exited with 1");
        result(1000, false);
        result(1000, false);
        come_back_from_round_over(1000, false, "rank 0 exited with 1");
        if (i == 0)
            come_back(1001, false);
        CHECK_STR(told[1], "stop ");
        join(1001);
        CHECK(strstr(told[0], "world 1:0/2 ") != NULL);
        CHECK_EQ(world[0].restarts, 1);
        end();
    }
}

/* It says so on each connection, to whoever may have forgotten it. */
TEST(a_failure_that_was_charged_is_not_charged_again)
{
    begin(2, 2);
    spec.max_restarts = 3;
    join(1000);
    join(1001);
    result(1000, false);
    join(1000);
    lose(1000);
    come_back_from_round_over(1000, true, "rank 0 exited with 1");
    result(1000, false);
    come_back_from_round_over(1000, false, "rank 0 exited with 1");
    join(1001);
    CHECK_STR(told[0], "world 0:0/2 stop world 1:0/2 ");
    last_round[0] = 0; /* it was lost with its connection */
    lose(1000);
    come_back_from_round_over(1000, true, "rank 0 exited with 1");
    result(1000, false);
    come_back_from_round_over(1000, false, "rank 0 exited with 1");
    CHECK_STR(told[0], "world 0:0/2 stop world 1:0/2 world 1:0/2 ");
    CHECK_EQ(world[0].restarts, 1);
    end();
}

TEST(a_server_that_forgot_everything_learns_it_from_the_nodes)
{
    begin_running(3, 3, 3);
    dt_rdzv_destroy(run);
    run = dt_rdzv_create("run", &exclude, 1);
    join(1004); /* a spare comes first */
    for (uint64_t id = 1000; id < 1003; id++)
        come_back(id, false);
    pass(60 * DT_SECOND, 0x17, 1);
    CHECK_STR(told[0], "");
    CHECK_STR(happened, "run_began node_joined/node4 run_learnt/node0 node_back/node0 "
                        "node_back/node1 node_back/node2 ");
    CHECK_EQ(run->round, 0);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    lose(1002);
    now += DT_SECOND;
    tick();
    join(1000);
    join(1001);
    CHECK_STR(told[4], "world 1:2/3 ");
    end();
}

/* Nodes 0 and 1, in round 0, are not heard of until both are given up. */
static void begin_and_lose_all(void)
{
    begin_running(2, 2, 2);
    pass(2 * spec.beat * spec.beats + DT_SECOND, 0, 1);
    CHECK(dt_rdzv_is_empty(run));
    CHECK(!dt_rdzv_is_idle(run, now));
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    forget_told();
}

TEST(nodes_that_were_all_lost_and_come_back_go_on)
{
    begin_and_lose_all();
    come_back(1000, false);
    come_back(1001, false);
    pass(60 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "");
    CHECK_STR(told[1], "");
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    CHECK_EQ(run->round, 0);
    end();
}

TEST(a_node_that_was_lost_does_not_undo_the_job_that_others_began_anew)
{
    begin_and_lose_all();
    join(1002);
    join(1003);
    CHECK_STR(told[2], "world 1:0/2 ");
    forget_told();
    come_back(1000, false);
    CHECK_STR(told[0], "stale ");
    CHECK_STR(told[2], "");
    CHECK_STR(told[3], "");
    CHECK_EQ(run->round, 1);
    end();
}

TEST(a_run_that_all_were_lost_from_is_remembered_for_a_while)
{
    struct dt_buf record = {0};
    begin_and_lose_all();
    dt_rdzv_save(run, &record);
    CHECK_EQ(record.len, 0);
    dt_ms next = dt_rdzv_next(run);
    CHECK(next < DT_FOREVER);
    CHECK(!dt_rdzv_is_idle(run, next - 1));
    CHECK(dt_rdzv_is_idle(run, next));
    end();
}

/* The server lost its journal, and all nodes but one were replaced before it was back. */
TEST(a_straggler_of_a_forgotten_round_does_not_undo_the_world_of_others)
{
    begin_running(3, 3, 4);
    last_round[0] = 6;
    for (int i = 1; i < 3; i++)
        beat(1000 + (uint64_t)i);
    come_back(2000, false); /* in seat 0 of 3, of round 6 */
    CHECK_STR(told[0], "stale ");
    CHECK(strstr(why[0], "does not know round 6 of this node; other nodes run the job now") !=
          NULL);
    CHECK_STR(told[1], "");
    CHECK_EQ(run->round, 0);
    join(3000); /* as a newcomer */
    CHECK_STR(told[1], "stop-together ");
    CHECK_EQ(run->round, 7); /* news to it */
    end();
}

/* Its first word of the failure was not answered, as far as it knows. */
TEST(a_failure_of_a_round_that_was_learnt_and_that_is_said_again_is_paid_once)
{
    begin(1, 1);
    spec.max_restarts = 5;
    last_round[0] = 4;
    world[0] = (struct dt_world_message){.seat = 0, .seats = 1, .first_rank = 0, .size = 2};
    come_back(1000, false);
    CHECK_EQ(run->round, 4);
    dt_exclude_drain(&exclude, "node0", false, "", now); /* so that no round begins */
    result(1000, false);
    join(1000);
    CHECK_EQ(run->budget.restarts, 1);
    result(1000, false);
    join(1000);
    CHECK_EQ(run->budget.restarts, 1);
    end();
}

TEST(a_larger_world_that_a_node_is_in_takes_the_place_of_a_smaller_one)
{
    begin_running(2, 2, 4);
    last_round[2] = 6;
    world[2] = (struct dt_world_message){.seat = 2, .seats = 4, .first_rank = 4, .size = 8};
    come_back(1002, false);
    CHECK_STR(told[0], "stale ");
    CHECK_STR(told[2], "");
    CHECK_EQ(run->round, 6);
    end();
}
