/* SPDX-License-Identifier: Apache-2.0 */
/* The backend of a job whose nodes are fixed: node 0 serves the store, and all exchange their ranks
 * there, as torchrun's agents do. Who is which rank is decided in ranks.c; how PyTorch's agents
 * before 2.4 do the same is in elders.c. */
#include "agent/backend/backend.h"
#include "agent/backend/fixed/elders.h"
#include "agent/backend/fixed/exchange.h"
#include "agent/backend/fixed/panel.h"
#include "agent/backend/fixed/panelist.h"
#include "agent/backend/store_host.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/ending.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_FOR_ELDERS 100
#define SOON (10 * DT_SECOND) /* for what node 0 has done already */

enum phase {
    IDLE,       /* nothing is asked for */
    CONNECTING, /* a world is, and node 0's store has not answered */
    EXCHANGING, /* it has, and not all nodes have come */
    MEETING,    /* at the barrier */
};

struct node {
    struct dt_backend base;
    uv_loop_t *loop;
    const struct dt_plan *plan;
    const struct dt_backend_events *events;
    void *arg;
    char store[DT_PLAN_ENDPOINT];
    struct dt_store_server *server; /* of node 0; NULL with the others, and once it is closed */
    struct dt_store_client *client;
    struct dt_exchange exchange;
    bool connected;
    struct dt_err gave_up; /* the client has, and why */
    enum phase phase;
    bool met;     /* it came to the barrier, so others may still be there */
    bool refused; /* it told the others why there is no job, and they are to hear of it */
    dt_ms since, deadline;
    int round;                /* of the next world */
    uv_timer_t soon;          /* begins what was asked for, from the loop */
    enum phase begin;         /* CONNECTING or MEETING */
    uv_timer_t notes;         /* says what is waited for */
    struct dt_elders *elders; /* of node 0 */
    bool *checked;            /* of node 0: what they say of the job was looked at, by rank */
    uv_timer_t looks;         /* for them, while others are waited for */
    struct dt_panelist panelist;
    struct dt_panel *panel; /* of node 0 */
    uv_timer_t hearing;     /* ... for it, once there are workers */
    struct dt_ending ending;
};

static dt_ms now(const struct node *n)
{
    return (dt_ms)uv_now(n->loop);
}

static dt_ms left(const struct node *n)
{
    return n->deadline > now(n) ? n->deadline - now(n) : 0;
}

/* -- for people ------------------------------------------------------------------------------- */

/* Node 0 has the store at hand. Returns how many have not come; TEXT says which. */
static int find_absent(struct node *n, char *text, size_t size)
{
    int nodes = n->plan->max_nodes, count = 0;
    struct dt_bytes value;
    bool *absent = calloc((size_t)nodes, sizeof *absent);
    snprintf(text, size, "some");
    if (!absent)
        return nodes;
    for (int i = 0; i < nodes; i++) {
        absent[i] = !dt_store_get(dt_store_server_inside(n->server),
                                  dt_exchange_said_key(&n->exchange, i), &value);
        count += absent[i];
    }
    dt_ranks_list(absent, (size_t)nodes, text, size);
    free(absent);
    return count;
}

/* The number at a key of node 0's store, where any peer may have put anything. */
static int peek_count(struct node *n, struct dt_bytes at)
{
    struct dt_bytes value;
    int count = 0;
    if (dt_store_get(dt_store_server_inside(n->server), at, &value))
        for (size_t i = 0; i < value.len && i < 9 && isdigit(value.at[i]); i++)
            count = count * 10 + (value.at[i] - '0');
    return count;
}

static void note_join(struct node *n)
{
    char who[200];
    int absent;
    const char *why = dt_store_client_trouble(n->client);
    if (n->phase == CONNECTING)
        dt_warn("no connection to the store of node 0 at %s yet%s%s; trying for %d s more",
                n->store, why ? ": " : "", why ? why : "", dt_clock_seconds(left(n)));
    else if (n->server && (absent = find_absent(n, who, sizeof who)) > 0)
        dt_warn("waiting for node%s %s of %d to come to %s, for %d s more", absent > 1 ? "s" : "",
                who, n->plan->max_nodes, n->store, dt_clock_seconds(left(n)));
    else
        dt_warn("at the store of node 0 (%s), waiting for the other nodes for %d s more", n->store,
                dt_clock_seconds(left(n)));
}

