/* SPDX-License-Identifier: Apache-2.0 */
/* What people are told of what nodes tell with their beats. */
#include "tests/rendezvous/rdzv_story.h"

#define GIB 1024 /* MiB */

/* Node I, which has a seat, tells T at STEP, which was new AGE ago. */
static void tell(int i, int64_t at_step, dt_ms age, struct dt_telemetry t)
{
    t.number = 1;
    frame(1000 + (uint64_t)i,
          (struct dt_message){
              .type = DT_MSG_BEAT,
              .round = last_round[i],
              .beat = {.step = at_step, .step_age_ms = age, .running = 1, .telemetry = t}});
}

static void tell_rate(int i, int64_t tokens_per_s)
{
    frame(1000 + (uint64_t)i,
          (struct dt_message){.type = DT_MSG_BEAT,
                              .round = last_round[i],
                              .beat = {.step = 1, .running = 1, .tokens_per_s = tokens_per_s}});
}

static void two_run(void)
{
    begin_running(2, 2, 2);
    *happened = '\0';
}

TEST(a_loss_of_nan_is_told_once_and_when_it_is_over)
{
    two_run();
    tell(0, 1, 1, (struct dt_telemetry){.loss = "2.5"});
    tell(1, 1, 1, (struct dt_telemetry){.loss = "nan"}); /* the node of rank 0 speaks for all */
    CHECK_STR(happened, "");
    tell(0, 2, 1, (struct dt_telemetry){.loss = "nan"});
    tell(0, 3, 1, (struct dt_telemetry){.loss = "nan"});
    tell(0, 3, 1, (struct dt_telemetry){.loss = ""});
    CHECK_STR(happened, "loss_nan ");
    tell(0, 4, 1, (struct dt_telemetry){.loss = "2.5"});
    CHECK_STR(happened, "loss_nan loss_over ");
    end();
}

TEST(a_loss_that_spikes_is_told)
{
    two_run();
    for (int i = 0; i < 40; i++)
        tell(0, i, 1, (struct dt_telemetry){.loss = i % 2 ? "2.1" : "1.9"});
    tell(0, 41, 1, (struct dt_telemetry){.loss = "9"});
    tell(0, 41, 1, (struct dt_telemetry){.loss = "9", .gpus = 1}); /* the same step */
    CHECK_STR(happened, "");
    tell(0, 42, 1, (struct dt_telemetry){.loss = "9.5"});
    CHECK_STR(happened, "loss_spike ");
    tell(0, 43, 1, (struct dt_telemetry){.loss = "2"});
    CHECK_STR(happened, "loss_spike loss_over ");
    end();
}

TEST(a_job_without_a_step_for_long_is_told_of_though_one_node_lags)
{
    two_run();
    tell(0, 7, 899 * DT_SECOND, (struct dt_telemetry){0});
    tell(1, 5, 5000 * DT_SECOND, (struct dt_telemetry){0});
    CHECK_STR(happened, "");
    tell(0, 7, 901 * DT_SECOND, (struct dt_telemetry){0});
    CHECK_STR(happened, ""); /* its own clock counts for what it said before */
    now += 2 * DT_SECOND;
    tell(0, 7, 901 * DT_SECOND, (struct dt_telemetry){0});
    tell(1, 5, 5002 * DT_SECOND, (struct dt_telemetry){0});
    CHECK_STR(happened, "no_progress ");
    tell(1, 6, 1, (struct dt_telemetry){0});
    CHECK_STR(happened, "no_progress no_progress_over ");
    end();
}

TEST(disks_are_told_when_one_is_almost_full_and_when_none_is)
{
    static const struct {
        int node;
        int64_t free, total; /* GiB */
        const char *happened;
    } rows[] = {
        {0, 51, 1000, ""},
        {0, 49, 1000, "disk_low/node0 "},
        {0, 60, 1000, ""},
        {1, 99, 9000, "disk_low/node1 "},
        {0, 0, 0, ""}, /* it does not know */
        {0, 75, 1000, ""},
        {1, 149, 9000, ""},
        {1, 150, 9000, "disk_low_over/node1 "},
        {1, 101, 9000, ""},
    };
    two_run();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        *happened = '\0';
        tell(rows[i].node, 1, 1,
             (struct dt_telemetry){.disk = "/logs",
                                   .disk_free_mib = rows[i].free * GIB,
                                   .disk_total_mib = rows[i].total * GIB});
        CHECK_STR(happened, rows[i].happened);
    }
    end();
}

TEST(a_node_that_goes_takes_its_troubles_with_it)
{
    two_run();
    tell(1, 1, 1,
         (struct dt_telemetry){
             .disk = "/", .disk_free_mib = 1, .disk_total_mib = GIB, .upload_behind_s = 1800});
    CHECK_STR(happened, "disk_low/node1 upload_behind/node1 ");
    *happened = '\0';
    frame(1001, (struct dt_message){.type = DT_MSG_LEAVE, .round = last_round[1], .why = "bye"});
    CHECK(strstr(happened, "disk_low_over/node1 upload_behind_over/node1 ") != NULL);
    end();
}

TEST(nodes_of_a_round_that_is_none_take_their_troubles_with_them)
{
    two_run();
    tell(1, 1, 1, (struct dt_telemetry){.disk = "/", .disk_free_mib = 1, .disk_total_mib = GIB});
    CHECK_STR(happened, "disk_low/node1 ");
    *happened = '\0';
    last_round[0] = 3; /* of a server that knew more than this one */
    come_back(1000, false);
    CHECK_STR(told[1], "stale ");
    CHECK_STR(happened, "disk_low_over/node1 run_learnt/node0 node_back/node0 ");
    end();
}

TEST(uploads_that_keep_up_are_told_after_some_that_did_not)
{
    static const struct {
        int64_t behind;
        const char *happened;
    } rows[] = {{1799, ""}, {1800, "upload_behind/node0 "},     {9000, ""}, {1500, ""},
                {900, ""},  {899, "upload_behind_over/node0 "}, {1799, ""}};
    two_run();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        *happened = '\0';
        tell(0, 1, 1, (struct dt_telemetry){.upload_behind_s = rows[i].behind});
        CHECK_STR(happened, rows[i].happened);
    }
    end();
}

TEST(rates_of_nodes_are_added_up_to_the_most_that_can_be_told)
{
    static const struct {
        int64_t first, second, sum;
    } rows[] = {{0, 0, 0},
                {30, 12, 42},
                {DT_FIELD_WHOLE_MAX - 1, 1, DT_FIELD_WHOLE_MAX},
                {DT_FIELD_WHOLE_MAX, DT_FIELD_WHOLE_MAX, DT_FIELD_WHOLE_MAX}};
    two_run();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_training t;
        CHECK_ROW("row %zu", i);
        tell_rate(0, rows[i].first);
        tell_rate(1, rows[i].second);
        dt_rdzv_training(run, &t);
        CHECK_EQ(t.tokens_per_s, rows[i].sum);
    }
    end();
}
