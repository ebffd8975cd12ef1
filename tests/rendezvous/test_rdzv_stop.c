/* SPDX-License-Identifier: Apache-2.0 */
/* Stories about one run: a person ends it, or has it begin another round. */
#include "tests/rendezvous/rdzv_story.h"

static void stop_run(const char *text)
{
    step(&(struct dt_rdzv_event){.type = DT_EV_STOP, .text = text});
}

static void restart_run(const char *text)
{
    step(&(struct dt_rdzv_event){.type = DT_EV_RESTART, .text = text});
}

static void all_join(int nodes)
{
    for (int i = 0; i < nodes; i++)
        join(1000 + (uint64_t)i);
}

static const struct dt_past_round *last_round_of(const struct dt_rdzv *r)
{
    return dt_history_last(&r->history);
}

/* -- stop ------------------------------------------------------------------------------------- */

TEST(a_run_that_is_stopped_ends_when_all_workers_are_gone)
{
    begin_running(3, 2, 3);
    stop_run("by ada: a demo");
    CHECK(dt_rdzv_is_stopping(run));
    for (int i = 0; i < 3; i++) {
        CHECK_STR(told[i], "stop-together ");
        CHECK_STR(why[i], "the job is stopped (by ada: a demo)");
    }
    all_join(2);
    CHECK_STR(told[0], "stop-together "); /* though two would be enough for a round */
    join(1002);
    for (int i = 0; i < 3; i++)
        CHECK_STR(told[i], "stop-together close-stopped ");
    CHECK_STR(run->closed.why, "the job is stopped (by ada: a demo)");
    CHECK_STR(happened, "stop_asked round_ended run_stopped ");
    CHECK_EQ(run->budget.restarts, 0);
    CHECK_EQ(run->budget.losses, 0);
    CHECK_STR(last_round_of(run)->decided, "the job ended: stopped");
    end();
}

TEST(an_older_agent_is_told_the_end_in_a_word_that_it_knows)
{
    older = 1u << 1;
    begin_running(2, 2, 2);
    stop_run("by ada");
    all_join(2);
    CHECK_STR(told[0], "stop-together close-stopped ");
    CHECK_STR(told[1], "stop-together close-ended ");
    CHECK_STR(why[1], "the job is stopped (by ada)");
    forget_told();
    all_join(2); /* once more, as what they heard may have been lost */
    CHECK_STR(told[0], "close-stopped ");
    CHECK_STR(told[1], "close-ended ");
    end();
}

TEST(nodes_that_wait_are_told_at_once)
{
    begin(2, 2);
    join(1000);
    stop_run("");
    CHECK_STR(told[0], "close-stopped ");
    CHECK_STR(why[0], "the job is stopped (by hand)");
    end();
}

TEST(a_paused_run_can_be_stopped)
{
    begin_running(2, 2, 2);
    step(&(struct dt_rdzv_event){.type = DT_EV_PAUSE, .text = ""});
    all_join(2);
    stop_run("by ada");
    CHECK_STR(told[0], "stop-together close-stopped ");
    CHECK_STR(told[1], "stop-together close-stopped ");
    end();
}

TEST(spares_and_nodes_that_are_done_end_with_it)
{
    begin_running(2, 2, 2);
    join(1002);
    result(1001, true);
    forget_told();
    stop_run("by ada");
    CHECK_STR(told[1], "stop-together ");
    CHECK_STR(told[2], "");
    all_join(2);
    for (int i = 0; i < 3; i++)
        CHECK(strstr(told[i], "close-stopped ") != NULL);
    end();
}

TEST(a_node_that_does_not_stop_its_workers_holds_the_end_up_for_so_long)
{
    begin_running(2, 2, 2);
    stop_run("by ada");
    join(1000);
    pass(spec.stop_bound - DT_SECOND, 3, 1);
    CHECK_STR(told[0], "stop-together ");
    pass(2 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "stop-together close-stopped ");
    CHECK_STR(told[1], "stop-together stale ");
    end();
}

