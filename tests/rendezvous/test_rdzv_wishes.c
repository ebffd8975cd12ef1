/* SPDX-License-Identifier: Apache-2.0 */
/* What people wish: nodes that get no seat, runs that pause or stop, checkpoints. */
#include "rendezvous/rdzv/exclude.h"
#include "tests/rendezvous/rdzv_three.h"

/* Whether it was done, and said with WORDS. */
static bool is_drained(struct dt_sync_control *c, const char *node, bool undo, const char *words)
{
    struct dt_message ask = {.type = DT_MSG_DRAIN,
                             .run = "",
                             .drain = {.node = node, .undo = undo},
                             .why = undo ? "" : "a new disk"};
    struct dt_message answer;
    struct dt_err err;
    CHECK_OK(dt_sync_control_ask(c, &ask, &answer, &err), err);
    CHECK(strstr(answer.why, words) != NULL);
    bool done = answer.drain.done;
    dt_message_finish(&answer);
    return done;
}

static void ask_drain(struct dt_sync_control *c, const char *node, bool undo, const char *words)
{
    CHECK(is_drained(c, node, undo, words));
}

/* How much the server says in one turn of its loop at most. */
struct gauge {
    uv_check_t check;
    const struct dt_rdzv_server_counters *counters;
    uint64_t before, most;
};

static void on_turn_over(uv_check_t *h)
{
    struct gauge *g = dt_container_of(h, struct gauge, check);
    uint64_t said = g->counters->bytes_out - g->before;
    g->before += said;
    g->most = said > g->most ? said : g->most;
}

static void open_gauge(struct serving *s, void *gauge)
{
    struct gauge *g = gauge;
    *g = (struct gauge){
        .counters = dt_rdzv_server_counters(dt_container_of(s, struct stage, serving)->rdzv)};
    uv_check_init(&s->loop, &g->check);
    uv_check_start(&g->check, on_turn_over);
}

static void close_gauge(struct serving *s, void *gauge)
{
    (void)s;
    uv_close((uv_handle_t *)&((struct gauge *)gauge)->check, NULL);
}

static void drain_many(struct dt_sync_control *c)
{
    char name[DT_NODE_NAME_MAX];
    for (int i = 0; i < 600; i++) {
        snprintf(name, sizeof name, "%0*d", DT_NODE_NAME_MAX - 1, i);
        ask_drain(c, name, false, "is drained");
    }
}

TEST(one_who_asks_much_gets_a_share_of_a_turn_as_others_do)
{
    struct stage st;
    struct gauge g;
    struct node n = node_of("run", "node0", 1, 1);
    struct dt_message ask = {.type = DT_MSG_STATUS, .run = ""};
    struct dt_buf out = {0};
    stage_open(&st, &usual);
    struct dt_sync_control *c = control_open(&st);
    drain_many(c);
    node_greet(&n, st.serving.port);
    for (int i = 0; i < 20; i++)
        dt_message_encode(&out, &ask);
    serving_do(&st.serving, open_gauge, &g);
    CHECK(send(n.fd, out.at, out.len, MSG_NOSIGNAL) == (ssize_t)out.len);
    for (int i = 0; i < 20; i++)
        node_hear(&n, DT_MSG_STATUS);
    serving_do(&st.serving, close_gauge, &g);
    CHECK(g.most > 64u << 10);
    CHECK(g.most < 512u << 10);
    dt_buf_finish(&out);
    dt_sync_control_close(c);
    node_finish(&n);
    stage_close(&st);
}

