/* SPDX-License-Identifier: Apache-2.0 */
/* An elastic job whose rendezvous is one of its agents. */
#include "tests/agent/elastic_job.h"

TEST(who_must_host_and_cannot_says_who_has_the_port)
{
    struct job *j = job_with_fake();
    struct dt_err err;
    j->nodes[0].plan.is_host = DT_HOST_YES;
    CHECK(!dt_backend_elastic_open(&j->loop, &j->nodes[0].plan, &events, &j->nodes[0], &err));
    CHECK(strstr(err.text, "in use by this very process"));
    job_end(j);
}

TEST(who_might_host_and_comes_second_joins_the_first)
{
    struct job *j = job_with_fake();
    j->nodes[1].plan.is_host = DT_HOST_INFERRED;
    node_joins(j, 1);
    job_end(j);
}

/* All join, the host last, and have their first world. */
static struct job *job_runs(void)
{
    struct job *j = job_new();
    for (int i = NODES - 1; i >= 0; i--) {
        node_open(j, i);
        node_join(j, i);
    }
    all_hear(j, 0);
    check_all(j, 0, "world 0");
    return j;
}

TEST(agents_meet_at_the_one_that_hosts)
{
    struct job *j = job_runs();
    for (int i = 0; i < NODES; i++) {
        CHECK_ROW("node %d", i);
        CHECK_EQ(j->nodes[i].world.group_rank, i);
        CHECK_EQ(j->nodes[i].world.group_size, NODES);
        CHECK_EQ(j->nodes[i].world.first_rank, 2 * i);
        CHECK_EQ(j->nodes[i].world.size, 2 * NODES);
        CHECK_STR(j->nodes[i].world.master_addr, "127.0.0.1");
        CHECK(j->nodes[i].world.master_port != j->port);
        CHECK_EQ(worker_adds(j, j->nodes[i].world.master_addr, j->nodes[i].world.master_port),
                 i + 1);
    }
    job_end(j);
}

TEST(all_wait_for_all_and_the_host_leaves_last)
{
    struct job *j = job_runs();
    for (int i = 0; i < NODES; i++) {
        for (int k = 0; k < NODES; k++)
            CHECK_STR(j->nodes[k].told, "");
        node_barrier(j, i);
    }
    RUN_UNTIL(j, *j->nodes[0].told);
    node_close(j, 0, false);
    RUN_UNTIL(j, j->nodes[0].closed);
    CHECK_STR(told(&j->nodes[0]), "barrier over");
    all_hear(j, 1);
    check_all(j, 1, "barrier over");
    job_end(j);
}

TEST(a_failure_of_one_is_the_next_round_of_all)
{
    struct job *j = job_runs();
    node_fail(j, 2);
    for (int i = 0; i < 2; i++) {
        RUN_UNTIL(j, *j->nodes[i].told);
        CHECK(strstr(told(&j->nodes[i]), "stop: "));
    }
    for (int i = 0; i < NODES; i++)
        node_join(j, i);
    all_hear(j, 0);
    check_all(j, 0, "world 1");
    CHECK_EQ(j->nodes[0].world.restarts, 1);
    CHECK_EQ(j->nodes[2].world.prev_first_rank, 4);
    job_end(j);
}

TEST(a_job_that_failed_is_over_for_all)
{
    struct job *j = job_new();
    for (int i = 0; i < NODES; i++) {
        j->nodes[i].plan.run.max_restarts = 0;
        node_open(j, i);
        node_join(j, i);
    }
    all_hear(j, 0);
    check_all(j, 0, "world 0");
    node_fail(j, 0);
    all_hear(j, 1);
    for (int i = 0; i < NODES; i++) {
        told(&j->nodes[i]);
        node_join(j, i); /* it is decided when all workers are gone */
    }
    all_hear(j, 0);
    for (int i = 0; i < NODES; i++)
        CHECK(strstr(told(&j->nodes[i]), "closed failed: "));
    job_end(j);
}

TEST(when_the_host_is_told_to_go_the_job_ends_for_all)
{
    struct job *j = job_runs();
    struct node *host = &j->nodes[0];
    host->backend->ops->leave(host->backend, "SIGTERM");
    node_close(j, 0, false);
    all_hear(j, 1);
    for (int i = 1; i < NODES; i++)
        CHECK(strstr(told(&j->nodes[i]),
                     "closed ended: node0, whose agent hosted it, leaves: SIGTERM"));
    RUN_UNTIL(j, host->closed);
    CHECK_STR(told(host), "");
    job_end(j);
}

TEST(a_node_that_vanishes_is_a_round_of_the_others)
{
    struct job *j = job_new();
    for (int i = 0; i < NODES; i++) {
        j->nodes[i].plan.min_nodes = j->nodes[i].plan.run.min_nodes = 2;
        node_open(j, i);
        node_join(j, i);
    }
    all_hear(j, 0);
    check_all(j, 0, "world 0");
    node_close(j, 2, true);
    for (int i = 0; i < 2; i++) {
        RUN_UNTIL(j, *j->nodes[i].told);
        CHECK(strstr(told(&j->nodes[i]), "stop: "));
        node_join(j, i);
    }
    for (int i = 0; i < 2; i++) {
        RUN_UNTIL(j, *j->nodes[i].told);
        CHECK_STR(told(&j->nodes[i]), "world 1");
        CHECK_EQ(j->nodes[i].world.size, 4);
    }
    job_end(j);
}

TEST(who_knows_the_token_is_let_in)
{
    char file[] = "/tmp/dtrun-test-XXXXXX";
    struct dt_err err;
    if (!dt_proof_open(&err))
        SKIP("no libsodium: %s", err.text);
    int fd = mkstemp(file);
    CHECK_EQ(write(fd, "secret\n", 7), 7);
    close(fd);
    struct job *j = job_new();
    for (int i = 0; i < 2; i++) {
        j->nodes[i].plan.token_file = file;
        j->nodes[i].plan.max_nodes = j->nodes[i].plan.min_nodes = 2;
        j->nodes[i].plan.run.max_nodes = j->nodes[i].plan.run.min_nodes = 2;
        node_open(j, i);
        node_join(j, i);
    }
    for (int i = 0; i < 2; i++) {
        RUN_UNTIL(j, *j->nodes[i].told);
        CHECK_STR(told(&j->nodes[i]), "world 0");
    }
    node_open(j, 2);
    node_join(j, 2);
    RUN_UNTIL(j, *j->nodes[2].told);
    CHECK(strstr(told(&j->nodes[2]), "it asks for a token"));
    unlink(file);
    job_end(j);
}

TEST(it_may_be_closed_at_any_moment)
{
    for (int turns = 0; turns < 16; turns++) {
        CHECK_ROW("after %d turns of the loop", turns);
        struct job *j = job_new();
        for (int i = 0; i < NODES; i++) {
            node_open(j, i);
            node_join(j, i);
        }
        for (int i = 0; i < turns; i++)
            turn_once(&j->loop);
        for (int i = 0; i < NODES; i++)
            node_close(j, i, turns % 2);
        job_end(j);
    }
}
