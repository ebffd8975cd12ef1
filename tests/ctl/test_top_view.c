/* SPDX-License-Identifier: Apache-2.0 */
/* What a screen shows, whole. */
#include "ctl/top/view.h"
#include "tests/ctl/top_model.h"

static const struct dt_status_run runs[] = {
    RUN("bert", "gathering", .round = 0, .spec.min_nodes = 2, .spec.max_nodes = 2,
        .why = "2 more nodes are needed", .since_s = 30, .spec.user = "bob"),
    RUN("llama", "running", .round = 4, .world = 16, .nodes = 2, .spec.min_nodes = 2,
        .spec.max_nodes = 4, .step = 1200, .steps = 5000, .restarts = 1, .spec.max_restarts = 3,
        .tokens_per_s = 123456, .loss = "2.3456", .mfu = 412, .since_s = 7200, .spec.user = "ada",
        .spec.script = "train.py", .begun_on = "node1", .begun_s = 1795261992, .compute = 710,
        .comm = 200, .data = 10, .idle = 80),
};

static const struct dt_status_node nodes[] = {
    NODE("llama", "node1", "running", 0, .step = 1200, .step_ms = 210, .beat_age_s = 1, .gpus = 8,
         .gpu_busy = 97, .gpu_mem_mib = 400000, .gpu_mem_total_mib = 655360, .tokens_per_s = 61728,
         .disk = "/ckpt", .disk_free_mib = 2048),
    NODE("llama", "node2", "running", 1, .step = 1199, .step_ms = 400, .beat_age_s = 7, .gpus = 8,
         .gpu_busy = 55, .gpu_mem_mib = 400000, .gpu_mem_total_mib = 655360, .tokens_per_s = 61728,
         .disk = "/ckpt", .disk_free_mib = 4096, .upload_behind_s = 90),
    NODE("llama", "spare\033[2J", "parked", -1, .step = -1),
};

static const struct dt_status_excluded excluded[] = {
    {.name = "node7", .why = "a new disk", .drained = true},
    {.name = "node8", .why = "", .until_s = 60},
    {.name = "node9", .why = "", .strikes = 1},
};

static const struct answer all = {runs, nodes, excluded, 2, 3, 3};

static void begin(struct dt_top_model *m, const char *only)
{
    struct dt_top_events events = {malloc(3 * sizeof *events.at), 3};
    CHECK(events.at != NULL);
    dt_top_model_init(m, "head:29400", only);
    m->now_s = 1795261992;
    hear(m, &all);
    events.at[0] = EVENT("07:00:00Z", "info", "", "the rendezvous started");
    events.at[1] = EVENT("07:00:01Z", "info", "bert", "run bert began");
    events.at[2] = EVENT("07:00:02Z", "warning", "llama", "node3 went offline \033]0;x\007");
    dt_top_events_append(&m->events, &events);
}

static const char *drawn(const struct dt_top_model *m, int rows, int columns)
{
    static char text[64 << 10];
    struct dt_picture p;
    struct dt_buf out = {0};
    CHECK_EQ(dt_picture_init(&p, rows, columns), 0);
    dt_top_draw(m, &p);
    dt_picture_put_text(&p, &out);
    snprintf(text, sizeof text, "%s", dt_buf_cstr(&out));
    dt_buf_finish(&out);
    dt_picture_finish(&p);
    return text;
}

/* Whether TEXT has each of WORDS, which have | between them. */
static void check_has(const char *text, const char *words, bool wanted)
{
    char *copy = strdup(words), *rest = copy;
    for (char *word; (word = strsep(&rest, "|"));)
        if (*word && (strstr(text, word) != NULL) != wanted)
            CHECK_STR(text, word);
    CHECK(strlen(text) > 0);
    free(copy);
}