static void note_barrier(struct node *n)
{
    if (n->server)
        dt_warn("done; %d of %d nodes are, waiting for the others for %d s more",
                peek_count(n, dt_exchange_met_key(&n->exchange)), n->plan->max_nodes,
                dt_clock_seconds(left(n)));
    else
        dt_warn("done; waiting for the other nodes for %d s more", dt_clock_seconds(left(n)));
}

static void on_note(uv_timer_t *t)
{
    struct node *n = dt_container_of(t, struct node, notes);
    if (n->phase == MEETING)
        note_barrier(n);
    else
        note_join(n);
}

/* The time is over and not all came. */
static void explain_join(struct node *n, struct dt_err *err)
{
    char who[200];
    int waited = dt_clock_seconds(now(n) - n->since);
    int came = n->server ? peek_count(n, dt_bytes_of("init/")) : 0;
    int absent = n->server ? find_absent(n, who, sizeof who) : 0;
    const char *s = absent > 1 ? "s" : "";
    if (absent == 0)
        dt_err_set(err, DT_E_TIMEOUT,
                   "waited %d s at the store of node 0 (%s) for this node's ranks: not all of the "
                   "%d nodes came; the log of node 0 says which",
                   waited, n->store, n->plan->max_nodes);
    else if (came >= n->plan->max_nodes)
        dt_err_set(err, DT_E_TIMEOUT,
                   "waited %d s for the other nodes: node%s %s of %d never came to %s, although %d "
                   "agents did; has each its own --node-rank?",
                   waited, s, who, n->plan->max_nodes, n->store, came);
    else
        dt_err_set(err, DT_E_TIMEOUT,
                   "waited %d s for the other nodes: node%s %s of %d never came to %s; start them "
                   "there too, or wait longer with --rdzv-conf timeout=SECONDS",
                   waited, s, who, n->plan->max_nodes, n->store);
}

/* -- outcomes --------------------------------------------------------------------------------- */

static void rest(struct node *n)
{
    n->phase = IDLE;
    uv_timer_stop(&n->notes);
    uv_timer_stop(&n->looks);
}

/* Node 0 has the store at hand: those who wait there for their ranks hear why there are none. */
static void refuse_all(struct node *n, const char *why)
{
    struct dt_buf text = {0};
    dt_ranks_write_refusal(&text, why);
    for (int i = 1; i < n->plan->max_nodes && !text.bad; i++)
        dt_store_set(dt_store_server_inside(n->server), dt_exchange_place_key(&n->exchange, i),
                     (struct dt_bytes){text.at, text.len}, NULL);
    dt_buf_finish(&text);
    n->refused = true;
}

static void join_failed(struct node *n, const struct dt_err *why)
{
    struct dt_err err = *why;
    if (why->code == DT_E_TIMEOUT && n->phase == EXCHANGING)
        explain_join(n, &err);
    else if (why->code == DT_E_DISCONNECTED && n->phase == EXCHANGING)
        dt_err_set(&err, DT_E_DISCONNECTED,
                   "node 0 went away while this node waited for the others; its log says why (%s)",
                   why->text);
    else if (n->phase == CONNECTING)
        dt_err_set(&err, why->code,
                   "this node, %d of %d, could not reach node 0: %s; is it running, and is the "
                   "endpoint %s right?",
                   n->plan->node_rank, n->plan->max_nodes, why->text, n->store);
    if (n->server && why->code == DT_E_PROTOCOL)
        refuse_all(n, err.text);
    rest(n);
    n->events->on_failed(n->arg, &err);
}

static void barrier_over(struct node *n, const struct dt_err *why)
{
    struct dt_err err = why ? *why : (struct dt_err){0};
    if (err.code == DT_E_TIMEOUT)
        dt_err_set(&err, DT_E_TIMEOUT, "waited %d s for the other nodes to finish",
                   dt_clock_seconds(now(n) - n->since));
    n->met = !why; /* who has waited in vain need not stay for others */
    rest(n);
    n->events->on_barrier_over(n->arg, why ? &err : NULL);
}

static void on_hearing(uv_timer_t *t)
{
    struct node *n = dt_container_of(t, struct node, hearing);
    dt_panel_step(n->panel, dt_store_server_inside(n->server), now(n));
}

