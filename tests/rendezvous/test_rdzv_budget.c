/* SPDX-License-Identifier: Apache-2.0 */
/* Stories about one run: its workers fail, and somebody pays, or is to blame. */
#include "tests/rendezvous/rdzv_story.h"

TEST(a_failure_is_paid_once_and_by_all)
{
    begin_running(3, 3, 3);
    run->spec.max_restarts = 1;
    result(1001, false);
    CHECK_STR(told[0], "stop ");
    result(1002, false); /* it fell with the first; of a round that is over */
    CHECK_STR(told[2], "stop ");
    for (uint64_t id = 1000; id < 1003; id++)
        join(id);
    CHECK_STR(told[0], "stop world 1:0/3 ");
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(world[i].restarts, 1);
        CHECK_STR(news[i], "node1: rank 0 exited with 1; restart 1 of 1");
    }
    forget_told();
    result(1000, false);
    for (uint64_t id = 1000; id < 1003; id++)
        join(id);
    for (int i = 0; i < 3; i++)
        CHECK_STR(told[i], "stop close-failed ");
    CHECK(strstr(why[2], "node0: rank 0 exited with 1") != NULL);
    CHECK(strstr(why[2], "of 1 restart none is left") != NULL);
    end();
}

/* A failure of node 0 that says of itself whether it can but come again, and all come back. */
static void fail_early(enum dt_retry retry, const char *place, int nodes)
{
    forget_told();
    frame(1000, (struct dt_message){.type = DT_MSG_RESULT,
                                    .round = last_round[0],
                                    .result = {.exit_code = 1,
                                               .signature = "exit 1: KeyError",
                                               .text = "rank 0 exited with 1",
                                               .retry = retry,
                                               .early = true,
                                               .place = place}});
    for (int i = 0; i < nodes; i++)
        join((uint64_t)(1000 + i));
}

TEST(what_no_retry_can_help_ends_the_job_with_restarts_left)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 3;
    fail_early(DT_RETRY_CANNOT_HELP, "", 2);
    for (int i = 0; i < 2; i++) {
        CHECK_STR(told[i], "stop close-no_progress ");
        CHECK(strstr(why[i], "node0: rank 0 exited with 1; a retry cannot help, so there is none"));
    }
    CHECK_EQ(run->state, DT_RUN_CLOSED);
    end();
}

TEST(the_same_failure_at_the_same_place_is_tried_twice_and_no_more)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 5;
    run->spec.no_progress = 0;
    fail_early(DT_RETRY_SELDOM_HELPS, "train.py:3", 2);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    fail_early(DT_RETRY_SELDOM_HELPS, "train.py:4", 2);
    now += 60 * DT_SECOND;
    tick();
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    fail_early(DT_RETRY_SELDOM_HELPS, "train.py:4", 2);
    CHECK_EQ(run->state, DT_RUN_CLOSED);
    CHECK_EQ(run->closed.kind, DT_CLOSE_NO_PROGRESS);
    CHECK(strstr(why[1], "in the same way twice"));
    end();
}

TEST(who_asks_for_it_gets_every_restart)
{
    begin_running(1, 1, 1);
    run->spec.max_restarts = 2;
    run->spec.no_progress = 0;
    run->spec.retry_deterministic = true;
    for (int i = 0; i < 2; i++) {
        fail_early(DT_RETRY_CANNOT_HELP, "train.py:3", 1);
        now += 60 * DT_SECOND;
        tick();
        CHECK_EQ(run->state, DT_RUN_RUNNING);
    }
    fail_early(DT_RETRY_CANNOT_HELP, "train.py:3", 1);
    CHECK_EQ(run->closed.kind, DT_CLOSE_FAILED);
    CHECK(strstr(why[0], "of 2 restarts none is left"));
    end();
}

TEST(who_comes_without_its_workers_ends_the_round_and_all_are_told_why)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 1;
    lose(1001);
    join(1001);
    for (int i = 0; i < 2; i++) {
        CHECK_STR(told[i], "stop ");
        CHECK_STR(why[i], "node1: its workers are gone, and it does not say why");
    }
    end();
}

TEST(a_job_that_fails_at_once_again_and_again_pauses_before_its_rounds)
{
    static const dt_ms pauses[] = {0, 1000, 2000, 4000};
    begin_running(1, 1, 1);
    run->spec.max_restarts = 20;
    run->spec.no_progress = 0;
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        CHECK_ROW("%zu", i);
        result(1000, false);
        join(1000);
        if (pauses[i]) {
            CHECK_EQ(run->state, DT_RUN_GATHERING);
            CHECK_EQ(dt_rdzv_next(run), now + (pauses[i] < 2500 ? pauses[i] : 2500));
            now += pauses[i] - 1;
            tick();
            CHECK_EQ(run->state, DT_RUN_GATHERING);
            now++;
            tick();
            CHECK(strstr(news[0], "rounds in a row failed at once") != NULL);
        }
        CHECK_EQ(run->state, DT_RUN_RUNNING);
    }
    pass(10 * DT_SECOND, 1, 1);
    result(1000, false);
    join(1000);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    end();
}

