/* SPDX-License-Identifier: Apache-2.0 */
/* Agents of an elastic job, several in one process on one loop, over real sockets of loopback: with
 * a rendezvous that does what the test says, and with the one that an agent hosts. Time passes only
 * where a timeout is the story. */
#include "agent/backend/backend.h"
#include "agent/backend/torchrun/foreign.h"
#include "base/log.h"
#include "rendezvous/runs/server.h"
#include "tests/agent/fake_rendezvous.h"
#include "tests/agent/store_worker.h"
#include "tests/lib/port.h"

#define NODES 3
#define ROWS(a) (sizeof(a) / sizeof *(a))

struct node {
    struct dt_plan plan;
    struct dt_backend *backend;
    struct dt_world world;
    char told[1000]; /* events since they were last read: "world 0; stop: node2 came" */
    dt_ms lease;     /* as it was told last; DT_FOREVER: not yet */
    bool closed;
};

struct job {
    uv_loop_t loop;
    uv_timer_t tick;
    struct fake_rendezvous fake;
    int port;
    struct node nodes[NODES];
};

/* -- what nodes hear -------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void note(struct node *n, const char *fmt, ...)
{
    size_t len = strlen(n->told);
    va_list ap;
    CHECK(!n->closed);
    if (len)
        len += (size_t)snprintf(n->told + len, sizeof n->told - len, "; ");
    va_start(ap, fmt);
    vsnprintf(n->told + len, sizeof n->told - len, fmt, ap);
    va_end(ap);
}

static void on_world(void *arg, const struct dt_world *world)
{
    struct node *n = arg;
    n->world = *world;
    note(n, "world %d", world->round);
}

static void on_barrier_over(void *arg, const struct dt_err *why)
{
    note(arg, "barrier over%s%s", why ? ": " : "", why ? why->text : "");
}

static void on_failed(void *arg, const struct dt_err *err)
{
    note(arg, "failed: %s", err->text);
}

static void on_stop(void *arg, enum dt_stop_how how, const char *why)
{
    static const char *const words[] = {"stop together", "stop", "kill"};
    note(arg, "%s: %s", words[how], why);
}

static void on_closed(void *arg, enum dt_close_kind kind, const char *why)
{
    note(arg, "closed %s: %s", dt_close_kind_name(kind), why);
}

static void on_lease(void *arg, dt_ms until)
{
    ((struct node *)arg)->lease = until;
}

static void on_tail(void *arg, const struct dt_message *m)
{
    note(arg, "%s", dt_message_name(m->type));
}

static void on_replaced(void *arg, struct dt_backend *by)
{
    ((struct node *)arg)->backend = by;
}

static const struct dt_backend_events events = {
    .on_world = on_world,
    .on_barrier_over = on_barrier_over,
    .on_failed = on_failed,
    .on_stop = on_stop,
    .on_closed = on_closed,
    .on_lease = on_lease,
    .on_tail = on_tail,
    .on_replaced = on_replaced,
};

static const char *told(struct node *n)
{
    static char text[sizeof n->told];
    memcpy(text, n->told, sizeof text);
    n->told[0] = '\0';
    return text;
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

/* -- jobs ------------------------------------------------------------------------------------- */

/* For all nodes, the first of which hosts unless the test wants it otherwise. */
static struct dt_plan plan_of(int port, int i)
{
    static char names[NODES][16];
    struct dt_plan plan = {
        .nproc = 2,
        .role = (char *)"default",
        .backend = DT_BACKEND_C10D,
        .min_nodes = NODES,
        .max_nodes = NODES,
        .run_id = (char *)"train",
        .endpoint_host = (char *)"127.0.0.1",
        .endpoint_port = port,
        .join_timeout = SOON,
        .read_timeout = SOON,
        .barrier_timeout = SOON,
        .run = {.min_nodes = NODES,
                .max_nodes = NODES,
                .max_restarts = 3,
                .max_node_losses = -1,
                .join_timeout = SOON,
                .last_call = SOON,
                .beat = SOON,
                .beats = 3,
                .reconnect_grace = 50,
                .stop_bound = SOON},
        .is_host = i == 0 ? DT_HOST_YES : DT_HOST_NO,
        .order = i,
        .node_name = names[i],
    };
    snprintf(names[i], sizeof names[i], "node%d", i);
    return plan;
}

static struct job *job_new(void)
{
    struct job *j = calloc(1, sizeof *j);
    dt_log_open("test", DT_LOG_ERROR, DT_LOG_TEXT);
    turning_init(&j->loop, &j->tick);
    j->port = port_take();
    for (int i = 0; i < NODES; i++)
        j->nodes[i].plan = plan_of(j->port, i);
    return j;
}

