/* SPDX-License-Identifier: Apache-2.0 */
/* What keys and news do to what is shown. */
#include "ctl/top/program.h"
#include "tests/ctl/top_model.h"

static const struct dt_status_run runs[] = {
    RUN("bert", "gathering", .round = 0, .why = "2 more nodes are needed", .spec.user = "bob"),
    RUN("llama", "running", .round = 4, .world = 24, .nodes = 3, .step = 1200, .restarts = 1,
        .tokens_per_s = 9000, .spec.user = "ada", .spec.script = "train.py"),
    RUN("old", "closed", .ended = "succeeded", .step = 50),
    RUN("sick", "closed", .ended = "failed", .why = "no restarts are left", .step = 7,
        .restarts = 3),
};

static const struct dt_status_node nodes[] = {
    NODE("llama", "node10", "running", 0, .step = 1200, .step_ms = 210, .beat_age_s = 1),
    NODE("llama", "node2", "running", 3, .step = 1199, .step_ms = 400, .beat_age_s = 7),
    NODE("llama", "node9", "running", 1, .step = 1200, .step_ms = 200, .state = "suspect"),
    NODE("llama", "spare", "parked", -1, .step = -1),
};

static const struct answer all = {runs, nodes, NULL, 4, 4, 0};

static void begin(struct dt_top_model *m, const char *only)
{
    dt_top_model_init(m, "head:29400", only);
    hear(m, &all);
}

/* The names of the runs, or nodes, as they are shown, the chosen one in brackets. */
static const char *shown(const struct dt_top_model *m, enum dt_top_view list)
{
    static char text[512];
    const struct dt_top_list *l = &m->lists[list];
    size_t len = 0;
    *text = '\0';
    for (size_t i = 0; i < l->len; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, i == l->at ? "%s[%s]" : "%s%s",
                                i ? " " : "",
                                list == DT_TOP_RUNS ? m->runs[i].row->id : m->nodes[i].row->name);
    return text;
}

