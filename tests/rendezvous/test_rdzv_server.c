/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous behind a store's port, over real sockets: runs from their first join to their end,
 * nodes that are lost, what people ask, and a server that is lost. */
#include "base/fs.h"
#include "base/json.h"
#include "rendezvous/protocol/sync_control.h"
#include "rendezvous/rdzv/exclude.h"
#include "tests/lib/folder.h"
#include "tests/rendezvous/rdzv_stage.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>

#define SOON (20 * DT_SECOND) /* never reached unless something is broken */

BEFORE_ALL
{
    folder_make();
    setenv("UV_THREADPOOL_SIZE", "1", 1);
}

/* -- runs ------------------------------------------------------------------------------------- */

static char host_goes[] = "the host goes";
static const char *const names[] = {"node0", "node1", "node2"};

static void three_enter(struct node n[3], const char *run, uint16_t port)
{
    for (int i = 0; i < 3; i++) {
        n[i] = node_of(run, names[i], (uint64_t)(10 + i), 3);
        node_enter(&n[i], port);
    }
}

static void three_run(struct node n[3], const char *run, uint16_t port)
{
    three_enter(n, run, port);
    for (int i = 0; i < 3; i++)
        node_run(&n[i]);
}

static void three_succeed(struct node n[3])
{
    for (int i = 0; i < 3; i++)
        node_succeed(&n[i]);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(node_hear(&n[i], DT_MSG_CLOSE)->close.kind, DT_CLOSE_SUCCEEDED);
        node_finish(&n[i]);
    }
}

TEST(three_nodes_meet_work_and_succeed)
{
    struct stage st;
    struct node n[3];
    stage_open(&st, &usual);
    three_run(n, "run", st.serving.port);
    for (int i = 0; i < 3; i++) {
        const struct dt_world_message *w = &n[i].heard.world;
        CHECK_EQ(w->seat, i);
        CHECK_EQ(w->seats, 3);
        CHECK_EQ(w->first_rank, 2 * i);
        CHECK_EQ(w->size, 6);
        CHECK_STR(w->master_addr, "node0");
        CHECK_EQ(w->master_port, 29500);
        node_beat(&n[i]);
    }
    CHECK_EQ(counters(&st)->nodes, 3);
    CHECK(st.busy);
    three_succeed(n);
    while (counters(&st)->nodes > 0 || st.busy)
        ;
    stage_close(&st);
}

TEST(runs_do_not_see_each_other)
{
    struct stage st;
    struct node a[3], b[3];
    stage_open(&st, &usual);
    three_run(a, "a", st.serving.port);
    three_enter(b, "b", st.serving.port); /* with the same names and incarnations */
    node_hang_up(&a[1]);
    node_stop(&a[0]);
    node_stop(&a[2]);
    for (int i = 0; i < 3; i++)
        node_run(&b[i]);
    CHECK_EQ(counters(&st)->runs, 2);
    three_succeed(b);
    for (int i = 0; i < 3; i++)
        node_finish(&a[i]);
    stage_close(&st);
}

TEST(a_lost_node_stops_the_others_and_another_takes_its_seat)
{
    struct stage st;
    struct node n[3];
    stage_open(&st, &usual);
    three_run(n, "run", st.serving.port);
    node_hang_up(&n[1]);
    node_stop(&n[0]);
    node_stop(&n[2]);
    node_finish(&n[1]);
    n[1] = node_of("run", "spare", 99, 3);
    node_enter(&n[1], st.serving.port);
    for (int i = 0; i < 3; i++) {
        node_run(&n[i]);
        CHECK_EQ(n[i].heard.world.seat, i);
        CHECK_EQ(n[i].round, 1);
    }
    three_succeed(n);
    stage_close(&st);
}

