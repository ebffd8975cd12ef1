/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watch/health.h"

#include "base/httpd/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS 64u
#define PATIENCE (10 * DT_SECOND)

struct dt_health {
    struct dt_httpd_service *service;
    dt_health_state_fn *state;
    void *arg;
    bool closing;
    void (*on_closed)(void *arg);
    void *closed_arg;
};

static bool is_ours(const char *path)
{
    return strcmp(path, "/healthz") == 0 || strcmp(path, "/health") == 0 || strcmp(path, "/") == 0;
}

static void answer(void *arg, const struct dt_httpd_request *q, struct dt_httpd_answer *a)
{
    struct dt_health *h = arg;
    if (strcmp(q->path, "/metrics") == 0) {
        dt_httpd_answer_refuse(
            a, 404,
            "the metrics of a job are at its rendezvous: start dtrun-rendezvous, "
            "or the dtrun that hosts it, with --http ADDR:PORT and scrape that");
    } else if (!is_ours(q->path)) {
        dt_httpd_answer_refuse(a, 404, "there is /healthz");
    } else if (dt_httpd_answer_reads(q, a)) {
        a->type = "application/json";
        a->status = h->state(h->arg, &a->body) ? 200 : 503;
        dt_buf_put_u8(&a->body, '\n');
    }
}

static int find_address(const char *address, int port, struct dt_addr *out, struct dt_err *err)
{
    char everywhere[16];
    snprintf(everywhere, sizeof everywhere, "*:%d", port);
    if (dt_addr_parse(address ? address : everywhere, (uint16_t)port, out, err) < 0)
        return dt_err_wrap(err, "the address of the health port");
    return 0;
}

static int serve(struct dt_health *h, uv_loop_t *loop, const char *address, int port,
                 struct dt_err *err)
{
    struct dt_addr at;
    const struct dt_httpd_service_config config = {
        .what = "the health port",
        .limits = {.connections = CONNECTIONS, .patience = PATIENCE},
        .answer = answer,
        .arg = h,
    };
    if (find_address(address, port, &at, err) < 0)
        return -1;
    h->service = dt_httpd_service_open(loop, &at, &config, NULL, err);
    return h->service ? 0 : -1;
}

struct dt_health *dt_health_open(uv_loop_t *loop, const char *address, int port,
                                 dt_health_state_fn *state, void *arg, struct dt_err *err)
{
    struct dt_health *h = calloc(1, sizeof *h);
    if (!h) {
        dt_err_set(err, DT_E_MEMORY, "no memory for the health port");
        return NULL;
    }
    h->state = state;
    h->arg = arg;
    if (serve(h, loop, address, port, err) == 0)
        return h;
    free(h);
    return NULL;
}

static void on_service_closed(void *arg)
{
    struct dt_health *h = arg;
    void (*on_closed)(void *) = h->on_closed;
    void *closed_arg = h->closed_arg;
    free(h); /* the only free of one that was served */
    if (on_closed)
        on_closed(closed_arg);
}

void dt_health_close(struct dt_health *h, void (*on_closed)(void *arg), void *arg)
{
    if (h->closing)
        return;
    h->closing = true;
    h->on_closed = on_closed;
    h->closed_arg = arg;
    dt_httpd_service_close(h->service, on_service_closed, h);
}
