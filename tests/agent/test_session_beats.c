/* SPDX-License-Identifier: Apache-2.0 */
/* What beats say, and what becomes of workers when the rendezvous is silent or away. */
#include "tests/agent/session_story.h"

/* -- beats and silence ------------------------------------------------------------------------ */

TEST(beats_carry_what_the_owner_last_told)
{
    struct agent *a = agent_running(false);
    struct dt_beat facts = {.seq = 77, .step = 120, .running = 8};
    pass(a, BEAT, true);
    CHECK_STR(said(a), "BEAT 5 #1 step -1");
    dt_session_tell(&a->session, &facts);
    pass(a, 2 * BEAT, true);
    CHECK_STR(said(a), "BEAT 5 #2 step 120; BEAT 5 #3 step 120");
    free(a);
}

static void tell_loss(struct agent *a, const char *loss)
{
    dt_session_tell(&a->session, &(struct dt_beat){.step = 1, .telemetry = {.loss = loss}});
}

TEST(telemetry_is_said_once_after_each_change_and_on_each_connection)
{
    struct agent *a = agent_running(false);
    char loss[] = "2.5";
    tell_loss(a, loss);
    memset(loss, 'x', sizeof loss - 1); /* it keeps its own copy */
    pass(a, 2 * BEAT, true);
    CHECK_STR(said(a), "BEAT 5 #1 step 1 loss 2.5; BEAT 5 #2 step 1");
    tell_loss(a, "2.5");
    pass(a, BEAT, true);
    CHECK_STR(said(a), "BEAT 5 #3 step 1");
    tell_loss(a, "2.4");
    tell_loss(a, "2.4");
    pass(a, BEAT, true);
    CHECK_STR(said(a), "BEAT 5 #4 step 1 loss 2.4");
    tell_loss(a, NULL);
    pass(a, 2 * BEAT, true);
    CHECK_STR(said(a), "BEAT 5 #5 step 1 loss ; BEAT 5 #6 step 1");
    tell_loss(a, "2.3");
    down(a);
    up(a);
    pass(a, 2 * BEAT, true);
    CHECK(strstr(said(a), "BEAT 5 #7 step 1 loss 2.3; BEAT 5 #8 step 1") != NULL);
    down(a);
    up(a);
    pass(a, BEAT, true);
    CHECK(strstr(said(a), "BEAT 5 #9 step 1 loss 2.3") != NULL);
    free(a);
}

TEST(a_loss_that_becomes_nan_waits_for_no_beat)
{
    struct agent *a = agent_running(false);
    pass(a, BEAT, true);
    said(a);
    tell_loss(a, "2.5");
    CHECK(dt_session_next(&a->session) > a->now);
    tell_loss(a, "nan");
    CHECK_EQ(dt_session_next(&a->session), a->now);
    dt_session_tick(&a->session, a->now);
    CHECK_STR(said(a), "BEAT 5 #2 step 1 loss nan");
    tell_loss(a, "inf"); /* once is enough */
    CHECK(dt_session_next(&a->session) > a->now);
    free(a);
}

TEST(the_loss_of_the_workers_before_is_not_told_of_the_next)
{
    struct agent *a = agent_running(false);
    tell_loss(a, "nan");
    fail(a);
    join(a);
    hear_world(a, 6);
    said(a);
    pass(a, BEAT, true);
    CHECK_STR(said(a), "BEAT 6 #2 step 1 loss ");
    free(a);
}

TEST(who_waits_or_is_done_beats_too)
{
    struct agent *waiting = agent_joining(false), *done = agent_done();
    pass(waiting, BEAT, true);
    pass(done, BEAT, true);
    CHECK_STR(said(waiting), "BEAT -1 #1 step -1");
    CHECK_STR(said(done), "BEAT 5 #1 step -1");
    free(waiting);
    free(done);
}

