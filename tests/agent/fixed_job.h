/* SPDX-License-Identifier: Apache-2.0 */
/* A job whose nodes are known beforehand, several of them in one process on one loop, over real
 * sockets of loopback. Time passes only where a timeout is the story. */
#ifndef DT_TESTS_AGENT_FIXED_JOB_H
#define DT_TESTS_AGENT_FIXED_JOB_H

#include "agent/backend/backend.h"
#include "base/log.h"
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

static inline void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static inline void on_world(void *arg, const struct dt_world *world)
{
    struct node *n = arg;
    n->world = *world;
    n->worlds++;
    if (n->hurry_at_world)
        n->backend->ops->close(n->backend, true, on_closed, &n->closed);
}

static inline void on_barrier_over(void *arg, const struct dt_err *why)
{
    struct node *n = arg;
    n->barriers++;
    n->why = why ? *why : (struct dt_err){0};
}

static inline void on_failed(void *arg, const struct dt_err *err)
{
    struct node *n = arg;
    CHECK_EQ(n->failed.code, DT_E_NONE);
    n->failed = *err;
}

static const struct dt_backend_events events = {
    .on_world = on_world, .on_barrier_over = on_barrier_over, .on_failed = on_failed};

/* -- jobs ------------------------------------------------------------------------------------- */

/* A socket on a free port of loopback, which refuses until somebody listens on it. */
static inline int bind_somewhere(int *port)
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

static inline void job_open(struct job *j, int nodes)
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

static inline void node_open(struct job *j, int i)
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

static inline void node_join(struct job *j, int i)
{
    j->nodes[i].backend->ops->join(j->nodes[i].backend);
}

static inline void node_barrier(struct job *j, int i)
{
    j->nodes[i].backend->ops->barrier(j->nodes[i].backend);
}

static inline void node_close(struct job *j, int i, bool hurry)
{
    j->nodes[i].backend->ops->close(j->nodes[i].backend, hurry, on_closed, &j->nodes[i].closed);
}

/* Opens all nodes, lets them join, and waits for their worlds. */
static inline void job_start(struct job *j)
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
static inline void job_close(struct job *j)
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

static inline void check_world(const struct dt_world *w, const char *want)
{
    char text[400];
    snprintf(text, sizeof text, "round %d group %d/%d ranks %d/%d role %d/%d at %s%s", w->round,
             w->group_rank, w->group_size, w->first_rank, w->size, w->first_role_rank, w->role_size,
             w->master_addr, w->store_is_served ? "" : " not served");
    CHECK_STR(text, want);
}

/* -- a worker of theirs ----------------------------------------------------------------------- */

static inline void worker_at(struct job *j, struct worker *w, const struct dt_world *world)
{
    worker_open(&j->loop, w, world->master_addr, world->master_port);
}

/* Who connects before there is a world. */
static inline void worker_at_endpoint(struct job *j, struct worker *w)
{
    worker_open(&j->loop, w, "127.0.0.1", j->port);
}

#endif
