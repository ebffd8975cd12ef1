/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that come and go. Who hosts the rendezvous is found out first, without asking anybody: the
 * agent on the endpoint's host, if no other and no daemon there was faster. It is then a member
 * like all the others. Each agent serves a store for workers, should its node get the first seat.
 */
#include "agent/backend/backend.h"
#include "agent/backend/elastic/host.h"
#include "agent/backend/elastic/own_node.h"
#include "agent/backend/elastic/presence.h"
#include "agent/backend/store_host.h"
#include "agent/backend/torchrun/foreign.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/ending.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct elastic {
    struct dt_backend base;
    uv_loop_t *loop;
    const struct dt_plan *plan;
    const struct dt_backend_events *events;
    void *arg;
    char endpoint[DT_PLAN_ENDPOINT];
    char name[DT_NODE_NAME_MAX], boot[DT_BOOT_MAX];
    char addr[DT_NODE_ADDR_MAX];   /* where others reach this node */
    struct dt_token token;         /* empty: none */
    struct dt_token run_token;     /* of the run; likewise */
    struct dt_rdzv_host *host;     /* NULL: somebody else hosts */
    struct dt_err no_host;         /* why not, where it would have been ours */
    struct dt_store_server *store; /* for workers; NULL until we know where others reach us */
    struct dt_presence *presence;
    struct dt_ending ending;
};

static struct elastic *of(struct dt_backend *b)
{
    return dt_container_of(b, struct elastic, base);
}

/* -- the store for workers -------------------------------------------------------------------- */

/* On a free port, which is another one than that of a store that is there still. */
static int open_store(struct elastic *e, struct dt_err *err)
{
    struct dt_plan plan = *e->plan;
    struct dt_addr bound;
    plan.endpoint_port = 0;
    e->store = dt_store_host_open(e->loop, &plan, e->addr, &bound, err);
    if (!e->store)
        return -1;
    dt_presence_set_port(e->presence, dt_store_host_port(&bound));
    return 0;
}

/* Workers of the round before may still run elsewhere, or have only begun: what they say must not
 * get into a store of the next one. They know its old port alone. */
static int renew_store(struct elastic *e, struct dt_err *err)
{
    struct dt_store_server *old = e->store;
    if (open_store(e, err) < 0) {
        e->store = old;
        return -1;
    }
    dt_store_server_close(old, 0, dt_ending_step, dt_ending_add(&e->ending));
    return 0;
}

/* Where others reach us is where we came from, the first time. */
static int on_reached(void *owner, const struct dt_addr *local, struct dt_err *err)
{
    struct elastic *e = owner;
    if (e->store)
        return 0;
    if (e->plan->local_addr)
        snprintf(e->addr, sizeof e->addr, "%s", e->plan->local_addr);
    else
        dt_own_node_addr(e->plan->endpoint_host, local, dt_plan_has_others(e->plan), e->addr,
                         sizeof e->addr);
    return open_store(e, err);
}

/* -- what the owner wishes -------------------------------------------------------------------- */

static void elastic_join(struct dt_backend *b)
{
    struct elastic *e = of(b);
    struct dt_err err;
    if (e->store && !dt_presence_is_over(e->presence) && renew_store(e, &err) < 0)
        dt_presence_end(e->presence, &err);
    dt_presence_join(e->presence);
}

static void elastic_barrier(struct dt_backend *b)
{
    dt_presence_barrier(of(b)->presence);
}

static void elastic_failed(struct dt_backend *b, const struct dt_result *result)
{
    dt_presence_failed(of(b)->presence, result);
}

static void elastic_found(struct dt_backend *b, const struct dt_result *result)
{
    dt_presence_found(of(b)->presence, result);
}

/* Who hosts the rendezvous takes it away with him: then the others are told that. */
static void elastic_leave(struct dt_backend *b, const char *why)
{
    struct elastic *e = of(b);
    char all[DT_WHY_MAX];
    struct dt_err err;
    if (!e->host) {
        dt_presence_leave(e->presence, why);
        return;
    }
    snprintf(all, sizeof all, "%s, whose agent hosted it, leaves: %s", e->name, why);
    dt_rdzv_host_end(e->host, all);
    dt_err_set(&err, DT_E_CANCELED, "this agent leaves: %s", why);
    dt_presence_end(e->presence, &err);
}

