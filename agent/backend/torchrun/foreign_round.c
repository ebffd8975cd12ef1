/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/torchrun/foreign_round.h"

#include "agent/backend/fixed/exchange.h"
#include "base/list.h"

#include <stdio.h>
#include <stdlib.h>

struct dt_foreign_round {
    struct dt_foreign_round_config c;
    struct dt_exchange exchange;
    struct dt_world world; /* as far as it is known */
    char *prefix;
    int64_t master_from; /* the round under whose keys the workers' meeting place is looked for */
    int asked;           /* requests and exchanges that are not answered yet */
    bool left;
};

/* -- asking ----------------------------------------------------------------------------------- */

static void destroy(struct dt_foreign_round *r)
{
    dt_exchange_finish(&r->exchange);
    free(r->prefix);
    free(r);
}

void dt_foreign_round_leave(struct dt_foreign_round *r)
{
    if (!r)
        return;
    r->left = true;
    if (r->asked == 0)
        destroy(r);
}

/* To be asked first when something is answered. */
static bool is_left(struct dt_foreign_round *r)
{
    bool left = r->left;
    r->asked--;
    if (left)
        dt_foreign_round_leave(r);
    return left;
}

static void fail(struct dt_foreign_round *r, const struct dt_err *why)
{
    struct dt_err err = *why;
    if (why->code == DT_E_TIMEOUT)
        dt_err_set(&err, DT_E_TIMEOUT,
                   "round %d of job \"%s\" has begun, but its %d nodes did not agree on ranks "
                   "within %d s; their logs may say why",
                   r->world.round, r->c.plan->run_id, r->c.nodes,
                   (int)(r->c.plan->read_timeout / DT_SECOND));
    else
        dt_err_wrap(&err, "round %d of job \"%s\"", r->world.round, r->c.plan->run_id);
    r->c.on_failed(r->c.arg, &err);
}

static int ask(struct dt_foreign_round *r, const struct dt_c10d_request *req,
               dt_store_done_fn *done, struct dt_err *err)
{
    int rc = dt_store_client_request(r->c.client, req, r->c.plan->read_timeout, done, r, err);
    r->asked += rc == 0 && done;
    return rc;
}

static char *prefix_of(const struct dt_foreign_round *r, int64_t round)
{
    char *prefix;
    int n = asprintf(&prefix, "torch.rendezvous.%s.%lld", r->c.plan->run_id, (long long)round);
    return n < 0 ? NULL : prefix;
}

/* Good until the next one. */
static struct dt_bytes master_key(struct dt_foreign_round *r, const char *name)
{
    char *prefix = prefix_of(r, r->master_from);
    if (!prefix)
        return (struct dt_bytes){0};
    struct dt_bytes key = dt_exchange_key(&r->exchange.key, prefix, "%s", name);
    free(prefix);
    return key;
}

/* -- where workers meet: at the first node's address and port, under each round's keys -------- */

static int read_port(struct dt_bytes text, int *port, struct dt_err *err)
{
    *port = 0;
    for (size_t i = 0; i < text.len && *port <= UINT16_MAX; i++)
        *port =
            text.at[i] >= '0' && text.at[i] <= '9' ? 10 * *port + (text.at[i] - '0') : INT32_MAX;
    return *port >= 1 && *port <= UINT16_MAX
               ? 0
               : dt_err_set(err, DT_E_PROTOCOL, "the MASTER_PORT of its first node is no port");
}

static void on_port(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_foreign_round *r = arg;
    struct dt_err wrong;
    if (is_left(r))
        return;
    if (!err && read_port(reply->value, &r->world.master_port, &wrong) < 0)
        err = &wrong;
    if (err)
        fail(r, err);
    else
        r->c.on_world(r->c.arg, &r->world);
}

static int take_addr(struct dt_foreign_round *r, struct dt_bytes addr, struct dt_err *err)
{
    struct dt_c10d_request get = {.op = DT_C10D_GET};
    if (addr.len == 0 || addr.len >= sizeof r->world.master_addr || memchr(addr.at, 0, addr.len))
        return dt_err_set(err, DT_E_PROTOCOL, "the MASTER_ADDR of its first node is no address");
    dt_bytes_copy(r->world.master_addr, addr);
    r->world.master_addr[addr.len] = '\0';
    get.key = master_key(r, "MASTER_PORT");
    return ask(r, &get, on_port, err);
}

static void on_addr(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_foreign_round *r = arg;
    struct dt_err wrong;
    if (is_left(r))
        return;
    if (!err && take_addr(r, reply->value, &wrong) < 0)
        err = &wrong;
    if (err)
        fail(r, err);
}

/* Waits for it. */
static int get_master(struct dt_foreign_round *r, struct dt_err *err)
{
    struct dt_c10d_request get = {.op = DT_C10D_GET, .key = master_key(r, "MASTER_ADDR")};
    return ask(r, &get, on_addr, err);
}

