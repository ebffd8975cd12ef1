/* SPDX-License-Identifier: Apache-2.0 */
/* How the nodes of the job meet. A job of one node that was told no endpoint meets nobody: it has a
 * store of its own on a free port, whatever backend was named. All others are static, or elastic:
 * one c10d node that was told an endpoint may find another one there that does its work already. */
#include "launcher/planning/inside.h"

#include "launcher/planning/endpoint.h"
#include "launcher/planning/rdzv_conf.h"
#include "launcher/number.h"
#include "launcher/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define STATIC_PORT 29500

static int read_one_count(const char *text, size_t len, int *out)
{
    char copy[64];
    int64_t n;
    if (len >= sizeof copy)
        return -1;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (dt_number_int(copy, &n, NULL) < 0 || n < 1 || n > DT_NODES_WISHED_MOST)
        return -1;
    *out = (int)n;
    return 0;
}

static int read_nnodes(struct dt_planning *c)
{
    const char *text = c->o->nnodes, *colon = strchr(text, ':');
    struct dt_plan *p = c->plan;
    size_t first = colon ? (size_t)(colon - text) : strlen(text);
    if (read_one_count(text, first, &p->min_nodes) < 0 ||
        read_one_count(colon ? colon + 1 : text, colon ? strlen(colon + 1) : first, &p->max_nodes) <
            0)
        return dt_planning_fail(c, "nnodes", "\"%s\" is not N or MIN:MAX with numbers from 1 to %d",
                                text, DT_NODES_WISHED_MOST);
    if (p->min_nodes > p->max_nodes)
        return dt_planning_fail(c, "nnodes",
                                "\"%s\" has its minimum above its maximum; write %d:%d", text,
                                p->max_nodes, p->min_nodes);
    if ((int64_t)p->max_nodes * p->nproc > INT32_MAX)
        return dt_planning_fail(c, "nnodes",
                                "%d nodes of %d workers are more than there can be ranks",
                                p->max_nodes, p->nproc);
    return 0;
}

/* -- names of jobs ---------------------------------------------------------------------------- */

