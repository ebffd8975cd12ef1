/* SPDX-License-Identifier: Apache-2.0 */
/* How nodes that are known beforehand meet, be it one or several, and what each attempt finds. */
#include "tests/agent/fixed_job.h"

/* -- one node --------------------------------------------------------------------------------- */

TEST(one_node_is_all_there_is_and_takes_any_port)
{
    static const struct {
        enum dt_plan_backend backend;
        const char *endpoint, *local_addr, *listen;
        const char *world;
    } rows[] = {
        {DT_BACKEND_C10D, "localhost", NULL, NULL,
         "round 0 group 0/1 ranks 0/3 role 0/3 at 127.0.0.1"},
        {DT_BACKEND_C10D, "elsewhere.example", NULL, "127.0.0.1",
         "round 0 group 0/1 ranks 0/3 role 0/3 at 127.0.0.1"},
        {DT_BACKEND_C10D, "localhost", "127.0.0.2", NULL,
         "round 0 group 0/1 ranks 0/3 role 0/3 at 127.0.0.2"},
        {DT_BACKEND_STATIC, "localhost", NULL, NULL,
         "round 0 group 0/1 ranks 0/3 role 0/3 at localhost"},
        {DT_BACKEND_STATIC, "127.0.0.1", NULL, "*",
         "round 0 group 0/1 ranks 0/3 role 0/3 at 127.0.0.1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].world);
        struct job j;
        struct worker w;
        job_open(&j, 1);
        j.nodes[0].plan.nproc = 3;
        j.nodes[0].plan.backend = rows[i].backend;
        j.nodes[0].plan.endpoint_host = (char *)rows[i].endpoint;
        j.nodes[0].plan.endpoint_port = 0;
        j.nodes[0].plan.local_addr = (char *)rows[i].local_addr;
        j.nodes[0].plan.store_listen = (char *)rows[i].listen;
        job_start(&j);
        check_world(&j.nodes[0].world, rows[i].world);
        CHECK(j.nodes[0].world.master_port > 0);
        worker_at(&j, &w, &j.nodes[0].world);
        CHECK_EQ(worker_add(&w, "n"), 1);
        worker_close(&w);
        node_barrier(&j, 0);
        CHECK_EQ(j.nodes[0].barriers, 0);
        RUN_UNTIL(&j, j.nodes[0].barriers);
        CHECK_EQ(j.nodes[0].why.code, DT_E_NONE);
        node_close(&j, 0, false);
        job_close(&j);
    }
}

TEST(each_attempt_of_one_node_finds_the_store_empty_on_the_same_port)
{
    struct job j;
    struct worker left_over, next;
    job_open(&j, 1);
    job_start(&j);
    CHECK_EQ(j.nodes[0].world.master_port, j.port);
    worker_at(&j, &left_over, &j.nodes[0].world);
    CHECK_EQ(worker_add(&left_over, "n"), 1);
    CHECK_EQ(worker_add(&left_over, "n"), 2);
    node_join(&j, 0);
    RUN_UNTIL(&j, j.nodes[0].worlds == 2);
    check_world(&j.nodes[0].world, "round 1 group 0/1 ranks 0/1 role 0/1 at 127.0.0.1");
    CHECK_EQ(j.nodes[0].world.master_port, j.port);
    worker_at(&j, &next, &j.nodes[0].world);
    CHECK_EQ(worker_add(&next, "n"), 1);
    RUN_UNTIL(&j, left_over.lost);
    worker_close(&left_over);
    worker_close(&next);
    job_close(&j);
}

TEST(a_port_that_is_taken_is_named)
{
    struct job j;
    struct dt_err err;
    char words[100];
    job_open(&j, 1);
    int fd = bind_somewhere(&j.port);
    CHECK_EQ(listen(fd, 1), 0);
    for (int nodes = 1; nodes <= 2; nodes++) {
        snprintf(words, sizeof words, "127.0.0.1:%d is in use by this very process", j.port);
        struct dt_plan *plan = &j.nodes[0].plan;
        plan->endpoint_port = j.port;
        plan->max_nodes = nodes;
        CHECK((nodes == 1 ? dt_backend_local_open(&j.loop, plan, &events, NULL, &err)
                          : dt_backend_static_open(&j.loop, plan, &events, NULL, &err)) == NULL);
        CHECK_FAIL(-1, err, words);
        CHECK_FAIL(-1, err, "choose another port");
    }
    close(fd);
    job_close(&j);
}

/* Whatever ranges are allowed, a node's own workers are: they come from loopback. */
TEST(allowed_ranges_do_not_keep_this_node_out)
{
    struct job j;
    struct worker w;
    struct dt_cidr range;
    struct dt_err err;
    CHECK_OK(dt_cidr_parse("203.0.113.0/24", &range, &err), err);
    job_open(&j, 1);
    j.nodes[0].plan.store_allow = &range;
    j.nodes[0].plan.store_allow_count = 1;
    job_start(&j);
    worker_at(&j, &w, &j.nodes[0].world);
    CHECK_EQ(worker_add(&w, "n"), 1);
    worker_close(&w);
    job_close(&j);
}

/* -- several nodes ---------------------------------------------------------------------------- */

TEST(two_nodes_of_unlike_size_and_role)
{
    struct job j;
    job_open(&j, 2);
    j.nodes[0].plan.nproc = 2;
    j.nodes[1].plan.nproc = 3;
    j.nodes[1].plan.role = (char *)"other";
    job_start(&j);
    check_world(&j.nodes[0].world, "round 0 group 0/2 ranks 0/5 role 0/2 at 127.0.0.1");
    check_world(&j.nodes[1].world, "round 0 group 1/2 ranks 2/5 role 0/3 at 127.0.0.1");
    CHECK_EQ(j.nodes[1].world.master_port, j.port);
    job_close(&j);
}

TEST(five_nodes_in_any_order_and_none_before_all_are_there)
{
    struct job j;
    job_open(&j, 5);
    for (int i = 4; i >= 1; i--) {
        j.nodes[i].plan.nproc = i;
        node_open(&j, i);
        node_join(&j, i);
    }
    node_open(&j, 0);
    struct worker w;
    worker_at_endpoint(&j, &w);
    while (worker_add(&w, "init/") < 6) /* four of them, our own, and this */
        ;
    for (int i = 0; i < 5; i++)
        CHECK_EQ(j.nodes[i].worlds, 0);
    node_join(&j, 0);
    for (int i = 0; i < 5; i++)
        RUN_UNTIL(&j, j.nodes[i].worlds);
    for (int i = 0, first = 0; i < 5; first += j.nodes[i++].plan.nproc) {
        CHECK_EQ(j.nodes[i].world.group_rank, i);
        CHECK_EQ(j.nodes[i].world.first_rank, first);
        CHECK_EQ(j.nodes[i].world.size, 11);
    }
    worker_close(&w);
    job_close(&j);
}

/* Keys as torchrun spells them, and few messages. */
TEST(what_stands_in_the_store_is_what_torchrun_would_find)
{
    static const struct {
        const char *key, *value;
    } rows[] = {
        {"init/", "3"}, /* two agents, and the client of this test adds one */
        {"/none/torchelastic/role_info/0",
         "{\"role\": \"default\", \"rank\": 0, \"local_world_size\": 2, \"nodes\": 2}"},
        {"/none/torchelastic/role_info/1",
         "{\"role\": \"other\", \"rank\": 1, \"local_world_size\": 3, \"nodes\": 2}"},
        {"/none/torchelastic/assigned_ranks/0", "[0, 5, 0, 2]"},
        {"/none/torchelastic/assigned_ranks/1", "[2, 5, 0, 3]"},
        /* What it would not find: that all of them are dtruns. */
        {"/none/dtrun/hang/knows/0", "1"},
        {"/none/dtrun/hang/knows/1", "1"},
        {"/none/dtrun/hang/together", "1"},
    };
    struct job j;
    struct worker w;
    job_open(&j, 2);
    j.nodes[0].plan.nproc = 2;
    j.nodes[1].plan.nproc = 3;
    j.nodes[1].plan.role = (char *)"other";
    job_start(&j);
    worker_at(&j, &w, &j.nodes[0].world);
    CHECK_EQ(worker_add(&w, "init/"), 3);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].key);
        struct dt_c10d_request same = {.op = DT_C10D_COMPARE_SET,
                                       .key = dt_bytes_of(rows[i].key),
                                       .value = dt_bytes_of(rows[i].value),
                                       .desired = dt_bytes_of("7")};
        worker_ask(&w, &same);
        CHECK_EQ(worker_add(&w, rows[i].key), 8); /* it was equal, so now it is a number */
    }
    struct dt_c10d_request count = {.op = DT_C10D_GETNUMKEYS};
    CHECK_EQ(worker_ask(&w, &count), (int)(sizeof rows / sizeof *rows));
    worker_close(&w);
    job_close(&j);
}