TEST(eighty_columns)
{
    struct dt_top_model m;
    begin(&m, "");
    press(&m, "j");
    CHECK_STR(drawn(&m, 24, 80),
              "rendezvous head:29400 (daemon, dtrun 0.1.0)                 2026-11-21 11:53:12Z\n"
              "2 runs, 3 nodes, kept out: node[7-8]\n"
              "RUN    STATE      ROUND  NODES  WORKERS       STEP    LOSS  TOKENS/S   FOR\n"
              "bert   gathering      0    0/2                                        30 s\n"
              "llama  running        4  2/2-4       16  1200/5000  2.3456      123k   2 h\n"
              "\n"
              "run llama: running, round 4, 2 of 2:4 nodes, restarts 1 of 3\n"
              "  for 2 h, 16 workers\n"
              "  begun by ada on node1, 2026-11-21 11:53:12Z: train.py\n"
              "  time of a step: compute 71%, communication 20%, data 1%, other 8%\n"
              "\n"
              "NODE          STATE    SEAT  RANKS  STEP  STEP TIME  TOKENS/S  GPU  HEARD\n"
              "node1         running     0    0-7  1200     210 ms     61728  97%    1 s\n"
              "node2         running     1   8-15  1199     400 ms     61728  55%    7 s\n"
              "spare\\x1b[2J  spare                                                   0 s\n"
              "\n"
              "EVENTS\n"
              "07:00:00Z the rendezvous started\n"
              "07:00:02Z node3 went offline \\x1b]0;x\\x07\n"
              "\n"
              "\n"
              "\n"
              "\n"
              "2 of 2  s by name  h help  q quit  Enter open  t look  l log  / filter  p freeze\n");
    dt_top_model_finish(&m);
}

TEST(forty_columns_and_twelve_rows)
{
    struct dt_top_model m;
    begin(&m, "");
    press(&m, "j");
    CHECK_STR(drawn(&m, 12, 40), "rendezvous head:29400          11:53:12Z\n"
                                 "2 runs, 3 nodes, kept out: node[7-8]\n"
                                 "RUN    STATE           STEP  TOKENS/S\n"
                                 "bert   gathering\n"
                                 "llama  running    1200/5000      123k\n"
                                 "run llama: running, round 4, 2 of 2:4\n"
                                 "nodes, restarts 1 of 3\n"
                                 "NODE          STATE    STEP  HEARD\n"
                                 "node1         running  1200    1 s\n"
                                 "node2         running  1199    7 s\n"
                                 "spare\\x1b[2J  spare            0 s\n"
                                 "2 of 2  s by name  h help  q quit  Enter\n");
    dt_top_model_finish(&m);
}

/* clang-format off */
TEST(an_open_run_on_a_wide_screen)
{
    struct dt_top_model m;
    begin(&m, "");
    press(&m, "j\r");
    CHECK_STR(drawn(&m, 24, 132),
              "rendezvous head:29400 (daemon, dtrun 0.1.0)                                                                     2026-11-21 11:53:12Z\n"
              "2 runs, 3 nodes, kept out: node[7-8]\n"
              "run llama: running, round 4, 2 of 2:4 nodes, restarts 1 of 3\n"
              "  for 2 h, 16 workers\n"
              "  begun by ada on node1, 2026-11-21 11:53:12Z: train.py\n"
              "  time of a step: compute 71%, communication 20%, data 1%, other 8%\n"
              "\n"
              "NODE          STATE    SEAT  RANKS  STEP  STEP TIME  TOKENS/S  GPU      GPU MEM  DISK FREE   UPLOAD  HEARD\n"
              "node1         running     0    0-7  1200     210 ms     61728  97%  391/640 GiB      2 GiB             1 s\n"
              "node2         running     1   8-15  1199     400 ms     61728  55%  391/640 GiB      4 GiB  1.5 min    7 s\n"
              "spare\\x1b[2J  spare                                                                                    0 s\n"
              "\n"
              "EVENTS\n"
              "07:00:00Z the rendezvous started\n"
              "07:00:02Z node3 went offline \\x1b]0;x\\x07\n"
              "\n"
              "\n"
              "\n"
              "\n"
              "\n"
              "\n"
              "\n"
              "\n"
              "1 of 3  s by seat  h help  Esc back  t look  l log  / filter  p freeze\n");
    dt_top_model_finish(&m);
}
/* clang-format on */