/* Where nothing is exchanged, the other nodes may come much later. */
static void begin_watch(struct node *n, const struct dt_ranks_place *p)
{
    struct dt_rank_range own = {p->first, p->first + n->plan->nproc - 1};
    dt_panelist_begin(&n->panelist, own, n->plan->identical ? n->plan->join_timeout : SOON);
    if (!n->panel)
        return;
    dt_panel_set_size(n->panel, p->size);
    uv_timer_start(&n->hearing, on_hearing, 0, DT_PANEL_EVERY);
}

static void give_world(struct node *n, const struct dt_ranks_place *p)
{
    struct dt_world world = {.round = n->round++,
                             .group_rank = n->plan->node_rank,
                             .group_size = n->plan->max_nodes,
                             .first_rank = p->first,
                             .size = p->size,
                             .first_role_rank = p->first_in_role,
                             .role_size = p->role_size,
                             .master_port = n->plan->endpoint_port,
                             .store_is_served = true,
                             .prev_first_rank = -1};
    snprintf(world.master_addr, sizeof world.master_addr, "%s", n->plan->endpoint_host);
    rest(n);
    begin_watch(n, p);
    n->events->on_world(n->arg, &world);
}

/* -- what is asked for ------------------------------------------------------------------------ */

/* The first time around, what is lost with node 0 is everybody's being there. Later it is only the
 * keys, and a node 0 that comes back asks for them. */
static bool may_try_again(const struct node *n, const struct dt_err *err)
{
    return n->round > 0 && err->code == DT_E_DISCONNECTED && n->gave_up.code == DT_E_NONE;
}

static void on_place(struct dt_exchange *x, const struct dt_ranks_place *place,
                     const struct dt_err *err)
{
    struct node *n = dt_container_of(x, struct node, exchange);
    if (n->ending.begun || n->phase == IDLE)
        return;
    if (err && may_try_again(n, err)) {
        n->phase = CONNECTING;
        return;
    }
    if (!err && n->elders)
        dt_elders_tell(n->elders, dt_store_server_inside(n->server), n->plan->endpoint_host,
                       n->plan->endpoint_port);
    if (err)
        join_failed(n, err);
    else
        give_world(n, place);
}

static void on_met(struct dt_exchange *x, const struct dt_err *err)
{
    struct node *n = dt_container_of(x, struct node, exchange);
    if (n->ending.begun)
        return;
    if (!err && n->elders)
        dt_elders_release(n->elders, dt_store_server_inside(n->server));
    barrier_over(n, err);
}

/* A second time, for this node's workers alone, all that is wanted is there already. */
static void exchange(struct node *n)
{
    const struct dt_plan *plan = n->plan;
    struct dt_ranks_place place;
    struct dt_err err;
    n->phase = EXCHANGING;
    int rc = plan->identical
                 ? dt_ranks_identical(plan->node_rank, plan->max_nodes, plan->nproc, &place, &err)
                 : dt_exchange_ranks(&n->exchange, left(n), &err);
    if (rc < 0)
        join_failed(n, &err);
    else if (plan->identical)
        give_world(n, &place);
}

/* For the first world all nodes are waited for, later on node 0 alone. */
static void begin_join(struct node *n)
{
    n->deadline =
        dt_clock_after(now(n), n->round == 0 ? n->plan->join_timeout : n->plan->read_timeout);
    n->phase = CONNECTING;
    dt_panelist_end(&n->panelist, false);
    if (n->gave_up.code != DT_E_NONE)
        join_failed(n, &n->gave_up);
    else if (n->connected)
        exchange(n);
}

static void begin_barrier(struct node *n)
{
    const char *why = dt_store_client_trouble(n->client);
    struct dt_err err;
    n->deadline = dt_clock_after(now(n), n->plan->barrier_timeout);
    n->phase = MEETING;
    n->met = true;
    dt_panelist_end(&n->panelist, true);
    int rc = n->connected ? dt_exchange_meet(&n->exchange, left(n), &err)
                          : dt_err_set(&err, DT_E_DISCONNECTED, "the store of node 0 is gone: %s",
                                       why ? why : "it was never there");
    if (rc < 0)
        barrier_over(n, &err);
}