static void elastic_remark(struct dt_backend *b, bool failed, const char *words)
{
    dt_presence_remark(of(b)->presence, failed, words);
}

static void elastic_tell(struct dt_backend *b, const struct dt_beat *facts)
{
    dt_presence_tell(of(b)->presence, facts);
}

static bool elastic_still(struct dt_backend *b, dt_ms still, bool sure)
{
    return dt_presence_still(of(b)->presence, still, sure);
}

static void elastic_looked(struct dt_backend *b, int64_t look, const struct dt_stances *stances)
{
    dt_presence_looked(of(b)->presence, look, stances);
}

static void elastic_tailed(struct dt_backend *b, int64_t id, bool over, const char *page)
{
    dt_presence_tailed(of(b)->presence, id, over, page);
}

/* -- closing ---------------------------------------------------------------------------------- */

static void elastic_free(void *elastic)
{
    struct elastic *e = elastic;
    dt_token_finish(&e->token);
    dt_token_finish(&e->run_token);
    free(e); /* the only free of one that was opened */
}

static void on_store_closed(void *arg)
{
    dt_container_of(arg, struct elastic, ending)->store = NULL;
    dt_ending_step(arg);
}

static void on_host_closed(void *arg)
{
    dt_container_of(arg, struct elastic, ending)->host = NULL;
    dt_ending_step(arg);
}

static void hurry_up(struct elastic *e)
{
    if (e->store)
        dt_store_server_close(e->store, 0, NULL, NULL);
    if (e->host)
        dt_rdzv_host_close(e->host, true, NULL, NULL);
}

static void elastic_close(struct dt_backend *b, bool hurry, void (*done)(void *arg), void *arg)
{
    struct elastic *e = of(b);
    if (e->ending.begun) {
        if (hurry)
            hurry_up(e);
        return;
    }
    dt_ending_begin(&e->ending, elastic_free, e, done, arg);
    dt_ending_add(&e->ending); /* for nothing may be open yet */
    if (e->presence)
        dt_presence_close(e->presence, dt_ending_step, dt_ending_add(&e->ending));
    if (e->store)
        dt_store_host_close(e->store, false, hurry, on_store_closed, dt_ending_add(&e->ending));
    if (e->host)
        dt_rdzv_host_close(e->host, hurry, on_host_closed, dt_ending_add(&e->ending));
    dt_ending_step(&e->ending);
}

/* -- a foreign store -------------------------------------------------------------------------- */

static int on_foreign(void *owner, struct dt_err *err)
{
    struct elastic *e = owner;
    if (e->token.len)
        return dt_err_set(err, DT_E_PROTOCOL,
                          "the store at %s is no dtrun's and cannot prove that it knows the token; "
                          "serve it with dtrun, or leave --token-file away",
                          e->endpoint);
    if (e->run_token.len)
        return dt_err_set(err, DT_E_PROTOCOL,
                          "the store at %s is no dtrun's, and the token of a run keeps nobody out "
                          "there; serve it with dtrun, or leave --run-token-file away",
                          e->endpoint);
    dt_info("the store at %s is no dtrun's: joining as one of torchrun's agents", e->endpoint);
    struct dt_backend *by = dt_backend_foreign_open(e->loop, e->plan, e->events, e->arg, err);
    if (!by)
        return -1;
    if (dt_presence_is_joining(e->presence))
        by->ops->join(by);
    elastic_close(&e->base, true, NULL, NULL);
    e->events->on_replaced(e->arg, by);
    return 0;
}

/* -- the beginning ---------------------------------------------------------------------------- */

static const struct dt_backend_ops elastic_ops = {
    .join = elastic_join,
    .barrier = elastic_barrier,
    .failed = elastic_failed,
    .found = elastic_found,
    .leave = elastic_leave,
    .remark = elastic_remark,
    .tell = elastic_tell,
    .still = elastic_still,
    .looked = elastic_looked,
    .tailed = elastic_tailed,
    .close = elastic_close,
};

