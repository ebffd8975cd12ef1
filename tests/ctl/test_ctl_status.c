/* SPDX-License-Identifier: Apache-2.0 */
/* What dtrun-ctl status shows. */
#include "tests/ctl/ctl_story.h"

TEST(status_says_first_how_each_run_is_and_folds_nodes_that_are_alike)
{
    struct scripted s = {.answers = (const char *const[]){one_run, NULL}};
    CHECK_EQ(ctl_at(&s, "status"), 0);
    CHECK_STR(errors, "");
    CHECK_STR(out, "run llama: running, round 4, 4 of 2:4 nodes, restarts 1 of 3\n"
                   "  for 2 h, 32 workers, master node0:29500, 1 node lost so far\n"
                   "  NODES  DOING    STATE   WORKERS  STEP       HEARD    NAMES\n"
                   "  1      parked   online  8        -          3 s ago  spare\n"
                   "  3      running  online  8        1190-1200  5 s ago  node[0-2]\n"
                   "kept out: 2, watched: 1\n"
                   "  NAME   STANDING                STRIKES  WHY\n"
                   "  node7  drained                 0        a new disk\n"
                   "  node9  quarantined for 12 min  2        Xid 79\n"
                   "  node8  on probation for 1 h    1        -\n");
    CHECK(strstr(asked(&s), "{\"type\":\"status\"}\n") != NULL);
    dt_buf_finish(&s.asked);
}

#define BEGUN(more)                                                                                \
    "{\"id\":\"a\",\"state\":\"running\",\"round\":4,\"world\":32,\"nodes\":4,\"min\":2,\"max\":"  \
    "4,"                                                                                           \
    "\"restarts\":1,\"max_restarts\":3,\"losses\":1,\"since_s\":7200,\"master\":\"\",\"why\":"     \
    "\"\"" more "}"

