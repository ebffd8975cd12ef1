/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of an elastic job, as one agent has them. */
#include "tests/agent/session_story.h"

TEST(a_round_is_joined_run_stopped_and_joined_again)
{
    struct agent *a = agent_new(false);
    up(a);
    CHECK_STR(said(a), "");
    join(a);
    CHECK_STR(said(a), "JOIN -1 as 1 port 4000 with nothing");
    hear_world(a, 0);
    CHECK_STR(said(a), "world 0 seat 1/4");
    HEAR(a, .type = DT_MSG_STOP, .round = 0, .why = "node7 came");
    CHECK_STR(said(a), "stop: node7 came");
    CHECK_STR(dt_session_phase_name(a->session.phase), "stopping");
    dt_session_set_port(&a->session, 4001);
    join(a);
    CHECK_STR(said(a), "JOIN 0 as 1 port 4001 last in seat 1/4 ranks 8/32 after 2 restarts, "
                       "over: node7 came");
    hear_world(a, 1);
    CHECK_STR(said(a), "world 1 seat 1/4");
    free(a);
}

TEST(a_join_before_there_is_a_connection_is_said_on_the_first)
{
    struct agent *a = agent_new(false);
    join(a);
    down(a); /* so did the first attempt end */
    CHECK_STR(said(a), "");
    CHECK_EQ(a->session.away_since, DT_FOREVER);
    up(a);
    CHECK_STR(said(a), "JOIN -1 as 1 port 4000 with nothing");
    free(a);
}

TEST(a_failure_is_answered_by_stop_and_the_next_world)
{
    struct agent *a = agent_running(false);
    fail(a);
    CHECK_STR(said(a), "BEAT 5 #1 step -1; RESULT 5 rank 9 died (segv)");
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .why = "rank 9 died");
    CHECK_STR(said(a), ""); /* they are being stopped */
    join(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 last in seat 1/4 ranks 8/32 after 2 restarts, "
                       "over: rank 9 died");
    hear_world(a, 6);
    CHECK_STR(said(a), "world 6 seat 1/4");
    free(a);
}

TEST(a_failure_after_the_round_was_stopped_is_nobodys_business)
{
    struct agent *a = agent_running(false);
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .why = "node7 is gone");
    said(a);
    fail(a);
    dt_session_succeeded(&a->session, a->now);
    CHECK_STR(said(a), "");
    CHECK_EQ(a->session.phase, DT_SESSION_STOPPING);
    free(a);
}

static void find_out(struct agent *a, const char *text)
{
    struct dt_result found = {.rank = 8, .text = text, .signature = "found", .age = 40};
    dt_session_found(&a->session, &found, a->now);
}

TEST(what_is_found_out_once_the_workers_are_gone_is_said_before_the_join)
{
    struct agent *a = agent_running(false);
    find_out(a, "too early");
    CHECK_STR(said(a), "");
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .why = "node7: rank 0 died");
    said(a);
    find_out(a, "rank 8 raised");
    CHECK_STR(said(a), "RESULT 5 rank 8 raised (found)");
    /* Nobody was told of a failure here, so it is nobody's to be told again. */
    down(a);
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts, "
                       "over: node7: rank 0 died");
    join(a);
    said(a);
    find_out(a, "too late");
    CHECK_STR(said(a), "");
    free(a);
}

TEST(what_is_found_out_takes_the_place_of_what_was_said_in_haste)
{
    struct agent *a = agent_running(false);
    fail(a);
    said(a);
    down(a);
    find_out(a, "rank 8 raised");
    CHECK_STR(said(a), "");
    a->now += 100;
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts; "
                       "RESULT 5 rank 8 raised (found)");
    CHECK_EQ(a->age, 140); /* a failure told later is so much older */
    free(a);
}