TEST(who_comes_back_in_time_was_not_lost)
{
    struct stage st;
    struct node n[3];
    stage_open(&st, &usual);
    for (int i = 0; i < 3; i++) {
        n[i] = node_of("run", names[i], (uint64_t)(10 + i), 3);
        n[i].spec.reconnect_grace = 600 * DT_SECOND;
        node_enter(&n[i], st.serving.port);
    }
    for (int i = 0; i < 3; i++)
        node_run(&n[i]);
    node_hang_up(&n[1]);
    node_enter(&n[1], st.serving.port);
    node_beat(&n[1]);
    int old = n[2].fd;
    node_enter(&n[2], st.serving.port); /* while the old connection stands */
    node_beat(&n[2]);
    peer_expect_end(old);
    for (int i = 0; i < 3; i++)
        node_beat(&n[i]); /* nobody was told anything else */
    CHECK_EQ(counters(&st)->nodes, 3);
    three_succeed(n);
    stage_close(&st);
}

TEST(more_runs_and_nodes_than_may_be_are_refused_with_a_sentence)
{
    struct dt_rdzv_server_config config = usual;
    struct stage st;
    config.runs = 2;
    config.nodes = 3;
    stage_open(&st, &config);
    struct node n[4];
    const char *const runs[] = {"a", "b", "c", "a"};
    for (int i = 0; i < 4; i++) {
        n[i] = node_of(runs[i], "node", (uint64_t)(1 + i), 3);
        node_enter(&n[i], st.serving.port);
        if (i != 2) {
            node_beat(&n[i]);
            continue;
        }
        CHECK_EQ(node_hear(&n[i], DT_MSG_CLOSE)->close.kind, DT_CLOSE_REFUSED);
        CHECK(strstr(n[i].heard.why, "--max-runs") != NULL);
    }
    struct node late = node_of("b", "late", 9, 3);
    node_enter(&late, st.serving.port);
    CHECK_EQ(node_hear(&late, DT_MSG_CLOSE)->close.kind, DT_CLOSE_REFUSED);
    CHECK(strstr(late.heard.why, "--max-nodes") != NULL);
    CHECK_EQ(counters(&st)->nodes, 3);
    CHECK_EQ(counters(&st)->runs, 2);
    for (int i = 0; i < 4; i++)
        node_finish(&n[i]);
    node_finish(&late);
    stage_close(&st);
}

TEST(a_node_whose_name_looks_like_an_option_is_refused_with_a_sentence)
{
    struct stage st;
    stage_open(&st, &usual);
    struct node n = node_of("run", "-x", 1, 2);
    node_enter(&n, st.serving.port);
    CHECK_EQ(node_hear(&n, DT_MSG_CLOSE)->close.kind, DT_CLOSE_REFUSED);
    CHECK(strstr(n.heard.why, "begins with \"-\"") != NULL);
    CHECK_EQ(counters(&st)->runs, 0);
    node_finish(&n);
    stage_close(&st);
}

TEST(a_run_is_forgotten_with_its_last_node)
{
    struct stage st;
    stage_open(&st, &usual);
    struct node n = node_of("run", "node0", 1, 2);
    node_enter(&n, st.serving.port);
    node_beat(&n);
    CHECK_EQ(counters(&st)->runs, 1);
    node_hang_up(&n);
    while (counters(&st)->runs > 0)
        ;
    CHECK_EQ(counters(&st)->nodes, 0);
    node_finish(&n);
    stage_close(&st);
}

