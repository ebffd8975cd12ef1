/* SPDX-License-Identifier: Apache-2.0 */
/* An agent of an elastic job for which there is no rendezvous, one that refuses it, or a store of
 * torchrun's. */
#include "agent/backend/torchrun/foreign.h"
#include "tests/agent/elastic_job.h"

TEST(a_job_without_a_rendezvous_fails_with_a_reason)
{
    struct job *j = job_with_fake();
    struct node *n = &j->nodes[1];
    fake_close(&j->fake);
    n->plan.read_timeout = 100;
    node_open(j, 1);
    node_join(j, 1);
    RUN_UNTIL(j, *n->told);
    CHECK(strstr(n->told, "failed: no rendezvous was found at 127.0.0.1:"));
    CHECK(strstr(told(n), "refused; is an agent of this job, or a dtrun-rendezvous, running"));
    job_end(j);
}

TEST(a_host_that_does_not_reach_itself_is_not_asked_whether_it_runs)
{
    struct job *j = job_new();
    struct node *n = &j->nodes[0];
    n->plan.read_timeout = 100;
    n->plan.store_listen = (char *)"127.0.0.2";
    node_open(j, 0);
    node_join(j, 0);
    RUN_UNTIL(j, *n->told);
    CHECK(strstr(n->told, "failed: the rendezvous that this agent hosts was not reached at 127."));
    CHECK(strstr(told(n), "refused; does --rdzv-endpoint lead to this host, and to what "
                          "--store-listen names?"));
    job_end(j);
}

TEST(who_is_refused_hears_why)
{
    static const enum dt_plan_is_host rows[] = {DT_HOST_NO, DT_HOST_INFERRED /* and it was late */};
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct job *j = job_with_fake();
        CHECK_ROW("is_host %d", rows[i]);
        j->fake.refusal = "no place is left";
        j->nodes[1].plan.is_host = rows[i];
        node_open(j, 1);
        node_join(j, 1);
        RUN_UNTIL(j, *j->nodes[1].told);
        CHECK(strstr(j->nodes[1].told, "failed: the rendezvous at 127.0.0.1:"));
        CHECK(strstr(told(&j->nodes[1]), "no place is left"));
        job_end(j);
    }
}

/* As by a daemon that came back with other options, before it is started with the right ones. */
TEST(workers_run_on_while_the_rendezvous_refuses_their_node)
{
    struct job *j = job_with_fake();
    struct node *n = node_runs(j, 1);
    j->fake.refusal = "no place is left";
    fake_hang_up(&j->fake);
    int before = j->fake.connections;
    RUN_UNTIL(j, j->fake.connections > before + 2);
    CHECK_STR(told(n), "");
    j->fake.refusal = NULL;
    RUN_UNTIL(j, *j->fake.heard);
    CHECK_STR(fake_heard(&j->fake), "JOIN 5 running");
    for (int i = 0; i < 3; i++) { /* and now it hears the whole of the join first */
        FAKE_SAY(&j->fake, .type = DT_MSG_CLOSE, .round = 5, .close = {.kind = DT_CLOSE_REFUSED},
                 .why = "no room for one more run");
        RUN_UNTIL(j, *j->fake.heard);
        CHECK_STR(fake_heard(&j->fake), "JOIN 5 running");
    }
    CHECK_STR(told(n), "");
    FAKE_SAY(&j->fake, .type = DT_MSG_STOP, .round = 5, .why = "node7 came");
    RUN_UNTIL(j, *n->told);
    CHECK_STR(told(n), "stop: node7 came");
    job_end(j);
}

TEST(a_node_that_waits_for_another_world_and_is_refused_waits_as_for_one_that_is_away)
{
    struct job *j = job_with_fake();
    j->nodes[1].plan.join_timeout = 300;
    struct node *n = node_joins(j, 1);
    j->fake.refusal = "no place is left";
    fake_hang_up(&j->fake);
    RUN_UNTIL(j, *n->told);
    CHECK(strstr(n->told, "failed: the rendezvous at 127.0.0.1:"));
    CHECK(strstr(told(n), "no place is left"));
    job_end(j);
}

/* -- a foreign backend, as far as it matters here --------------------------------------------- */

struct stranger {
    struct dt_backend base;
    uv_loop_t *loop;
    struct node *node;
    uv_timer_t closing;
    void (*on_closed)(void *arg);
    void *arg;
};

static void stranger_join(struct dt_backend *b)
{
    note(dt_container_of(b, struct stranger, base)->node, "a stranger joins");
}

static void stranger_barrier(struct dt_backend *b)
{
    note(dt_container_of(b, struct stranger, base)->node, "a stranger meets others");
}

static void on_stranger_closed(uv_handle_t *h)
{
    struct stranger *s = h->data;
    s->on_closed(s->arg);
    free(s);
}

static void stranger_close(struct dt_backend *b, bool hurry, void (*closed)(void *arg), void *arg)
{
    struct stranger *s = dt_container_of(b, struct stranger, base);
    (void)hurry;
    s->on_closed = closed;
    s->arg = arg;
    s->closing.data = s;
    uv_close((uv_handle_t *)&s->closing, on_stranger_closed);
}

/* In place of the real one, which is not what is tested here. */
struct dt_backend *dt_backend_foreign_open(uv_loop_t *loop, const struct dt_plan *plan,
                                           const struct dt_backend_events *e, void *arg,
                                           struct dt_err *err)
{
    static const struct dt_backend_ops ops = {
        .join = stranger_join, .barrier = stranger_barrier, .close = stranger_close};
    struct stranger *s = calloc(1, sizeof *s);
    (void)plan;
    (void)e;
    (void)err;
    *s = (struct stranger){.base = {&ops}, .loop = loop, .node = arg};
    uv_timer_init(loop, &s->closing);
    return &s->base;
}

TEST(a_foreign_store_is_joined_as_torchruns_agents_do)
{
    struct job *j = job_new();
    struct node *n = &j->nodes[1];
    j->fake.port = (uint16_t)j->port;
    j->fake.foreign = true;
    fake_open(&j->fake, &j->loop);
    node_open(j, 1);
    CHECK(n->backend->ops->failed != NULL);
    node_join(j, 1);
    RUN_UNTIL(j, *n->told);
    CHECK_STR(told(n), "a stranger joins");
    CHECK(n->backend->ops->failed == NULL); /* the agent decides */
    CHECK(n->backend->ops->leave == NULL);
    node_barrier(j, 1);
    CHECK_STR(told(n), "a stranger meets others");
    node_join(j, 1);
    CHECK_STR(told(n), "a stranger joins");
    job_end(j);
}