TEST(invented_names_leave_room_for_a_node_that_is_there)
{
    struct dt_rdzv_server_config config = usual;
    struct stage st;
    struct node n[3];
    char name[16];
    config.state_dir = at("invented");
    stage_open(&st, &config);
    three_run(n, "run", st.serving.port);
    struct dt_sync_control *c = control_open(&st);
    for (int i = 0; i < DT_DRAINED_UNKNOWN; i++) {
        snprintf(name, sizeof name, "invented%d", i);
        ask_drain(c, name, false, "no node of that name is here");
    }
    CHECK(
        !is_drained(c, "one-more", false, "1000 nodes are drained already, and none of that name"));
    ask_drain(c, "invented7", false, "is drained"); /* another reason for one that is drained */
    ask_drain(c, "node1", false, "node1 is drained; undo it with: dtrun-ctl node undrain node1");
    dt_sync_control_close(c);
    serving_do_and_wait(&st.serving, close_rdzv, NULL);
    serving_do(&st.serving, reopen, NULL);
    c = control_open(&st);
    CHECK(!is_drained(c, "one-more", false, "1001 nodes are drained already"));
    ask_drain(c, "", true, "nodes that may be given a seat again: 1001");
    struct dt_json page = ask_status(c, "", 0);
    CHECK_EQ(count_of(&page, "excluded", NULL), 0);
    dt_json_finish(&page);
    ask_drain(c, "one-more", false, "is drained");
    dt_sync_control_close(c);
    for (int i = 0; i < 3; i++)
        node_finish(&n[i]);
    stage_close(&st);
}

TEST(a_drained_node_ends_its_round_and_gets_no_seat)
{
    struct dt_rdzv_server_config config = usual;
    struct stage st;
    struct node n[3];
    const struct cJSON *row;
    config.state_dir = at("drained");
    stage_open(&st, &config);
    three_run(n, "run", st.serving.port);
    struct dt_sync_control *c = control_open(&st);
    ask_drain(c, "node1", false, "is drained");
    for (int i = 0; i < 3; i++)
        node_stop(&n[i]);
    struct node spare = node_of("run", "spare", 99, 3);
    node_enter(&spare, st.serving.port);
    node_run(&spare);
    CHECK_EQ(spare.heard.world.seat, 1);
    node_run(&n[0]);
    node_run(&n[2]);
    node_hear(&n[1], DT_MSG_PARK);
    CHECK(strstr(n[1].heard.why, "a new disk") != NULL);
    dt_sync_control_close(c);

    serving_do_and_wait(&st.serving, close_rdzv, NULL); /* it is remembered */
    serving_do(&st.serving, reopen, NULL);
    c = control_open(&st);
    struct dt_json page = ask_status(c, "", 0);
    CHECK_EQ(count_of(&page, "excluded", &row), 1);
    check_text(&page, row, "name", "node1");
    check_text(&page, row, "why", "a new disk");
    dt_json_finish(&page);
    ask_drain(c, "node1", true, "again");
    ask_drain(c, "node1", true, "was not kept out");
    ask_drain(c, "nobody", false,
              "nobody is drained, though no node of that name is here now; undo it with");
    ask_drain(c, "nobody", true, "again");
    page = ask_status(c, "", 0);
    CHECK_EQ(count_of(&page, "excluded", NULL), 0);
    dt_json_finish(&page);
    dt_sync_control_close(c);
    for (int i = 0; i < 3; i++)
        node_finish(&n[i]);
    node_finish(&spare);
    stage_close(&st);
}

static void ask_pause(struct dt_sync_control *c, const char *name, bool undo, bool is_done,
                      const char *words)
{
    struct dt_message ask = {
        .type = DT_MSG_PAUSE, .run = name, .wish.undo = undo, .why = undo ? "" : "a demo"};
    struct dt_message answer;
    struct dt_err err;
    CHECK_OK(dt_sync_control_ask(c, &ask, &answer, &err), err);
    CHECK(strstr(answer.why, words) != NULL);
    CHECK_EQ(answer.wish.done, is_done);
    dt_message_finish(&answer);
}