TEST(a_pause_of_our_own_is_no_time_that_a_failed_round_ran)
{
    begin_running(1, 1, 1);
    run->spec.max_restarts = 20;
    result(1000, false);
    join(1000);
    result(1000, false);
    now += 60 * DT_SECOND;
    join(1000);
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    now += DT_SECOND;
    tick();
    CHECK(strstr(news[0], "2 rounds in a row failed at once") != NULL);
    end();
}

TEST(a_spare_takes_the_seat_of_a_node_that_fails_twice_in_a_row)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 20;
    join(1002);
    result(1001, false);
    join(1000);
    join(1001);
    CHECK_STR(told[1], "stop world 1:1/2 ");
    result(1001, false);
    join(1000);
    join(1001);
    pass(2 * DT_SECOND, 7, 1);
    CHECK_STR(told[1], "stop world 1:1/2 stop park ");
    CHECK_STR(told[2], "park world 2:1/2 ");
    CHECK(strstr(news[0], "node1 failed 2 times in a row, so a spare takes its place") != NULL);
    result(1000, false); /* another one: the spare is not for the first that fails */
    join(1000);
    join(1002);
    pass(3 * DT_SECOND, 7, 1);
    CHECK_STR(told[2], "park world 2:1/2 stop world 3:1/2 ");
    end();
}

/* The agent ID says that it is on the host of the agent HOST, too. */
static void join_on(uint64_t id, uint64_t host)
{
    struct dt_join j = join_of(id);
    j.node.name = join_of(host).node.name;
    frame(id,
          (struct dt_message){.type = DT_MSG_JOIN, .round = last_round[node_of(id)], .join = j});
}

TEST(a_spare_of_another_host_comes_before_more_agents_of_the_one_that_failed_twice)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 20;
    join(1002);
    join_on(1003, 1001);
    for (int i = 0; i < 2; i++) {
        result(1001, false);
        if (i == 1) /* so that there are two seats to fill */
            dt_exclude_reject(&exclude, "node0", "no data", 600 * DT_SECOND, now);
        join(1000);
        join(1001);
    }
    pass(2 * DT_SECOND, 15, 1);
    CHECK_STR(told[0], "stop world 1:0/2 stop park ");
    CHECK_STR(told[1], "stop world 1:1/2 stop park ");
    CHECK(strstr(told[2], "park world 2:") != NULL);
    CHECK(strstr(told[3], "park world 2:") != NULL);
    CHECK(strstr(news[2], "node1 failed 2 times in a row, so a spare takes its place") != NULL);
    end();
}

TEST(a_node_with_two_agents_gives_up_as_many_seats_as_there_are_spares)
{
    begin(3, 3);
    join(1000);
    join(1001);
    join_on(1003, 1001);
    join(1002);
    run->spec.max_restarts = 20;
    for (int i = 1; i <= 3; i++) {
        result(1003, false);
        join(1000);
        join(1001);
        join_on(1003, 1001);
        if (i == 3)
            join(1002);
        pass(5 * DT_SECOND, 15, 1);
        CHECK_EQ(run->round, i);
        CHECK_EQ(last_round[1] == i, i != 2); /* nobody knows which of the two it is ... */
        CHECK_EQ(last_round[3] == i, i != 3); /* ... until one fails beside a spare */
        CHECK_EQ(last_round[2] == i, i >= 2);
    }
    end();
}

TEST(a_node_that_fails_twice_stays_where_no_spare_is)
{
    begin_running(2, 1, 2);
    run->spec.max_restarts = 20;
    for (int i = 1; i < 3; i++) {
        result(1001, false);
        join(1000);
        join(1001);
        pass(2 * DT_SECOND, 3, 1);
        CHECK_EQ(last_round[1], i);
    }
    end();
}

TEST(a_node_that_failed_twice_long_ago_keeps_its_seat_when_another_is_lost)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 20;
    for (int i = 0; i < 2; i++) {
        result(1001, false);
        join(1000);
        join(1001);
        pass(2 * DT_SECOND, 3, 1);
    }
    pass(2 * 3600 * DT_SECOND, 3, 1);
    join(1002);
    join(1003);
    lose(1000);
    pass(2 * DT_SECOND, 14, 1);
    join(1001); /* two spares are there, and one is needed */
    CHECK_EQ(last_round[1], 3);
    CHECK_EQ(world[1].seat, 1);
    CHECK_EQ(last_round[2], 3);
    end();
}

