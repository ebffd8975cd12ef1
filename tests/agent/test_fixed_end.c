/* SPDX-License-Identifier: Apache-2.0 */
/* How nodes that are known beforehand part: at the barrier, and when one closes at any moment. */
#include "tests/agent/fixed_job.h"

/* -- the barrier ------------------------------------------------------------------------------ */

TEST(the_barrier_opens_for_all_when_the_last_has_come_and_the_host_leaves_last)
{
    struct job j;
    job_open(&j, 3);
    job_start(&j);
    node_barrier(&j, 0);
    node_barrier(&j, 2);
    struct worker w;
    worker_at(&j, &w, &j.nodes[0].world);
    while (worker_add(&w, "/none/torchelastic/agent/terminal_state/num_members") < 3)
        ;
    worker_close(&w);
    CHECK_EQ(j.nodes[0].barriers + j.nodes[2].barriers, 0);
    job_close(&j);

    job_open(&j, 3);
    job_start(&j);
    for (int i = 0; i < 3; i++)
        node_barrier(&j, i);
    RUN_UNTIL(&j, j.nodes[0].barriers);
    node_close(&j, 0, false); /* at once, while the others may still be waiting */
    for (int i = 1; i < 3; i++) {
        RUN_UNTIL(&j, j.nodes[i].barriers);
        CHECK_EQ(j.nodes[i].why.code, DT_E_NONE);
        CHECK(!j.nodes[0].closed);
        node_close(&j, i, false);
    }
    RUN_UNTIL(&j, j.nodes[0].closed);
    job_close(&j);
}

TEST(a_barrier_that_not_all_come_to_is_over_with_a_reason)
{
    struct job j;
    job_open(&j, 2);
    j.nodes[0].plan.barrier_timeout = 50;
    job_start(&j);
    node_barrier(&j, 0);
    RUN_UNTIL(&j, j.nodes[0].barriers);
    CHECK_EQ(j.nodes[0].why.code, DT_E_TIMEOUT);
    CHECK_FAIL(-1, j.nodes[0].why, "for the other nodes to finish");
    job_close(&j);
}

TEST(without_node_0_the_barrier_is_over_at_once)
{
    for (int already_there = 0; already_there < 2; already_there++) {
        CHECK_ROW("%d", already_there);
        struct job j;
        job_open(&j, 2);
        job_start(&j);
        if (already_there)
            node_barrier(&j, 1);
        node_close(&j, 0, true);
        RUN_UNTIL(&j, j.nodes[0].closed);
        if (!already_there) {
            uv_run(&j.loop, UV_RUN_NOWAIT); /* the end of the connection is read here */
            node_barrier(&j, 1);
        }
        RUN_UNTIL(&j, j.nodes[1].barriers);
        CHECK_EQ(j.nodes[1].why.code, DT_E_DISCONNECTED);
        job_close(&j);
    }
}

TEST(a_lingering_host_can_be_hurried)
{
    struct job j;
    job_open(&j, 2);
    job_start(&j);
    node_barrier(&j, 0);
    node_barrier(&j, 1);
    RUN_UNTIL(&j, j.nodes[0].barriers && j.nodes[1].barriers);
    node_close(&j, 0, false);
    node_close(&j, 0, true); /* node 1 is still connected */
    RUN_UNTIL(&j, j.nodes[0].closed);
    CHECK(!j.nodes[1].closed);
    job_close(&j);
}

/* -- closing, in each phase ------------------------------------------------------------------- */

TEST(closing_before_anything_is_asked_for)
{
    struct job j;
    job_open(&j, 1);
    node_open(&j, 0);
    job_close(&j);
    job_open(&j, 2);
    node_open(&j, 0);
    node_open(&j, 1);
    job_close(&j);
}

TEST(closing_while_a_world_is_asked_for)
{
    static const struct {
        int nodes, node;
        const char *host;
    } rows[] = {
        {1, 0, "127.0.0.1"},       /* asked for and not yet given */
        {2, 0, "127.0.0.1"},       /* the same, of itself */
        {2, 1, "127.0.0.1"},       /* refused, again and again */
        {2, 1, "192.0.2.1"},       /* connecting */
        {2, 1, "nowhere.invalid"}, /* looking the name up */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int turns = 0; turns < 4; turns++) {
            CHECK_ROW("%s, node %d of %d, after %d turns", rows[i].host, rows[i].node,
                      rows[i].nodes, turns);
            struct job j;
            job_open(&j, rows[i].nodes);
            if (rows[i].node > 0)
                j.nodes[rows[i].node].plan.endpoint_host = (char *)rows[i].host;
            node_open(&j, rows[i].node);
            node_join(&j, rows[i].node);
            for (int t = 0; t < turns; t++)
                uv_run(&j.loop, UV_RUN_NOWAIT);
            job_close(&j);
            CHECK_EQ(j.nodes[rows[i].node].failed.code, DT_E_NONE);
        }
}

TEST(closing_while_waiting_for_others)
{
    struct job j;
    job_open(&j, 3);
    for (int i = 0; i < 2; i++) {
        node_open(&j, i);
        node_join(&j, i);
    }
    struct worker w;
    worker_at_endpoint(&j, &w);
    worker_wait(&w, "/none/torchelastic/role_info/1");
    worker_close(&w);
    node_close(&j, 1, true);
    RUN_UNTIL(&j, j.nodes[1].closed);
    CHECK_EQ(j.nodes[1].failed.code, DT_E_NONE);
    job_close(&j);
    CHECK_EQ(j.nodes[0].failed.code, DT_E_NONE);
}

TEST(closing_at_the_barrier_and_from_inside_an_event)
{
    struct job j;
    job_open(&j, 2);
    job_start(&j);
    node_barrier(&j, 0);
    node_barrier(&j, 1);
    node_close(&j, 1, true);
    node_close(&j, 0, true);
    job_close(&j);
    CHECK_EQ(j.nodes[0].barriers + j.nodes[1].barriers, 0);

    for (int nodes = 1; nodes <= 2; nodes++) {
        job_open(&j, nodes);
        for (int i = 0; i < nodes; i++) {
            j.nodes[i].hurry_at_world = i == nodes - 1;
            node_open(&j, i);
            node_join(&j, i);
        }
        RUN_UNTIL(&j, j.nodes[nodes - 1].closed);
        job_close(&j);
    }
}
