/* SPDX-License-Identifier: Apache-2.0 */
/* Stories about one run: the server is started again, and has its journal. */
#include "tests/rendezvous/rdzv_story.h"

TEST(a_server_started_again_finds_all_as_it_was)
{
    struct dt_buf record = {0};
    begin_running(3, 3, 3);
    result(1002, true);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    now = 50; /* another clock */
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    for (int i = 0; i < 2; i++)
        come_back(1000 + (uint64_t)i, false);
    pass(10 * DT_SECOND, 3, 1);
    come_back(1002, true);
    pass(60 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "");
    result(1000, true);
    result(1001, true);
    CHECK_STR(told[2], "close-succeeded ");
    dt_buf_finish(&record);
    end();
}

TEST(a_failure_is_paid_although_the_server_is_started_again_before_it_is)
{
    struct dt_buf record = {0};
    begin_running(2, 2, 2);
    run->spec.max_restarts = 3;
    result(1001, false);
    join(1000);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    join(1000);
    join(1001);
    CHECK_STR(told[0], "stop world 1:0/2 ");
    CHECK_EQ(world[0].restarts, 1);
    dt_buf_finish(&record);
    end();
}

TEST(who_does_not_come_back_to_a_restarted_server_is_lost)
{
    struct dt_buf record = {0};
    begin_running(3, 2, 3);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    come_back(1000, false);
    come_back(1001, false);
    pass(15 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "");
    pass(2 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "stop ");
    CHECK_EQ(exclude.nodes.count, 1);
    dt_buf_finish(&record);
    end();
}

TEST(nodes_that_a_restarted_server_hears_nothing_of_have_no_strike)
{
    struct dt_buf record = {0};
    begin_running(3, 2, 3);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    pass_in_silence(20 * DT_SECOND);
    CHECK_EQ(run->members.count, 0);
    CHECK_EQ(exclude.nodes.count, 0);
    for (uint64_t id = 1000; id < 1003; id++)
        come_back(id, false);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    CHECK_EQ(run->round, 0);
    dt_buf_finish(&record);
    end();
}

TEST(a_record_that_is_cut_anywhere_is_no_record)
{
    struct dt_buf record = {0};
    begin_running(3, 3, 3);
    dt_rdzv_save(run, &record);
    for (size_t n = 0; n < record.len; n++)
        CHECK(dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, n}, now) == NULL);
    dt_buf_finish(&record);
    end();
}

/* What was decided last did not get to the disk, and so the nodes know more than the journal. */
TEST(a_journal_that_is_older_than_the_nodes_is_put_right_by_them)
{
    struct dt_buf record = {0};
    begin_running(3, 2, 3);
    dt_rdzv_save(run, &record);
    lose(1002);
    now += DT_SECOND;
    tick();
    join(1000);
    join(1001);
    CHECK_EQ(last_round[1], 1);
    forget_told();
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    come_back(1001, false);
    come_back(1000, false);
    pass(60 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "");
    CHECK_STR(told[1], "");
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    CHECK_EQ(run->round, 1);
    CHECK_EQ(run->seats_len, 2);
    dt_buf_finish(&record);
    end();
}

