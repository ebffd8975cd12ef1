/* SPDX-License-Identifier: Apache-2.0 */
/* Agents of an elastic job, several in one process on one loop, over real sockets of loopback: with
 * a rendezvous that does what the test says, and with the one that an agent hosts. Time passes only
 * where a timeout is the story. */
#ifndef DT_TESTS_AGENT_ELASTIC_JOB_H
#define DT_TESTS_AGENT_ELASTIC_JOB_H

#include "agent/backend/backend.h"
#include "base/log.h"
#include "tests/agent/fake_rendezvous.h"
#include "tests/agent/notes.h"
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

__attribute__((format(printf, 2, 3))) static inline void note(struct node *n, const char *fmt, ...)
{
    va_list ap;
    CHECK(!n->closed);
    va_start(ap, fmt);
    notes_add(n->told, sizeof n->told, fmt, ap);
    va_end(ap);
}

static inline void on_world(void *arg, const struct dt_world *world)
{
    struct node *n = arg;
    n->world = *world;
    note(n, "world %d", world->round);
}

static inline void on_barrier_over(void *arg, const struct dt_err *why)
{
    note(arg, "barrier over%s%s", why ? ": " : "", why ? why->text : "");
}

static inline void on_failed(void *arg, const struct dt_err *err)
{
    note(arg, "failed: %s", err->text);
}

static inline void on_stop(void *arg, enum dt_stop_how how, const char *why)
{
    static const char *const words[] = {"stop together", "stop", "kill"};
    note(arg, "%s: %s", words[how], why);
}

static inline void on_closed(void *arg, enum dt_close_kind kind, const char *why)
{
    note(arg, "closed %s: %s", dt_close_kind_name(kind), why);
}

static inline void on_lease(void *arg, dt_ms until)
{
    ((struct node *)arg)->lease = until;
}

static inline void on_tail(void *arg, const struct dt_message *m)
{
    note(arg, "%s", dt_message_name(m->type));
}

static inline void on_replaced(void *arg, struct dt_backend *by)
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

static inline const char *told(struct node *n)
{
    static char text[sizeof n->told];
    memcpy(text, n->told, sizeof text);
    n->told[0] = '\0';
    return text;
}

/* -- jobs ------------------------------------------------------------------------------------- */

/* For all nodes, the first of which hosts unless the test wants it otherwise. */
static inline struct dt_plan plan_of(int port, int i)
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

static inline struct job *job_new(void)
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
static inline void keep_short(struct dt_run_spec *spec)
{
    spec->beat = 300;
    spec->beats = 4;
}

/* With a fake rendezvous in place of a host. */
static inline struct job *job_with_fake(void)
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

static inline void node_open(struct job *j, int i)
{
    struct node *n = &j->nodes[i];
    struct dt_err err;
    n->lease = DT_FOREVER;
    n->backend = dt_backend_elastic_open(&j->loop, &n->plan, &events, n, &err);
    if (!n->backend)
        check_say(err.text);
    CHECK(n->backend != NULL);
}

static inline void node_join(struct job *j, int i)
{
    j->nodes[i].backend->ops->join(j->nodes[i].backend);
}

static inline void node_barrier(struct job *j, int i)
{
    j->nodes[i].backend->ops->barrier(j->nodes[i].backend);
}

static inline void node_fail(struct job *j, int i)
{
    struct dt_result result = {
        .rank = 3, .exit_code = 7, .signature = "7", .text = "rank 3 exited with 7"};
    j->nodes[i].backend->ops->failed(j->nodes[i].backend, &result);
}

static inline void on_backend_closed(void *arg)
{
    *(bool *)arg = true;
}

static inline void node_close(struct job *j, int i, bool hurry)
{
    j->nodes[i].backend->ops->close(j->nodes[i].backend, hurry, on_backend_closed,
                                    &j->nodes[i].closed);
}

/* Closes who is not closed, and finds nothing left. */
static inline void job_end(struct job *j)
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
static inline struct node *node_joins(struct job *j, int i)
{
    node_open(j, i);
    node_join(j, i);
    CHECK_STR(j->nodes[i].told, ""); /* nothing is told from inside a call */
    RUN_UNTIL(j, *j->fake.heard);
    CHECK_STR(fake_heard(&j->fake), "JOIN -1");
    return &j->nodes[i];
}

static inline void say_world(struct job *j, int round)
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

static inline struct node *node_runs(struct job *j, int i)
{
    struct node *n = node_joins(j, i);
    say_world(j, 5);
    RUN_UNTIL(j, *n->told);
    CHECK_STR(told(n), "world 5");
    return n;
}

/* What one who adds 1 at that store is answered. */
static inline int64_t worker_adds(struct job *j, const char *addr, int port)
{
    struct worker w;
    worker_open(&j->loop, &w, addr, port);
    int64_t number = worker_add(&w, "n");
    worker_close(&w);
    return number;
}

/* Runs until all nodes from FIRST on were told something. */
static inline void all_hear(struct job *j, int first)
{
    for (int i = first; i < NODES; i++)
        RUN_UNTIL(j, *j->nodes[i].told);
}

static inline void check_all(struct job *j, int first, const char *wanted)
{
    for (int i = first; i < NODES; i++) {
        CHECK_ROW("node %d", i);
        CHECK_STR(told(&j->nodes[i]), wanted);
    }
}

#endif
