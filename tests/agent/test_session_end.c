/* SPDX-License-Identifier: Apache-2.0 */
/* What ends an agent's part in a job: the job is over, the agent is refused, or it leaves. */
#include "tests/agent/session_story.h"

#include <limits.h>

TEST(a_close_ends_it_in_every_phase)
{
    static const char *const phases[] = {"joining", "running", "stopping", "done"};
    for (size_t i = 0; i < ROWS(phases); i++) {
        CHECK_ROW("%s", phases[i]);
        struct agent *a = i == 0   ? agent_joining(false)
                          : i == 3 ? agent_done()
                                   : agent_running(false);
        if (i == 2)
            fail(a);
        said(a);
        CHECK_STR(dt_session_phase_name(a->session.phase), phases[i]);
        HEAR(a, .type = DT_MSG_CLOSE, .close = {.kind = DT_CLOSE_FAILED},
             .why = "no restart is left");
        CHECK_STR(said(a), "closed 1: no restart is left");
        HEAR(a, .type = DT_MSG_CLOSE, .close = {.kind = DT_CLOSE_FAILED}, .why = "again");
        join(a);
        down(a);
        up(a);
        pass(a, 10 * BEAT, false);
        CHECK_STR(said(a), "");
        CHECK_EQ(dt_session_next(&a->session), DT_FOREVER);
        free(a);
    }
}

TEST(a_refusal_ends_who_has_no_world_and_is_one_more_loss_of_the_server_to_who_has)
{
    static const struct {
        const char *phase, *joins, *said;
    } rows[] = {
        {"joining", NULL, "closed 4: no room"},
        {"stopping", NULL, "closed 4: no room"},
        {"running", "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts",
         "refused: no room"},
        {"done", "JOIN 5 as 1 port 4000 done seat 1/4 ranks 8/32 after 2 restarts",
         "refused: no room"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].phase);
        struct agent *a = i == 0   ? agent_joining(false)
                          : i == 3 ? agent_done()
                                   : agent_running(false);
        if (i == 1)
            fail(a);
        said(a);
        CHECK_STR(dt_session_phase_name(a->session.phase), rows[i].phase);
        HEAR(a, .type = DT_MSG_CLOSE, .close = {.kind = DT_CLOSE_REFUSED}, .why = "no room");
        CHECK_STR(said(a), rows[i].said);
        if (rows[i].joins) {
            up(a);
            CHECK_STR(said(a), rows[i].joins);
        }
        free(a);
    }
}

TEST(a_world_without_room_for_the_node_is_none)
{
    static const struct dt_world_message rows[] = {
        {.seat = 4, .seats = 4, .size = 8, .role_size = 8},
        {.seats = 4, .first_rank = INT_MAX, .size = 8, .role_size = 8},
        {.seats = 4, .first_rank = 7, .size = 8, .role_size = 8},
        {.seats = 4, .first_rank = INT_MAX, .size = INT_MAX, .role_size = 8},
        {.seats = 4, .size = 1, .role_size = 1},
        {.seats = 4, .size = 8, .first_role_rank = INT_MAX, .role_size = 8},
        {.seats = 4, .size = 8, .role_size = 9},
        {.seats = 4, .size = 8, .role_size = 8, .prev_rank = INT_MAX, .prev_size = 8},
        {.seats = 4, .size = 8, .role_size = 8, .prev_rank = 7, .prev_size = 8},
        {.seats = 4, .first_rank = 6, .size = 8, .first_role_rank = 6, .role_size = 8}, /* good */
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        bool good = i == ROWS(rows) - 1;
        CHECK_ROW("%zu", i);
        struct agent *a = agent_new(false);
        a->session.config.join.node.workers = 2;
        up(a);
        join(a);
        said(a);
        HEAR(a, .type = DT_MSG_WORLD, .round = 5, .world = rows[i]);
        if (good)
            CHECK_STR(said(a), "world 5 seat 0/4");
        else
            CHECK(strstr(said(a), "refused: its world has no room for this node: 2 workers"));
        CHECK_EQ(a->session.phase, good ? DT_SESSION_RUNNING : DT_SESSION_JOINING);
        free(a);
    }
}

