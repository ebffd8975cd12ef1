/* SPDX-License-Identifier: Apache-2.0 */
/* The real dtrun-ctl ($DT_CTL) against a stand-in for a rendezvous: what it asks, what it prints,
 * how it exits. */
#include "base/fs.h"
#include "base/user.h"
#include "rendezvous/protocol/warrant.h"
#include "tests/lib/folder.h"
#include "tests/lib/scripted.h"

#include <sys/stat.h>
#include <sys/wait.h>

BEFORE_ALL
{
    folder_make();
    if (!getenv("DT_CTL"))
        SKIP("DT_CTL does not name the program");
    unsetenv("DTRUN_RENDEZVOUS");
}

static char out[16384], errors[4096];

static void read_into(const char *path, char *text, size_t size)
{
    struct dt_buf b = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_fs_read(path, size - 1, &b, &err), err);
    snprintf(text, size, "%s", dt_buf_cstr(&b));
    dt_buf_finish(&b);
}

/* Its exit status; `out` and `errors` have what it said. */
static int ctl_with(const char *args)
{
    char line[1024];
    snprintf(line, sizeof line, "\"$DT_CTL\" --timeout 20 %s >'%s' 2>'%s'", args, at("out"),
             at("errors"));
    int status = system(line);
    read_into(at("out"), out, sizeof out);
    read_into(at("errors"), errors, sizeof errors);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int ctl(const char *addr, const char *args)
{
    char line[512];
    snprintf(line, sizeof line, "--endpoint '%s' %s", addr, args);
    return ctl_with(line);
}

/* The same with S serving. */
static int ctl_at(struct scripted *s, const char *args)
{
    scripted_start(s);
    int status = ctl(s->addr, args);
    scripted_stop(s);
    return status;
}

static const char *asked(struct scripted *s)
{
    return dt_buf_cstr(&s->asked);
}

/* -- status ----------------------------------------------------------------------------------- */

#define SERVER "\"server\":{\"host\":\"daemon\",\"version\":\"0.4\"}"
#define RUN(id, state, why)                                                                        \
    "{\"id\":\"" id "\",\"state\":\"" state "\",\"round\":4,\"world\":32,\"nodes\":4,\"min\":2,"   \
    "\"max\":4,\"restarts\":1,\"max_restarts\":3,\"losses\":1,\"since_s\":7200,"                   \
    "\"master\":\"node0:29500\",\"why\":\"" why "\"}"
#define NODE(name, run, doing, seat, age, step)                                                    \
    "{\"name\":\"" name "\",\"run\":\"" run "\",\"state\":\"online\",\"doing\":\"" doing "\","     \
    "\"seat\":" #seat ",\"workers\":8,\"beat_age_s\":" #age ",\"round\":4,\"step\":" #step "}"
#define EXCLUDED(name, why, until, strikes, drained, probation)                                    \
    "{\"name\":\"" name "\",\"why\":\"" why "\",\"until_s\":" #until ",\"strikes\":" #strikes ","  \
    "\"drained\":" #drained ",\"probation_s\":" #probation "}"
#define PAGE(runs, nodes, excluded, next)                                                          \
    "{\"type\":\"status\",\"page\":{" SERVER ",\"runs\":[" runs "],\"nodes\":[" nodes "],"         \
    "\"excluded\":[" excluded "],\"next\":" #next "}}"

static const char one_run[] =
    PAGE(RUN("llama", "running", ""),
         NODE("node0", "llama", "running", 0, 2,
              1200) "," NODE("node2", "llama", "running", 2, 5,
                             1190) "," NODE("node1", "llama", "running", 1, 1,
                                            1200) "," NODE("spare", "llama", "parked", -1, 3, -1),
         EXCLUDED("node7", "a new disk", 0, 0, true, 0) "," EXCLUDED(
             "node9", "Xid 79", 720, 2, false, 0) "," EXCLUDED("node8", "", 0, 1, false, 3600),
         0);

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

TEST(runs_are_listed_a_line_each)
{
#define LISTED(id, state, more)                                                                    \
    "{\"id\":\"" id "\",\"state\":\"" state "\",\"round\":4,\"world\":32,\"nodes\":3,\"min\":2,"   \
    "\"max\":4,\"restarts\":1,\"max_restarts\":3,\"losses\":1,\"since_s\":7200,"                   \
    "\"master\":\"\",\"why\":\"\"" more "}"
    static const char page[] = PAGE(
        LISTED("llama", "running", ",\"user\":\"ada\",\"step\":1200") "," LISTED(
            "b", "gathering",
            ",\"paused\":true") "," LISTED("c", "closed",
                                           ",\"ended\":\"stopped\"") "," RUN("d", "running", ""),
        "", "", 0);
    struct scripted s = {.answers = (const char *const[]){page, NULL}};
    CHECK_EQ(ctl_at(&s, "run list"), 0);
    CHECK_STR(out, "RUN    STATE    FOR  NODES     STEP  USER\n"
                   "llama  running  2 h  3 of 2:4  1200  ada\n"
                   "b      paused   2 h  3 of 2:4  -     -\n"
                   "c      stopped  2 h  3 of 2:4  -     -\n"
                   "d      running  2 h  4 of 2:4  -     -\n");
    dt_buf_finish(&s.asked);
    struct scripted json = {.answers = (const char *const[]){page, NULL}};
    CHECK_EQ(ctl_at(&json, "run list --json"), 0);
    CHECK(strstr(out, "{\"runs\":[{\"id\":\"llama\",") == out);
    CHECK(strstr(out, "\"ended\":\"stopped\"") != NULL);
    dt_buf_finish(&json.asked);
    /* However many nodes there are, it asks once. */
    struct scripted many = {
        .answers = (const char *const[]){PAGE(RUN("llama", "running", ""), "", "", 256), NULL}};
    CHECK_EQ(ctl_at(&many, "run list -q"), 0);
    CHECK_STR(out, "llama\n");
    dt_buf_finish(&many.asked);
    struct scripted none = {.answers = (const char *const[]){PAGE("", "", "", 0), NULL}};
    CHECK_EQ(ctl_at(&none, "run list"), 0);
    CHECK_STR(out, "no runs\n");
    dt_buf_finish(&none.asked);
}

TEST(names_alone_are_for_programs)
{
    static const char page[] =
        PAGE(RUN("llama", "running", "") "," RUN("b\\u001b c", "running", ""),
             NODE("n1", "llama", "running", 0, 2, 7) "," NODE("n2", "llama", "running", 1, 2, 7),
             EXCLUDED("node7", "", 0, 0, true, 0), 0);
    static const struct {
        const char *args, *says;
    } rows[] = {
        {"run list -q", "llama\nb\\x1b c\n"},
        {"node list --quiet", "n1\nn2\n"},
        {"node list -q --quarantined", "node7\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].args);
        struct scripted s = {.answers = (const char *const[]){page, NULL}};
        CHECK_EQ(ctl_at(&s, rows[i].args), 0);
        CHECK_STR(out, rows[i].says);
        dt_buf_finish(&s.asked);
    }
    struct scripted none = {.answers = (const char *const[]){PAGE("", "", "", 0), NULL}};
    CHECK_EQ(ctl_at(&none, "run list -q"), 0);
    CHECK_STR(out, "");
    dt_buf_finish(&none.asked);
}

/* -- look ------------------------------------------------------------------------------------- */

#define WAITS                                                                                      \
    "{\"ranks\":[{\"first\":0,\"last\":1},{\"first\":3,\"last\":5}],\"doing\":\"collective\","     \
    "\"where\":\"train.py:11\",\"function\":\"train\",\"collective\":\"all_reduce\","              \
    "\"sequence\":7,\"step\":8,\"still_ms\":2000}"
#define SLEEPS                                                                                     \
    "{\"ranks\":[{\"first\":2,\"last\":2}],\"doing\":\"sleep\",\"where\":\"train.py:5\","          \
    "\"function\":\"load_batch\",\"sequence\":-1,\"step\":-1,\"still_ms\":0}"
#define LOOK(silent, count, stances)                                                               \
    "{\"type\":\"stances\",\"run\":\"a\",\"page\":{\"round\":4,\"size\":6,\"standstill\":\"\","    \
    "\"silent\":[" silent "],\"silent_nodes\":" #count ",\"stances\":[" stances "]}}"

TEST(look_shows_ranks_that_do_the_same_on_one_line)
{
    struct scripted s = {.answers = (const char *const[]){LOOK("", 0, WAITS "," SLEEPS), NULL}};
    CHECK_EQ(ctl_at(&s, "look a"), 0);
    CHECK_STR(errors, "");
    CHECK_STR(out, "ranks 0, 1 and 3 to 5: all_reduce train.py:11\n"
                   "rank 2: load_batch train.py:5 (sleeps)\n");
    CHECK(strstr(asked(&s), "{\"type\":\"stances\",\"run\":\"a\"}\n") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(look_shows_the_ranks_that_were_asked_for)
{
    struct scripted s = {.answers = (const char *const[]){LOOK("", 0, WAITS "," SLEEPS), NULL}};
    CHECK_EQ(ctl_at(&s, "look a 2-3 5"), 0);
    CHECK_STR(out, "rank 2: load_batch train.py:5 (sleeps)\n"
                   "ranks 3 and 5: all_reduce train.py:11\n");
    dt_buf_finish(&s.asked);
}

TEST(look_names_who_did_not_answer_and_fails_then)
{
    struct scripted s = {.answers = (const char *const[]){
                             LOOK("{\"name\":\"n3\"},{\"name\":\"n4\"}", 2, SLEEPS), NULL}};
    CHECK_EQ(ctl_at(&s, "look a"), 1);
    CHECK(strstr(out, "ranks 0, 1 and 3 to 5: (cannot be looked at)\n") != NULL);
    CHECK_STR(errors, "dtrun-ctl: no answer from n3 and 1 more node; --json has their names\n");
    dt_buf_finish(&s.asked);
}

TEST(look_says_where_an_older_rendezvous_has_no_c_code_to_tell)
{
    struct scripted s = {.answers = (const char *const[]){LOOK("", 0, WAITS "," SLEEPS), NULL}};
    CHECK_EQ(ctl_at(&s, "look a --native"), 1);
    CHECK(strstr(out, "rank 2: load_batch train.py:5 (sleeps)\n") != NULL);
    CHECK(strstr(errors, " is of an older dtrun, which has no calls of C code to tell; ") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(look_as_json_has_all_of_it)
{
    struct scripted s = {.answers =
                             (const char *const[]){LOOK("{\"name\":\"n3\"}", 1, SLEEPS), NULL}};
    CHECK_EQ(ctl_at(&s, "--json look a 2"), 1);
    CHECK_STR(out, "{\"run\":\"a\",\"round\":4,\"size\":6,\"standstill\":\"\","
                   "\"silent\":[{\"name\":\"n3\"}],\"silent_nodes\":1,\"stances\":[" SLEEPS "]}\n");
    dt_buf_finish(&s.asked);
}

TEST(look_asks_nothing_of_a_rendezvous_that_cannot)
{
    struct scripted s = {.is_older = true, .answers = (const char *const[]){NULL}};
    CHECK_EQ(ctl_at(&s, "look a"), 1);
    CHECK(strstr(errors, "is of an older dtrun, which cannot look at workers; install this one"));
    CHECK(strstr(asked(&s), "stances") == NULL);
    dt_buf_finish(&s.asked);
}

TEST(what_look_cannot_show_is_said)
{
    static const struct {
        const char *answer, *args, *words;
    } rows[] = {
        {"{\"type\":\"stances\",\"why\":\"run a is closed\"}", "look a", "run a is closed"},
        {LOOK("", 0, ""), "look a 3-6", "run \"a\" has no rank 6; its ranks are 0 to 5"},
        {"{\"type\":\"stances\"}", "look a",
         "the rendezvous' answer makes no sense: the document: \"page\" is missing"},
        {"{\"type\":\"refused\",\"why\":\"no message stances\"}", "look a",
         "it refused: no message"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].answer);
        struct scripted s = {.answers = (const char *const[]){rows[i].answer, NULL}};
        CHECK_EQ(ctl_at(&s, rows[i].args), 1);
        CHECK(strstr(errors, rows[i].words) != NULL);
        CHECK_STR(out, "");
        dt_buf_finish(&s.asked);
    }
}

/* -- node list -------------------------------------------------------------------------------- */

/* -- history ---------------------------------------------------------------------------------- */

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

TEST(quarantined_nodes_are_listed_with_the_reason)
{
    struct scripted s = {.answers = (const char *const[]){one_run, NULL}};
    CHECK_EQ(ctl_at(&s, "node list --quarantined"), 0);
    CHECK_STR(out, "kept out: 2, watched: 1\n"
                   "  NAME   STANDING                STRIKES  WHY\n"
                   "  node7  drained                 0        a new disk\n"
                   "  node9  quarantined for 12 min  2        Xid 79\n"
                   "  node8  on probation for 1 h    1        -\n");
    dt_buf_finish(&s.asked);
    struct scripted none = {.answers = (const char *const[]){PAGE("", "", "", 0), NULL}};
    CHECK_EQ(ctl_at(&none, "node list --quarantined"), 0);
    CHECK_STR(out, "no node is kept out or watched\n");
    dt_buf_finish(&none.asked);
}

TEST(node_list_speaks_json_too)
{
    struct scripted s = {.answers = (const char *const[]){one_run, NULL}};
    CHECK_EQ(ctl_at(&s, "node list --json --quarantined"), 0);
    CHECK(strstr(out, "{\"excluded\":[{\"name\":\"node7\"") == out);
    dt_buf_finish(&s.asked);
    struct scripted none = {.answers = (const char *const[]){PAGE("", "", "", 0), NULL}};
    CHECK_EQ(ctl_at(&none, "node list --json"), 0);
    CHECK_STR(out, "{\"nodes\":[]}\n");
    dt_buf_finish(&none.asked);
}

/* -- node drain ------------------------------------------------------------------------------- */

/* Whether that was said, by the user of this process. */
static bool wished(struct scripted *s, const char *type, const char *run, const char *rest)
{
    char line[512], user[DT_USER_MAX];
    snprintf(line, sizeof line, "{\"type\":\"%s\"%s,\"user\":\"%s\"%s}\n", type, run,
             dt_user_name(user), rest);
    return strstr(asked(s), line) != NULL;
}

TEST(a_node_is_drained_for_a_reason)
{
    struct scripted s = {
        .answers = (const char *const[]){
            "{\"type\":\"drain\",\"done\":true,\"why\":\"node7 is drained\"}", NULL}};
    CHECK_EQ(ctl_at(&s, "node drain node7 --why 'a new disk'"), 0);
    CHECK_STR(out, "node7 is drained\n");
    CHECK(wished(&s, "drain", "", ",\"node\":\"node7\",\"why\":\"a new disk\""));
    dt_buf_finish(&s.asked);
}

TEST(and_let_back)
{
    struct scripted s = {
        .answers = (const char *const[]){
            "{\"type\":\"drain\",\"done\":true,\"why\":\"node7 may come back\"}", NULL}};
    CHECK_EQ(ctl_at(&s, "node undrain node7 --json"), 0);
    CHECK_STR(out, "{\"node\":\"node7\",\"done\":true,\"why\":\"node7 may come back\"}\n");
    CHECK(wished(&s, "drain", "", ",\"node\":\"node7\",\"undo\":true"));
    dt_buf_finish(&s.asked);
}

TEST(and_all_at_once)
{
    struct scripted s = {.answers = (const char *const[]){
                             "{\"type\":\"drain\",\"done\":true,\"why\":\"12 came back\"}", NULL}};
    CHECK_EQ(ctl_at(&s, "node undrain --all"), 0);
    CHECK_STR(out, "12 came back\n");
    CHECK(wished(&s, "drain", "", ",\"undo\":true"));
    dt_buf_finish(&s.asked);
}

TEST(what_could_not_be_done_is_a_failure)
{
    struct scripted s = {.answers = (const char *const[]){
                             "{\"type\":\"drain\",\"why\":\"it was not drained\"}", NULL}};
    CHECK_EQ(ctl_at(&s, "node undrain node7"), 1);
    CHECK_STR(out, "");
    CHECK_STR(errors, "dtrun-ctl: node7: not done: it was not drained\n");
    dt_buf_finish(&s.asked);
}

TEST(a_run_is_paused_and_goes_on)
{
    struct scripted s = {.answers = (const char *const[]){
                             "{\"type\":\"pause\",\"done\":true,\"why\":\"it is paused\"}", NULL}};
    CHECK_EQ(ctl_at(&s, "run pause llama --why 'the roof leaks'"), 0);
    CHECK_STR(out, "it is paused\n");
    CHECK(wished(&s, "pause", ",\"run\":\"llama\"", ",\"why\":\"the roof leaks\""));
    dt_buf_finish(&s.asked);
    struct scripted none = {.answers = (const char *const[]){
                                "{\"type\":\"pause\",\"why\":\"there is no such run\"}", NULL}};
    CHECK_EQ(ctl_at(&none, "run resume llama --json"), 1);
    CHECK_STR(out, "{\"run\":\"llama\",\"done\":false,\"why\":\"there is no such run\"}\n");
    CHECK_STR(errors, "dtrun-ctl: llama: not done: there is no such run\n");
    CHECK(wished(&none, "pause", ",\"run\":\"llama\"", ",\"undo\":true"));
    dt_buf_finish(&none.asked);
}

TEST(a_run_is_stopped_or_restarted_for_a_reason)
{
    struct scripted s = {.answers = (const char *const[]){
                             "{\"type\":\"stop_run\",\"done\":true,\"why\":\"it ends\"}", NULL}};
    CHECK_EQ(ctl_at(&s, "run stop llama --why 'a demo'"), 0);
    CHECK_STR(out, "it ends\n");
    CHECK(wished(&s, "stop_run", ",\"run\":\"llama\"", ",\"why\":\"a demo\""));
    dt_buf_finish(&s.asked);
    struct scripted again = {
        .answers = (const char *const[]){
            "{\"type\":\"restart_run\",\"why\":\"none of its workers runs now\"}", NULL}};
    CHECK_EQ(ctl_at(&again, "run restart llama"), 1);
    CHECK_STR(errors, "dtrun-ctl: llama: not done: none of its workers runs now\n");
    CHECK(wished(&again, "restart_run", ",\"run\":\"llama\"", ""));
    dt_buf_finish(&again.asked);
}

/* -- run wait --------------------------------------------------------------------------------- */

#define EVENTS(events, last)                                                                       \
    "{\"type\":\"events\",\"run\":\"a\",\"page\":{\"events\":[" events "],\"last\":" #last         \
    ",\"newest\":" #last ",\"missed\":0}}"
#define EVENT(kind, words)                                                                         \
    "{\"number\":8,\"time\":\"2026-11-23T07:00:00.000000Z\",\"kind\":\"" kind                      \
    "\",\"weight\":\"info\",\"run\":\"a\",\"words\":\"" words "\"}"
#define SEEN(runs)                                                                                 \
    "{\"type\":\"status\",\"page\":{" SERVER ",\"runs\":[" runs "],\"nodes\":[],"                  \
    "\"excluded\":[],\"history\":[],\"next\":0}}"
#define CLOSED(how)                                                                                \
    "{\"id\":\"a\",\"state\":\"closed\",\"round\":4,\"world\":32,\"nodes\":4,\"min\":2,"           \
    "\"max\":4,\"restarts\":1,\"max_restarts\":3,\"losses\":1,\"since_s\":7200,"                   \
    "\"master\":\"\",\"why\":\"it is over\",\"ended\":\"" how "\"}"

TEST(who_waits_for_a_run_learns_how_it_ended)
{
    static const struct {
        const char *answers[6];
        int status;
        const char *out, *errors;
    } rows[] = {
        /* It is over already. */
        {{EVENTS("", 7), SEEN(CLOSED("succeeded"))}, 0, "run a: succeeded: it is over\n", ""},
        {{EVENTS("", 7), SEEN(CLOSED("no_progress"))},
         1,
         "run a: no_progress: it is over\n",
         "run a did not end well: no_progress"},
        /* It ends while it is waited for. */
        {{EVENTS("", 7), SEEN(RUN("a", "running", "")), EVENTS(EVENT("node_lost", "x"), 8),
          SEEN(RUN("a", "running", "")), EVENTS(EVENT("run_stopped", "closed: by ada"), 9),
          SEEN(CLOSED("stopped"))},
         1,
         "run a: stopped: it is over\n",
         "did not end well: stopped"},
        /* The event is the last that an agent says. */
        {{EVENTS("", 7), SEEN(RUN("a", "running", "")),
          EVENTS(EVENT("run_ended_well", "closed: all have succeeded"), 8)},
         0,
         "run a: succeeded: all have succeeded\n",
         ""},
        /* The last of its nodes has left. */
        {{EVENTS("", 7), SEEN(RUN("a", "running", "")), EVENTS(EVENT("node_left", "x"), 8),
          SEEN("")},
         1,
         "run a: deserted: all its nodes have left\n",
         "did not end well"},
        {{EVENTS("", 7), SEEN("")}, 1, "", "knows no run \"a\""},
        {{EVENTS("{}", 7)}, 1, "", "events make no sense"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        const char *answers[7] = {0};
        memcpy(answers, rows[i].answers, sizeof rows[i].answers);
        struct scripted s = {.answers = answers};
        CHECK_EQ(ctl_at(&s, "run wait a"), rows[i].status);
        CHECK_STR(out, rows[i].out);
        CHECK(strstr(errors, rows[i].errors) != NULL);
        dt_buf_finish(&s.asked);
    }
}

TEST(who_waits_asks_for_what_happens_to_that_run)
{
    struct scripted s = {.answers =
                             (const char *const[]){EVENTS("", 7), SEEN(RUN("a", "running", "")),
                                                   EVENTS(EVENT("run_ended_well", "x"), 8), NULL}};
    CHECK_EQ(ctl_at(&s, "run wait a --json"), 0);
    CHECK_STR(out, "{\"run\":\"a\",\"ended\":\"succeeded\",\"why\":\"x\"}\n");
    CHECK(strstr(asked(&s), "\"run\":\"a\",\"after\":7,\"follow\":true}\n") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(a_checkpoint_is_asked_for)
{
    struct scripted s = {.answers = (const char *const[]){
                             "{\"type\":\"save\",\"done\":true,\"why\":\"2 of 2 nodes\"}", NULL}};
    CHECK_EQ(ctl_at(&s, "run save llama"), 0);
    CHECK_STR(out, "2 of 2 nodes\n");
    CHECK(wished(&s, "save", ",\"run\":\"llama\"", ""));
    dt_buf_finish(&s.asked);
}

/* -- what goes wrong before ------------------------------------------------------------------- */

static const char *token_file(const char *text, mode_t mode)
{
    const char *path = at("token");
    struct dt_err err = {0};
    unlink(path);
    CHECK_OK(dt_fs_replace(path, text, strlen(text), mode, &err), err);
    CHECK_EQ(chmod(path, mode), 0);
    return path;
}

static int ctl_with_token(struct scripted *s, const char *text, mode_t mode)
{
    char args[600];
    snprintf(args, sizeof args, "status --token-file '%s'", token_file(text, mode));
    return ctl_at(s, args);
}

TEST(a_token_from_a_file_opens_the_door)
{
#ifndef DT_WITH_SODIUM
    SKIP("built without libsodium");
#endif
    struct scripted s = {.token = "sesame",
                         .answers = (const char *const[]){PAGE("", "", "", 0), NULL}};
    CHECK_EQ(ctl_with_token(&s, "sesame\n", 0600), 0);
    CHECK_STR(errors, "");
    CHECK_STR(out, "no runs\n");
    dt_buf_finish(&s.asked);
}

/* A member of the last request. */
static const char *last_member(struct scripted *s, const char *name, char value[256])
{
    char text[64];
    snprintf(text, sizeof text, "\"%s\":\"", name);
    const char *at = asked(s), *last = "";
    while ((at = strstr(at, text)))
        last = at += strlen(text);
    snprintf(value, 256, "%.*s", (int)strcspn(last, "\""), last);
    return value;
}

TEST(the_token_of_a_run_or_of_the_operator_signs_what_is_wished)
{
    static const struct {
        const char *option, *command, *run;
        bool signs;
    } rows[] = {
        {"--run-token-file", "run save llama", "llama", true},
        {"--run-token-file", "run pause llama", "llama", true},
        {"--run-token-file", "run stop llama", "llama", true},
        {"--operator-token-file", "run pause llama", NULL, true},
        {"--operator-token-file", "run restart llama", NULL, true},
        {"--operator-token-file", "node drain node7", NULL, true},
        {"--run-token-file", "node drain node7", NULL, false}, /* which run's? */
    };
    struct dt_err err;
    const struct dt_proof_table *lib = dt_proof_open(&err);
    const struct dt_token token = {.secret = "a secret of the test", .len = 20};
    if (!lib)
        SKIP("%s", err.text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char args[600], value[256], key[DT_WARRANT_KEY];
        CHECK_ROW("%s %s", rows[i].option, rows[i].command);
        struct scripted s = {.answers = (const char *const[]){"{\"type\":\"refused\"}", NULL}};
        snprintf(args, sizeof args, "%s %s '%s'", rows[i].command, rows[i].option,
                 token_file("a secret of the test\n", 0600));
        ctl_at(&s, args);
        dt_warrant_key(lib, &token, rows[i].run, key);
        CHECK_STR(last_member(&s, "key", value), rows[i].signs ? key : "");
        CHECK_EQ(strlen(last_member(&s, "signature", value)), rows[i].signs ? 128 : 0);
        CHECK(!strstr(asked(&s), "a secret"));
        dt_buf_finish(&s.asked);
    }
}

TEST(who_asks_where_nobody_is_hears_how_to_ask_elsewhere)
{
    CHECK_EQ(ctl("127.0.0.1:1", "status"), 1);
    CHECK(strstr(errors, "cannot connect: Connection refused; is a rendezvous running there?") !=
          NULL);
    CHECK(strstr(errors, "--endpoint") != NULL);
}

TEST(another_token_is_refused)
{
#ifndef DT_WITH_SODIUM
    SKIP("built without libsodium");
#endif
    struct scripted s = {.token = "sesame"};
    CHECK_EQ(ctl_with_token(&s, "barley\n", 0600), 1);
    CHECK(strstr(errors, "it refused: that is another token") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(a_token_that_others_may_read_is_not_used)
{
    char args[600];
    snprintf(args, sizeof args, "status --token-file '%s'", token_file("sesame", 0644));
    CHECK_EQ(ctl("127.0.0.1:1", args), 2);
    CHECK(strstr(errors, "chmod o-rwx") != NULL);
}

TEST(a_token_that_is_wanted_must_be_given)
{
    struct scripted s = {.token = "sesame"};
    CHECK_EQ(ctl_at(&s, "status"), 1);
    CHECK(strstr(errors, "it asks for a token; give --token-file") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(another_version_garbage_and_a_server_that_goes_are_told_apart)
{
    struct scripted other = {.version = 9};
    CHECK_EQ(ctl_at(&other, "status"), 1);
    CHECK(strstr(errors, "it speaks version 9 of the control protocol") != NULL);
    dt_buf_finish(&other.asked);
    struct scripted garbage = {.raw = "HTTP/1.1 400", .raw_len = 12};
    CHECK_EQ(ctl_at(&garbage, "status"), 1);
    CHECK(strstr(errors, "it did not answer as a rendezvous of dtrun does") != NULL);
    dt_buf_finish(&garbage.asked);
    struct scripted gone = {0};
    CHECK_EQ(ctl_at(&gone, "status"), 1);
    CHECK(strstr(errors, "connection") != NULL);
    dt_buf_finish(&gone.asked);
    CHECK_STR(out, "");
}

TEST(the_environment_says_where_to_ask)
{
    struct scripted s = {.answers = (const char *const[]){one_run, NULL}};
    scripted_start(&s);
    setenv("DTRUN_RENDEZVOUS", s.addr, 1);
    CHECK_EQ(ctl_with("status"), 0);
    scripted_stop(&s);
    CHECK(strstr(out, "run llama: running") != NULL);
    dt_buf_finish(&s.asked);
    setenv("DTRUN_RENDEZVOUS", "unix:/nowhere/socket", 1);
    CHECK_EQ(ctl_with("status"), 1);
    CHECK(strstr(errors, "dtrun-ctl: DTRUN_RENDEZVOUS: rendezvous unix:/nowhere/socket: ") ==
          errors);
    CHECK_EQ(ctl_with("events --follow"), 1);
    CHECK(strstr(errors, "dtrun-ctl: DTRUN_RENDEZVOUS: rendezvous unix:/nowhere/socket: ") ==
          errors);
    setenv("DTRUN_RENDEZVOUS", ":", 1);
    CHECK_EQ(ctl_with("status"), 2);
    CHECK(strstr(errors, "dtrun-ctl: DTRUN_RENDEZVOUS: ") == errors);
    unsetenv("DTRUN_RENDEZVOUS");
}

TEST(a_full_disk_is_no_success)
{
    if (access("/dev/full", W_OK) != 0)
        SKIP("there is no /dev/full");
    CHECK_EQ(WEXITSTATUS(system("\"$DT_CTL\" --help >/dev/full 2>/dev/null")), 1);
}

TEST(help_tells_of_each_command)
{
    static const char *const commands[] = {"status [RUN]",    "run list",         "run wait RUN",
                                           "run save RUN",    "run pause RUN",    "run resume RUN",
                                           "run restart RUN", "run stop RUN",     "node list",
                                           "node drain NAME", "node undrain NAME"};
    CHECK_EQ(ctl("127.0.0.1:1", "--help"), 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        CHECK_ROW("%s", commands[i]);
        CHECK(strstr(out, commands[i]) != NULL);
    }
}