/* Two nodes run, and node2 has just joined them. */
static void begin_grown(void)
{
    begin_running(2, 2, 3);
    run->spec.max_restarts = 1;
    join(1002);
    join(1000);
    join(1001);
    CHECK_STR(told[2], "world 1:2/3 ");
    forget_told();
}

TEST(a_newcomer_that_fails_at_once_is_kept_out_and_the_job_goes_on_without_it)
{
    begin_grown();
    result(1002, false);
    join(1002);
    join(1000);
    join(1001);
    CHECK_STR(told[0], "stop world 2:0/2 ");
    CHECK_STR(told[2], "stop park ");
    CHECK(strstr(why[2], "node2 is kept out") != NULL);
    CHECK(strstr(why[2], "failed as soon as it had joined: node2: rank 0 exited with 1") != NULL);
    CHECK(strstr(news[0], "it had just joined, so no restart is charged") != NULL);
    CHECK_EQ(world[0].restarts, 0);
    CHECK_EQ(run->budget.losses, 0);
    pass(601 * DT_SECOND + 75 * DT_SECOND, 7, 1); /* with the most of jitter */
    CHECK_STR(told[0], "stop world 2:0/2 stop-together ");
    end();
}

TEST(a_newcomers_later_failure_is_the_programs)
{
    static const struct {
        const char *name;
        dt_ms wait;
        int64_t first, then; /* steps */
        int restarts;
    } rows[] = {
        {"a minute later", 61 * DT_SECOND, -1, -1, 1},
        {"no step yet", 61 * DT_SECOND, 40, 40, 0},
        {"after a step", 1 * DT_SECOND, 40, 41, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].name);
        begin_grown();
        for (int told_step = 0; told_step < 2 && rows[i].first >= 0; told_step++)
            frame(1000,
                  (struct dt_message){.type = DT_MSG_BEAT,
                                      .round = 1,
                                      .beat = {.step = told_step ? rows[i].then : rows[i].first}});
        pass(rows[i].wait, 7, 1);
        result(1002, false);
        for (uint64_t id = 1000; id < 1003; id++)
            join(id);
        CHECK_EQ(run->state, DT_RUN_RUNNING);
        CHECK_EQ(world[0].restarts, rows[i].restarts);
        end();
    }
}

TEST(a_newcomer_that_the_job_cannot_do_without_pays_as_anybody)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 1;
    lose(1001);
    now += DT_SECOND;
    tick();
    join(1000);
    join(1002);
    CHECK_STR(told[2], "world 1:1/2 ");
    result(1002, false);
    join(1000);
    join(1002);
    CHECK_EQ(world[0].restarts, 1);
    CHECK(!dt_exclude_is_out(&exclude, "node2", now, NULL));
    end();
}

TEST(a_newcomers_fault_is_known_to_a_server_that_is_started_again)
{
    struct dt_buf record = {0};
    begin_grown();
    result(1002, false);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL && run->gathering.fault.pending && run->gathering.fault.newcomer);
    dt_buf_finish(&record);
    for (uint64_t id = 1000; id < 1003; id++)
        join(id);
    CHECK_EQ(world[0].restarts, 0);
    CHECK(dt_exclude_is_out(&exclude, "node2", now, NULL));
    end();
}

TEST(a_failure_that_a_lost_node_explains_costs_no_restart)
{
    begin_running(3, 2, 3);
    result(1001, false); /* its peer vanished; nobody knows yet */
    lose(1002);
    join(1000);
    join(1001);
    CHECK_STR(told[0], "stop ");
    now += DT_SECOND;
    tick();
    CHECK_STR(told[0], "stop world 1:0/2 ");
    CHECK_EQ(world[0].restarts, 0);
    end();
}

/* It was there all the time, so the failure was none that its loss would explain. */
TEST(a_node_that_does_not_stop_takes_no_blame_for_the_failure_before)
{
    begin_running(3, 2, 3);
    result(1000, false);
    join(1000);
    join(1002);
    pass(36 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "stop close-failed ");
    CHECK(strstr(why[0], "no restarts are allowed") != NULL);
    end();
}

TEST(a_failure_that_is_to_end_the_job_does_so_whatever_is_left)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 3;
    frame(
        1001,
        (struct dt_message){
            .type = DT_MSG_RESULT,
            .round = last_round[1],
            .result = {.ends_job = true, .exit_code = 1, .signature = "", .text = "rank 3 hangs"}});
    CHECK_STR(told[0], "stop close-failed ");
    CHECK_STR(why[0], "node1: rank 3 hangs; this is to end the job");
    CHECK_EQ(run->budget.restarts, 0);
    end();
}
