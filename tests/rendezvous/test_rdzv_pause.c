/* SPDX-License-Identifier: Apache-2.0 */
/* Stories about one run: a person pauses it, and lets it go on. */
#include "tests/rendezvous/rdzv_story.h"

static void pause_run(const char *text)
{
    step(&(struct dt_rdzv_event){.type = DT_EV_PAUSE, .text = text});
}

static void resume_run(void)
{
    step(&(struct dt_rdzv_event){.type = DT_EV_RESUME});
}

static void all_join(int nodes)
{
    for (int i = 0; i < nodes; i++)
        join(1000 + (uint64_t)i);
}

TEST(a_paused_run_stops_together_and_waits)
{
    begin_running(2, 2, 2);
    pause_run("the roof leaks");
    CHECK_STR(told[0], "stop-together ");
    CHECK_STR(why[0], "the run is paused (the roof leaks)");
    CHECK(dt_rdzv_is_paused(run));
    all_join(2);
    pass(3 * spec.join_timeout, 3, 1);
    CHECK_STR(told[0], "stop-together ");
    CHECK_STR(told[1], "stop-together ");
    CHECK(strstr(why[1], "paused (the roof leaks) until dtrun-ctl run resume") != NULL);
    resume_run();
    CHECK(!dt_rdzv_is_paused(run));
    CHECK_STR(told[0], "stop-together world 1:0/2 ");
    CHECK_STR(told[1], "stop-together world 1:1/2 ");
    CHECK_EQ(world[0].restarts, 0);
    CHECK_EQ(run->budget.losses, 0);
    end();
}

TEST(a_run_that_gathers_is_paused_too)
{
    begin(2, 2);
    join(1000);
    pause_run("");
    join(1001);
    CHECK_STR(told[0], "");
    resume_run();
    CHECK_STR(told[0], "world 0:0/2 ");
    end();
}

TEST(nodes_have_their_time_to_come_from_when_it_goes_on)
{
    begin_running(2, 2, 2);
    pause_run("");
    join(1000);
    frame(1001, (struct dt_message){.type = DT_MSG_LEAVE, .why = ""});
    pass(3 * spec.join_timeout, 1, 1);
    CHECK_STR(told[0], "stop-together ");
    resume_run();
    pass(spec.join_timeout - DT_SECOND, 1, 1);
    CHECK_STR(told[0], "stop-together ");
    pass(2 * DT_SECOND, 1, 1);
    CHECK_STR(told[0], "stop-together close-timeout ");
    end();
}

TEST(a_pause_survives_the_server)
{
    struct dt_buf record = {0};
    begin_running(2, 2, 2);
    pause_run("the roof leaks");
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    CHECK(dt_rdzv_is_paused(run));
    CHECK_STR(run->gathering.paused, "the roof leaks");
    all_join(2);
    pass(60 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "stop-together ");
    resume_run();
    CHECK_STR(told[0], "stop-together world 1:0/2 ");
    dt_buf_finish(&record);
    end();
}

TEST(neither_wish_has_an_effect_twice)
{
    begin_running(2, 2, 2);
    resume_run();
    CHECK_STR(told[0], "");
    pause_run("first");
    pause_run("second");
    CHECK_STR(run->gathering.paused, "first");
    all_join(2);
    resume_run();
    resume_run();
    CHECK_STR(told[0], "stop-together world 1:0/2 ");
    end();
}

TEST(a_run_that_is_over_stays_so)
{
    begin_running(1, 1, 1);
    result(1000, true);
    pause_run("too late");
    CHECK(!dt_rdzv_is_paused(run));
    CHECK_EQ(run->state, DT_RUN_CLOSED);
    end();
}

TEST(the_next_job_of_the_name_is_not_paused)
{
    begin_running(1, 1, 1);
    pause_run("");
    frame(1000, (struct dt_message){.type = DT_MSG_LEAVE, .why = ""});
    last_round[0] = -1;
    join(2000);
    CHECK(!dt_rdzv_is_paused(run));
    CHECK(strstr(told[0], "world") != NULL);
    end();
}