/* Standard error goes to a file from here on; returns what stderr_back() takes. */
static int stderr_to(const char *path)
{
    int kept = dup(STDERR_FILENO), file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    CHECK(kept >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    close(file);
    return kept;
}

static void stderr_back(int kept)
{
    CHECK(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
}

static int count_lines(const char *path, const char *with)
{
    struct dt_buf text = {0};
    struct dt_err err;
    int count = 0;
    CHECK_OK(dt_fs_read(path, 64u << 20, &text, &err), err);
    for (const char *at = dt_buf_cstr(&text); (at = strstr(at, with)); at++)
        count++;
    dt_buf_finish(&text);
    return count;
}

/* Each JOIN and each LEAVE is worth a line, where they are few; of many, five in a second. */
TEST(who_comes_and_goes_without_end_does_not_fill_the_log)
{
    struct stage st;
    struct node n = node_of("flood", "node0", 1, 2);
    const char *log = at("flood.log");
    int kept = stderr_to(log);
    dt_ms began = dt_clock_monotonic();
    stage_open(&st, &usual);
    node_greet(&n, st.serving.port);
    for (int i = 0; i < 5000; i++) {
        struct dt_message leave = node_message(&n, DT_MSG_LEAVE);
        node_join(&n);
        leave.why = "it was not meant";
        node_send(&n, &leave);
    }
    node_join(&n);
    node_beat(&n); /* all of it was heard */
    stderr_back(kept);
    CHECK(count_lines(log, "run flood: ") <= 500 + (dt_clock_monotonic() - began) / 200 + 1);
    node_finish(&n);
    stage_close(&st);
}

TEST(who_hosts_the_rendezvous_can_end_all_runs)
{
    struct stage st;
    struct node n[3];
    stage_open(&st, &usual);
    three_run(n, "run", st.serving.port);
    serving_do_and_wait(&st.serving, close_rdzv, host_goes);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(node_hear(&n[i], DT_MSG_CLOSE)->close.kind, DT_CLOSE_ENDED);
        CHECK(strstr(n[i].heard.why, "the host goes") != NULL);
        node_expect_end(&n[i]);
        node_finish(&n[i]);
    }
    serving_stop(&st.serving);
}

/* -- what people ask -------------------------------------------------------------------------- */

static struct dt_sync_control *control_open(struct stage *st)
{
    struct dt_err err = {0};
    char addr[32];
    snprintf(addr, sizeof addr, "127.0.0.1:%d", st->serving.port);
    struct dt_sync_control *c = dt_sync_control_open(addr, "test", NULL, SOON, &err);
    CHECK_STR(err.text, "");
    return c;
}

static struct dt_json ask_status(struct dt_sync_control *c, const char *run, int from)
{
    struct dt_message ask = {.type = DT_MSG_STATUS, .run = run, .status = {.from = from}}, answer;
    struct dt_json page;
    struct dt_err err;
    CHECK_OK(dt_sync_control_ask(c, &ask, &answer, &err), err);
    CHECK_OK(dt_json_parse(&page, answer.status.json, strlen(answer.status.json),
                           DT_STATUS_FRAME_MAX, &err),
             err);
    dt_message_finish(&answer);
    return page;
}

/* How many are on the list NAME of PAGE; *FIRST (may be NULL) is the first of them. */
static int count_of(const struct dt_json *page, const char *name, const struct cJSON **first)
{
    const struct cJSON *list;
    struct dt_err err;
    CHECK_OK(dt_json_array(page, NULL, name, &list, &err), err);
    if (first)
        *first = cJSON_GetArrayItem(list, 0);
    return cJSON_GetArraySize(list);
}

static void check_text(const struct dt_json *page, const struct cJSON *row, const char *name,
                       const char *wanted)
{
    const char *text;
    struct dt_err err;
    CHECK_OK(dt_json_string(page, row, name, &text, &err), err);
    CHECK_STR(text, wanted);
}

static void check_number(const struct dt_json *page, const struct cJSON *row, const char *name,
                         int64_t wanted)
{
    int64_t n;
    struct dt_err err;
    CHECK_OK(dt_json_int(page, row, name, -1, INT32_MAX, &n, &err), err);
    CHECK_EQ(n, wanted);
}

static void tell_telemetry(struct node *n, const char *loss, int compute)
{
    struct dt_message beat = node_message(n, DT_MSG_BEAT);
    beat.beat = (struct dt_beat){.seq = 8,
                                 .step = 12,
                                 .running = 2,
                                 .telemetry = {.number = 1,
                                               .steps = 1000,
                                               .loss = loss,
                                               .mfu = 250,
                                               .compute = compute,
                                               .idle = DT_SHARE_WHOLE - compute,
                                               .step_ms = 812,
                                               .gpus = 2,
                                               .gpu_busy = -1,
                                               .disk = "/logs",
                                               .disk_free_mib = 5,
                                               .disk_total_mib = 10,
                                               .upload_behind_s = 60,
                                               .worker_ms = "812,9"}};
    node_send(n, &beat);
    CHECK_EQ(node_hear(n, DT_MSG_BEAT)->beat.seq, 8);
}

TEST(status_tells_of_runs_and_nodes)
{
    struct stage st;
    struct node n[3];
    const struct cJSON *row;
    stage_open(&st, &usual);
    three_run(n, "run", st.serving.port);
    struct node other = node_of("other", "node7", 1, 2);
    node_enter(&other, st.serving.port);
    node_beat(&other);
    struct dt_sync_control *c = control_open(&st);
    struct dt_json page = ask_status(c, "", 0);
    CHECK_EQ(count_of(&page, "runs", NULL), 2);
    CHECK_EQ(count_of(&page, "nodes", NULL), 4);
    CHECK_EQ(count_of(&page, "excluded", NULL), 0);
    check_number(&page, NULL, "next", 0);
    dt_json_finish(&page);

    struct dt_message beat = node_message(&n[0], DT_MSG_BEAT);
    beat.beat = (struct dt_beat){
        .seq = 9, .step = 12, .step_age_ms = 7000000, .tokens_per_s = 345, .running = 2};
    node_send(&n[0], &beat);
    CHECK_EQ(node_hear(&n[0], DT_MSG_BEAT)->beat.seq, 9);
    page = ask_status(c, "run", 0);
    CHECK_EQ(count_of(&page, "runs", &row), 1);
    check_text(&page, row, "id", "run");
    check_text(&page, row, "state", "running");
    check_text(&page, row, "master", "node0:29500");
    check_number(&page, row, "nodes", 3);
    check_number(&page, row, "world", 6);
    CHECK_EQ(count_of(&page, "nodes", &row), 3);
    check_text(&page, row, "name", "node0");
    check_text(&page, row, "doing", "running");
    check_number(&page, row, "seat", 0);
    check_number(&page, row, "step", 12);
    check_number(&page, row, "tokens_per_s", 345);
    struct dt_err err;
    int64_t age;
    CHECK_OK(dt_json_int(&page, row, "step_age_s", 7000, 7600, &age, &err), err);
    dt_json_finish(&page);

    tell_telemetry(&n[0], "2.25", 800);
    tell_telemetry(&n[1], "9", 600);
    node_send(&n[0], &beat); /* has none: the last one counts */
    CHECK_EQ(node_hear(&n[0], DT_MSG_BEAT)->beat.seq, 9);
    page = ask_status(c, "run", 0);
    CHECK_EQ(count_of(&page, "runs", &row), 1);
    check_text(&page, row, "loss", "2.25");
    check_number(&page, row, "step", 12);
    check_number(&page, row, "steps", 1000);
    check_number(&page, row, "tokens_per_s", 345);
    check_number(&page, row, "mfu", 250);
    check_number(&page, row, "compute", 700);
    check_number(&page, row, "idle", 300);
    CHECK_EQ(count_of(&page, "nodes", &row), 3);
    check_number(&page, row, "step_ms", 812);
    check_number(&page, row, "gpus", 2);
    check_number(&page, row, "gpu_busy", -1);
    check_text(&page, row, "disk", "/logs");
    check_number(&page, row, "upload_behind_s", 60);
    check_text(&page, row, "worker_ms", "812,9");
    dt_json_finish(&page);
    page = ask_status(c, "", 0);
    count_of(&page, "nodes", &row);
    CHECK(!dt_json_has(row, "worker_ms"));
    dt_json_finish(&page);

    page = ask_status(c, "other", 0);
    CHECK_EQ(count_of(&page, "runs", &row), 1);
    check_text(&page, row, "state", "gathering");
    check_text(&page, row, "why", "1 more node is needed");
    dt_json_finish(&page);
    dt_sync_control_close(c);
    node_finish(&other);
    for (int i = 0; i < 3; i++)
        node_finish(&n[i]);
    stage_close(&st);
}

TEST(many_nodes_come_in_pages)
{
    enum { NODES = 300 };
    static struct node n[NODES];
    static char name[NODES][16];
    struct dt_rdzv_server_config config = usual;
    struct stage st;
    config.nodes = NODES;
    stage_open(&st, &config);
    for (int i = 0; i < NODES; i++) {
        snprintf(name[i], sizeof name[i], "node%d", i);
        n[i] = node_of(i < 100 ? "a" : "b", name[i], (uint64_t)(1 + i), 1000);
        node_enter(&n[i], st.serving.port);
        node_beat(&n[i]);
    }
    struct dt_sync_control *c = control_open(&st);
    struct dt_json page = ask_status(c, "", 0);
    CHECK_EQ(count_of(&page, "nodes", NULL), 256);
    check_number(&page, NULL, "next", 256);
    dt_json_finish(&page);
    const struct cJSON *row;
    page = ask_status(c, "", 256);
    CHECK_EQ(count_of(&page, "runs", NULL), 0);
    CHECK_EQ(count_of(&page, "nodes", &row), NODES - 256);
    check_text(&page, row, "name", "node256");
    check_number(&page, NULL, "next", 0);
    dt_json_finish(&page);
    page = ask_status(c, "b", 150);
    CHECK_EQ(count_of(&page, "nodes", &row), 50);
    check_text(&page, row, "name", "node250");
    dt_json_finish(&page);
    dt_sync_control_close(c);
    for (int i = 0; i < NODES; i++)
        node_finish(&n[i]);
    stage_close(&st);
}

/* Each of its letters takes seven bytes of a frame. */
static void fill_odd(char *out, size_t size, int number)
{
    memset(out, 1, size - 5);
    snprintf(out + size - 5, 5, "%04d", number);
}

TEST(nodes_with_the_oddest_names_come_in_pages_that_fit)
{
    enum { MANY = 300 };
    static struct node n[MANY];
    static char run[MANY][DT_RUN_ID_MAX], name[MANY][DT_NODE_NAME_MAX], disk[DT_DISK_MAX];
    struct dt_rdzv_server_config config = usual;
    struct stage st;
    config.runs = config.nodes = MANY;
    memset(disk, 1, sizeof disk - 1);
    stage_open(&st, &config);
    for (int i = 0; i < MANY; i++) {
        fill_odd(run[i], sizeof run[i], i);
        fill_odd(name[i], sizeof name[i], i);
        n[i] = node_of(run[i], name[i], (uint64_t)i + 1, 2);
        node_enter(&n[i], st.serving.port);
        struct dt_message beat = node_message(&n[i], DT_MSG_BEAT);
        beat.beat.telemetry = (struct dt_telemetry){.number = 1,
                                                    .gpus = INT32_MAX,
                                                    .gpu_busy = 100,
                                                    .gpu_mem_mib = DT_MIB_MOST,
                                                    .gpu_mem_total_mib = DT_MIB_MOST,
                                                    .disk = disk,
                                                    .disk_free_mib = DT_MIB_MOST,
                                                    .disk_total_mib = DT_MIB_MOST,
                                                    .upload_behind_s = DT_FIELD_WHOLE_MAX};
        node_send(&n[i], &beat);
        node_hear(&n[i], DT_MSG_BEAT);
    }
    struct dt_sync_control *c = control_open(&st);
    int count = 0;
    for (int64_t next = 0; count == 0 || next > 0;) {
        struct dt_err err;
        struct dt_json page = ask_status(c, "", (int)next);
        CHECK_EQ(count, next);
        count += count_of(&page, "nodes", NULL);
        CHECK_OK(dt_json_int(&page, NULL, "next", 0, INT32_MAX, &next, &err), err);
        dt_json_finish(&page);
    }
    CHECK_EQ(count, MANY);
    dt_sync_control_close(c);
    for (int i = 0; i < MANY; i++)
        node_finish(&n[i]);
    stage_close(&st);
}

TEST(who_asks_and_does_not_listen_is_closed)
{
    struct stage st;
    struct node n[3];
    stage_open(&st, &usual);
    three_run(n, "run", st.serving.port);
    struct node deaf = node_of("run", "deaf", 9, 3);
    struct dt_message ask = {.type = DT_MSG_STATUS, .run = ""};
    struct dt_buf out = {0};
    node_greet(&deaf, st.serving.port);
    for (int i = 0; i < 100; i++)
        dt_message_encode(&out, &ask);
    while (counters(&st) && st.limits == 0) {
        send(deaf.fd, out.at, out.len, MSG_NOSIGNAL); /* fails once it is closed */
        node_beat(&n[0]);
    }
    dt_buf_finish(&out);
    node_finish(&deaf);
    three_succeed(n);
    stage_close(&st);
}

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

/* -- a server that is lost -------------------------------------------------------------------- */

/* The one thread that files are written by waits until the gate is open. */
static sem_t gate;

static void wait_at_gate(uv_work_t *work)
{
    (void)work;
    sem_wait(&gate);
}

static void nothing_after_work(uv_work_t *work, int status)
{
    (void)work;
    (void)status;
}

static void close_gate(struct serving *s, void *work)
{
    CHECK_EQ(uv_queue_work(&s->loop, work, wait_at_gate, nothing_after_work), 0);
}

static bool is_running(struct dt_sync_control *c)
{
    const struct cJSON *row;
    const char *state;
    struct dt_err err;
    struct dt_json page = ask_status(c, "run", 0);
    bool running = count_of(&page, "runs", &row) == 1 &&
                   dt_json_string(&page, row, "state", &state, &err) == 0 &&
                   strcmp(state, "running") == 0;
    dt_json_finish(&page);
    return running;
}

TEST(nobody_hears_what_is_not_on_disk_yet)
{
    struct dt_rdzv_server_config config = usual;
    struct stage st;
    uv_work_t work;
    uint8_t byte;
    struct node n = node_of("run", "node0", 1, 1);
    config.state_dir = at("slow");
    CHECK_EQ(sem_init(&gate, 0, 0), 0);
    stage_open(&st, &config);
    serving_do(&st.serving, close_gate, &work);
    struct dt_sync_control *c = control_open(&st);
    node_enter(&n, st.serving.port);
    while (!is_running(c)) /* it is decided ... */
        ;
    for (int i = 0; i < 3; i++)
        CHECK(is_running(c));
    CHECK(recv(n.fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN); /* ... and not told */
    sem_post(&gate);
    node_run(&n);
    dt_sync_control_close(c);
    node_finish(&n);
    stage_close(&st);
    sem_destroy(&gate);
}

TEST(a_disk_that_hangs_does_not_silence_the_server)
{
    struct dt_rdzv_server_config config = usual;
    struct stage st;
    uv_work_t work;
    struct node n = node_of("run", "node0", 1, 1);
    config.state_dir = at("hanging");
    CHECK_EQ(sem_init(&gate, 0, 0), 0);
    stage_open(&st, &config);
    serving_do(&st.serving, close_gate, &work);
    node_enter(&n, st.serving.port);
    node_run(&n);
    node_beat(&n);
    sem_post(&gate);
    node_finish(&n);
    stage_close(&st);
    sem_destroy(&gate);
}

static void look_nowhere(struct serving *s, void *arg)
{
    (void)s;
    (void)arg;
}

static void close_in_a_hurry(struct serving *s, void *arg)
{
    struct dt_rdzv_server *rdzv = dt_container_of(s, struct stage, serving)->rdzv;
    (void)arg;
    dt_rdzv_server_close(rdzv, NULL, on_rdzv_closed, s);
    dt_rdzv_server_close(rdzv, NULL, NULL, NULL);
}

static size_t count_runs(struct dt_sync_control *c)
{
    struct dt_json page = ask_status(c, "", 0);
    size_t runs = count_of(&page, "runs", NULL);
    dt_json_finish(&page);
    return runs;
}

TEST(what_was_decided_while_the_disk_hung_is_there_after_a_hurried_end)
{
    struct dt_rdzv_server_config config = usual;
    struct stage st;
    uv_work_t work;
    struct node n[2] = {node_of("run", "node0", 1, 1), node_of("other", "node1", 2, 1)};
    config.state_dir = at("hurried");
    CHECK_EQ(sem_init(&gate, 0, 0), 0);
    stage_open(&st, &config);
    serving_do(&st.serving, close_gate, &work);
    struct dt_sync_control *c = control_open(&st);
    for (size_t i = 0; i < 2; i++) {
        node_enter(&n[i], st.serving.port);
        while (count_runs(c) != i + 1)
            ;
    }
    serving_do(&st.serving, close_in_a_hurry, NULL);
    serving_do(&st.serving, look_nowhere, NULL); /* a turn of the loop later the journal is left */
    sem_post(&gate);
    sem_wait(&st.serving.done);
    serving_do(&st.serving, reopen, NULL);
    CHECK_EQ(counters(&st)->runs, 2);
    dt_sync_control_close(c);
    for (size_t i = 0; i < 2; i++)
        node_finish(&n[i]);
    stage_close(&st);
    sem_destroy(&gate);
}

TEST(a_new_server_on_the_same_journal_goes_on_where_the_old_one_was)
{
    struct dt_rdzv_server_config config = usual;
    struct stage st;
    struct node n[3];
    config.state_dir = at("resumed");
    stage_open(&st, &config);
    three_run(n, "run", st.serving.port);
    serving_do_and_wait(&st.serving, close_rdzv, NULL);
    for (int i = 0; i < 3; i++)
        node_expect_end(&n[i]);
    serving_do(&st.serving, reopen, NULL);
    CHECK_EQ(counters(&st)->runs, 1);
    for (int i = 0; i < 3; i++) {
        node_enter(&n[i], st.serving.port);
        node_beat(&n[i]); /* it was told nothing: its round goes on */
    }
    node_hang_up(&n[2]); /* and it is this server's round in full */
    node_stop(&n[0]);
    node_stop(&n[1]);
    node_finish(&n[2]);
    n[2] = node_of("run", "node2", 77, 3);
    node_enter(&n[2], st.serving.port);
    for (int i = 0; i < 3; i++)
        node_run(&n[i]);
    CHECK_EQ(n[0].round, 1);
    three_succeed(n);
    stage_close(&st);

    stage_open(&st, &config); /* a run that is over says how it ended, to who asks late */
    node_greet(&n[0], st.serving.port);
    n[0].claim.done = true;
    n[0].claim.seat = 0;
    node_join(&n[0]);
    CHECK_EQ(node_hear(&n[0], DT_MSG_CLOSE)->close.kind, DT_CLOSE_SUCCEEDED);
    node_finish(&n[0]);
    stage_close(&st);
}

TEST(a_new_server_without_a_journal_learns_from_its_agents)
{
    struct stage st;
    struct node n[3];
    stage_open(&st, &usual);
    three_run(n, "run", st.serving.port);
    serving_do_and_wait(&st.serving, close_rdzv, NULL);
    serving_do(&st.serving, reopen, NULL);
    CHECK_EQ(counters(&st)->runs, 0);
    for (int i = 0; i < 3; i++) {
        node_expect_end(&n[i]);
        node_enter(&n[i], st.serving.port);
        node_beat(&n[i]);
    }
    three_succeed(n);
    stage_close(&st);
}

TEST(runs_that_were_ended_leave_nothing_in_the_journal)
{
    struct dt_rdzv_server_config config = usual;
    struct stage st;
    struct node n = node_of("run", "node0", 1, 1);
    config.state_dir = at("ended");
    stage_open(&st, &config);
    node_enter(&n, st.serving.port);
    node_run(&n);
    serving_do_and_wait(&st.serving, close_rdzv, host_goes);
    CHECK_EQ(node_hear(&n, DT_MSG_CLOSE)->close.kind, DT_CLOSE_ENDED);
    serving_do(&st.serving, reopen, NULL);
    CHECK_EQ(counters(&st)->runs, 0);
    node_finish(&n);
    stage_close(&st);
}

TEST(a_state_directory_is_for_one_server)
{
    struct dt_rdzv_server_config config = usual;
    struct stage first, second;
    struct dt_store_server_config store = DT_STORE_SERVER_CONFIG_DEFAULT;
    struct dt_err err = {0};
    config.state_dir = at("taken");
    stage_open(&first, &config);
    serving_open(&second.serving, &store);
    CHECK(dt_rdzv_server_open(&second.serving.loop, second.serving.server, &config, &err) == NULL);
    CHECK(strstr(err.text, "taken") != NULL);
    serving_start(&second.serving);
    serving_stop(&second.serving);
    stage_close(&first);
}

/* -- beside the store ------------------------------------------------------------------------- */

TEST(the_store_is_served_beside_it)
{
    struct stage st;
    struct node n[3];
    stage_open(&st, &usual);
    int client = peer_greet(st.serving.port);
    peer_set(client, "k", "v");
    three_run(n, "run", st.serving.port);
    peer_get(client, "k", "v");
    peer_num_keys(client, 1); /* the control state is none of the store's */
    close(client);
    three_succeed(n);
    stage_close(&st);
}
