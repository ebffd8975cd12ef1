/* SPDX-License-Identifier: Apache-2.0 */
/* An elastic job whose rendezvous goes away, and may come back. */
#include "rendezvous/runs/server.h"
#include "tests/agent/elastic_job.h"

TEST(workers_do_not_notice_that_a_daemon_was_away)
{
    struct job *j = job_with_fake();
    struct node *n = node_runs(j, 1);
    fake_close(&j->fake);
    RUN_UNTIL(j, !j->fake.peer);
    RUN_UNTIL(j, n->lease == 0);
    fake_open(&j->fake, &j->loop);
    RUN_UNTIL(j, *j->fake.heard);
    CHECK_STR(fake_heard(&j->fake), "JOIN 5 running");
    CHECK_EQ(j->fake.join.claim.seat, 1);
    CHECK_STR(told(n), "");
    job_end(j);
}

TEST(with_an_agent_that_hosted_it_the_job_is_gone)
{
    struct job *j = job_with_fake();
    j->fake.host = "agent";
    keep_short(&j->nodes[1].plan.run);
    struct node *n = node_runs(j, 1);
    fake_close(&j->fake);
    RUN_UNTIL(j, *n->told);
    CHECK(strstr(n->told, "closed ended: the rendezvous at 127.0.0.1:"));
    CHECK(strstr(n->told, "hosted by an agent there, has been gone"));
    CHECK(strstr(told(n), "refused"));
    job_end(j);
}

TEST(who_waits_for_a_world_waits_for_the_daemon_as_long_as_for_nodes)
{
    struct job *j = job_with_fake();
    j->nodes[1].plan.join_timeout = 100;
    struct node *n = node_joins(j, 1);
    fake_close(&j->fake);
    RUN_UNTIL(j, *n->told);
    CHECK(strstr(told(n), "failed: the rendezvous at 127.0.0.1:"));
    node_join(j, 1); /* and that stays so */
    RUN_UNTIL(j, *n->told);
    CHECK(strstr(told(n), "failed: the rendezvous at 127.0.0.1:"));
    job_end(j);
}

/* Who had a world may have a failure to report. */
TEST(who_waits_for_another_world_is_told_that_the_job_ended)
{
    struct job *j = job_with_fake();
    struct node *n = node_runs(j, 1);
    j->nodes[1].plan.join_timeout = 100;
    node_fail(j, 1);
    node_join(j, 1);
    fake_close(&j->fake);
    RUN_UNTIL(j, *n->told);
    CHECK(strstr(told(n), "closed ended: the rendezvous at 127.0.0.1:"));
    job_end(j);
}

TEST(who_is_done_does_not_wait_for_a_daemon_for_ever)
{
    struct job *j = job_with_fake();
    j->nodes[1].plan.barrier_timeout = 100;
    struct node *n = node_runs(j, 1);
    node_barrier(j, 1);
    fake_close(&j->fake);
    RUN_UNTIL(j, *n->told);
    CHECK(strstr(told(n), "barrier over: the rendezvous at 127.0.0.1:"));
    job_end(j);
}

/* Workers may run for hours without one. */
TEST(the_wait_for_a_daemon_begins_when_it_is_needed)
{
    for (int done = 0; done < 2; done++) {
        struct job *j = job_with_fake();
        CHECK_ROW("%s", done ? "barrier" : "join");
        j->nodes[1].plan.join_timeout = j->nodes[1].plan.barrier_timeout = 100;
        struct node *n = node_runs(j, 1);
        fake_close(&j->fake);
        uint64_t from = uv_now(&j->loop);
        RUN_UNTIL(j, uv_now(&j->loop) >= from + 200);
        CHECK_STR(told(n), "");
        from = uv_now(&j->loop);
        if (!done)
            node_fail(j, 1);
        (done ? node_barrier : node_join)(j, 1);
        RUN_UNTIL(j, *n->told);
        CHECK(strstr(told(n), " has been gone for "));
        CHECK(uv_now(&j->loop) >= from + 100);
        job_end(j);
    }
}

TEST(workers_that_must_not_run_alone_are_stopped)
{
    struct job *j = job_with_fake();
    j->nodes[1].plan.stop_when_away = true;
    keep_short(&j->nodes[1].plan.run);
    struct node *n = node_runs(j, 1);
    fake_close(&j->fake);
    RUN_UNTIL(j, *n->told);
    CHECK(strstr(told(n), "stop: nothing was heard of the rendezvous"));
    node_join(j, 1);
    fake_heard(&j->fake);
    fake_open(&j->fake, &j->loop);
    RUN_UNTIL(j, *j->fake.heard);
    CHECK_STR(fake_heard(&j->fake), "JOIN 5"); /* as somebody new, who did not fail */
    job_end(j);
}

/* Between the timers and what comes over the network, which is a MORE: what was said in one turn of
 * the loop goes out in the next. */
static void freeze(uv_prepare_t *h)
{
    struct job *j = h->data;
    uv_prepare_stop(h);
    usleep(2 * 300 * 1000 + 1000);
    uv_update_time(&j->loop);
}

