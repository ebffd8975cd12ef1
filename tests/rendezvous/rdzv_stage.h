/* SPDX-License-Identifier: Apache-2.0 */
/* A rendezvous behind a store's port, on a thread of its own, for tests whose nodes block. */
#ifndef DT_TESTS_RENDEZVOUS_RDZV_STAGE_H
#define DT_TESTS_RENDEZVOUS_RDZV_STAGE_H

#include "rendezvous/runs/server.h"
#include "tests/lib/node.h"
#include "tests/rendezvous/serving.h"

struct stage {
    struct serving serving;
    struct dt_rdzv_server_config config;
    struct dt_rdzv_server *rdzv;
    struct dt_rdzv_server_counters seen;
    uint64_t limits; /* peers that the store's server closed for passing one */
    bool busy;
};

static inline void open_rdzv(struct stage *st)
{
    struct dt_err err = {0};
    st->rdzv = dt_rdzv_server_open(&st->serving.loop, st->serving.server, &st->config, &err);
    CHECK_STR(err.text, "");
    CHECK(st->rdzv != NULL);
}

static inline void stage_open(struct stage *st, const struct dt_rdzv_server_config *config)
{
    struct dt_store_server_config store = DT_STORE_SERVER_CONFIG_DEFAULT;
    st->config = *config;
    serving_open(&st->serving, &store);
    open_rdzv(st);
    serving_start(&st->serving);
}

static const struct dt_rdzv_server_config usual = {
    .host = "daemon", .runs = 8, .nodes = 8, .patience = 30 * DT_SECOND};

static inline void on_rdzv_closed(void *arg)
{
    serving_done(arg);
}

static inline void close_rdzv(struct serving *s, void *why)
{
    dt_rdzv_server_close(dt_container_of(s, struct stage, serving)->rdzv, why, on_rdzv_closed, s);
}

static inline void stage_close(struct stage *st)
{
    serving_do_and_wait(&st->serving, close_rdzv, NULL);
    serving_stop(&st->serving);
}

static inline void reopen(struct serving *s, void *arg)
{
    (void)arg;
    open_rdzv(dt_container_of(s, struct stage, serving));
}

static inline void look(struct serving *s, void *arg)
{
    struct stage *st = dt_container_of(s, struct stage, serving);
    (void)arg;
    st->seen = *dt_rdzv_server_counters(st->rdzv);
    st->limits = dt_store_server_counters(s->server)->limits;
    st->busy = dt_rdzv_server_busy(st->rdzv);
}

static inline const struct dt_rdzv_server_counters *counters(struct stage *st)
{
    serving_do(&st->serving, look, NULL);
    return &st->seen;
}

#endif
