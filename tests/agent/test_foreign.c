/* SPDX-License-Identifier: Apache-2.0 */
/* Agents at a store like a torchrun's, several in one process on one loop. The test has the store
 * at hand and plays the torchruns: it writes the first state, which tells how states are written,
 * and what they would say later. Time passes where the agents only look once a second. */
#include "agent/backend/store_host.h"
#include "agent/backend/torchrun/dynamic.h"
#include "agent/backend/torchrun/foreign.h"
#include "base/log.h"
#include "rendezvous/store/server.h"
#include "tests/lib/check.h"

#define SOON (60 * DT_SECOND) /* never reached unless something is broken */
#define NODES 3
#define STATE "/torch.rendezvous.job"

struct node {
    struct dt_plan plan;
    struct dt_backend *backend;
    struct dt_world world;
    int worlds, barriers, stops;
    char why[DT_WHY_MAX];
    struct dt_err failed, unmet;
    bool released, closed;
};

struct job {
    uv_loop_t loop;
    struct dt_store_server *server;
    struct dt_dynamic_state state;
    struct dt_buf text;
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
}

static void on_barrier_over(void *arg, const struct dt_err *why)
{
    struct node *n = arg;
    n->barriers++;
    n->unmet = why ? *why : (struct dt_err){0};
}

static void on_failed(void *arg, const struct dt_err *err)
{
    struct node *n = arg;
    n->failed = *err;
}

static void on_stop(void *arg, enum dt_stop_how how, const char *why)
{
    struct node *n = arg;
    CHECK_EQ(how, DT_STOP_ALONE);
    n->stops++;
    snprintf(n->why, sizeof n->why, "%s", why);
}

static void on_job_closed(void *arg, enum dt_close_kind kind, const char *why)
{
    struct node *n = arg;
    (void)why;
    n->released = kind == DT_CLOSE_SUCCEEDED;
}

/* Nobody here knows when torchrun's agents begin a round. */
static void on_lease(void *arg, dt_ms until)
{
    (void)arg;
    (void)until;
    CHECK(!"a lease of a foreign store");
}

static const struct dt_backend_events events = {
    .on_world = on_world,
    .on_barrier_over = on_barrier_over,
    .on_failed = on_failed,
    .on_stop = on_stop,
    .on_closed = on_job_closed,
    .on_lease = on_lease,
};

/* -- the store -------------------------------------------------------------------------------- */

static void put(struct job *j, const char *key, const char *value)
{
    CHECK_EQ(
        dt_store_set(dt_store_server_inside(j->server), dt_bytes_of(key), dt_bytes_of(value), NULL),
        0);
}

static bool has(struct job *j, const char *key)
{
    return dt_store_has(dt_store_server_inside(j->server), dt_bytes_of(key));
}

static void read_state(struct job *j)
{
    struct dt_bytes text;
    struct dt_err err;
    CHECK(dt_store_get(dt_store_server_inside(j->server), dt_bytes_of(STATE), &text));
    CHECK_OK(dt_dynamic_read(&j->state, text, &err), err);
}

static void write_state(struct job *j)
{
    dt_buf_clear(&j->text);
    dt_dynamic_write(&j->state, &j->text);
    put(j, STATE, dt_buf_cstr(&j->text));
}

/* A torchrun that the state speaks of. */
static struct dt_dynamic_member *theirs(struct job *j, const char *addr)
{
    struct dt_dynamic_node node = {.pid = 7};
    snprintf(node.addr, sizeof node.addr, "%s", addr);
    struct dt_dynamic_member *m = dt_dynamic_add(&j->state, &node);
    m->beats = true;
    m->heartbeat = dt_clock_wall_us() + INT64_C(3600000000);
    return m;
}

/* A state that only tells its dialect, for the node in it is long dead. */
static void begin_state(struct job *j)
{
    j->state.dialect = (struct dt_dynamic_dialect){.told = true, .redundancy = true};
    theirs(j, "dead")->heartbeat = 1;
    write_state(j);
}

/* -- jobs ------------------------------------------------------------------------------------- */

