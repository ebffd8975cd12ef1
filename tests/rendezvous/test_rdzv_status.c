/* SPDX-License-Identifier: Apache-2.0 */
/* What people ask, and what the rendezvous says of runs and nodes, however many. */
#include "tests/rendezvous/rdzv_three.h"

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

/* Nodes that come back tell of their round, not where its workers met. */
TEST(a_server_that_forgot_a_round_names_no_master)
{
    struct stage st;
    const struct cJSON *row;
    struct node n = node_of("run", "node0", 1, 1);
    n.round = 3;
    n.claim = (struct dt_claim){.running = true, .again = true, .seats = 1, .size = 2};
    stage_open(&st, &usual);
    node_enter(&n, st.serving.port);
    node_beat(&n);
    struct dt_sync_control *c = control_open(&st);
    struct dt_json page = ask_status(c, "run", 0);
    CHECK_EQ(count_of(&page, "runs", &row), 1);
    check_text(&page, row, "state", "running");
    check_text(&page, row, "master", "");
    dt_json_finish(&page);
    dt_sync_control_close(c);
    node_finish(&n);
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