/* For who must notice that nobody is there, though not whenever this machine is busy: a pause of
 * two beats is taken for one of ours, and then the wait begins anew. */
static void keep_short(struct dt_run_spec *spec)
{
    spec->beat = 300;
    spec->beats = 4;
}

/* With a fake rendezvous in place of a host. */
static struct job *job_with_fake(void)
{
    struct job *j = job_new();
    fake_open(&j->fake, &j->loop);
    j->port = j->fake.port;
    for (int i = 0; i < NODES; i++) {
        j->nodes[i].plan.is_host = DT_HOST_NO;
        j->nodes[i].plan.endpoint_port = j->port;
    }
    return j;
}

static void node_open(struct job *j, int i)
{
    struct node *n = &j->nodes[i];
    struct dt_err err;
    n->lease = DT_FOREVER;
    n->backend = dt_backend_elastic_open(&j->loop, &n->plan, &events, n, &err);
    if (!n->backend)
        check_say(err.text);
    CHECK(n->backend != NULL);
}

static void node_join(struct job *j, int i)
{
    j->nodes[i].backend->ops->join(j->nodes[i].backend);
}

static void node_barrier(struct job *j, int i)
{
    j->nodes[i].backend->ops->barrier(j->nodes[i].backend);
}

static void node_fail(struct job *j, int i)
{
    struct dt_result result = {
        .rank = 3, .exit_code = 7, .signature = "7", .text = "rank 3 exited with 7"};
    j->nodes[i].backend->ops->failed(j->nodes[i].backend, &result);
}

static void on_backend_closed(void *arg)
{
    *(bool *)arg = true;
}

static void node_close(struct job *j, int i, bool hurry)
{
    j->nodes[i].backend->ops->close(j->nodes[i].backend, hurry, on_backend_closed,
                                    &j->nodes[i].closed);
}

/* Closes who is not closed, and finds nothing left. */
static void job_end(struct job *j)
{
    for (int i = NODES - 1; i >= 0; i--)
        if (j->nodes[i].backend && !j->nodes[i].closed)
            node_close(j, i, true);
    for (int i = 0; i < NODES; i++)
        RUN_UNTIL(j, j->nodes[i].closed || !j->nodes[i].backend);
    fake_close(&j->fake);
    uv_close((uv_handle_t *)&j->tick, NULL);
    uv_run(&j->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&j->loop), 0);
    free(j);
}

/* Opens node I, and lets the fake hear that it joins. */
static struct node *node_joins(struct job *j, int i)
{
    node_open(j, i);
    node_join(j, i);
    CHECK_STR(j->nodes[i].told, ""); /* nothing is told from inside a call */
    RUN_UNTIL(j, *j->fake.heard);
    CHECK_STR(fake_heard(&j->fake), "JOIN -1");
    return &j->nodes[i];
}

static void say_world(struct job *j, int round)
{
    FAKE_SAY(&j->fake, .type = DT_MSG_WORLD, .round = round,
             .world = {.seat = 1,
                       .seats = 4,
                       .first_rank = 2,
                       .size = 8,
                       .first_role_rank = 2,
                       .role_size = 8,
                       .master_addr = "10.1.2.3",
                       .master_port = 4711,
                       .prev_rank = 6,
                       .prev_size = 9,
                       .restarts = 1,
                       .news = "node7 came"});
}

static struct node *node_runs(struct job *j, int i)
{
    struct node *n = node_joins(j, i);
    say_world(j, 5);
    RUN_UNTIL(j, *n->told);
    CHECK_STR(told(n), "world 5");
    return n;
}

/* What one who adds 1 at that store is answered. */
static int64_t worker_adds(struct job *j, const char *addr, int port)
{
    struct worker w;
    worker_open(&j->loop, &w, addr, port);
    int64_t number = worker_add(&w, "n");
    worker_close(&w);
    return number;
}

/* -- with a rendezvous somewhere else --------------------------------------------------------- */

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

/* -- when it goes away ------------------------------------------------------------------------ */

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

/* -- when there is none ----------------------------------------------------------------------- */

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

/* -- who hosts -------------------------------------------------------------------------------- */

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

/* Runs until all nodes from FIRST on were told something. */
static void all_hear(struct job *j, int first)
{
    for (int i = first; i < NODES; i++)
        RUN_UNTIL(j, *j->nodes[i].told);
}

static void check_all(struct job *j, int first, const char *wanted)
{
    for (int i = first; i < NODES; i++) {
        CHECK_ROW("node %d", i);
        CHECK_STR(told(&j->nodes[i]), wanted);
    }
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

/* -- ends ------------------------------------------------------------------------------------- */

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
