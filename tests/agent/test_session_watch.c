/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that are watched: that stand still, are looked at, or hold the others up. */
#include "tests/agent/session_story.h"

/* -- workers that stand still ----------------------------------------------------------------- */

static bool say_still(struct agent *a, dt_ms still)
{
    return dt_session_still(&a->session, still, true, a->now);
}

static void answer_look(struct agent *a, int64_t id)
{
    dt_session_looked(&a->session, id, &(struct dt_stances){0}, a->now);
}

TEST(workers_that_stand_still_are_looked_at_and_judged_elsewhere)
{
    struct agent *a = agent_running(false);
    CHECK(say_still(a, 2000));
    CHECK_STR(said(a), "STILL 5 for 2000 sure");
    HEAR(a, .type = DT_MSG_LOOK, .round = 5, .look = {.id = 1});
    CHECK_STR(said(a), "look #1");
    answer_look(a, 1);
    CHECK_STR(said(a), "LOOKED 5 #1");
    HEAR(a, .type = DT_MSG_LOOK, .round = 5, .look = {.id = 2, .native = true});
    CHECK_STR(said(a), "look #2 native");
    HEAR(a, .type = DT_MSG_FINDING, .round = 5, .finding = {.sentence = "rank 2 sleeps"});
    CHECK_STR(said(a), "finding: rank 2 sleeps");
    free(a);
}

/* Most of all when they are over. */
TEST(what_workers_printed_is_told_whatever_became_of_them)
{
    struct agent *a = agent_running(false);
    HEAR(a, .type = DT_MSG_TAIL, .round = 5, .tail = {.id = 7, .room = 1});
    CHECK_STR(said(a), "tail #7");
    fail(a);
    said(a);
    HEAR(a, .type = DT_MSG_MORE, .round = 5, .more = {.id = 7, .room = 1});
    CHECK_STR(said(a), "more #7");
    dt_session_tailed(&a->session, 7, true, NULL, a->now);
    CHECK_STR(said(a), "TAILED 5 #7 over");
    free(a);
}

TEST(a_wish_for_a_checkpoint_is_for_workers_of_this_round_that_run)
{
    struct agent *a = agent_running(false);
    HEAR(a, .type = DT_MSG_KEEP, .round = 4);
    CHECK_STR(said(a), "");
    HEAR(a, .type = DT_MSG_KEEP, .round = 5);
    CHECK_STR(said(a), "keep");
    fail(a);
    said(a);
    HEAR(a, .type = DT_MSG_KEEP, .round = 5);
    CHECK_STR(said(a), "");
    free(a);
}

TEST(what_the_server_may_have_missed_of_it_is_said_again)
{
    struct agent *a = agent_running(false);
    say_still(a, 2000);
    down(a);
    CHECK(say_still(a, 2000)); /* it will be heard */
    said(a);
    a->now += 500;
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts; "
                       "STILL 5 for 2500 sure");
    say_still(a, 0);
    down(a);
    said(a);
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts");
    free(a);
}

TEST(an_older_server_hears_nothing_of_it)
{
    struct agent *a = agent_new(false);
    dt_session_connected(&a->session, false, a->now);
    join(a);
    hear_world(a, 5);
    said(a);
    CHECK(!say_still(a, 2000));
    answer_look(a, 1);
    CHECK_STR(said(a), "");
    free(a);
}

TEST(only_workers_of_this_round_that_run_are_looked_at)
{
    struct agent *a = agent_running(false);
    HEAR(a, .type = DT_MSG_LOOK, .round = 4, .look = {.id = 1});
    HEAR(a, .type = DT_MSG_FINDING, .round = 4, .finding = {.sentence = "late"});
    CHECK_STR(said(a), "");
    fail(a);
    said(a);
    HEAR(a, .type = DT_MSG_LOOK, .round = 5, .look = {.id = 2});
    HEAR(a, .type = DT_MSG_FINDING, .round = 5, .finding = {.sentence = "late"});
    say_still(a, 2000);
    answer_look(a, 1);
    CHECK_STR(said(a), "");
    free(a);
}

TEST(a_node_that_is_done_is_told_why_it_waits)
{
    struct agent *a = agent_done();
    HEAR(a, .type = DT_MSG_FINDING, .round = 5, .finding = {.sentence = "rank 2 sleeps"});
    CHECK_STR(said(a), "finding: rank 2 sleeps");
    free(a);
}

TEST(the_workers_of_the_next_round_move)
{
    struct agent *a = agent_running(false);
    say_still(a, 2000);
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .why = "w");
    join(a);
    hear_world(a, 6);
    said(a);
    down(a);
    up(a);
    CHECK_STR(said(a), "JOIN 6 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts");
    free(a);
}

/* -- a worker that holds the others up --------------------------------------------------------- */

TEST(what_is_said_of_a_straggler_comes_with_answers_of_this_round)
{
    struct agent *a = agent_running(false);
    HEAR(a, .type = DT_MSG_BEAT, .round = 5, .beat = {.straggler = "rank 2", .holds_up = true});
    CHECK_STR(said(a), "straggler: rank 2");
    HEAR(a, .type = DT_MSG_BEAT, .round = 5, .beat = {.straggler = "rank 2"});
    CHECK_STR(said(a), "straggler no more: rank 2");
    HEAR(a, .type = DT_MSG_BEAT, .round = 5);
    HEAR(a, .type = DT_MSG_BEAT, .round = 4, .beat = {.straggler = "rank 2"});
    CHECK_STR(said(a), "");
    fail(a);
    said(a);
    HEAR(a, .type = DT_MSG_BEAT, .round = 5, .beat = {.straggler = "rank 2"});
    CHECK_STR(said(a), "");
    free(a);
}

TEST(own_times_of_the_workers_before_are_not_told_of_the_next)
{
    struct agent *a = agent_running(false);
    char reason[] = "it sleeps";
    dt_session_tell(&a->session,
                    &(struct dt_beat){.step = 1, .own = {.window = 7, .reason = reason}});
    memset(reason, 'x', sizeof reason - 1);
    CHECK_STR(a->session.facts.own.reason, "it sleeps"); /* it keeps its own copy */
    fail(a);
    join(a);
    hear_world(a, 6);
    CHECK_EQ(a->session.facts.own.window, 0);
    free(a);
}
