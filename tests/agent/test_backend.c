/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that find each other, several in one process on one loop, over real sockets of loopback.
 * Time passes only where a timeout is the story. */
#include "agent/backend/backend.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "rendezvous/store/server.h"
#include "tests/agent/store_worker.h"
#include "tests/lib/port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#define NODES 5

struct node {
    struct dt_plan plan;
    struct dt_backend *backend;
    struct dt_world world;
    int worlds, barriers;
    struct dt_err failed, why; /* of the join, and of the barrier's end */
    bool closed;
    bool hurry_at_world; /* close from inside the event */
};

struct job {
    uv_loop_t loop;
    uv_timer_t tick;
    int port;
    struct node nodes[NODES];
};

/* -- what the nodes hear ---------------------------------------------------------------------- */

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static void on_world(void *arg, const struct dt_world *world)
{
    struct node *n = arg;
    n->world = *world;
    n->worlds++;
    if (n->hurry_at_world)
        n->backend->ops->close(n->backend, true, on_closed, &n->closed);
}

static void on_barrier_over(void *arg, const struct dt_err *why)
{
    struct node *n = arg;
    n->barriers++;
    n->why = why ? *why : (struct dt_err){0};
}

static void on_failed(void *arg, const struct dt_err *err)
{
    struct node *n = arg;
    CHECK_EQ(n->failed.code, DT_E_NONE);
    n->failed = *err;
}

static const struct dt_backend_events events = {
    .on_world = on_world, .on_barrier_over = on_barrier_over, .on_failed = on_failed};

/* -- jobs ------------------------------------------------------------------------------------- */

/* A socket on a free port of loopback, which refuses until somebody listens on it. */
static int bind_somewhere(int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&a, len), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static void job_open(struct job *j, int nodes)
{
    *j = (struct job){0};
    dt_log_open("test", DT_LOG_ERROR, DT_LOG_TEXT);
    turning_init(&j->loop, &j->tick);
    j->port = port_take();
    for (int i = 0; i < NODES; i++)
        j->nodes[i].plan = (struct dt_plan){.nproc = 1,
                                            .role = (char *)"default",
                                            .backend = DT_BACKEND_STATIC,
                                            .min_nodes = nodes,
                                            .max_nodes = nodes,
                                            .node_rank = i,
                                            .run_id = (char *)"none",
                                            .endpoint_host = (char *)"127.0.0.1",
                                            .endpoint_port = j->port,
                                            .join_timeout = SOON,
                                            .read_timeout = SOON,
                                            .barrier_timeout = SOON};
}

static void node_open(struct job *j, int i)
{
    struct node *n = &j->nodes[i];
    struct dt_err err;
    n->backend = n->plan.max_nodes == 1
                     ? dt_backend_local_open(&j->loop, &n->plan, &events, n, &err)
                     : dt_backend_static_open(&j->loop, &n->plan, &events, n, &err);
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

static void node_close(struct job *j, int i, bool hurry)
{
    j->nodes[i].backend->ops->close(j->nodes[i].backend, hurry, on_closed, &j->nodes[i].closed);
}

/* Opens all nodes, lets them join, and waits for their worlds. */
static void job_start(struct job *j)
{
    for (int i = 0; i < j->nodes[0].plan.max_nodes; i++) {
        node_open(j, i);
        node_join(j, i);
        CHECK_EQ(j->nodes[i].worlds, 0); /* nothing is told from inside a call */
    }
    for (int i = 0; i < j->nodes[0].plan.max_nodes; i++)
        RUN_UNTIL(j, j->nodes[i].worlds);
}

/* Closes who is not closed, and finds nothing left. */
static void job_close(struct job *j)
{
    for (int i = 0; i < NODES; i++)
        if (j->nodes[i].backend && !j->nodes[i].closed)
            node_close(j, i, true);
    uv_close((uv_handle_t *)&j->tick, NULL);
    uv_run(&j->loop, UV_RUN_DEFAULT);
    for (int i = 0; i < NODES; i++)
        CHECK_EQ(j->nodes[i].closed, j->nodes[i].backend != NULL);
    CHECK_EQ(uv_loop_close(&j->loop), 0);
}

static void check_world(const struct dt_world *w, const char *want)
{
    char text[400];
    snprintf(text, sizeof text, "round %d group %d/%d ranks %d/%d role %d/%d at %s%s", w->round,
             w->group_rank, w->group_size, w->first_rank, w->size, w->first_role_rank, w->role_size,
             w->master_addr, w->store_is_served ? "" : " not served");
    CHECK_STR(text, want);
}

/* -- a worker of theirs ----------------------------------------------------------------------- */

static void worker_at(struct job *j, struct worker *w, const struct dt_world *world)
{
    worker_open(&j->loop, w, world->master_addr, world->master_port);
}

/* Who connects before there is a world. */
static void worker_at_endpoint(struct job *j, struct worker *w)
{
    worker_open(&j->loop, w, "127.0.0.1", j->port);
}

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