static int find_master(struct dt_foreign_round *r, struct dt_err *err);

static void on_checked(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_foreign_round *r = arg;
    struct dt_err wrong;
    if (is_left(r))
        return;
    bool there = !err && reply->number == DT_C10D_READY;
    if (!err && !there && r->master_from-- == 0) {
        dt_err_set(&wrong, DT_E_PROTOCOL, "its first node does not say where the workers meet");
        err = &wrong;
    }
    if (!err && (there ? get_master(r, &wrong) : find_master(r, &wrong)) < 0)
        err = &wrong;
    if (err)
        fail(r, err);
}

/* The first node of PyTorch 2.4 and later says it before it gives out ranks, so now it is there if
 * it ever will be. 2.6 says it in the first of its rounds only, and means it for all that follow.
 */
static int find_master(struct dt_foreign_round *r, struct dt_err *err)
{
    struct dt_buf items = {0};
    dt_c10d_put_item(&items, master_key(r, "MASTER_ADDR"), NULL);
    struct dt_c10d_request check = {
        .op = DT_C10D_CHECK, .count = 1, .items = {items.at, items.len}};
    int rc = items.bad ? dt_err_set(err, DT_E_MEMORY, "no memory for a key")
                       : ask(r, &check, on_checked, err);
    dt_buf_finish(&items);
    return rc;
}

static int say(struct dt_foreign_round *r, const char *name, const char *value, struct dt_err *err)
{
    struct dt_c10d_request set = {
        .op = DT_C10D_SET, .key = master_key(r, name), .value = dt_bytes_of(value)};
    return ask(r, &set, NULL, err);
}

/* In each round anew: whoever came since does not look back as we do. And before the ranks, for
 * which others do not ask until they know it. */
static int be_master(struct dt_foreign_round *r, struct dt_err *err)
{
    char port[16];
    snprintf(port, sizeof port, "%d", r->c.port);
    snprintf(r->world.master_addr, sizeof r->world.master_addr, "%s", r->c.addr);
    r->world.master_port = r->c.port;
    return say(r, "MASTER_ADDR", r->c.addr, err) < 0 ? -1 : say(r, "MASTER_PORT", port, err);
}

/* -- ranks and the barrier -------------------------------------------------------------------- */

static void on_place(struct dt_exchange *x, const struct dt_ranks_place *place,
                     const struct dt_err *err)
{
    struct dt_foreign_round *r = dt_container_of(x, struct dt_foreign_round, exchange);
    struct dt_err wrong;
    if (is_left(r))
        return;
    if (err) {
        fail(r, err);
        return;
    }
    r->world.first_rank = place->first;
    r->world.size = place->size;
    r->world.first_role_rank = place->first_in_role;
    r->world.role_size = place->role_size;
    /* An elder says where to meet after the ranks, and in every round. */
    if (r->c.node == 0)
        r->c.on_world(r->c.arg, &r->world);
    else if ((x->elder ? get_master(r, &wrong) : find_master(r, &wrong)) < 0)
        fail(r, &wrong);
}

static void on_met(struct dt_exchange *x, const struct dt_err *err)
{
    struct dt_foreign_round *r = dt_container_of(x, struct dt_foreign_round, exchange);
    if (!is_left(r))
        r->c.on_met(r->c.arg, err);
}

int dt_foreign_round_meet(struct dt_foreign_round *r, dt_ms timeout, struct dt_err *err)
{
    int rc = dt_exchange_meet(&r->exchange, timeout, err);
    r->asked += rc == 0;
    return rc;
}

static struct dt_foreign_round *create(const struct dt_foreign_round_config *config)
{
    struct dt_foreign_round *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->c = *config;
    r->prefix = prefix_of(r, config->round);
    r->master_from = config->round;
    r->world = (struct dt_world){.round = (int)config->round,
                                 .group_rank = config->node,
                                 .group_size = config->nodes,
                                 .prev_first_rank = -1};
    r->world.store_is_served = config->served;
    r->exchange = (struct dt_exchange){.client = config->client,
                                       .prefix = r->prefix,
                                       .node = config->node,
                                       .nodes = config->nodes,
                                       .role = config->plan->role,
                                       .workers = config->plan->nproc,
                                       .on_place = on_place,
                                       .on_met = on_met};
    return r;
}

struct dt_foreign_round *dt_foreign_round_begin(const struct dt_foreign_round_config *config,
                                                struct dt_err *err)
{
    struct dt_foreign_round *r = create(config);
    int rc = r && r->prefix ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for a round");
    if (rc == 0 && config->node == 0)
        rc = be_master(r, err);
    if (rc == 0)
        rc = dt_exchange_ranks(&r->exchange, config->plan->read_timeout, err);
    if (rc < 0 && r)
        destroy(r);
    if (rc < 0)
        return NULL;
    r->asked++;
    return r;
}