/* What stands for it goes over the wire and into journals. */
static int read_run_token(struct elastic *e, struct dt_err *err)
{
    const char *file = e->plan->run_token_file;
    if (!file)
        return 0;
    if (dt_proof_read_token(file, &e->run_token, err) < 0)
        return -1;
    if (e->run_token.len < DT_TOKEN_ADVISED)
        dt_warn("the token of the run is %zu bytes long: whoever overhears a node join can find it "
                "by trying; use one of %d or more, as from \"openssl rand -hex 32\"",
                e->run_token.len, DT_TOKEN_ADVISED);
    return 0;
}

/* What a person must mend is found now, not when it is used. */
static int read_plan(struct elastic *e, struct dt_err *err)
{
    const struct dt_plan *plan = e->plan;
    struct dt_store_host_where where;
    if (dt_plan_endpoint(plan, e->endpoint, err) < 0)
        return -1;
    if (plan->token_file && dt_proof_read_token(plan->token_file, &e->token, err) < 0)
        return dt_err_wrap(err, "--token-file");
    if (read_run_token(e, err) < 0)
        return dt_err_wrap(err, "--run-token-file");
    if (plan->store_listen && dt_store_host_decide(plan, plan->endpoint_host, &where, err) < 0)
        return -1;
    dt_own_node_boot(e->boot, sizeof e->boot);
    if (plan->node_name)
        snprintf(e->name, sizeof e->name, "%s", plan->node_name);
    else
        dt_own_node_name(e->name, sizeof e->name);
    return 0;
}

static int host_perhaps(struct elastic *e, struct dt_err *err)
{
    const struct dt_plan *plan = e->plan;
    bool must = plan->is_host == DT_HOST_YES;
    bool ours = must || (plan->is_host == DT_HOST_INFERRED && dt_own_node_is(plan->endpoint_host));
    if (!ours)
        return 0;
    e->host = dt_rdzv_host_open(e->loop, plan, e->token.len ? &e->token : NULL, must, err);
    if (e->host)
        return dt_rdzv_host_show(e->host, plan, err);
    if (must || err->code == DT_E_USAGE || err->code == DT_E_MEMORY)
        return -1;
    e->no_host = *err;
    dt_info("joining whoever serves %s already", e->endpoint);
    return 0;
}

static int attend(struct elastic *e, struct dt_err *err)
{
    const struct dt_plan *plan = e->plan;
    struct dt_presence_config config = {.plan = plan,
                                        .endpoint = e->endpoint,
                                        .ours = e->host != NULL,
                                        .no_host = &e->no_host,
                                        .token = e->token.len ? &e->token : NULL,
                                        .run_token = e->run_token.len ? &e->run_token : NULL,
                                        .node = {.name = e->name,
                                                 .boot = e->boot,
                                                 .domain = plan->domain ? plan->domain : "",
                                                 .addr = e->addr,
                                                 .role = plan->role,
                                                 .workers = plan->nproc,
                                                 .order = plan->order,
                                                 .expected = plan->expected_nodes,
                                                 .looks = true,
                                                 .keeps = true,
                                                 .tails = true},
                                        .events = e->events,
                                        .arg = e->arg,
                                        .reached = on_reached,
                                        .foreign = on_foreign,
                                        .owner = e};
    e->presence = dt_presence_open(e->loop, &config, err);
    return e->presence ? 0 : -1;
}

struct dt_backend *dt_backend_elastic_open(uv_loop_t *loop, const struct dt_plan *plan,
                                           const struct dt_backend_events *events, void *arg,
                                           struct dt_err *err)
{
    struct elastic *e = calloc(1, sizeof *e);
    if (!e) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a job");
        return NULL;
    }
    e->base.ops = &elastic_ops;
    e->loop = loop;
    e->plan = plan;
    e->events = events;
    e->arg = arg;
    if (read_plan(e, err) == 0 && host_perhaps(e, err) == 0 && attend(e, err) == 0)
        return &e->base;
    elastic_close(&e->base, true, NULL, NULL);
    return NULL;
}