/* A node that was told of fewer or more nodes may be why others never come: said as it comes. */
static void check_came(struct node *n, struct dt_store *store)
{
    struct dt_bytes said;
    struct dt_err err;
    for (int i = 1; i < n->plan->max_nodes; i++) {
        if (n->checked[i] || !dt_store_get(store, dt_exchange_said_key(&n->exchange, i), &said))
            continue;
        n->checked[i] = true;
        if (dt_exchange_check(&n->exchange, i, said, &err) < 0) {
            join_failed(n, &err);
            return;
        }
    }
}

static void on_look(uv_timer_t *t)
{
    struct node *n = dt_container_of(t, struct node, looks);
    struct dt_store *store = dt_store_server_inside(n->server);
    if (n->phase == EXCHANGING) {
        dt_elders_hear(n->elders, store);
        check_came(n, store);
    } else if (n->phase == MEETING)
        dt_elders_count(n->elders, store);
}

static void on_soon(uv_timer_t *t)
{
    struct node *n = dt_container_of(t, struct node, soon);
    n->since = now(n);
    if (n->elders)
        uv_timer_start(&n->looks, on_look, LOOK_FOR_ELDERS, LOOK_FOR_ELDERS);
    uv_timer_start(&n->notes, on_note, (uint64_t)DT_FIRST_NOTE, (uint64_t)DT_NEXT_NOTE);
    if (n->begin == CONNECTING)
        begin_join(n);
    else
        begin_barrier(n);
}

static void begin_soon(struct dt_backend *b, enum phase phase)
{
    struct node *n = dt_container_of(b, struct node, base);
    n->begin = phase;
    uv_timer_start(&n->soon, on_soon, 0, 0);
}

static void static_join(struct dt_backend *b)
{
    begin_soon(b, CONNECTING);
}

static void static_barrier(struct dt_backend *b)
{
    begin_soon(b, MEETING);
}

/* -- workers that stand still ----------------------------------------------------------------- */

static bool static_still(struct dt_backend *b, dt_ms still, bool sure)
{
    return dt_panelist_still(&dt_container_of(b, struct node, base)->panelist, still, sure);
}

static void static_looked(struct dt_backend *b, int64_t look, const struct dt_stances *stances)
{
    dt_panelist_looked(&dt_container_of(b, struct node, base)->panelist, look, stances);
}

/* -- the connection --------------------------------------------------------------------------- */

static void on_connected(struct node *n)
{
    /* A torchrun at node 0 waits until this has counted all; its one key without a prefix. */
    struct dt_c10d_request add = {.op = DT_C10D_ADD, .key = dt_bytes_of("init/"), .number = 1};
    n->connected = true;
    dt_store_client_request(n->client, &add, n->plan->read_timeout, NULL, NULL, NULL);
    dt_panelist_greet(&n->panelist);
    if (n->phase == CONNECTING)
        exchange(n);
    else
        dt_info("the store of node 0 (%s) is there%s", n->store, n->round ? " again" : "");
}

/* What waits for an answer hears of it by itself. */
static void on_disconnected(struct node *n, const struct dt_err *why)
{
    n->connected = false;
    if (n->phase == CONNECTING && n->gave_up.code != DT_E_NONE)
        join_failed(n, why);
    else if (n->phase == IDLE)
        dt_warn("%s", why->text);
}

static void on_event(void *arg, enum dt_store_client_event event, const struct dt_err *why)
{
    struct node *n = arg;
    if (event == DT_STORE_CLIENT_FAILED)
        n->gave_up = *why;
    if (n->ending.begun)
        return;
    if (event == DT_STORE_CLIENT_CONNECTED)
        on_connected(n);
    else
        on_disconnected(n, why);
}

/* -- the end ---------------------------------------------------------------------------------- */

static void node_free(void *node)
{
    struct node *n = node;
    dt_exchange_finish(&n->exchange);
    dt_panelist_finish(&n->panelist);
    dt_panel_destroy(n->panel);
    dt_elders_destroy(n->elders);
    free(n->checked);
    free(n); /* the only free of one that was opened */
}

static void on_server_closed(void *arg)
{
    dt_container_of(arg, struct node, ending)->server = NULL;
    dt_ending_step(arg);
}