TEST(keys_choose_and_open_and_lead_back)
{
    static const struct {
        const char *keys;
        enum dt_top_wish wish;
        enum dt_top_view view;
        const char *runs, *nodes;
    } rows[] = {
        {"", DT_TOP_NOTHING, DT_TOP_RUNS, "[bert] llama old sick", ""},
        {"j", DT_TOP_NOTHING, DT_TOP_RUNS, "bert [llama] old sick", "[node10] node9 node2 spare"},
        {"\2\2\1", DT_TOP_NOTHING, DT_TOP_RUNS, "bert [llama] old sick",
         "[node10] node9 node2 spare"},
        {"\4k", DT_TOP_NOTHING, DT_TOP_RUNS, "bert llama [old] sick", ""},
        {"\3", DT_TOP_NOTHING, DT_TOP_RUNS, "bert llama old [sick]", ""},
        {"Gg", DT_TOP_NOTHING, DT_TOP_RUNS, "[bert] llama old sick", ""},
        {"k", DT_TOP_NOTHING, DT_TOP_RUNS, "[bert] llama old sick", ""},
        {"j\rj", DT_TOP_NOTHING, DT_TOP_RUN, "bert [llama] old sick", "node10 [node9] node2 spare"},
        {"j\r\033", DT_TOP_NOTHING, DT_TOP_RUNS, "bert [llama] old sick",
         "[node10] node9 node2 spare"},
        {"j\rq", DT_TOP_NOTHING, DT_TOP_RUNS, "bert [llama] old sick",
         "[node10] node9 node2 spare"},
        {"j\rqq", DT_TOP_QUIT, DT_TOP_RUNS, "bert [llama] old sick", "[node10] node9 node2 spare"},
        {"\033", DT_TOP_NOTHING, DT_TOP_RUNS, "[bert] llama old sick", ""},
        {"h", DT_TOP_NOTHING, DT_TOP_HELP, "[bert] llama old sick", ""},
        {"j\r?q", DT_TOP_NOTHING, DT_TOP_RUN, "bert [llama] old sick",
         "[node10] node9 node2 spare"},
        {"t", DT_TOP_LOOK, DT_TOP_RUNS, "[bert] llama old sick", ""},
        {"l", DT_TOP_LOG, DT_TOP_RUNS, "[bert] llama old sick", ""},
        {"p", DT_TOP_NOTHING, DT_TOP_RUNS, "[bert] llama old sick", ""},
        {"pp", DT_TOP_REFRESH, DT_TOP_RUNS, "[bert] llama old sick", ""},
        {"\f", DT_TOP_REDRAW, DT_TOP_RUNS, "[bert] llama old sick", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        struct dt_top_model m;
        begin(&m, "");
        CHECK_EQ(press(&m, rows[i].keys), rows[i].wish);
        CHECK_EQ(m.view, rows[i].view);
        CHECK_STR(shown(&m, DT_TOP_RUNS), rows[i].runs);
        CHECK_STR(shown(&m, DT_TOP_RUN), rows[i].nodes);
        dt_top_model_finish(&m);
    }
}

TEST(a_run_is_judged)
{
    static const struct {
        struct dt_status_run run;
        const char *state;
        unsigned look;
        int trouble;
    } rows[] = {
        {RUN("a", "running", .why = ""), "running", DT_LOOK_GOOD, 1},
        {RUN("a", "running", .why = "rank 3 holds the others up"), "running", DT_LOOK_WARN, 4},
        {RUN("a", "gathering", .why = "1 more node is needed"), "gathering", DT_LOOK_WARN, 3},
        {RUN("a", "gathering", .paused = true), "paused", DT_LOOK_WARN, 2},
        {RUN("a", "closed", .ended = "succeeded"), "succeeded", DT_LOOK_DIM, 0},
        {RUN("a", "closed", .ended = "stopped"), "stopped", DT_LOOK_DIM, 0},
        {RUN("a", "closed", .ended = "timeout"), "timeout", DT_LOOK_BAD, 5},
        {RUN("a", "closed"), "closed", DT_LOOK_BAD, 5}, /* a server of before does not say how */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        const struct answer one = {&rows[i].run, NULL, NULL, 1, 0, 0};
        struct dt_top_model m;
        dt_top_model_init(&m, "head:29400", "");
        hear(&m, &one);
        CHECK_STR(m.runs[0].state, rows[i].state);
        CHECK_EQ(m.runs[0].look, rows[i].look);
        CHECK_EQ(m.runs[0].trouble, rows[i].trouble);
        dt_top_model_finish(&m);
    }
}

TEST(orders_go_round_and_can_be_turned)
{
    static const struct {
        const char *keys, *order, *shown;
    } of_runs[] =
        {
            {"", "name", "[bert] llama old sick"},
            {"r", "name", "sick old llama [bert]"},
            {"rr", "name", "[bert] llama old sick"},
            {"s", "trouble", "sick [bert] llama old"},
            {"ss", "step", "llama old sick [bert]"},
            {"ssr", "step", "[bert] sick old llama"},
            {"ssrs", "tokens/s", "llama [bert] old sick"},
            {"ssss", "workers", "llama [bert] old sick"},
            {"sssss", "restarts", "sick llama [bert] old"},
            {"sssssss", "name", "[bert] llama old sick"},
        },
      of_nodes[] = {
          {"", "seat", "[node10] node9 node2 spare"},
          {"s", "name", "node2 node9 [node10] spare"},
          {"ss", "trouble", "node9 spare node2 [node10]"},
          {"sss", "step", "node9 [node10] node2 spare"},
          {"ssss", "step time", "node2 [node10] node9 spare"},
          {"ssssss", "heard", "node2 [node10] node9 spare"},
      };
    for (size_t i = 0; i < sizeof of_runs / sizeof *of_runs; i++) {
        CHECK_ROW("runs by %s: %s", of_runs[i].order, of_runs[i].keys);
        struct dt_top_model m;
        begin(&m, "");
        press(&m, of_runs[i].keys);
        CHECK_STR(dt_top_order_name(DT_TOP_RUNS, m.lists[DT_TOP_RUNS].order), of_runs[i].order);
        CHECK_STR(shown(&m, DT_TOP_RUNS), of_runs[i].shown);
        dt_top_model_finish(&m);
    }
    for (size_t i = 0; i < sizeof of_nodes / sizeof *of_nodes; i++) {
        CHECK_ROW("nodes by %s", of_nodes[i].order);
        struct dt_top_model m;
        begin(&m, "llama");
        press(&m, of_nodes[i].keys);
        CHECK_STR(dt_top_order_name(DT_TOP_RUN, m.lists[DT_TOP_RUN].order), of_nodes[i].order);
        CHECK_STR(shown(&m, DT_TOP_RUN), of_nodes[i].shown);
        dt_top_model_finish(&m);
    }
}

TEST(a_filter_is_typed)
{
    static const struct {
        const char *keys, *filter, *shown;
        bool typing;
    } rows[] = {
        {"/", "", "[bert] llama old sick", true},
        {"/l", "l", "[llama] old sick", true}, /* sick has failed */
        {"/LL\r", "LL", "[llama]", false},
        {"/gather", "gather", "[bert]", true},
        {"/ada", "ada", "[llama]", true},
        {"/train.py", "train.py", "[llama]", true},
        {"/jq", "jq", "", true}, /* keys are letters then */
        {"/jq\b\b", "", "[bert] llama old sick", true},
        {"/\b", "", "[bert] llama old sick", true},
        {"/ol\033", "", "bert llama [old] sick", false},
        {"/ol\r\033", "", "bert llama [old] sick", false},
        {"/s\r\2", "s", "old [sick]", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].keys);
        struct dt_top_model m;
        begin(&m, "");
        press(&m, rows[i].keys);
        CHECK_STR(m.lists[DT_TOP_RUNS].filter, rows[i].filter);
        CHECK_EQ(m.typing, rows[i].typing);
        CHECK_STR(shown(&m, DT_TOP_RUNS), rows[i].shown);
        dt_top_model_finish(&m);
    }
}