static void job_open(struct job *j, int min, int max)
{
    static char *const addrs[NODES] = {(char *)"127.0.0.1", (char *)"127.0.0.2",
                                       (char *)"127.0.0.3"};
    struct dt_store_server_config config = DT_STORE_SERVER_CONFIG_DEFAULT;
    struct dt_addr at, bound;
    struct dt_err err;
    *j = (struct job){0};
    dt_log_open("test", DT_LOG_ERROR, DT_LOG_TEXT);
    uv_loop_init(&j->loop);
    j->server = dt_store_server_create(&j->loop, &config, &err);
    CHECK(j->server != NULL);
    CHECK_OK(dt_addr_parse("127.0.0.1:0", 0, &at, &err), err);
    CHECK_OK(dt_store_server_listen(j->server, &at, &bound, &err), err);
    for (int i = 0; i < NODES; i++)
        j->nodes[i].plan = (struct dt_plan){.nproc = i + 1,
                                            .role = (char *)"default",
                                            .backend = DT_BACKEND_C10D,
                                            .min_nodes = min,
                                            .max_nodes = max,
                                            .run_id = (char *)"job",
                                            .endpoint_host = (char *)"127.0.0.1",
                                            .endpoint_port = dt_store_host_port(&bound),
                                            .local_addr = addrs[i],
                                            .run.last_call = 100,
                                            .join_timeout = SOON,
                                            .read_timeout = SOON,
                                            .barrier_timeout = SOON};
}

static void join(struct job *j, int i)
{
    struct node *n = &j->nodes[i];
    struct dt_err err;
    if (!n->backend)
        n->backend = dt_backend_foreign_open(&j->loop, &n->plan, &events, n, &err);
    CHECK(n->backend != NULL);
    n->backend->ops->join(n->backend);
}

static void barrier(struct job *j, int i)
{
    j->nodes[i].backend->ops->barrier(j->nodes[i].backend);
}

#define UNTIL(j, cond)                                                                             \
    while (!(cond))                                                                                \
    uv_run(&(j)->loop, UV_RUN_ONCE)

static void close_node(struct job *j, int i)
{
    struct node *n = &j->nodes[i];
    n->backend->ops->close(n->backend, false, on_closed, &n->closed);
    UNTIL(j, n->closed);
    n->backend = NULL;
}

/* Ends what is left; nothing stays on the loop. */
static void job_close(struct job *j)
{
    for (int i = 0; i < NODES; i++)
        if (j->nodes[i].backend)
            close_node(j, i);
    dt_store_server_close(j->server, 0, NULL, NULL);
    uv_run(&j->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&j->loop), 0);
    dt_dynamic_finish(&j->state);
    dt_buf_finish(&j->text);
}

/* -- stories ---------------------------------------------------------------------------------- */

TEST(two_meet_run_and_close_the_job)
{
    struct job j;
    job_open(&j, 2, 2);
    struct node *a = &j.nodes[0], *b = &j.nodes[1];
    begin_state(&j);
    join(&j, 1);
    join(&j, 0);
    UNTIL(&j, a->worlds && b->worlds);
    CHECK_EQ(a->world.group_rank, 0);
    CHECK_EQ(a->world.group_size, 2);
    CHECK_EQ(a->world.first_rank, 0);
    CHECK_EQ(a->world.size, 3);
    CHECK_EQ(b->world.group_rank, 1);
    CHECK_EQ(b->world.first_rank, 1);
    CHECK_EQ(b->world.role_size, 3);
    CHECK_STR(b->world.master_addr, "127.0.0.1");
    CHECK(a->world.master_port > 0);
    CHECK_EQ(b->world.master_port, a->world.master_port);
    CHECK(a->world.store_is_served && b->world.store_is_served);
    barrier(&j, 0);
    barrier(&j, 1);
    UNTIL(&j, a->barriers && b->barriers);
    CHECK_EQ(a->unmet.code, DT_E_NONE);
    read_state(&j);
    CHECK(!j.state.closed);
    close_node(&j, 0);
    read_state(&j);
    CHECK(j.state.closed);
    job_close(&j);
}

TEST(who_begins_again_takes_the_others_along)
{
    struct job j;
    job_open(&j, 2, 2);
    struct node *a = &j.nodes[0], *b = &j.nodes[1];
    begin_state(&j);
    join(&j, 0);
    join(&j, 1);
    UNTIL(&j, a->worlds && b->worlds);
    int port = a->world.master_port;
    join(&j, 1);
    UNTIL(&j, a->stops);
    join(&j, 0);
    UNTIL(&j, a->worlds == 2 && b->worlds == 2);
    CHECK_EQ(a->world.round, 1);
    CHECK_EQ(b->world.master_port, port);
    CHECK_EQ(a->stops, 1);
    CHECK_EQ(b->stops, 0);
    job_close(&j);
}

