/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that do not come, or are not what they should be. */
#include "tests/agent/fixed_job.h"

TEST(a_node_0_that_does_not_is_not_waited_for_forever)
{
    struct job j;
    job_open(&j, 2);
    j.nodes[1].plan.read_timeout = 100;
    job_start(&j);
    node_close(&j, 0, true);
    RUN_UNTIL(&j, j.nodes[0].closed);
    node_join(&j, 1);
    RUN_UNTIL(&j, j.nodes[1].failed.code);
    CHECK_FAIL(-1, j.nodes[1].failed, "could not reach node 0");
    CHECK_EQ(j.nodes[1].worlds, 1);
    job_close(&j);
}

TEST(nodes_that_never_come_are_named)
{
    struct job j;
    struct worker w;
    job_open(&j, 5);
    j.nodes[0].plan.join_timeout = 1000;
    for (int i = 0; i < 5; i += 2)
        node_open(&j, i);
    node_join(&j, 2);
    node_join(&j, 4);
    worker_at_endpoint(&j, &w);
    worker_wait(&w, "/none/torchelastic/role_info/2");
    worker_wait(&w, "/none/torchelastic/role_info/4");
    node_join(&j, 0);
    RUN_UNTIL(&j, j.nodes[0].failed.code);
    CHECK_EQ(j.nodes[0].failed.code, DT_E_TIMEOUT);
    CHECK_FAIL(-1, j.nodes[0].failed, "nodes 1 and 3 of 5 never came to 127.0.0.1:");
    worker_close(&w);
    job_close(&j);
}

TEST(two_nodes_with_one_rank_are_suspected)
{
    struct job j;
    struct worker w;
    job_open(&j, 3);
    j.nodes[0].plan.join_timeout = 1000;
    j.nodes[2].plan.node_rank = 1;
    for (int i = 0; i < 3; i++)
        node_open(&j, i);
    node_join(&j, 1);
    node_join(&j, 2);
    worker_at_endpoint(&j, &w);
    worker_wait(&w, "/none/torchelastic/role_info/1");
    while (worker_add(&w, "init/") < 4)
        ;
    node_join(&j, 0);
    RUN_UNTIL(&j, j.nodes[0].failed.code);
    CHECK_FAIL(-1, j.nodes[0].failed, "node 2 of 3 never came");
    CHECK_FAIL(-1, j.nodes[0].failed, "has each its own --node-rank?");
    worker_close(&w);
    job_close(&j);
}

TEST(who_waits_for_others_hears_that_node_0_went_away)
{
    struct job j;
    struct worker w;
    job_open(&j, 3);
    node_open(&j, 0);
    node_join(&j, 0);
    node_open(&j, 1);
    node_join(&j, 1);
    worker_at_endpoint(&j, &w);
    worker_wait(&w, "/none/torchelastic/role_info/1");
    worker_close(&w);
    node_close(&j, 0, false);
    RUN_UNTIL(&j, j.nodes[1].failed.code);
    CHECK_EQ(j.nodes[1].failed.code, DT_E_DISCONNECTED);
    CHECK_FAIL(-1, j.nodes[1].failed, "node 0 went away");
    job_close(&j);
}

TEST(a_node_0_that_cannot_be_reached_is_a_failure_after_the_time)
{
    static const struct {
        const char *host, *words;
    } rows[] = {{"127.0.0.1", "connection refused"}, {"nowhere.invalid", "cannot resolve"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].host);
        struct job j;
        job_open(&j, 2);
        int fd = bind_somewhere(&j.port);
        j.nodes[1].plan.endpoint_host = (char *)rows[i].host;
        j.nodes[1].plan.endpoint_port = j.port;
        j.nodes[1].plan.join_timeout = 1000;
        node_open(&j, 1);
        node_join(&j, 1);
        RUN_UNTIL(&j, j.nodes[1].failed.code);
        CHECK_FAIL(-1, j.nodes[1].failed, rows[i].words);
        CHECK_FAIL(-1, j.nodes[1].failed, rows[i].host);
        CHECK_EQ(dt_err_exit_status(&j.nodes[1].failed), 1);
        close(fd);
        job_close(&j);
    }
}

TEST(what_is_no_role_info_fails_node_0_with_the_culprit)
{
    struct job j;
    struct worker w;
    struct dt_err err;
    job_open(&j, 2);
    node_open(&j, 0);
    node_join(&j, 0);
    worker_at_endpoint(&j, &w);
    struct dt_c10d_request set = {.op = DT_C10D_SET,
                                  .key = dt_bytes_of("/none/torchelastic/role_info/1"),
                                  .value = dt_bytes_of("{\"rank\": 1}")};
    CHECK_OK(dt_store_client_request(w.client, &set, SOON, NULL, NULL, &err), err);
    RUN_UNTIL(&j, j.nodes[0].failed.code);
    CHECK_FAIL(-1, j.nodes[0].failed, "node 1 says of itself: the document: \"role\" is missing");
    worker_close(&w);
    job_close(&j);
}

/* A peer that gives out too few ranks, as a node 0 of another job with the same name would. */
TEST(ranks_that_do_not_fit_are_refused)
{
    struct job j;
    struct worker w;
    struct dt_err err;
    job_open(&j, 2);
    j.nodes[1].plan.nproc = 3;
    node_open(&j, 0); /* serves, and does not join */
    worker_at_endpoint(&j, &w);
    struct dt_c10d_request set = {.op = DT_C10D_SET,
                                  .key = dt_bytes_of("/none/torchelastic/assigned_ranks/1"),
                                  .value = dt_bytes_of("[2, 4, 0, 2]")};
    CHECK_OK(dt_store_client_request(w.client, &set, SOON, NULL, NULL, &err), err);
    set.key = dt_bytes_of("/none/torchelastic/role_info/0");
    set.value = dt_bytes_of("{\"role\": \"default\", \"rank\": 0, \"local_world_size\": 2}");
    CHECK_OK(dt_store_client_request(w.client, &set, SOON, NULL, NULL, &err), err);
    node_open(&j, 1);
    node_join(&j, 1);
    RUN_UNTIL(&j, j.nodes[1].failed.code);
    CHECK_FAIL(-1, j.nodes[1].failed, "3 workers do not fit in ranks from 2 of 4");
    worker_close(&w);
    job_close(&j);
}