TEST(who_leaves_says_so_and_once_more_when_its_workers_are_gone)
{
    struct agent *a = agent_running(false);
    dt_session_leave(&a->session, "SIGTERM", a->now);
    CHECK_STR(said(a), "LEAVE 5 stopping SIGTERM");
    CHECK_STR(dt_session_phase_name(a->session.phase), "leaving");
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .stop = {.together = true});
    CHECK_STR(said(a), ""); /* they are being stopped */
    pass(a, BEAT, true);
    CHECK_STR(said(a), "BEAT 5 #1 step -1");
    dt_session_end(&a->session, a->now);
    CHECK_STR(said(a), "LEAVE 5 its workers are gone");
    join(a);
    pass(a, 10 * BEAT, false);
    CHECK_STR(said(a), "");
    free(a);
}

TEST(who_leaves_without_workers_says_so_and_nothing_more)
{
    for (int i = 0; i < 2; i++) {
        CHECK_ROW("%s", i ? "done" : "joining");
        struct agent *a = i ? agent_done() : agent_joining(false);
        said(a);
        dt_session_leave(&a->session, "SIGTERM", a->now);
        CHECK_STR(said(a), i ? "LEAVE 5 SIGTERM" : "LEAVE -1 SIGTERM");
        dt_session_end(&a->session, a->now);
        CHECK_STR(said(a), "");
        free(a);
    }
}

TEST(who_leaves_says_so_on_the_next_connection_too)
{
    struct agent *a = agent_running(false);
    down(a);
    dt_session_leave(&a->session, "SIGTERM", a->now);
    CHECK_STR(said(a), "");
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts; "
                       "LEAVE 5 stopping SIGTERM");
    down(a);
    said(a);
    dt_session_end(&a->session, a->now);
    up(a);
    CHECK_STR(said(a), "");
    free(a);
}

/* What all nodes save together counts for as long as all may, and a node is heard of. */
TEST(workers_that_are_stopped_with_the_others_save_while_they_are_not_cut_off)
{
    static const char cut[] = "stop: the rendezvous is not heard of, and the others may go on "
                              "without this node: its workers may not save any more";
    for (int i = 0; i < 8; i++) {
        CHECK_ROW("%s, %d", i & 1 ? "leaving" : "told to stop", i / 2);
        struct agent *a = agent_running(false);
        if (i & 1)
            dt_session_leave(&a->session, "SIGTERM", a->now);
        HEAR(a, .type = DT_MSG_STOP, .round = 5, .stop = {.together = true}, .why = "node7 leaves");
        pass(a, 5 * BEAT, true);
        char *text = strstr(said(a), "stop");
        CHECK(i & 1 ? !strstr(text ? text : "", "together") : text != NULL);
        switch (i / 2) {
        case 0: /* the connection is lost */
            down(a);
            CHECK_STR(said(a), cut);
            break;
        case 1: /* a server that hears nothing gives us up, whatever is heard of it */
            pass(a, BEAT, false);
            HEAR(a, .type = DT_MSG_NOTE, .why = "");
            pass(a, (BEATS - 1) * BEAT - 1, false);
            CHECK(strstr(said(a), cut) != NULL);
            break;
        case 2: /* one of the others is gone */
            HEAR(a, .type = DT_MSG_STOP, .round = 5, .why = "node7 went offline");
            CHECK_STR(said(a), "stop: node7 went offline");
            HEAR(a, .type = DT_MSG_STOP, .round = 5, .why = "node8 went offline");
            down(a);
            CHECK_STR(said(a), "");
            break;
        case 3: /* the time is over */
            HEAR(a, .type = DT_MSG_STALE, .round = 6, .why = "it took too long");
            CHECK_STR(said(a), "kill: it took too long");
            dt_session_end(&a->session, a->now);
            CHECK_STR(said(a), "");
            break;
        }
        free(a);
    }
}