static void say_more(uv_prepare_t *h)
{
    struct job *j = h->data;
    FAKE_SAY(&j->fake, .type = DT_MSG_MORE, .round = 5, .more = {.id = 1, .room = 1000});
    uv_prepare_stop(h);
    uv_prepare_start(h, freeze);
}

TEST(who_reads_along_does_not_hide_that_nothing_may_be_saved_any_more)
{
    struct job *j = job_with_fake();
    uv_prepare_t prepare = {.data = j};
    signal(SIGPIPE, SIG_IGN); /* a beat may be answered when the node is gone */
    keep_short(&j->nodes[1].plan.run);
    struct node *n = node_runs(j, 1);
    FAKE_SAY(&j->fake, .type = DT_MSG_STOP, .round = 5, .stop.together = true, .why = "paused");
    RUN_UNTIL(j, *n->told);
    CHECK_STR(told(n), "stop together: paused");
    uv_prepare_init(&j->loop, &prepare);
    uv_prepare_start(&prepare, say_more);
    RUN_UNTIL(j, strstr(n->told, "more"));
    CHECK(strstr(told(n), "stop: the rendezvous is not heard of"));
    uv_close((uv_handle_t *)&prepare, NULL);
    job_end(j);
}

TEST(a_connection_on_which_nothing_comes_is_made_again)
{
    struct job *j = job_with_fake();
    j->nodes[1].plan.run.beat = 300;
    j->fake.silent = true;
    node_joins(j, 1);
    RUN_UNTIL(j, j->fake.connections == 2 && *j->fake.heard);
    CHECK_STR(fake_heard(&j->fake), "JOIN -1");
    job_end(j);
}

/* A daemon, in this process. */
struct daemon {
    struct dt_store_server *store;
    struct dt_rdzv_server *server;
    bool closed;
};

static void daemon_open(struct job *j, struct daemon *d, const char *state_dir)
{
    struct dt_store_server_config config = DT_STORE_SERVER_CONFIG_DEFAULT;
    struct dt_rdzv_server_config rdzv = DT_RDZV_SERVER_CONFIG_DEFAULT;
    struct dt_addr at;
    struct dt_err err;
    *d = (struct daemon){.store = dt_store_server_create(&j->loop, &config, &err)};
    CHECK(d->store != NULL);
    CHECK_OK(dt_addr_parse("127.0.0.1", (uint16_t)j->port, &at, &err), err);
    CHECK_OK(dt_store_server_listen(d->store, &at, NULL, &err), err);
    rdzv.state_dir = state_dir;
    d->server = dt_rdzv_server_open(&j->loop, d->store, &rdzv, &err);
    if (!d->server)
        check_say(err.text);
    CHECK(d->server != NULL);
}

/* No run is ended. */
static void daemon_close(struct job *j, struct daemon *d)
{
    dt_rdzv_server_close(d->server, NULL, on_backend_closed, &d->closed);
    RUN_UNTIL(j, d->closed);
    dt_store_server_close(d->store, 0, NULL, NULL);
}

/* What it knew is in its journal, or its agents tell it. */
TEST(a_daemon_that_comes_back_finds_the_job_as_it_was)
{
    char state[] = "/tmp/dtrun-test-XXXXXX", command[64];
    const char *const dirs[] = {NULL, mkdtemp(state)};
    for (size_t i = 0; i < ROWS(dirs); i++) {
        CHECK_ROW("%s", dirs[i] ? "with a journal" : "without");
        struct job *j = job_new();
        struct daemon d;
        daemon_open(j, &d, dirs[i]);
        for (int k = 0; k < NODES; k++) {
            j->nodes[k].plan.is_host = DT_HOST_NO;
            node_open(j, k);
            node_join(j, k);
        }
        all_hear(j, 0);
        check_all(j, 0, "world 0");
        daemon_close(j, &d);
        daemon_open(j, &d, dirs[i]);
        while (dt_rdzv_server_counters(d.server)->nodes < NODES ||
               dt_rdzv_server_counters(d.server)->frames_in < 2 * NODES)
            turn_once(&j->loop);
        check_all(j, 0, ""); /* nobody was stopped */
        node_fail(j, 2);
        for (int k = 0; k < 2; k++) {
            RUN_UNTIL(j, *j->nodes[k].told);
            CHECK(strstr(told(&j->nodes[k]), "stop: "));
        }
        for (int k = 0; k < NODES; k++)
            node_join(j, k);
        all_hear(j, 0);
        check_all(j, 0, "world 1");
        CHECK_EQ(j->nodes[2].world.group_rank, 2);
        CHECK_EQ(j->nodes[2].world.restarts, 1);
        for (int k = 0; k < NODES; k++)
            node_barrier(j, k);
        all_hear(j, 0);
        check_all(j, 0, "barrier over");
        daemon_close(j, &d);
        job_end(j);
    }
    snprintf(command, sizeof command, "rm -rf %s", state);
    CHECK_EQ(system(command), 0);
}
