/* SPDX-License-Identifier: Apache-2.0 */
/* A server that is lost or ended, a disk that hangs, and the next server. */
#include "tests/rendezvous/rdzv_three.h"

#include <errno.h>

static char host_goes[] = "the host goes";

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