TEST(a_paused_run_goes_on_when_a_person_says_so)
{
    struct dt_rdzv_server_config config = usual;
    struct stage st;
    struct node n[3];
    const struct cJSON *row;
    config.state_dir = at("paused");
    stage_open(&st, &config);
    three_run(n, "run", st.serving.port);
    struct dt_sync_control *c = control_open(&st);
    ask_pause(c, "walk", false, false, "there is no such run");
    ask_pause(c, "run", true, true, "run run was not paused");
    ask_pause(c, "run", false, true,
              "run run is paused; it goes on with: dtrun-ctl run resume run");
    ask_pause(c, "run", false, true, "was already paused");
    for (int i = 0; i < 3; i++)
        node_stop(&n[i]);
    dt_sync_control_close(c);

    serving_do_and_wait(&st.serving, close_rdzv, NULL); /* it is remembered */
    serving_do(&st.serving, reopen, NULL);
    c = control_open(&st);
    struct dt_json page = ask_status(c, "run", 0);
    CHECK_EQ(count_of(&page, "runs", &row), 1);
    check_text(&page, row, "state", "gathering");
    dt_json_finish(&page);
    ask_pause(c, "run", true, true, "run run goes on");
    dt_sync_control_close(c);
    for (int i = 0; i < 3; i++)
        node_finish(&n[i]);
    stage_close(&st);
}

TEST(a_wish_for_a_checkpoint_reaches_the_nodes_that_run)
{
    struct stage st;
    struct node n[3];
    struct dt_message answer, ask = {.type = DT_MSG_SAVE, .run = "walk"};
    struct dt_err err;
    stage_open(&st, &usual);
    three_run(n, "run", st.serving.port);
    struct dt_sync_control *c = control_open(&st);
    CHECK_OK(dt_sync_control_ask(c, &ask, &answer, &err), err);
    CHECK(!answer.wish.done);
    CHECK_STR(answer.why, "there is no such run");
    dt_message_finish(&answer);
    ask.run = "run";
    CHECK_OK(dt_sync_control_ask(c, &ask, &answer, &err), err);
    CHECK(answer.wish.done);
    CHECK(strstr(answer.why, "3 of 3 nodes ask their workers to save") == answer.why);
    dt_message_finish(&answer);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(node_hear(&n[i], DT_MSG_KEEP)->round, 0);
    dt_sync_control_close(c);
    for (int i = 0; i < 3; i++)
        node_finish(&n[i]);
    stage_close(&st);
}

TEST(nothing_else_can_be_wished_of_a_run_that_is_stopped)
{
    static const struct dt_message wishes[] = {
        {.type = DT_MSG_PAUSE, .run = "run", .why = "a demo"},
        {.type = DT_MSG_PAUSE, .run = "run", .why = "", .wish.undo = true},
        {.type = DT_MSG_SAVE, .run = "run", .why = ""},
        {.type = DT_MSG_RESTART_RUN, .run = "run", .why = ""},
        {.type = DT_MSG_STOP_RUN, .run = "run", .why = "once more"},
    };
    size_t count = sizeof wishes / sizeof *wishes;
    struct stage st;
    struct node n[3];
    struct dt_message answer, stop = {.type = DT_MSG_STOP_RUN, .run = "run", .why = "a demo"};
    struct dt_err err;
    stage_open(&st, &usual);
    three_run(n, "run", st.serving.port);
    struct dt_sync_control *c = control_open(&st);
    CHECK_OK(dt_sync_control_ask(c, &stop, &answer, &err), err);
    CHECK(answer.wish.done);
    dt_message_finish(&answer);
    for (size_t i = 0; i < count; i++) {
        bool is_stop = wishes[i].type == DT_MSG_STOP_RUN;
        CHECK_ROW("%zu", i);
        CHECK_OK(dt_sync_control_ask(c, &wishes[i], &answer, &err), err);
        CHECK_EQ(answer.wish.done, is_stop);
        CHECK(strstr(answer.why, is_stop ? "is being stopped already" : "the job is stopped ("));
        dt_message_finish(&answer);
    }
    dt_sync_control_close(c);
    for (int i = 0; i < 3; i++)
        node_finish(&n[i]);
    stage_close(&st);
}