TEST(one_that_is_lost_meanwhile_raises_no_alarm)
{
    begin_running(2, 2, 2);
    stop_run("by ada");
    lose(1001);
    pass(spec.reconnect_grace + DT_SECOND, 1, 1);
    join(1000);
    CHECK(strstr(told[0], "close-stopped ") != NULL);
    CHECK(strstr(happened, "below_min") == NULL);
    end();
}

TEST(it_ends_though_all_its_nodes_are_lost)
{
    begin_running(2, 2, 2);
    stop_run("by ada");
    lose(1000);
    lose(1001);
    pass_in_silence(spec.stop_bound + DT_SECOND);
    CHECK_EQ(run->members.count, 0);
    CHECK_EQ(run->state, DT_RUN_CLOSED);
    CHECK_STR(run->closed.why, "the job is stopped (by ada); no node is left, and one that went "
                               "silent may run workers yet");
    CHECK(strstr(happened, "run_stopped ") != NULL);
    CHECK(strstr(happened, "run_deserted") == NULL);
    forget_told();
    come_back(1001, false);
    CHECK_STR(told[1], "close-stopped ");
    end();
}

TEST(it_ends_though_all_its_nodes_leave)
{
    begin_running(1, 1, 1);
    stop_run("by ada");
    frame(1000,
          (struct dt_message){.type = DT_MSG_LEAVE, .round = last_round[0], .why = "SIGTERM"});
    CHECK_EQ(run->state, DT_RUN_CLOSED);
    CHECK_STR(run->closed.why, "the job is stopped (by ada)");
    end();
}

TEST(a_stop_survives_the_server)
{
    struct dt_buf record = {0};
    begin_running(2, 2, 2);
    stop_run("by ada");
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    CHECK(dt_rdzv_is_stopping(run));
    all_join(2);
    CHECK_STR(told[0], "stop-together close-stopped ");
    CHECK_STR(told[1], "stop-together close-stopped ");
    dt_buf_finish(&record);
    end();
}

TEST(a_second_wish_changes_nothing)
{
    begin_running(2, 2, 2);
    stop_run("first");
    stop_run("second");
    step(&(struct dt_rdzv_event){.type = DT_EV_PAUSE, .text = ""});
    restart_run("third");
    all_join(2);
    CHECK_STR(told[0], "stop-together close-stopped ");
    CHECK_STR(run->closed.why, "the job is stopped (first)");
    stop_run("once more");
    CHECK_STR(run->closed.why, "the job is stopped (first)");
    end();
}

TEST(the_next_job_of_the_name_runs)
{
    begin_running(1, 1, 1);
    stop_run("");
    join(1000);
    forget_told();
    last_round[0] = -1;
    join(2000);
    CHECK(!dt_rdzv_is_stopping(run));
    CHECK(strstr(told[0], "world") != NULL);
    end();
}

/* -- restart ---------------------------------------------------------------------------------- */

TEST(a_run_that_is_restarted_pays_nothing)
{
    begin_running(2, 2, 2);
    restart_run("by ada");
    CHECK_STR(told[0], "stop-together ");
    CHECK_STR(why[1], "the run is restarted (by ada)");
    all_join(2);
    CHECK_STR(told[0], "stop-together world 1:0/2 ");
    CHECK_STR(told[1], "stop-together world 1:1/2 ");
    CHECK_STR(news[0], "the run is restarted (by ada)");
    CHECK_EQ(world[0].restarts, 0);
    CHECK_EQ(run->budget.spent, 0);
    CHECK_EQ(run->budget.losses, 0);
    CHECK_STR(last_round_of(run)->cause, "the run is restarted (by ada)");
    CHECK_STR(last_round_of(run)->decided, "no restart is charged: a person wanted another round");
    CHECK(strstr(happened, "restarted round_ended ") == happened);
    end();
}

TEST(a_run_that_gathers_or_is_over_is_not_restarted)
{
    begin(2, 2);
    join(1000);
    restart_run("by ada");
    CHECK_STR(told[0], "");
    join(1001);
    result(1000, true);
    result(1001, true);
    CHECK_EQ(run->state, DT_RUN_CLOSED);
    restart_run("by ada");
    CHECK_EQ(run->state, DT_RUN_CLOSED);
    end();
}