/* Nothing is drawn outside, nor is anything read that is not there. */
TEST(any_size_can_be_drawn)
{
    static const char *const keys[] = {"", "j", "j\r", "h", "/x", "/nothing"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (int rows = 1; rows < 30; rows++)
            for (int columns = 1; columns < 100; columns += 7) {
                CHECK_ROW("%d x %d, %s", columns, rows, keys[i]);
                struct dt_top_model m;
                begin(&m, "");
                press(&m, keys[i]);
                CHECK(strlen(drawn(&m, rows, columns)) > 0);
                dt_top_model_finish(&m);
            }
}

TEST(states_are_said_in_the_header)
{
    struct dt_top_model m;
    dt_top_model_init(&m, "head:29400", "");
    check_has(drawn(&m, 24, 80), "rendezvous head:29400|connecting ...", true);
    dt_top_model_miss(&m, "cannot connect\033[2J");
    check_has(drawn(&m, 24, 80), "no answer, trying again: cannot connect\\x1b[2J", true);
    hear(&m, &all);
    check_has(drawn(&m, 24, 80), "2 runs, 3 nodes, kept out: node[7-8]", true);
    check_has(drawn(&m, 24, 80), "node9|no answer", false);
    dt_top_model_miss(&m, "it closed the connection");
    m.silent_s = 90;
    check_has(drawn(&m, 24, 80), "no answer for 1.5 min, trying again: it closed|llama", true);
    hear(&m, &all);
    check_has(drawn(&m, 24, 80), "no answer", false);
    press(&m, "p");
    check_has(drawn(&m, 24, 80), "frozen: 2 runs, 3 nodes", true);
    dt_top_model_finish(&m);
}

TEST(what_was_last_heard_is_dimmed_while_nothing_answers)
{
    struct dt_top_model m;
    struct dt_picture p;
    begin(&m, "");
    dt_top_model_miss(&m, "it closed the connection");
    CHECK_EQ(dt_picture_init(&p, 24, 80), 0);
    dt_top_draw(&m, &p);
    CHECK_EQ(p.look[0] & DT_LOOK_DIM, 0);
    for (size_t i = 2 * 80; i < 23 * 80; i++)
        CHECK((p.look[i] & DT_LOOK_DIM) != 0);
    dt_picture_finish(&p);
    dt_top_model_finish(&m);
}

TEST(a_thousand_nodes_scroll)
{
    struct dt_status_node *many = calloc(1000, sizeof *many);
    char(*names)[16] = calloc(1000, sizeof *names);
    const struct answer large = {runs, many, NULL, 2, 1000, 0};
    struct dt_top_model m;
    for (int i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof names[i], "node%04d", i);
        many[i] = (struct dt_status_node)NODE("llama", names[i], "running", i, .step = 7);
    }
    dt_top_model_init(&m, "head:29400", "llama");
    hear(&m, &large);
    check_has(drawn(&m, 24, 80), "1 of 1000|node0000|node0009", true);
    press(&m, "\3\2");
    check_has(drawn(&m, 24, 80), "20 of 1000|node0019", true);
    check_has(drawn(&m, 24, 80), "node0000", false);
    press(&m, "\4");
    check_has(drawn(&m, 24, 80), "1000 of 1000|node0999  running   999  7992-7999", true);
    dt_top_model_finish(&m);
    free(many);
    free(names);
}

TEST(a_thousand_runs_scroll)
{
    struct dt_status_run *many = calloc(1000, sizeof *many);
    char(*names)[16] = calloc(1000, sizeof *names);
    const struct answer large = {many, NULL, NULL, 1000, 0, 0};
    struct dt_top_model m;
    for (int i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof names[i], "run%d", i);
        many[i] = (struct dt_status_run)RUN(names[i], "running", .round = 0);
    }
    dt_top_model_init(&m, "head:29400", "");
    hear(&m, &large);
    check_has(drawn(&m, 24, 80), "1 of 1000|run0 |run9 |run run0: running", true);
    press(&m, "\4");
    check_has(drawn(&m, 24, 80), "1000 of 1000|run999 |run990 |run run999: running", true);
    check_has(drawn(&m, 24, 80), "run0 ", false);
    dt_top_model_finish(&m);
    free(many);
    free(names);
}

TEST(runs_of_a_server_of_before_have_the_step_of_their_nodes)
{
    static const struct dt_status_run run[] = {
        RUN("llama", "running", .round = 4, .world = 16, .nodes = 2)};
    const struct answer old = {run, nodes, NULL, 1, 3, 0};
    struct dt_top_model m;
    dt_top_model_init(&m, "head:29400", "");
    hear(&m, &old);
    check_has(drawn(&m, 24, 80), "STEP|1200|TOKENS/S|123k", true);
    check_has(drawn(&m, 24, 80), "LOSS|MFU|OWNER", false);
    dt_top_model_finish(&m);
}

TEST(one_picture_has_everything)
{
    struct dt_top_model m;
    begin(&m, "");
    press(&m, "j");
    check_has(drawn(&m, dt_top_rows(&m), 200),
              "bert|llama|run llama: running|node1|node2|spare|node3 went offline", true);
    dt_top_model_finish(&m);
}