TEST(a_filter_is_bounded)
{
    struct dt_top_model m;
    begin(&m, "");
    press(&m, "/");
    for (int i = 0; i < 100; i++)
        press(&m, "x");
    CHECK_EQ(strlen(m.lists[DT_TOP_RUNS].filter), DT_TOP_FILTER_MAX - 1);
    dt_top_model_finish(&m);
}

TEST(what_is_chosen_stays_so_when_others_come_and_go)
{
    const struct answer without_bert = {runs + 1, nodes, NULL, 3, 4, 0},
                        without_llama = {runs + 2, NULL, NULL, 2, 0, 0}, none = {0};
    struct dt_top_model m;
    begin(&m, "");
    press(&m, "j");
    hear(&m, &without_bert);
    CHECK_STR(shown(&m, DT_TOP_RUNS), "[llama] old sick");
    hear(&m, &without_llama);
    CHECK_STR(shown(&m, DT_TOP_RUNS), "[old] sick");
    hear(&m, &none);
    CHECK(dt_top_chosen_run(&m) == NULL);
    hear(&m, &all);
    CHECK_STR(shown(&m, DT_TOP_RUNS), "bert llama [old] sick");
    dt_top_model_finish(&m);
}

TEST(a_run_that_is_open_and_goes_is_not_another_one)
{
    const struct answer without_llama = {runs + 2, NULL, NULL, 2, 0, 0};
    struct dt_top_model m;
    begin(&m, "");
    press(&m, "/llama\r\r");
    CHECK_EQ(m.view, DT_TOP_RUN);
    hear(&m, &without_llama);
    CHECK(dt_top_chosen_run(&m) == NULL);
    CHECK_EQ(press(&m, "t"), DT_TOP_NOTHING);
    CHECK_EQ(press(&m, "l"), DT_TOP_NOTHING);
    hear(&m, &all);
    CHECK_STR(dt_top_chosen_run(&m)->row->id, "llama");
    dt_top_model_finish(&m);
}

TEST(the_ranks_of_a_node_follow_from_seats)
{
    static const struct {
        const char *keys;
        size_t count;
        int first, last;
    } rows[] = {
        {"", 1, 0, 7},   {"j", 1, 8, 15}, {"jj", 1, 24, 31} /* nobody has seat 2 */,
        {"\4", 0, 0, 0}, {"h", 1, 0, 7},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        struct dt_top_model m;
        struct dt_rank_range range = {0, 0};
        begin(&m, "llama");
        press(&m, rows[i].keys);
        CHECK_EQ(dt_top_ranks(&m, &range), rows[i].count);
        CHECK_EQ(range.first, rows[i].first);
        CHECK_EQ(range.last, rows[i].last);
        dt_top_model_finish(&m);
    }
}

/* The words of P, with blanks between them. */
static const char *words_of(const struct dt_top_program *p)
{
    static char text[1024];
    size_t len = 0;
    for (size_t i = 0; p->argv[i]; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, i ? " %s" : "%s", p->argv[i]);
    return text;
}

TEST(logs_are_asked_for_where_top_asks)
{
    char endpoint[] = "head:1", token[] = "t", of_run[] = "r", of_operator[] = "p";
    struct dt_ctl_options o = {.endpoint = endpoint, .timeout = 10 * DT_SECOND};
    const struct dt_rank_range ranks = {8, 15};
    struct dt_top_program p;
    dt_top_program_logs(&p, &o, "-llama", NULL);
    CHECK_STR(words_of(&p),
              "dtrun-ctl logs --follow --timeout 10000ms --endpoint head:1 -- -llama");
    o.token_file = token;
    o.run_token_file = of_run;
    o.operator_token_file = of_operator;
    dt_top_program_logs(&p, &o, "llama", &ranks);
    CHECK_STR(words_of(&p), "dtrun-ctl logs --follow --timeout 10000ms --endpoint head:1 "
                            "--token-file t --run-token-file r --operator-token-file p -- llama "
                            "8-15");
}

