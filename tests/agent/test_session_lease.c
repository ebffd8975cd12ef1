/* SPDX-License-Identifier: Apache-2.0 */
/* How long an agent may believe that no later round has begun. */
#include "tests/agent/session_story.h"

/* How much longer no later round can have begun. */
static int lease(const struct agent *a)
{
    dt_ms until = dt_session_lease(&a->session);
    return until > a->now ? (int)(until - a->now) : 0;
}

/* A quarter of a beat is for clocks that differ, and for the rename behind the question. */
#define KEPT (BEATS * BEAT - BEAT / 4)

TEST(a_world_brings_a_lease_and_answered_beats_renew_it)
{
    struct agent *a = agent_joining(false);
    CHECK_EQ(lease(a), 0);
    hear_world(a, 5);
    CHECK_EQ(lease(a), KEPT);
    pass(a, BEAT + 10, true);
    CHECK_EQ(lease(a), KEPT - 10);
    pass(a, 2 * BEAT, false);
    CHECK_EQ(lease(a), KEPT - 10 - 2 * BEAT);
    pass(a, BEAT, false);
    CHECK_EQ(lease(a), 0);
    free(a);
}

TEST(what_ends_a_round_ends_its_lease)
{
    static const struct {
        const char *what;
        struct dt_message frame;
        int lease;
    } rows[] = {
        {"stop", {.type = DT_MSG_STOP, .round = 5}, 0},
        {"stop together", {.type = DT_MSG_STOP, .round = 5, .stop = {.together = true}}, KEPT},
        {"stale", {.type = DT_MSG_STALE}, 0},
        {"close", {.type = DT_MSG_CLOSE}, 0},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].what);
        struct agent *a = agent_running(false);
        hear(a, rows[i].frame);
        CHECK_EQ(lease(a), rows[i].lease);
        free(a);
    }
    struct agent *a = agent_running(false);
    fail(a);
    CHECK_EQ(lease(a), 0);
    free(a);
}

/* For the end of the first connection the server may have given the node up. */
TEST(a_lease_ends_with_its_connection_and_the_next_one_has_to_be_answered_on)
{
    struct agent *a = agent_running(false);
    pass(a, BEAT, true);
    down(a);
    CHECK_EQ(lease(a), 0);
    a->now += 10;
    up(a);
    CHECK_EQ(lease(a), 0);
    pass(a, BEAT, true);
    CHECK_EQ(lease(a), KEPT);
    free(a);
}

/* The server may end the round for another node's sake in the moment that it has answered, and
 * waits no longer than the stop bound for who does not hear of it. */
TEST(a_lease_is_no_longer_than_the_others_would_wait)
{
    struct agent *a = agent_new(false);
    a->session.config.join.spec.stop_bound = BEAT;
    up(a);
    join(a);
    hear_world(a, 5);
    CHECK_EQ(lease(a), BEAT - BEAT / 4);
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .stop = {.together = true});
    a->now += BEAT / 2;
    CHECK_EQ(lease(a), BEAT / 4);
    free(a);
}

TEST(who_leaves_saves_with_the_others_as_long_as_they_wait)
{
    struct agent *a = agent_running(false);
    a->now += 100;
    dt_session_leave(&a->session, "SIGTERM", a->now);
    CHECK_EQ(lease(a), KEPT - 100);
    free(a);
}

/* The connection may be dead, and then the server waits for nobody who leaves. */
TEST(to_leave_makes_no_lease_longer)
{
    struct agent *a = agent_new(false);
    a->session.config.join.spec.stop_bound = 2 * BEAT;
    up(a);
    join(a);
    hear_world(a, 5);
    a->now += BEAT;
    CHECK_EQ(lease(a), BEAT - BEAT / 4);
    dt_session_leave(&a->session, "SIGTERM", a->now);
    CHECK_EQ(lease(a), BEAT - BEAT / 4);
    free(a);
    /* The others wait from when all were told. */
    a = agent_running(false);
    a->session.config.join.spec.stop_bound = 2 * BEAT;
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .stop = {.together = true});
    pass(a, BEAT, true);
    dt_session_leave(&a->session, "SIGTERM", a->now);
    CHECK_EQ(lease(a), BEAT - BEAT / 4);
    free(a);
}