TEST(status_says_whose_job_it_is)
{
    static const struct {
        const char *page, *says;
    } rows[] = {
        {PAGE(BEGUN(
                  ",\"user\":\"ada\",\"script\":\"train.py\",\"job\":\"17\",\"begun_s\":1795261992,"
                  "\"begun_on\":\"node0\""),
              "", "", 0),
         "\n  begun by ada on node0, 2026-11-21 11:53:12Z: train.py, the scheduler's job 17\n"},
        {PAGE(BEGUN(",\"user\":\"a\\u001b[2J\",\"script\":\"\\u202e\",\"begun_on\":\"\\u0007\""),
              "", "", 0),
         "\n  begun by a\\x1b[2J on \\x07: \\xe2\\x80\\xae\n"},
        {PAGE(BEGUN(",\"begun_s\":9007199254740992"), "", "", 0), "  begun, 285428751-11-12"},
        {PAGE(BEGUN(""), "", "", 0), "1 node lost so far\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        struct scripted s = {.answers = (const char *const[]){rows[i].page, NULL}};
        CHECK_EQ(ctl_at(&s, "status"), 0);
        if (!strstr(out, rows[i].says))
            CHECK_STR(out, rows[i].says);
        dt_buf_finish(&s.asked);
    }
}

TEST(status_says_how_a_run_ended)
{
    struct scripted s = {
        .answers = (const char *const[]){
            PAGE(
                "{\"id\":\"a\",\"state\":\"closed\",\"round\":4,\"world\":32,\"nodes\":4,\"min\":4,"
                "\"max\":4,\"restarts\":1,\"max_restarts\":3,\"losses\":0,\"since_s\":7200,"
                "\"master\":\"\",\"why\":\"all nodes (4) have succeeded\",\"ended\":\"succeeded\"}",
                "", "", 0),
            NULL}};
    CHECK_EQ(ctl_at(&s, "status"), 0);
    CHECK_STR(out, "run a: succeeded, round 4, 4 of 4 nodes, restarts 1 of 3\n"
                   "  all nodes (4) have succeeded\n"
                   "  for 2 h, 32 workers\n");
    dt_buf_finish(&s.asked);
}

TEST(status_shows_tokens_where_somebody_tells_of_them)
{
#define FAST(name, tokens)                                                                         \
    "{\"name\":\"" name "\",\"run\":\"a\",\"state\":\"online\",\"doing\":\"running\",\"seat\":0,"  \
    "\"workers\":8,\"beat_age_s\":1,\"round\":4,\"step\":7,\"tokens_per_s\":" #tokens "}"
    struct scripted s = {
        .answers = (const char *const[]){
            PAGE(RUN("a", "running", ""),
                 FAST("n1", 18437) "," FAST("n2", 18000) "," NODE("n3", "a", "done", 3, 1, 7), "",
                 0),
            NULL}};
    CHECK_EQ(ctl_at(&s, "status"), 0);
    CHECK(strstr(out, "  NODES  DOING    STATE   WORKERS  STEP  TOKENS/S  HEARD    NAMES\n"
                      "  1      done     online  8        7     -         1 s ago  n3\n"
                      "  2      running  online  8        7     36437     1 s ago  n[1-2]\n"));
    dt_buf_finish(&s.asked);
}

TEST(status_tells_how_old_the_last_step_is)
{
#define STEPPED(name, step, age)                                                                   \
    "{\"name\":\"" name "\",\"run\":\"a\",\"state\":\"online\",\"doing\":\"running\",\"seat\":0,"  \
    "\"workers\":2,\"beat_age_s\":1,\"round\":4,\"step\":" #step ",\"step_age_s\":" #age "}"
    struct scripted s = {
        .answers = (const char *const[]){
            PAGE(RUN("a", "running", ""), STEPPED("n1", 148, 12) "," STEPPED("n2", 147, 3), "", 0),
            NULL}};
    CHECK_EQ(ctl_at(&s, "status"), 0);
    CHECK(strstr(out, "  NODES  DOING    STATE   WORKERS  STEP                HEARD    NAMES\n"
                      "  2      running  online  2        147-148 (12 s ago)  1 s ago  n[1-2]\n"));
    dt_buf_finish(&s.asked);
}

TEST(status_of_one_run_asks_for_that_run)
{
    struct scripted s = {
        .answers = (const char *const[]){
            PAGE(RUN("llama", "gathering", "waiting for node3 and 1 more"), "", "", 0), NULL}};
    CHECK_EQ(ctl_at(&s, "status llama"), 0);
    CHECK_STR(out, "run llama: gathering, round 4, 4 of 2:4 nodes, restarts 1 of 3\n"
                   "  waiting for node3 and 1 more\n"
                   "  for 2 h, 32 workers, master node0:29500, 1 node lost so far\n");
    CHECK(strstr(asked(&s), "{\"type\":\"status\",\"run\":\"llama\"}\n") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(a_run_that_is_not_there_is_a_failure)
{
    struct scripted s = {.answers = (const char *const[]){PAGE("", "", "", 0), NULL}};
    CHECK_EQ(ctl_at(&s, "status lama"), 1);
    CHECK_STR(out, "");
    CHECK(strstr(errors, "knows no run \"lama\"") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(without_runs_it_says_so)
{
    struct scripted s = {.answers = (const char *const[]){PAGE("", "", "", 0), NULL}};
    CHECK_EQ(ctl_at(&s, "status"), 0);
    CHECK_STR(out, "no runs\n");
    dt_buf_finish(&s.asked);
}

TEST(pages_are_put_together_and_a_node_that_moved_between_them_counts_once)
{
    struct scripted s = {
        .answers = (const char *const[]){
            PAGE(RUN("a", "running", ""),
                 NODE("n2", "a", "running", 2, 1, 7) "," NODE("n1", "a", "running", 1, 1, 7), "",
                 256),
            PAGE("", NODE("n2", "a", "running", 2, 1, 7) "," NODE("n10", "a", "done", 3, 1, 7), "",
                 512),
            PAGE("", "", "", 0), NULL}};
    CHECK_EQ(ctl_at(&s, "node list"), 0);
    CHECK_STR(out, "NAME  RUN  DOING    STATE   SEAT  WORKERS  ROUND  STEP  HEARD\n"
                   "n1    a    running  online  1     8        4      7     1 s ago\n"
                   "n2    a    running  online  2     8        4      7     1 s ago\n"
                   "n10   a    done     online  3     8        4      7     1 s ago\n");
    CHECK(strstr(asked(&s), "{\"type\":\"status\",\"from\":256}\n") != NULL);
    CHECK(strstr(asked(&s), "{\"type\":\"status\",\"from\":512}\n") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(pages_that_go_round_in_circles_end_with_an_error)
{
    struct scripted s = {
        .answers = (const char *const[]){PAGE("", "", "", 256), PAGE("", "", "", 256), NULL}};
    CHECK_EQ(ctl_at(&s, "status"), 1);
    CHECK(strstr(errors, "page.next: the page from 256 is followed by 256") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(a_page_that_makes_no_sense_is_named_by_its_path)
{
    struct scripted s = {
        .answers = (const char *const[]){
            PAGE("", NODE("n1", "a", "running", 0, 1, 7) ",{\"name\":7}", "", 0), NULL}};
    CHECK_EQ(ctl_at(&s, "status"), 1);
    CHECK(strstr(errors, "page.nodes[1].name: expected a string, found 7") != NULL);
    dt_buf_finish(&s.asked);
    struct scripted none = {.answers = (const char *const[]){"{\"type\":\"status\"}", NULL}};
    CHECK_EQ(ctl_at(&none, "status"), 1);
    CHECK(strstr(errors, "\"page\" is missing") != NULL);
    dt_buf_finish(&none.asked);
}

TEST(names_from_afar_do_not_reach_the_terminal_as_they_are)
{
    struct scripted s = {
        .answers = (const char *const[]){PAGE(RUN("a", "running", "bell \\u0007"),
                                              NODE("n\\u001b[2J", "a", "running", 2, 1, 7), "", 0),
                                         NULL}};
    CHECK_EQ(ctl_at(&s, "status"), 0);
    CHECK(strstr(out, "bell \\x07\n") != NULL);
    CHECK(strstr(out, "  n\\x1b[2J\n") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(nor_do_they_in_json)
{
    struct scripted s = {
        .answers = (const char *const[]){
            PAGE("", NODE("n\\u009b2J\\u202e", "a", "running", 2, 1, 7), "", 0), NULL}};
    CHECK_EQ(ctl_at(&s, "node list --json"), 0);
    CHECK(strstr(out, "\"n\\u009b2J\\u202e\"") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(json_is_the_same_as_one_object)
{
    struct scripted s = {.answers = (const char *const[]){
                             PAGE(RUN("a", "running", ""), NODE("n1", "a", "running", 2, 1, 7),
                                  EXCLUDED("node7", "a \\\"new\\\" disk", 0, 0, true, 0), 256),
                             PAGE("", NODE("n2", "a", "running", 2, 1, 7), "", 0), NULL}};
    CHECK_EQ(ctl_at(&s, "status --json"), 0);
    CHECK_STR(out, "{" SERVER ",\"runs\":[" RUN("a", "running", "") "],\"nodes\":[" NODE(
                       "n1", "a", "running", 2, 1,
                       7) "," NODE("n2", "a", "running", 2, 1,
                                   7) "],\"excluded\":[" EXCLUDED("node7", "a \\\"new\\\" disk", 0,
                                                                  0, true, 0) "]}\n");
    dt_buf_finish(&s.asked);
}
