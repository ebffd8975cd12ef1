/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a job's store on the loop of a story, as a worker has one. */
#ifndef DT_TESTS_AGENT_STORE_WORKER_H
#define DT_TESTS_AGENT_STORE_WORKER_H

#include "rendezvous/client/client.h"
#include "tests/agent/turning.h"
#include "tests/lib/check.h"

struct worker {
    uv_loop_t *loop;
    struct dt_store_client *client;
    bool connected, lost, closed;
    int64_t number; /* of the last answer; -1: none yet, -2: it failed */
};

static inline void on_worker_event(void *arg, enum dt_store_client_event event,
                                   const struct dt_err *why)
{
    struct worker *w = arg;
    (void)why;
    w->connected |= event == DT_STORE_CLIENT_CONNECTED;
    w->lost |= event != DT_STORE_CLIENT_CONNECTED;
}

static inline void on_worker_closed(void *arg)
{
    ((struct worker *)arg)->closed = true;
}

static inline void on_answer(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    *(int64_t *)arg = err ? -2 : reply->number;
}

static inline void worker_open(uv_loop_t *loop, struct worker *w, const char *addr, int port)
{
    char at[300];
    struct dt_store_client_config config = DT_STORE_CLIENT_CONFIG_DEFAULT;
    struct dt_err err;
    *w = (struct worker){.loop = loop};
    snprintf(at, sizeof at, "%s:%d", addr, port);
    config.addr = at;
    config.on_event = on_worker_event;
    config.arg = w;
    w->client = dt_store_client_open(loop, &config, &err);
    CHECK(w->client != NULL);
    TURN_UNTIL(loop, w->connected);
}

/* What it is answered, once it is. */
static inline int64_t worker_ask(struct worker *w, const struct dt_c10d_request *request)
{
    struct dt_err err;
    w->number = -1;
    CHECK_OK(dt_store_client_request(w->client, request, SOON, on_answer, &w->number, &err), err);
    TURN_UNTIL(w->loop, w->number != -1);
    return w->number;
}

static inline int64_t worker_add(struct worker *w, const char *key)
{
    struct dt_c10d_request add = {.op = DT_C10D_ADD, .key = dt_bytes_of(key), .number = 1};
    return worker_ask(w, &add);
}

static inline void worker_wait(struct worker *w, const char *key)
{
    struct dt_c10d_request get = {.op = DT_C10D_GET, .key = dt_bytes_of(key)};
    CHECK_EQ(worker_ask(w, &get), 0);
}

static inline void worker_close(struct worker *w)
{
    dt_store_client_close(w->client, on_worker_closed, w);
    TURN_UNTIL(w->loop, w->closed);
}

#endif