TEST(a_server_that_says_nothing_for_three_beats_is_given_up)
{
    struct agent *a = agent_running(false);
    pass(a, 2 * BEAT, true);
    said(a);
    pass(a, BEATS * BEAT - 1, false);
    CHECK_STR(said(a), "BEAT 5 #3 step -1; BEAT 5 #4 step -1");
    pass(a, 1, false);
    CHECK_STR(said(a), "disconnect: nothing was heard of the rendezvous for 3.0 s");
    pass(a, 10 * BEAT, false); /* once; and the workers run on */
    down(a);
    CHECK_STR(said(a), "");
    CHECK_EQ(a->session.phase, DT_SESSION_RUNNING);
    free(a);
}

TEST(any_frame_is_a_sign_of_life)
{
    struct agent *a = agent_running(false);
    for (int i = 0; i < 10; i++) {
        pass(a, BEATS * BEAT - 1, false);
        HEAR(a, .type = DT_MSG_NOTE, .incarnation = 99);
    }
    CHECK(!strstr(said(a), "disconnect"));
    free(a);
}

TEST(a_gap_of_ones_own_is_not_the_servers_silence)
{
    struct agent *a = agent_running(true);
    pass(a, BEAT, true);
    said(a);
    a->now += 60 * BEAT; /* this host was stopped */
    dt_session_tick(&a->session, a->now);
    CHECK_STR(said(a), "BEAT 5 #2 step -1");
    a->now += 60 * BEAT;
    down(a);
    pass(a, BEATS * BEAT, false);
    a->now += 60 * BEAT;
    dt_session_tick(&a->session, a->now);
    CHECK_STR(said(a), "");
    free(a);
}

/* -- without a server ------------------------------------------------------------------------- */

TEST(workers_run_on_without_a_server_as_long_as_they_may)
{
    struct agent *a = agent_running(false);
    down(a);
    pass(a, 3600 * DT_SECOND, false);
    CHECK_STR(said(a), "");
    CHECK_EQ(a->session.phase, DT_SESSION_RUNNING);
    free(a);
}

TEST(workers_that_must_not_run_alone_are_stopped_once_and_start_again_with_the_server)
{
    struct agent *a = agent_running(true);
    down(a);
    pass(a, BEATS * BEAT + GRACE - 1, false);
    CHECK_STR(said(a), "");
    pass(a, 1, false);
    CHECK_STR(said(a), "stop: nothing was heard of the rendezvous for 3.5 s, and workers are not "
                       "to run without it");
    pass(a, 20 * BEAT, false);
    join(a);
    pass(a, 20 * BEAT, false);
    CHECK_STR(said(a), "");
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 2 port 4000 with nothing");
    hear_world(a, 6);
    CHECK_STR(said(a), "world 6 seat 1/4");
    free(a);
}

TEST(a_server_that_comes_back_in_time_is_not_noticed_by_the_workers)
{
    struct agent *a = agent_running(true);
    down(a);
    pass(a, BEATS * BEAT, false);
    up(a);
    said(a);
    pass(a, 10 * BEAT, true);
    CHECK(!strstr(said(a), "stop"));
    CHECK_EQ(a->session.phase, DT_SESSION_RUNNING);
    free(a);
}

TEST(silence_on_a_connection_counts_as_being_away)
{
    struct agent *a = agent_running(true);
    pass(a, BEATS * BEAT, false);
    CHECK(strstr(said(a), "disconnect: "));
    pass(a, GRACE - 1, false);
    CHECK_STR(said(a), "");
    pass(a, 1, false);
    CHECK(strstr(said(a), "stop: "));
    free(a);
}

TEST(who_is_done_has_nothing_to_stop)
{
    struct agent *a = agent_running(true);
    dt_session_succeeded(&a->session, a->now);
    down(a);
    said(a);
    pass(a, 100 * BEAT, false);
    CHECK_STR(said(a), "");
    CHECK_EQ(a->session.phase, DT_SESSION_DONE);
    free(a);
}