/* Its nodes have been in the run, so they would be told how the one before it ended. */
TEST(a_server_started_again_does_not_take_the_next_job_for_the_last)
{
    struct dt_buf record = {0};
    begin_running(1, 1, 2);
    result(1000, true);
    CHECK_STR(told[0], "close-succeeded ");
    spec.min_nodes = 2;
    last_round[1] = -1;
    join(2001);
    CHECK(done.journalled);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    struct dt_join j = join_of(2001);
    j.claim.again = true;
    frame(2001, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    CHECK_STR(told[1], "");
    CHECK_EQ(run->members.count, 1);
    dt_buf_finish(&record);
    end();
}

TEST(an_agent_keeps_its_name_when_the_server_is_started_again)
{
    struct dt_buf record = {0};
    begin(1, 2);
    for (uint64_t id = 1000; id < 1002; id++) {
        struct dt_join j = join_of(id);
        j.node.name = "host";
        frame(id, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    }
    lose(1000);
    now += DT_SECOND;
    tick();
    join(1001);
    CHECK_STR(told[1], "world 0:1/2 stop world 1:0/1 ");
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    CHECK_STR(dt_members_find(&run->members, 1001)->name.text, "host#2");
    dt_buf_finish(&record);
    end();
}

/* Node 1 tells what is in order, or not, at a server that was started again after those events. */
TEST(what_people_were_told_before_is_over_when_it_is_so_after_a_restart)
{
    static const struct {
        enum dt_event_kind before[2]; /* SERVER_STARTED: none */
        struct dt_telemetry telemetry;
        dt_ms age; /* of the last step */
        const char *happened;
    } rows[] = {
        {{DT_EVENT_LOSS_NAN}, {.loss = "2.5"}, 1, "loss_over "},
        {{DT_EVENT_LOSS_NAN}, {.loss = "nan"}, 1, ""},
        {{DT_EVENT_LOSS_SPIKE}, {.loss = "2.5"}, 1, "loss_over "},
        {{DT_EVENT_LOSS_SPIKE, DT_EVENT_LOSS_OVER}, {.loss = "2.5"}, 1, ""},
        {{DT_EVENT_LOSS_NAN, DT_EVENT_ROUND_ENDED}, {.loss = "2.5"}, 1, ""},
        {{DT_EVENT_NO_PROGRESS}, {0}, 1, "no_progress_over "},
        {{DT_EVENT_NO_PROGRESS}, {0}, 1000 * DT_SECOND, ""},
        {{DT_EVENT_NO_PROGRESS, DT_EVENT_NO_PROGRESS_OVER}, {0}, 1, ""},
        {{DT_EVENT_DISK_LOW},
         {.disk_free_mib = 90, .disk_total_mib = 100},
         1,
         "disk_low_over/node0 "},
        {{DT_EVENT_DISK_LOW}, {.disk_total_mib = 100}, 1, ""},
        {{DT_EVENT_DISK_LOW, DT_EVENT_DISK_LOW_OVER},
         {.disk_free_mib = 90, .disk_total_mib = 100},
         1,
         ""},
        {{DT_EVENT_DISK_LOW, DT_EVENT_NODE_LOST},
         {.disk_free_mib = 90, .disk_total_mib = 100},
         1,
         ""},
        {{DT_EVENT_UPLOAD_BEHIND}, {.loss = ""}, 1, "upload_behind_over/node0 "},
        {{DT_EVENT_UPLOAD_BEHIND, DT_EVENT_RUN_BEGAN}, {.loss = ""}, 1, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_buf record = {0};
        CHECK_ROW("row %zu", i);
        begin_running(2, 2, 2);
        dt_rdzv_save(run, &record);
        dt_rdzv_destroy(run);
        now = 5000 * DT_SECOND;
        run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
        for (int k = 0; k < 2; k++)
            dt_rdzv_recall(run, &(struct dt_event){.kind = rows[i].before[k], .node = "node0"});
        come_back(1000, false);
        come_back(1001, false);
        *happened = '\0';
        struct dt_message m = {.type = DT_MSG_BEAT,
                               .beat = {.step = 7,
                                        .step_age_ms = rows[i].age,
                                        .running = 1,
                                        .telemetry = rows[i].telemetry}};
        m.beat.telemetry.number = 1;
        frame(1000, m);
        CHECK_STR(happened, rows[i].happened);
        dt_buf_finish(&record);
        end();
    }
}

TEST(spares_that_were_missing_before_a_restart_are_told_when_they_come)
{
    struct dt_buf record = {0};
    begin(2, 2);
    spec.spares = 1;
    join(1000);
    join(1001);
    CHECK(strstr(happened, "round_began spares_exhausted ") != NULL);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    dt_rdzv_recall(run, &(struct dt_event){.kind = DT_EVENT_SPARES_EXHAUSTED});
    *happened = '\0';
    tick(); /* nobody is told again */
    CHECK_STR(happened, "");
    come_back(1000, false);
    come_back(1001, false);
    join(1002);
    CHECK_STR(happened, "node_joined/node2 spares_there ");
    dt_buf_finish(&record);
    end();
}