TEST(nodes_that_are_alike_by_promise_exchange_nothing)
{
    struct job j;
    struct worker w;
    job_open(&j, 2);
    for (int i = 0; i < 2; i++) {
        j.nodes[i].plan.nproc = 4;
        j.nodes[i].plan.identical = true;
    }
    job_start(&j);
    check_world(&j.nodes[1].world, "round 0 group 1/2 ranks 4/8 role 4/8 at 127.0.0.1");
    worker_at(&j, &w, &j.nodes[0].world);
    CHECK_EQ(worker_add(&w, "/none/torchelastic/role_info/1"), 1);
    worker_close(&w);
    job_close(&j);
}

TEST(a_node_may_begin_its_next_attempt_alone)
{
    struct job j;
    job_open(&j, 2);
    j.nodes[0].plan.nproc = 2;
    job_start(&j);
    for (int i = 0; i < 2; i++) {
        node_join(&j, i);
        RUN_UNTIL(&j, j.nodes[i].worlds == 2);
    }
    check_world(&j.nodes[0].world, "round 1 group 0/2 ranks 0/3 role 0/3 at 127.0.0.1");
    check_world(&j.nodes[1].world, "round 1 group 1/2 ranks 2/3 role 2/3 at 127.0.0.1");
    job_close(&j);
}

/* Its agent was killed, say, and somebody started it again. */
TEST(a_node_0_that_comes_back_is_found_by_the_next_attempt)
{
    struct job j;
    job_open(&j, 2);
    job_start(&j);
    node_close(&j, 0, true);
    RUN_UNTIL(&j, j.nodes[0].closed);
    node_join(&j, 1);
    j.nodes[0] = (struct node){.plan = j.nodes[0].plan};
    node_open(&j, 0);
    node_join(&j, 0);
    RUN_UNTIL(&j, j.nodes[0].worlds && j.nodes[1].worlds == 2);
    check_world(&j.nodes[0].world, "round 0 group 0/2 ranks 0/2 role 0/2 at 127.0.0.1");
    check_world(&j.nodes[1].world, "round 1 group 1/2 ranks 1/2 role 1/2 at 127.0.0.1");
    job_close(&j);
}