TEST(after_success_the_round_may_still_have_to_be_repeated)
{
    struct agent *a = agent_running(false);
    dt_session_succeeded(&a->session, a->now);
    CHECK_STR(said(a), "RESULT 5 well");
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .why = "rank 3 died");
    CHECK_STR(said(a), "stop: rank 3 died");
    join(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 last in seat 1/4 ranks 8/32 after 2 restarts, "
                       "over: rank 3 died");
    free(a);
}

/* What comes twice, late, or for another, and is not to be acted upon. */
TEST(frames_that_are_not_for_this_moment_have_no_effect)
{
    enum { JOINING, RUNNING, STOPPING, AGAIN };
    static const struct {
        const char *what;
        int phase;
        struct dt_message frame;
    } rows[] = {
        {"a world for who runs in it", RUNNING, {.type = DT_MSG_WORLD, .round = 5}},
        {"a world before the one that runs", RUNNING, {.type = DT_MSG_WORLD, .round = 4}},
        {"a world for who stops in it", STOPPING, {.type = DT_MSG_WORLD, .round = 5}},
        {"a newer world before workers are gone", STOPPING, {.type = DT_MSG_WORLD, .round = 6}},
        {"the world that is over, for who joins again", AGAIN, {.type = DT_MSG_WORLD, .round = 5}},
        {"a stop of an older round", RUNNING, {.type = DT_MSG_STOP, .round = 4}},
        {"a stop of a newer round", RUNNING, {.type = DT_MSG_STOP, .round = 6}},
        {"a second stop", STOPPING, {.type = DT_MSG_STOP, .round = 5}},
        {"a stop before a world", JOINING, {.type = DT_MSG_STOP, .round = 5}},
        {"a stop for nobody", JOINING, {.type = DT_MSG_STOP, .round = -1}},
        {"a world of another life", JOINING, {.type = DT_MSG_WORLD, .incarnation = 99}},
        {"a stop of another life", RUNNING, {.type = DT_MSG_STOP, .round = 5, .incarnation = 99}},
        {"a close of another life", RUNNING, {.type = DT_MSG_CLOSE, .incarnation = 99}},
        {"stale, said to another life", RUNNING, {.type = DT_MSG_STALE, .incarnation = 99}},
        {"a place among the spares", RUNNING, {.type = DT_MSG_PARK}},
        {"what only agents say", RUNNING, {.type = DT_MSG_JOIN}},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].what);
        struct agent *a = rows[i].phase == JOINING ? agent_joining(false) : agent_running(false);
        if (rows[i].phase >= STOPPING)
            HEAR(a, .type = DT_MSG_STOP, .round = 5);
        if (rows[i].phase == AGAIN)
            join(a);
        said(a);
        struct dt_session before = a->session;
        hear(a, rows[i].frame);
        CHECK_STR(said(a), "");
        CHECK_EQ(a->session.phase, before.phase);
        CHECK_EQ(a->session.round, before.round);
        CHECK_EQ(a->session.incarnation, before.incarnation);
        free(a);
    }
}

TEST(frames_of_another_run_have_no_effect)
{
    struct agent *a = agent_running(false);
    struct dt_message m = {
        .type = DT_MSG_CLOSE, .run = "other", .incarnation = a->session.incarnation, .why = ""};
    dt_session_frame(&a->session, &m, a->now);
    CHECK_STR(said(a), "");
    CHECK_EQ(a->session.phase, DT_SESSION_RUNNING);
    free(a);
}

TEST(a_spare_is_told_so_and_waits_for_its_world)
{
    struct agent *a = agent_joining(false);
    HEAR(a, .type = DT_MSG_NOTE, .why = "waiting for 2 nodes");
    HEAR(a, .type = DT_MSG_PARK, .why = "spare 1 of 2");
    CHECK_STR(said(a), "note: waiting for 2 nodes; note: spare 1 of 2");
    CHECK(a->session.parked);
    hear_world(a, 3);
    CHECK_STR(said(a), "world 3 seat 1/4");
    CHECK(!a->session.parked);
    free(a);
}