static void static_close(struct dt_backend *b, bool hurry, void (*on_closed)(void *arg), void *arg)
{
    struct node *n = dt_container_of(b, struct node, base);
    if (n->ending.begun) {
        if (n->server && hurry)
            dt_store_server_close(n->server, 0, NULL, NULL);
        return;
    }
    dt_ending_begin(&n->ending, node_free, n, on_closed, arg);
    dt_ending_close(&n->ending, &n->soon);
    dt_ending_close(&n->ending, &n->notes);
    dt_ending_close(&n->ending, &n->looks);
    dt_ending_close(&n->ending, &n->hearing);
    dt_store_client_close(n->client, dt_ending_step, dt_ending_add(&n->ending));
    if (n->server)
        dt_store_host_close(n->server, n->met || n->refused, hurry && !n->refused, on_server_closed,
                            dt_ending_add(&n->ending));
}

/* -- the beginning ---------------------------------------------------------------------------- */

static const struct dt_backend_ops static_ops = {
    .join = static_join,
    .barrier = static_barrier,
    .still = static_still,
    .looked = static_looked,
    .close = static_close,
};

/* Where node 0 finds its own store. */
static void own_address(const struct dt_addr *bound, char *out, size_t size)
{
    char text[DT_ADDR_TEXT];
    dt_addr_text(bound, text, sizeof text);
    bool every = strncmp(text, "[::]", 4) == 0 || strncmp(text, "0.0.0.0:", 8) == 0;
    snprintf(out, size, every ? "127.0.0.1:%s" : "%s", every ? strrchr(text, ':') + 1 : text);
}

static int open_client(struct node *n, const char *addr, struct dt_err *err)
{
    struct dt_store_client_config config = DT_STORE_CLIENT_CONFIG_DEFAULT;
    config.addr = addr;
    config.open_timeout = n->plan->join_timeout;
    config.reconnect_timeout = n->plan->read_timeout;
    config.on_event = on_event;
    config.arg = n;
    n->client = dt_store_client_open(n->loop, &config, err);
    n->exchange.client = n->panelist.client = n->client;
    return n->client ? 0 : -1;
}

static int open_store(struct node *n, struct dt_err *err)
{
    struct dt_addr bound;
    char own[DT_ADDR_TEXT + 16];
    if (dt_plan_endpoint(n->plan, n->store, err) < 0)
        return -1;
    if (n->plan->node_rank > 0)
        return open_client(n, n->store, err);
    n->elders = dt_elders_create(n->plan->run_id, n->plan->max_nodes);
    n->checked = calloc((size_t)n->plan->max_nodes, sizeof *n->checked);
    n->panel = dt_panel_create(n->plan->run_id, n->plan->max_nodes);
    if (!n->elders || !n->checked || !n->panel)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a job");
    n->server = dt_store_host_open(n->loop, n->plan, n->plan->endpoint_host, &bound, err);
    if (!n->server)
        return -1;
    own_address(&bound, own, sizeof own);
    return open_client(n, own, err);
}

struct dt_backend *dt_backend_static_open(uv_loop_t *loop, const struct dt_plan *plan,
                                          const struct dt_backend_events *events, void *arg,
                                          struct dt_err *err)
{
    struct node *n = calloc(1, sizeof *n);
    if (!n) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a job");
        return NULL;
    }
    n->base.ops = &static_ops;
    n->loop = loop;
    n->plan = plan;
    n->events = events;
    n->arg = arg;
    n->exchange = (struct dt_exchange){.prefix = plan->run_id,
                                       .node = plan->node_rank,
                                       .nodes = plan->max_nodes,
                                       .role = plan->role,
                                       .workers = plan->nproc,
                                       .fixed = true,
                                       .on_place = on_place,
                                       .on_met = on_met};
    n->panelist = (struct dt_panelist){
        .prefix = plan->run_id, .node = plan->node_rank, .events = events, .arg = arg};
    if (open_store(n, err) < 0) {
        if (n->server)
            dt_store_server_close(n->server, 0, NULL, NULL);
        dt_panel_destroy(n->panel);
        dt_elders_destroy(n->elders);
        free(n->checked);
        free(n);
        return NULL;
    }
    uv_timer_init(loop, &n->soon);
    uv_timer_init(loop, &n->notes);
    uv_timer_init(loop, &n->looks);
    uv_timer_init(loop, &n->hearing);
    return &n->base;
}
