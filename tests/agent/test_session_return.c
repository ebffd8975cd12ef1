/* SPDX-License-Identifier: Apache-2.0 */
/* An agent that comes back to the rendezvous: as who it was on another connection, or, when it is
 * stale, as somebody new. */
#include "tests/agent/session_story.h"

/* -- stale ------------------------------------------------------------------------------------ */

TEST(who_is_stale_kills_and_comes_back_as_somebody_new)
{
    struct agent *a = agent_running(false);
    HEAR(a, .type = DT_MSG_STALE, .round = 7, .why = "round 5 is over");
    CHECK_STR(said(a), "kill: round 5 is over");
    join(a);
    CHECK_STR(said(a), "JOIN 5 as 2 port 4000 with nothing");
    hear_world(a, 0); /* of a server that has forgotten all */
    CHECK_STR(said(a), "world 0 seat 1/4");
    free(a);
}

TEST(while_the_workers_of_a_stale_life_die_nothing_is_said)
{
    struct agent *a = agent_running(false);
    HEAR(a, .type = DT_MSG_STALE, .why = "over");
    HEAR(a, .type = DT_MSG_CLOSE, .incarnation = 1); /* to the old life */
    said(a);
    down(a);
    up(a);
    pass(a, 10 * BEAT, false);
    CHECK_STR(said(a), "");
    join(a);
    CHECK_STR(said(a), "JOIN 5 as 2 port 4000 with nothing");
    pass(a, BEAT, false);
    CHECK_STR(said(a), "BEAT -1 #1 step -1");
    free(a);
}

TEST(a_failure_of_a_stale_life_is_not_said_in_the_next)
{
    struct agent *a = agent_running(false);
    fail(a);
    HEAR(a, .type = DT_MSG_STALE, .why = "over");
    said(a);
    join(a);
    down(a);
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 2 port 4000 with nothing; JOIN 5 as 2 port 4000 with nothing");
    free(a);
}

TEST(who_is_stale_while_it_waits_joins_as_new_at_once)
{
    struct agent *a = agent_joining(false);
    HEAR(a, .type = DT_MSG_STALE, .why = "who are you?");
    CHECK_STR(said(a), "JOIN -1 as 2 port 4000 with nothing");
    free(a);
}

TEST(who_is_done_and_stale_is_to_repeat)
{
    struct agent *a = agent_done();
    HEAR(a, .type = DT_MSG_STALE, .why = "round 5 is over");
    CHECK_STR(said(a), "kill: round 5 is over");
    CHECK_EQ(a->session.phase, DT_SESSION_STOPPING);
    free(a);
}

/* -- reconnecting ----------------------------------------------------------------------------- */

TEST(who_comes_back_says_what_it_has)
{
    struct agent *a = agent_running(false);
    down(a);
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts");
    HEAR(a, .type = DT_MSG_BEAT);
    dt_session_succeeded(&a->session, a->now);
    said(a);
    down(a);
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 done seat 1/4 ranks 8/32 after 2 restarts");
    free(a);
}

TEST(success_while_nobody_was_there_is_said_with_the_join)
{
    struct agent *a = agent_running(false);
    down(a);
    dt_session_succeeded(&a->session, a->now);
    CHECK_STR(said(a), "");
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 done seat 1/4 ranks 8/32 after 2 restarts");
    free(a);
}

/* What follows a failure, so that it is not said on yet another connection. */
TEST(a_failure_is_said_on_each_connection_until_a_world_follows_it)
{
    static const struct {
        const char *what;
        struct dt_message frame;
        const char *then; /* on the next connection */
    } rows[] = {
        {"nothing",
         {.type = DT_MSG_BEAT},
         "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts; "
         "RESULT 5 rank 9 died (segv); "
         "JOIN 5 as 1 port 4000 last in seat 1/4 ranks 8/32 after 2 restarts"},
        {"a stop of an older round",
         {.type = DT_MSG_STOP, .round = 4},
         "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts; "
         "RESULT 5 rank 9 died (segv); "
         "JOIN 5 as 1 port 4000 last in seat 1/4 ranks 8/32 after 2 restarts"},
        {"stop",
         {.type = DT_MSG_STOP, .round = 5, .why = "rank 9 died"},
         /* who said it may have forgotten it */
         "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts, over: rank 9 died; "
         "RESULT 5 rank 9 died (segv); "
         "JOIN 5 as 1 port 4000 last in seat 1/4 ranks 8/32 after 2 restarts, over: rank 9 died"},
        {"park",
         {.type = DT_MSG_PARK, .round = 6},
         "JOIN 5 as 1 port 4000 last in seat 1/4 ranks 8/32 after 2 restarts"},
        {"world",
         {.type = DT_MSG_WORLD, .round = 6, .world = {.seats = 1, .size = 1}},
         "JOIN 6 as 1 port 4000 running seat 0/1 ranks 0/1 after 0 restarts"},
        {"close", {.type = DT_MSG_CLOSE}, ""},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].what);
        struct agent *a = agent_running(false);
        fail(a);
        down(a);
        said(a);
        up(a);
        CHECK_STR(said(a), "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts; "
                           "RESULT 5 rank 9 died (segv)");
        join(a);
        hear(a, rows[i].frame);
        down(a);
        said(a);
        up(a);
        CHECK_STR(said(a), rows[i].then);
        free(a);
    }
}
