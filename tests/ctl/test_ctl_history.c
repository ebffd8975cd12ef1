/* SPDX-License-Identifier: Apache-2.0 */
/* What dtrun-ctl history shows. */
#include "tests/ctl/ctl_story.h"

#define PAST(round, ended, lasted, lost, first, last, cause, decided)                              \
    "{\"round\":" #round ",\"ended_s\":" #ended ",\"lasted_ms\":" #lasted ",\"lost_ms\":" #lost    \
    ",\"first_step\":" #first ",\"last_step\":" #last ",\"cause\":\"" cause                        \
    "\",\"decided\":\"" decided "\"}"
#define HISTORY(runs, past)                                                                        \
    "{\"type\":\"status\",\"page\":{" SERVER ",\"runs\":[" runs "],\"nodes\":[],\"excluded\":[],"  \
    "\"history\":[" past "],\"next\":0}}"
#define TWO_ROUNDS                                                                                 \
    PAST(0, 1763856405, 20000, 300, 40, 52, "node1: rank 3 crashed", "restart 1 of 3")             \
    "," PAST(1, 0, 90000, -1, 48, 60, "node0 leaves \\u001b[2J", "")

TEST(history_shows_each_round_with_its_cause_and_what_it_cost)
{
    struct scripted s = {
        .answers = (const char *const[]){HISTORY(RUN("llama", "running", ""), TWO_ROUNDS), NULL}};
    CHECK_EQ(ctl_at(&s, "history llama"), 0);
    CHECK(strstr(asked(&s), "{\"type\":\"status\",\"run\":\"llama\",\"history\":true}\n"));
    CHECK_STR(
        out, "ROUND  ENDED                 LASTED   STEPS  LOST             DECIDED         CAUSE\n"
             "0      2025-11-23 00:06:45Z  20 s     40-52  300 ms, 4 steps  restart 1 of 3  node1: "
             "rank 3 crashed\n"
             "1      -                     1.5 min  48-60  -                -               node0 "
             "leaves \\x1b[2J\n");
    dt_buf_finish(&s.asked);
}

TEST(history_as_json_is_as_it_came)
{
    struct scripted s = {
        .answers = (const char *const[]){
            HISTORY(RUN("llama", "running", ""), PAST(0, 1, 2, 3, 4, 5, "c", "d")), NULL}};
    CHECK_EQ(ctl_at(&s, "history llama --json"), 0);
    CHECK_STR(out, "{\"history\":[" PAST(0, 1, 2, 3, 4, 5, "c", "d") "]}\n");
    dt_buf_finish(&s.asked);
}

TEST(history_of_what_is_not_there_is_a_failure)
{
    static const struct {
        const char *answer, *words;
        int status;
    } rows[] = {
        {HISTORY("", ""), "knows no run \"llama\"", 1},
        {PAGE(RUN("llama", "running", ""), "", "", 0), "this rendezvous is of an older version", 1},
        {HISTORY(RUN("llama", "running", ""), "{\"round\":-1}"), "history[0].round", 1},
        {HISTORY(RUN("llama", "running", ""), ""), "", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scripted s = {.answers = (const char *const[]){rows[i].answer, NULL}};
        CHECK_ROW("%zu", i);
        CHECK_EQ(ctl_at(&s, "history llama"), rows[i].status);
        CHECK(strstr(errors, rows[i].words) != NULL);
        CHECK_STR(out, rows[i].status ? "" : "no round of this run is over\n");
        dt_buf_finish(&s.asked);
    }
}