/* A random UUID, version 4. */
static int set_uuid(struct dt_planning *c)
{
    uint8_t b[16];
    char text[40];
    memcpy(b, c->facts->random, sizeof b);
    b[6] = (uint8_t)(0x40 | (b[6] & 0x0f));
    b[8] = (uint8_t)(0x80 | (b[8] & 0x3f));
    size_t n = 0;
    for (int i = 0; i < 16; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%02x",
                              i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
    return dt_planning_set(c, &c->plan->run_id, text);
}

/* 128 random bits as one decimal number: what torchrun makes of an id that is empty. */
static int set_number(struct dt_planning *c)
{
    uint8_t b[16];
    char text[48], *at = text + sizeof text - 1;
    memcpy(b, c->facts->random, sizeof b);
    b[0] |= 1; /* so that it is never 0 */
    *at = '\0';
    for (bool more = true; more;) {
        unsigned rest = 0;
        more = false;
        for (int i = 0; i < 16; i++) { /* long division by 10, the highest byte first */
            unsigned v = rest << 8 | b[i];
            b[i] = (uint8_t)(v / 10);
            rest = v % 10;
            more = more || b[i];
        }
        *--at = (char)('0' + rest);
    }
    if (dt_words_push(c->warnings, c->err, "the job has no id; it is called %s", at) < 0)
        return -1;
    return dt_planning_set(c, &c->plan->run_id, at);
}

static int choose_run_id(struct dt_planning *c, bool of_its_own)
{
    if (of_its_own)
        return set_uuid(c);
    return *c->o->rdzv_id ? dt_planning_set(c, &c->plan->run_id, c->o->rdzv_id) : set_number(c);
}

/* -- --rdzv-conf ------------------------------------------------------------------------------ */

/* Notes the keys of CONF that are not in USED, a NULL-ended list. */
static int note_unused(struct dt_planning *c, const struct dt_rdzv_conf *conf,
                       const char *const *used, const char *why)
{
    for (size_t i = 0; i < conf->len; i++) {
        const char *const *u = used;
        while (*u && strcmp(*u, conf->at[i].key) != 0)
            u++;
        if (!*u && dt_planning_ignore(c, "rdzv-conf", "%s %s", conf->at[i].key, why) < 0)
            return -1;
    }
    return 0;
}

static int apply_static_conf(struct dt_planning *c, const struct dt_rdzv_conf *conf)
{
    static const char *const used[] = {"timeout", NULL};
    struct dt_plan *p = c->plan;
    p->join_timeout = 900 * DT_SECOND;
    if (dt_rdzv_conf_seconds(conf, "timeout", &p->join_timeout, c->err) < 0)
        return dt_planning_wrap(c, "rdzv-conf");
    p->read_timeout = p->join_timeout; /* torchrun's static store has one for both */
    return note_unused(c, conf, used, "is no setting of a static job; timeout is");
}

/* All that torchrun checks is checked, so that a job grows to several nodes without surprise. */
static int apply_c10d_conf(struct dt_planning *c, const struct dt_rdzv_conf *conf)
{
    static const char *const single[] = {"join_timeout", "read_timeout", NULL};
    static const char *const elastic[] = {"join_timeout",
                                          "read_timeout",
                                          "is_host",
                                          "store_type",
                                          "last_call_timeout",
                                          "close_timeout",
                                          "heartbeat_timeout",
                                          "keep_alive_interval",
                                          "keep_alive_max_attempt",
                                          NULL};
    struct dt_plan *p = c->plan;
    const char *store = dt_rdzv_conf_find(conf, "store_type");
    bool is_host;
    p->join_timeout = 600 * DT_SECOND;
    p->read_timeout = 60 * DT_SECOND;
    if (store && strcasecmp(store, "tcp") != 0)
        return dt_planning_fail(c, "rdzv-conf",
                                "store_type is \"%s\"; dtrun has the tcp store only", store);
    if (dt_rdzv_conf_bool(conf, "is_host", &is_host, c->err) < 0 ||
        dt_rdzv_conf_seconds(conf, "join_timeout", &p->join_timeout, c->err) < 0 ||
        dt_rdzv_conf_seconds(conf, "read_timeout", &p->read_timeout, c->err) < 0)
        return dt_planning_wrap(c, "rdzv-conf");
    if (dt_rdzv_conf_find(conf, "is_host"))
        p->is_host = is_host ? DT_HOST_YES : DT_HOST_NO;
    if (dt_planning_elastic_conf(c, conf) < 0)
        return -1;
    if (dt_plan_is_elastic(p))
        return note_unused(c, conf, elastic, "is no setting of a c10d job");
    return note_unused(c, conf, single, "does not matter to a job of one node");
}

static int apply_conf(struct dt_planning *c)
{
    struct dt_rdzv_conf conf;
    if (dt_rdzv_conf_parse(c->o->rdzv_conf ? c->o->rdzv_conf : "", &conf, c->err) < 0)
        return dt_planning_wrap(c, "rdzv-conf");
    int rc = c->plan->backend == DT_BACKEND_STATIC ? apply_static_conf(c, &conf)
                                                   : apply_c10d_conf(c, &conf);
    dt_rdzv_conf_finish(&conf);
    return rc;
}

/* -- the two kinds of jobs -------------------------------------------------------------------- */

static int set_endpoint(struct dt_planning *c, const char *host, int port)
{
    c->plan->endpoint_port = port;
    return dt_planning_set(c, &c->plan->endpoint_host, host);
}

/* An empty one is none, as with torchrun: scripts pass on a variable that nobody set. */
static int set_local_addr(struct dt_planning *c)
{
    const char *given = c->o->local_addr;
    return dt_planning_set(c, &c->plan->local_addr, given && *given ? given : NULL);
}

static int note_store_apart(struct dt_planning *c)
{
    const char *apart = dt_planning_env(c, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
    if (!apart || strcmp(apart, "1") != 0)
        return 0;
    return dt_words_push(&c->plan->ignored, c->err,
                         "TORCH_DISABLE_SHARE_RDZV_TCP_STORE has no effect: the workers' store is "
                         "dtrun's, and new for each attempt");
}

/* A job of this node alone, with a store of its own. */
static int plan_single(struct dt_planning *c, bool unnamed)
{
    struct dt_plan *p = c->plan;
    p->backend = DT_BACKEND_C10D;
    p->min_nodes = p->max_nodes = 1;
    if (set_endpoint(c, "localhost", 0) < 0 || choose_run_id(c, unnamed) < 0 || apply_conf(c) < 0 ||
        set_local_addr(c) < 0 || note_store_apart(c) < 0)
        return -1;
    if (dt_planning_ignore(c, "node-rank", "the job has one node") < 0 ||
        dt_planning_ignore(c, "master-addr", "the job has one node, and its store is here") < 0)
        return -1;
    return dt_planning_ignore(c, "master-port",
                              "the store of this job is on a free port; "
                              "--rdzv-backend=static uses the one given");
}

static int plan_standalone(struct dt_planning *c)
{
    static const char *const set[] = {"rdzv-backend", "rdzv-endpoint", "rdzv-id"};
    if (c->plan->min_nodes > 1)
        return dt_planning_fail(c, "nnodes",
                                "%d nodes cannot meet in a job that is --standalone; drop one of "
                                "the two",
                                c->plan->min_nodes);
    if (c->plan->max_nodes > 1 &&
        dt_planning_ignore(c, "nnodes", "--standalone is a job of this node alone") < 0)
        return -1;
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        if (dt_planning_ignore(c, set[i], "--standalone chooses its own") < 0)
            return -1;
    return plan_single(c, true);
}

/* Nodes that come and go. More of it, once the rest is known, is in elastic.c. */
static int plan_elastic(struct dt_planning *c, const struct dt_rdzv_endpoint *e)
{
    if (set_endpoint(c, e->host, e->port) < 0 || choose_run_id(c, false) < 0 || apply_conf(c) < 0 ||
        set_local_addr(c) < 0 || note_store_apart(c) < 0)
        return -1;
    if (dt_planning_ignore(c, "master-addr", "nodes of a c10d job meet at --rdzv-endpoint") < 0)
        return -1;
    return dt_planning_ignore(
        c, "master-port",
        "nodes of a c10d job meet at --rdzv-endpoint, and node 0 has its store "
        "on a free port");
}

/* Nobody could find this node, as with torchrun, where each agent has then a store of its own. */
static int plan_alone_on_a_free_port(struct dt_planning *c)
{
    if (c->plan->min_nodes > 1)
        return dt_planning_fail(c, "rdzv-endpoint",
                                "port 0, any free one, is for a job of one node; the others could "
                                "not know it");
    if (c->plan->max_nodes > 1 &&
        dt_planning_ignore(c, "nnodes",
                           "--rdzv-endpoint has port 0, any free one, which no other node could "
                           "know") < 0)
        return -1;
    c->plan->run.spares = 0;
    return plan_single(c, false);
}

static int plan_c10d(struct dt_planning *c)
{
    struct dt_rdzv_endpoint e;
    const char *given = c->o->rdzv_endpoint ? c->o->rdzv_endpoint : "";
    if (dt_rdzv_endpoint_parse(given, DT_RENDEZVOUS_PORT, &e, c->err) < 0)
        return dt_planning_wrap(c, "rdzv-endpoint");
    c->plan->backend = DT_BACKEND_C10D;
    c->plan->run = c->o->run;
    if (e.port == 0)
        return plan_alone_on_a_free_port(c);
    if (*given || c->plan->max_nodes > 1 || c->o->run.spares > 0)
        return plan_elastic(c, &e);
    return plan_single(c, false);
}

static int read_static_endpoint(struct dt_planning *c)
{
    struct dt_rdzv_endpoint e;
    char text[512];
    const char *given = c->o->rdzv_endpoint;
    bool here = given && *given;
    bool port = dt_launch_options_gave(c->o, "master-port");
    if (!here && port && (c->o->master_port < 0 || c->o->master_port > 65535))
        return dt_planning_fail(c, "master-port", "%d is no port; give one from 1 to 65535",
                                c->o->master_port);
    if (!here) {
        snprintf(text, sizeof text, "%s:%d", c->o->master_addr,
                 port ? c->o->master_port : STATIC_PORT);
        if (strlen(c->o->master_addr) > 256)
            return dt_planning_fail(c, "master-addr", "\"%.40s...\" is too long for a host",
                                    c->o->master_addr);
    }
    if (dt_rdzv_endpoint_parse(here ? given : text, DT_ENDPOINT_PORT_REQUIRED, &e, c->err) < 0)
        return dt_planning_wrap(c, here ? "rdzv-endpoint" : port ? "master-port" : "master-addr");
    if (e.port == 0 && c->plan->max_nodes > 1)
        return dt_planning_fail(c, here ? "rdzv-endpoint" : "master-port",
                                "port 0, any free one, is for a job of one node; the others could "
                                "not know it");
    if (here && (dt_planning_ignore(c, "master-addr", "--rdzv-endpoint is given too") < 0 ||
                 dt_planning_ignore(c, "master-port", "--rdzv-endpoint is given too") < 0))
        return -1;
    return set_endpoint(c, e.host, e.port);
}

static int plan_static(struct dt_planning *c)
{
    struct dt_plan *p = c->plan;
    p->backend = DT_BACKEND_STATIC;
    if (p->min_nodes != p->max_nodes &&
        dt_planning_ignore(c, "nnodes",
                           "a static job always has its %d nodes; it takes --rdzv-backend=c10d to "
                           "begin with %d",
                           p->max_nodes, p->min_nodes) < 0)
        return -1;
    p->min_nodes = p->max_nodes;
    p->node_rank = c->o->node_rank;
    if (p->node_rank < 0 || p->node_rank >= p->max_nodes)
        return dt_planning_fail(c, "node-rank", "%d is no rank in a job of %d node%s; give 0%s",
                                p->node_rank, p->max_nodes, p->max_nodes > 1 ? "s" : "",
                                p->max_nodes > 1 ? " to one less than --nnodes" : "");
    if (read_static_endpoint(c) < 0 || choose_run_id(c, false) < 0 || apply_conf(c) < 0)
        return -1;
    return dt_planning_ignore(c, "local-addr",
                              "in a static job nobody asks for the address of this "
                              "node; --master-addr names node 0");
}

static int choose_backend(struct dt_planning *c)
{
    const char *backend = c->o->rdzv_backend;
    bool endpoint = c->o->rdzv_endpoint && *c->o->rdzv_endpoint;
    if (c->o->standalone)
        return plan_standalone(c);
    if (strcmp(backend, "c10d") == 0)
        return plan_c10d(c);
    if (strcmp(backend, "static") == 0) {
        if (c->plan->max_nodes == 1 && !endpoint && !dt_launch_options_gave(c->o, "master-port"))
            return plan_single(c, !dt_launch_options_gave(c->o, "rdzv-id"));
        return plan_static(c);
    }
    if (strcmp(backend, "etcd") == 0 || strcmp(backend, "etcd-v2") == 0)
        return dt_planning_fail(c, "rdzv-backend",
                                "dtrun does not speak to etcd; give static or c10d, or run the job "
                                "with torchrun");
    return dt_planning_fail(c, "rdzv-backend", "\"%s\" is no backend; give static or c10d",
                            backend);
}

int dt_planning_nodes(struct dt_planning *c)
{
    struct dt_plan *p = c->plan;
    if (read_nnodes(c) < 0 || choose_backend(c) < 0 || dt_planning_scheduler(c) < 0)
        return -1;
    p->identical = strcmp(dt_planning_env(c, "TORCH_ELASTIC_WORKER_IDENTICAL") ?: "0", "1") == 0;
    p->store_allow_count = c->o->store_allow.len;
    if (p->store_allow_count) {
        size_t size = p->store_allow_count * sizeof *p->store_allow;
        p->store_allow = malloc(size);
        if (!p->store_allow)
            return dt_err_set(c->err, DT_E_MEMORY, "no memory for the plan");
        memcpy(p->store_allow, c->o->store_allow.at, size);
    }
    return dt_planning_set(c, &p->store_listen, c->o->store_listen);
}