TEST(with_one_run_there_is_no_list_to_go_back_to)
{
    struct dt_top_model m;
    begin(&m, "llama");
    CHECK_EQ(m.view, DT_TOP_RUN);
    CHECK_EQ(press(&m, "\033"), DT_TOP_NOTHING);
    CHECK_EQ(m.view, DT_TOP_RUN);
    CHECK_EQ(press(&m, "q"), DT_TOP_QUIT);
    dt_top_model_finish(&m);
}

TEST(a_text_scrolls_to_its_end_and_no_further)
{
    struct dt_top_model m;
    struct dt_buf text = {0};
    for (int i = 0; i < 100; i++)
        dt_buf_printf(&text, "line %d\n", i);
    begin(&m, "llama");
    dt_top_model_show_text(&m, "a look", dt_buf_cstr(&text));
    CHECK_EQ(m.view, DT_TOP_TEXT);
    press(&m, "\4j\2\1");
    CHECK_EQ(m.line, 100 - 21 - 1);
    press(&m, "g\2");
    CHECK_EQ(m.line, 1);
    dt_top_model_show_text(&m, "another", "short\033[2J\n");
    CHECK_STR(dt_top_text(&m), "short\\x1b[2J\n");
    press(&m, "\3");
    CHECK_EQ(m.line, 0);
    press(&m, "q");
    CHECK_EQ(m.view, DT_TOP_RUN);
    dt_top_model_finish(&m);
    dt_buf_finish(&text);
}

TEST(old_events_leave_at_the_front)
{
    struct dt_top_events e = {0};
    for (int i = 0; i < DT_TOP_EVENTS_MAX + 10; i++) {
        char words[32];
        snprintf(words, sizeof words, "event %d", i);
        struct dt_top_events one = {malloc(sizeof *one.at), 1};
        CHECK(one.at != NULL);
        *one.at = EVENT("07:00:00Z", "info", "", words);
        dt_top_events_append(&e, &one);
        CHECK_EQ(one.len, 0);
    }
    CHECK_EQ(e.len, DT_TOP_EVENTS_MAX);
    CHECK_STR(e.at[0].words, "event 10");
    CHECK_STR(e.at[e.len - 1].words, "event 4105");
    dt_top_events_finish(&e);
}

/* A page of events as text; -1 where that makes no sense. */
static int read_events(const char *text, int64_t *after, bool *more, struct dt_top_events *e)
{
    struct dt_json doc;
    struct dt_err err = {0};
    CHECK_OK(dt_json_parse(&doc, text, strlen(text), 1 << 20, &err), err);
    int rc = dt_top_events_read(e, &doc, after, more, &err);
    dt_json_finish(&doc);
    return rc;
}

TEST(a_page_of_events_is_read)
{
    struct dt_top_events e = {0};
    int64_t after = 5;
    bool more;
    CHECK_EQ(read_events("{\"page\":{\"events\":[{\"number\":6,\"time\":"
                         "\"2026-11-23T07:00:01.123456Z\",\"kind\":\"node_lost\",\"weight\":"
                         "\"warning\",\"run\":\"llama\",\"words\":\"node7 went offline\"},{}],"
                         "\"last\":7,\"newest\":9,\"missed\":0}}",
                         &after, &more, &e),
             0);
    CHECK_EQ(after, 7);
    CHECK(more);
    CHECK_EQ(e.len, 2);
    CHECK_STR(e.at[0].time, "07:00:01Z");
    CHECK_STR(e.at[0].weight, "warning");
    CHECK_STR(e.at[0].run, "llama");
    CHECK_STR(e.at[0].words, "node7 went offline");
    CHECK_STR(e.at[1].run, "");
    /* One that does not lead on would be asked for without an end. */
    CHECK_EQ(read_events("{\"page\":{\"events\":[],\"last\":7,\"newest\":9}}", &after, &more, &e),
             0);
    CHECK(!more);
    CHECK_EQ(read_events("{\"page\":{\"events\":[],\"last\":6,\"newest\":9}}", &after, &more, &e),
             -1);
    CHECK_EQ(read_events("{\"page\":{\"events\":7,\"last\":8,\"newest\":9}}", &after, &more, &e),
             -1);
    CHECK_EQ(e.len, 2);
    dt_top_events_finish(&e);
}