/* It would wait there in vain, and the other for it. */
TEST(who_begins_again_takes_along_one_at_the_barrier)
{
    struct job j;
    job_open(&j, 2, 2);
    struct node *a = &j.nodes[0], *b = &j.nodes[1];
    begin_state(&j);
    join(&j, 0);
    join(&j, 1);
    UNTIL(&j, a->worlds && b->worlds);
    barrier(&j, 0);
    join(&j, 1);
    UNTIL(&j, a->stops);
    CHECK(strstr(a->why, "node 127.0.0.2 ") && strstr(a->why, "begins again"));
    join(&j, 0);
    UNTIL(&j, a->worlds == 2 && b->worlds == 2);
    CHECK_EQ(a->barriers, 0);
    job_close(&j);
}

TEST(who_is_told_to_go_leaves_and_the_job_goes_on)
{
    struct job j;
    job_open(&j, 1, 2);
    struct node *a = &j.nodes[0], *b = &j.nodes[1];
    begin_state(&j);
    a->plan.run.last_call = b->plan.run.last_call = 2 * DT_SECOND; /* so that both come in time */
    join(&j, 0);
    join(&j, 1);
    UNTIL(&j, a->worlds && b->worlds);
    CHECK_EQ(a->world.group_size, 2);
    b->backend->ops->leave(b->backend, "SIGTERM");
    close_node(&j, 1);
    read_state(&j);
    CHECK(!j.state.closed);
    CHECK_EQ(dt_dynamic_participants(&j.state), 1);
    UNTIL(&j, a->stops);
    CHECK(strstr(a->why, "127.0.0.2") && strstr(a->why, "is gone"));
    join(&j, 0);
    UNTIL(&j, a->worlds == 2);
    CHECK_EQ(a->world.group_size, 1);
    job_close(&j);
}

TEST(who_is_told_to_go_while_ranks_are_given_out_leaves_too)
{
    struct job j;
    job_open(&j, 1, 2);
    struct node *a = &j.nodes[0];
    j.state.dialect = (struct dt_dynamic_dialect){.told = true, .redundancy = true};
    theirs(&j, "z.example")->participates = true;
    write_state(&j);
    join(&j, 0);
    UNTIL(&j, has(&j, "/torch.rendezvous.job.0/torchelastic/role_info/0"));
    a->backend->ops->leave(a->backend, "SIGTERM");
    put(&j, "/torch.rendezvous.job.0/torchelastic/role_info/1",
        "{\"role\": \"default\", \"rank\": 1, \"local_world_size\": 4}");
    UNTIL(&j, has(&j, "/torch.rendezvous.job.0/torchelastic/assigned_ranks/1"));
    close_node(&j, 0);
    CHECK_EQ(a->worlds, 0);
    read_state(&j);
    CHECK_EQ(dt_dynamic_participants(&j.state), 1);
    CHECK(!j.state.closed);
    job_close(&j);
}

TEST(a_node_that_falls_silent_is_missed)
{
    struct job j;
    job_open(&j, 1, 2);
    struct node *a = &j.nodes[0];
    j.state.dialect = (struct dt_dynamic_dialect){.told = true, .redundancy = true};
    theirs(&j, "z.example")->participates = true;
    write_state(&j);
    join(&j, 0);
    UNTIL(&j, has(&j, "/torch.rendezvous.job.0/torchelastic/role_info/0"));
    put(&j, "/torch.rendezvous.job.0/torchelastic/role_info/1",
        "{\"role\": \"default\", \"rank\": 1, \"local_world_size\": 4}");
    UNTIL(&j, a->worlds);
    CHECK_EQ(a->world.size, 5);
    CHECK(has(&j, "/torch.rendezvous.job.0/MASTER_ADDR"));
    CHECK(has(&j, "/torch.rendezvous.job.0/MASTER_PORT"));
    read_state(&j);
    theirs(&j, "z.example")->heartbeat = 1;
    write_state(&j);
    UNTIL(&j, a->stops);
    CHECK(strstr(a->why, "node z.example (pid 7) is gone"));
    job_close(&j);
}

