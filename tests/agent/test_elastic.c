/* SPDX-License-Identifier: Apache-2.0 */
/* What passes between an agent of an elastic job and a rendezvous that is somewhere else. */
#include "tests/agent/elastic_job.h"

TEST(a_world_is_joined_for_and_all_of_it_is_told)
{
    struct job *j = job_with_fake();
    struct node *n = node_runs(j, 1);
    CHECK_EQ(n->world.round, 5);
    CHECK_EQ(n->world.group_rank, 1);
    CHECK_EQ(n->world.group_size, 4);
    CHECK_EQ(n->world.first_rank, 2);
    CHECK_EQ(n->world.size, 8);
    CHECK_EQ(n->world.first_role_rank, 2);
    CHECK_EQ(n->world.role_size, 8);
    CHECK_STR(n->world.master_addr, "10.1.2.3");
    CHECK_EQ(n->world.master_port, 4711);
    CHECK(n->world.store_is_served);
    CHECK_EQ(n->world.prev_first_rank, 6);
    CHECK_EQ(n->world.prev_size, 9);
    CHECK_EQ(n->world.restarts, 1);
    CHECK_STR(n->world.news, "node7 came");
    CHECK(n->lease > 0 && n->lease < DT_FOREVER);
    job_end(j);
}

/* Which workers of the round before, slow to end or to begin, do not find. */
TEST(each_join_offers_an_empty_store_at_another_port)
{
    struct job *j = job_with_fake();
    struct node *n = node_runs(j, 1);
    int port = j->fake.join.node.port;
    CHECK_STR(j->fake.addr, "127.0.0.1");
    CHECK_EQ(worker_adds(j, j->fake.addr, port), 1);
    CHECK_EQ(worker_adds(j, j->fake.addr, port), 2);
    FAKE_SAY(&j->fake, .type = DT_MSG_STOP, .round = 5, .why = "node7 came");
    RUN_UNTIL(j, *n->told);
    CHECK_STR(told(n), "stop: node7 came");
    node_join(j, 1);
    RUN_UNTIL(j, *j->fake.heard);
    CHECK_STR(fake_heard(&j->fake), "JOIN 5");
    CHECK(j->fake.join.node.port != port);
    CHECK_EQ(worker_adds(j, j->fake.addr, j->fake.join.node.port), 1);
    job_end(j);
}

TEST(who_was_told_how_to_be_reached_says_that)
{
    struct job *j = job_with_fake();
    j->nodes[1].plan.local_addr = (char *)"node1.ib";
    node_joins(j, 1);
    CHECK_STR(j->fake.addr, "node1.ib");
    job_end(j);
}

TEST(what_comes_of_the_workers_is_said)
{
    struct job *j = job_with_fake();
    struct node *n = node_runs(j, 1);
    node_fail(j, 1);
    RUN_UNTIL(j, *j->fake.heard);
    CHECK_STR(fake_heard(&j->fake), "RESULT 5 rank 3 exited with 7");
    node_join(j, 1);
    RUN_UNTIL(j, *j->fake.heard);
    say_world(j, 6);
    RUN_UNTIL(j, *n->told);
    CHECK_STR(told(n), "world 6");
    fake_heard(&j->fake);
    node_barrier(j, 1);
    RUN_UNTIL(j, *j->fake.heard);
    CHECK_STR(fake_heard(&j->fake), "RESULT 6 well");
    FAKE_SAY(&j->fake, .type = DT_MSG_CLOSE, .close = {.kind = DT_CLOSE_SUCCEEDED},
             .why = "all are done");
    RUN_UNTIL(j, *n->told);
    CHECK_STR(told(n), "barrier over");
    job_end(j);
}

TEST(beats_carry_what_the_agent_tells)
{
    struct job *j = job_with_fake();
    j->nodes[1].plan.run.beat = 10;
    j->nodes[1].plan.run.beats = 1000;
    struct node *n = node_joins(j, 1);
    struct dt_beat facts = {.step = 42, .running = 2};
    n->backend->ops->tell(n->backend, &facts);
    RUN_UNTIL(j, j->fake.step == 42);
    job_end(j);
}

TEST(a_job_may_end_at_any_time)
{
    static const struct {
        enum dt_close_kind kind;
        bool barrier;
        const char *told;
    } rows[] = {
        {DT_CLOSE_SUCCEEDED, true, "barrier over"},
        {DT_CLOSE_SUCCEEDED, false, "closed succeeded: so it is"},
        {DT_CLOSE_FAILED, true, "closed failed: so it is"},
        {DT_CLOSE_ENDED, false, "closed ended: so it is"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].told);
        struct job *j = job_with_fake();
        struct node *n = node_runs(j, 1);
        if (rows[i].barrier)
            node_barrier(j, 1);
        FAKE_SAY(&j->fake, .type = DT_MSG_CLOSE, .close = {.kind = rows[i].kind},
                 .why = "so it is");
        RUN_UNTIL(j, *n->told);
        CHECK_STR(told(n), rows[i].told);
        job_end(j);
    }
}

TEST(who_is_stale_kills_and_comes_as_new)
{
    struct job *j = job_with_fake();
    struct node *n = node_runs(j, 1);
    uint64_t before = j->fake.incarnation;
    FAKE_SAY(&j->fake, .type = DT_MSG_STALE, .why = "round 5 is over");
    RUN_UNTIL(j, *n->told);
    CHECK_STR(told(n), "kill: round 5 is over");
    node_join(j, 1);
    RUN_UNTIL(j, *j->fake.heard);
    CHECK_STR(fake_heard(&j->fake), "JOIN 5");
    CHECK(j->fake.incarnation != before);
    job_end(j);
}

TEST(who_leaves_says_so)
{
    struct job *j = job_with_fake();
    struct node *n = node_runs(j, 1);
    n->backend->ops->leave(n->backend, "SIGTERM");
    RUN_UNTIL(j, *j->fake.heard);
    CHECK_STR(fake_heard(&j->fake), "LEAVE stopping SIGTERM");
    node_close(j, 1, false);
    RUN_UNTIL(j, *j->fake.heard);
    CHECK_STR(fake_heard(&j->fake), "LEAVE its workers are gone");
    job_end(j);
}

/* As with --preflight full, which often is over before the rendezvous has answered. */
TEST(who_ends_for_what_is_wrong_with_its_host_is_heard_first)
{
    static const struct {
        bool there;
        const char *refusal, *heard;
    } rows[] = {{true, NULL, "remark"}, {true, "no place is left", ""}, {false, NULL, ""}};
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct job *j = job_with_fake();
        struct node *n = &j->nodes[1];
        CHECK_ROW("row %zu", i);
        j->fake.refusal = rows[i].refusal;
        if (!rows[i].there)
            fake_close(&j->fake);
        node_open(j, 1);
        n->backend->ops->remark(n->backend, true, "gpus: one is lost");
        node_close(j, 1, false);
        RUN_UNTIL(j, n->closed);
        RUN_UNTIL(j, !rows[i].there || !j->fake.peer);
        CHECK_STR(fake_heard(&j->fake), rows[i].heard);
        CHECK_STR(told(n), "");
        job_end(j);
    }
}
