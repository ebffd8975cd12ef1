/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/host.h"

#include "agent/backend/store_host.h"
#include "base/list.h"
#include "base/loop/ending.h"
#include "rendezvous/runs/server.h"
#include "rendezvous/web/web.h"

#include <stdlib.h>

#define LINGER (5 * DT_SECOND) /* for others to be told */
#define LOOK_EVERY 20

/* OPEN --close--> WAITING --all told, late, hurry--> ENDING --> closing the store --> freed
 *   +------------- end --------------------------------^ */
enum phase {
    OPEN,
    WAITING, /* for the last to be told */
    ENDING,  /* the server takes its leave; the store outlives it */
    ENDED,   /* it has, and close is not called yet */
    CLOSING, /* the store, and then nothing is left */
};

struct dt_rdzv_host {
    uv_loop_t *loop;
    struct dt_store_server *store;
    struct dt_rdzv_server *server;
    struct dt_web *web; /* NULL: none */
    enum phase phase;
    bool hurry;
    uv_timer_t looks; /* while WAITING */
    dt_ms until;
    struct dt_ending ending;
};

/* -- the end ---------------------------------------------------------------------------------- */

static void close_store(struct dt_rdzv_host *h)
{
    h->phase = CLOSING;
    dt_ending_close(&h->ending, &h->looks);
    if (h->web)
        dt_web_close(h->web, dt_ending_step, dt_ending_add(&h->ending));
    dt_store_host_close(h->store, false, h->hurry, dt_ending_step, dt_ending_add(&h->ending));
}

static void on_server_closed(void *arg)
{
    struct dt_rdzv_host *h = arg;
    h->phase = ENDED;
    if (h->ending.begun)
        close_store(h);
}

void dt_rdzv_host_end(struct dt_rdzv_host *h, const char *why)
{
    if (h->phase != OPEN && h->phase != WAITING)
        return;
    h->phase = ENDING;
    uv_timer_stop(&h->looks);
    if (h->web)
        dt_web_detach(h->web);
    dt_rdzv_server_close(h->server, why, on_server_closed, h);
}

static void look(struct dt_rdzv_host *h)
{
    if (h->hurry || !dt_rdzv_server_busy(h->server) || (dt_ms)uv_now(h->loop) >= h->until)
        dt_rdzv_host_end(h, "the agent that hosted the rendezvous is gone");
}

static void on_look(uv_timer_t *t)
{
    look(dt_container_of(t, struct dt_rdzv_host, looks));
}

void dt_rdzv_host_close(struct dt_rdzv_host *h, bool hurry, void (*on_closed)(void *arg), void *arg)
{
    h->hurry = h->hurry || hurry;
    if (!h->ending.begun)
        dt_ending_begin(&h->ending, free, h, on_closed, arg);
    if (h->phase == OPEN) {
        h->phase = WAITING;
        h->until = dt_clock_after((dt_ms)uv_now(h->loop), LINGER);
        uv_timer_start(&h->looks, on_look, LOOK_EVERY, LOOK_EVERY);
    }
    if (h->phase == WAITING)
        look(h);
    else if (h->phase == ENDED)
        close_store(h);
    else if (h->phase == ENDING && hurry)
        dt_rdzv_server_close(h->server, NULL, NULL, NULL);
    else if (h->phase == CLOSING && hurry)
        dt_store_server_close(h->store, 0, NULL, NULL);
}

/* -- the beginning ---------------------------------------------------------------------------- */

static int serve(struct dt_rdzv_host *h, const struct dt_plan *plan, const struct dt_token *token,
                 bool must, struct dt_err *err)
{
    struct dt_rdzv_server_config config = DT_RDZV_SERVER_CONFIG_DEFAULT;
    struct dt_addr bound;
    config.host = "agent";
    config.token = token ? (const char *)token->secret : NULL;
    config.token_len = token ? token->len : 0;
    h->store = (must ? dt_store_host_open : dt_store_host_try)(h->loop, plan, plan->endpoint_host,
                                                               &bound, err);
    if (!h->store)
        return -1;
    h->server = dt_rdzv_server_open(h->loop, h->store, &config, err);
    if (h->server)
        return 0;
    dt_store_server_close(h->store, 0, NULL, NULL);
    return -1;
}

struct dt_rdzv_host *dt_rdzv_host_open(uv_loop_t *loop, const struct dt_plan *plan,
                                       const struct dt_token *token, bool must, struct dt_err *err)
{
    struct dt_rdzv_host *h = calloc(1, sizeof *h);
    if (!h) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a rendezvous");
        return NULL;
    }
    h->loop = loop;
    if (serve(h, plan, token, must, err) < 0) {
        free(h);
        return NULL;
    }
    uv_timer_init(loop, &h->looks);
    return h;
}

int dt_rdzv_host_show(struct dt_rdzv_host *h, const struct dt_plan *plan, struct dt_err *err)
{
    struct dt_web_config config = {
        .host = "agent",
        .server = h->server,
        .store = h->store,
        .at = plan->http,
        .token_file = plan->http_token_file,
    };
    if (!plan->http)
        return 0;
    while (plan->http[config.count])
        config.count++;
    h->web = dt_web_open(h->loop, &config, err);
    return h->web ? 0 : -1;
}