/* 2.6 says it in its first round, and here it is the third. */
TEST(where_workers_meet_may_have_been_said_in_an_earlier_round)
{
    struct job j;
    job_open(&j, 2, 2);
    struct node *a = &j.nodes[0];
    j.state.dialect = (struct dt_dynamic_dialect){.told = true, .redundancy = true};
    theirs(&j, "0.example")->participates = true;
    j.state.round = 2;
    write_state(&j);
    put(&j, "/torch.rendezvous.job.0/MASTER_ADDR", "0.example");
    put(&j, "/torch.rendezvous.job.0/MASTER_PORT", "4321");
    join(&j, 0);
    UNTIL(&j, has(&j, "/torch.rendezvous.job.2/torchelastic/role_info/1"));
    put(&j, "/torch.rendezvous.job.2/torchelastic/assigned_ranks/1", "[3, 4, 3, 4]");
    UNTIL(&j, a->worlds);
    CHECK_EQ(a->world.first_rank, 3);
    CHECK_STR(a->world.master_addr, "0.example");
    CHECK_EQ(a->world.master_port, 4321);
    job_close(&j);
}

TEST(one_too_many_waits_and_is_released)
{
    struct job j;
    job_open(&j, 2, 2);
    struct node *c = &j.nodes[2];
    j.state.dialect = (struct dt_dynamic_dialect){.told = true, .redundancy = true};
    theirs(&j, "x")->participates = theirs(&j, "y")->participates = true;
    j.state.complete = true;
    write_state(&j);
    join(&j, 2);
    do {
        uv_run(&j.loop, UV_RUN_ONCE);
        read_state(&j);
    } while (j.state.count < 3);
    CHECK(j.state.members[2].redundant);
    j.state.closed = true;
    write_state(&j);
    UNTIL(&j, c->released);
    CHECK_EQ(c->failed.code, DT_E_NONE);
    job_close(&j);
}

TEST(what_is_no_job_to_join)
{
    static const struct {
        const char *state, *error; /* NULL: of a job that is closed */
        dt_ms join_timeout;
    } rows[] = {
        {NULL, "job \"job\" at 127.0.0.1:", SOON},
        {"cHl0aG9u", "the state of job \"job\"", SOON},
        {DT_DYNAMIC_NOTHING, "for job \"job\" to have 2 nodes", 2 * DT_SECOND},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].error);
        struct job j;
        job_open(&j, 2, 2);
        if (rows[i].state) {
            put(&j, STATE, rows[i].state);
        } else {
            j.state.closed = true;
            begin_state(&j);
        }
        j.nodes[0].plan.join_timeout = rows[i].join_timeout;
        join(&j, 0);
        UNTIL(&j, j.nodes[0].failed.code);
        CHECK_FAIL(-1, j.nodes[0].failed, rows[i].error);
        job_close(&j);
    }
}

TEST(a_store_that_forgets)
{
    static const struct {
        const char *state, *error;
    } rows[] = {{NULL, "in time"}, {DT_DYNAMIC_NOTHING, "has lost the state of job \"job\""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].error);
        struct job j;
        job_open(&j, 1, 1);
        struct node *a = &j.nodes[0];
        begin_state(&j);
        a->plan.read_timeout = 2 * DT_SECOND; /* for a key that is not there any more */
        join(&j, 0);
        UNTIL(&j, a->worlds);
        if (rows[i].state)
            put(&j, STATE, rows[i].state);
        else
            CHECK(dt_store_delete(dt_store_server_inside(j.server), dt_bytes_of(STATE)));
        UNTIL(&j, a->failed.code);
        CHECK_FAIL(-1, a->failed, rows[i].error);
        job_close(&j);
    }
}

TEST(a_store_that_goes_away)
{
    struct job j;
    job_open(&j, 1, 1);
    struct node *a = &j.nodes[0];
    begin_state(&j);
    a->plan.read_timeout = 2 * DT_SECOND;
    a->plan.stop_when_away = true;
    join(&j, 0);
    UNTIL(&j, a->worlds);
    dt_store_server_close(j.server, 0, NULL, NULL);
    UNTIL(&j, a->stops);
    UNTIL(&j, a->failed.code);
    CHECK(strstr(a->failed.text, "which a torchrun serves"));
    close_node(&j, 0);
    uv_run(&j.loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&j.loop), 0);
    dt_dynamic_finish(&j.state);
    dt_buf_finish(&j.text);
}

TEST(identical_workers_are_refused)
{
    struct dt_plan plan = {.identical = true};
    struct dt_err err;
    CHECK(!dt_backend_foreign_open(NULL, &plan, &events, NULL, &err));
    CHECK(strstr(err.text, "TORCH_ELASTIC_WORKER_IDENTICAL"));
}
