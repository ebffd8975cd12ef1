/* SPDX-License-Identifier: Apache-2.0 */
/* Workers of several nodes fail in one round: which failure is the job's cause, and what of a round
 * is remembered. */
#include "tests/rendezvous/rdzv_story.h"

static void fails(int node, bool weak, dt_ms age, const char *cause)
{
    char text[80];
    snprintf(text, sizeof text, "rank %d exited with 1", 2 * node);
    frame((uint64_t)(1000 + node), (struct dt_message){.type = DT_MSG_RESULT,
                                                       .round = last_round[node],
                                                       .result = {.exit_code = 1,
                                                                  .signature = "",
                                                                  .text = text,
                                                                  .weak = weak,
                                                                  .age = age,
                                                                  .cause = cause}});
}

static void all_come_back(int nodes)
{
    for (int i = 0; i < nodes; i++)
        join((uint64_t)(1000 + i));
}

TEST(strength_goes_before_time_and_time_is_that_of_the_failure)
{
    static const struct {
        const char *story;
        struct {
            int node;
            bool weak;
            dt_ms age;
        } said[4];
        int count, blamed;
    } rows[] = {
        {"the only one", {{1, true, 0}}, 1, 1},
        {"who lost a connection was heard of first", {{0, true, 0}, {1, false, 0}}, 2, 1},
        {"who raised was heard of first", {{1, false, 0}, {0, true, 900}}, 2, 1},
        {"of two who raised the earlier one", {{0, false, 5}, {1, false, 40}}, 2, 1},
        {"... also where it is heard of first", {{1, false, 40}, {0, false, 5}}, 2, 1},
        {"of two who lost a connection, too", {{0, true, 5}, {1, true, 40}}, 2, 1},
        {"what a node finds out later", {{1, true, 0}, {0, true, 1}, {1, false, 3}}, 3, 1},
        {"all of it", {{0, true, 0}, {2, false, 1}, {0, true, 9}, {1, false, 8}}, 4, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char cause[40], wanted[60];
        CHECK_ROW("%s", rows[i].story);
        begin_running(3, 3, 3);
        run->spec.max_restarts = 1;
        for (int s = 0; s < rows[i].count; s++) {
            snprintf(cause, sizeof cause, "rank %d is said to", 2 * rows[i].said[s].node);
            fails(rows[i].said[s].node, rows[i].said[s].weak, rows[i].said[s].age, cause);
        }
        all_come_back(3);
        snprintf(wanted, sizeof wanted, "node%d: rank %d is said to", rows[i].blamed,
                 2 * rows[i].blamed);
        for (int n = 0; n < 3; n++) {
            CHECK_STR(cause_told[n], wanted);
        }
        /* Who was heard of first ended the round, and pays. */
        char first[16];
        snprintf(first, sizeof first, "node%d", rows[i].said[0].node);
        CHECK_STR(run->blame.node, first);
        end();
    }
}

TEST(the_end_brings_the_cause_to_all)
{
    begin_running(2, 2, 2);
    fails(0, true, 0, "rank 0 lost its connection");
    fails(1, false, 0, "rank 2 raised");
    all_come_back(2);
    CHECK_EQ(run->state, DT_RUN_CLOSED);
    for (int i = 0; i < 2; i++) {
        CHECK_STR(cause_told[i], "node1: rank 2 raised");
        CHECK(strstr(why[i], "node0: rank 0 exited with 1; no restarts are allowed") != NULL);
    }
    end();
}

TEST(a_result_that_comes_too_late_or_from_another_round_changes_nothing)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 1;
    fails(0, true, 0, "rank 0 lost its connection");
    last_round[1] = 7;
    fails(1, false, 0, "rank 2 raised");
    last_round[1] = 0;
    all_come_back(2);
    CHECK_STR(cause_told[0], "node0: rank 0 lost its connection");
    last_round[1] = 0;
    fails(1, false, 0, "rank 2 raised");
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    end();
}

/* Its node pays, and not the one whose worker raised something at the same time. */
TEST(a_broken_device_is_the_cause_whatever_else_failed)
{
    begin_running(3, 3, 3);
    run->spec.max_restarts = 1;
    frame(1001, (struct dt_message){.type = DT_MSG_RESULT,
                                    .result = {.evidence = DT_EVIDENCE_HARDWARE,
                                               .signature = "Xid 79",
                                               .text = "rank 2 lost its GPU",
                                               .cause = "rank 2 met a broken GPU"}});
    fails(0, false, 900, "rank 0 raised");
    all_come_back(3);
    CHECK_STR(cause_told[0], "node1: rank 2 met a broken GPU");
    CHECK_EQ(run->budget.losses, 1);
    CHECK_EQ(run->budget.restarts, 0);
    end();
}

TEST(a_failure_that_is_to_end_the_job_is_its_cause)
{
    begin_running(2, 2, 2);
    frame(1001, (struct dt_message){.type = DT_MSG_RESULT,
                                    .result = {.signature = "",
                                               .text = "rank 2 died of SIGKILL",
                                               .ends_job = true,
                                               .cause = "rank 2 stood still"}});
    CHECK_EQ(run->state, DT_RUN_CLOSED);
    for (int i = 0; i < 2; i++)
        CHECK_STR(cause_told[i], "node1: rank 2 stood still");
    end();
}

TEST(older_agents_say_no_cause)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 1;
    result(1000, false);
    all_come_back(2);
    CHECK_STR(cause_told[1], "");
    CHECK_STR(dt_history_last(&run->history)->cause, "node0: rank 0 exited with 1");
    end();
}

TEST(each_round_leaves_what_ended_it_what_it_cost_and_what_was_decided)
{
    const struct dt_past_round *past;
    begin_running(2, 2, 2);
    run->spec.max_restarts = 1;
    now += 20 * DT_SECOND;
    for (int64_t i = 0; i < 2; i++)
        frame(1000, (struct dt_message){.type = DT_MSG_BEAT, .round = 0, .beat = {.step = 40 + i}});
    frame(1001, (struct dt_message){.type = DT_MSG_BEAT, .round = 0, .beat = {.step = -1}});
    fails(0, false, 0, "rank 0 raised");
    CHECK_EQ(run->history.len, 1);
    now += 300;
    all_come_back(2);
    past = dt_history_last(&run->history);
    CHECK_EQ(past->round, 0);
    CHECK_EQ(past->lasted, 20 * DT_SECOND);
    CHECK_EQ(past->lost, 300);
    CHECK_EQ(past->first_step, 40);
    CHECK_EQ(past->last_step, 41);
    CHECK_STR(past->cause, "node0: rank 0 raised");
    CHECK_STR(past->decided, "restart 1 of 1");
    fails(1, false, 0, "rank 2 raised");
    all_come_back(2);
    past = dt_history_last(&run->history);
    CHECK_EQ(past->round, 1);
    CHECK_EQ(past->lost, -1);
    CHECK_STR(past->decided, "the job ended: failed");
    /* The next job of that name is not told of it, and its history goes on. */
    join(2000);
    join(2001);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    CHECK_STR(cause_told[0], "");
    CHECK_EQ(run->history.len, 2);
    end();
}

TEST(history_is_there_again_after_a_restart_of_the_server)
{
    struct dt_buf record = {0};
    begin_running(1, 1, 1);
    run->spec.max_restarts = 2;
    fails(0, false, 0, "rank 0 raised");
    join(1000);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    CHECK_EQ(run->history.len, 1);
    CHECK_STR(run->history.at[0].cause, "node0: rank 0 raised");
    CHECK_STR(run->history.at[0].decided, "restart 1 of 2");
    dt_buf_finish(&record);
    end();
}
