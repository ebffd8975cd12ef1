/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/store_host.h"

#include "base/log.h"
#include "base/port_owner.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Descriptors that are not clients': the loop, logs, and what each worker's streams take. */
#define RESERVED_FDS 128
#define FDS_OF_A_WORKER 8

#define DRAIN DT_SECOND        /* for what clients are owed when the host leaves */
#define LINGER (5 * DT_SECOND) /* for them to leave, after the barrier */

int dt_store_host_port(const struct dt_addr *a)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&a->sa;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->sa;
    return ntohs(a->sa.ss_family == AF_INET6 ? in6->sin6_port : in->sin_port);
}

static void set_port(struct dt_addr *a, int port)
{
    struct sockaddr_in *in = (struct sockaddr_in *)&a->sa;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a->sa;
    *(a->sa.ss_family == AF_INET6 ? &in6->sin6_port : &in->sin_port) = htons((uint16_t)port);
}

/* -- where ------------------------------------------------------------------------------------ */

/* An address literal of this machine's own. */
static bool is_loopback(const char *host)
{
    static const uint8_t one[16] = {[15] = 1};
    struct dt_cidr c;
    if (strchr(host, '/') || dt_cidr_parse(host, &c, NULL) < 0)
        return false;
    return c.family == AF_INET ? c.bytes[0] == 127 : memcmp(c.bytes, one, sizeof one) == 0;
}

static int listen_as_told(const struct dt_plan *plan, struct dt_addr *at, struct dt_err *err)
{
    if (dt_addr_parse(plan->store_listen, (uint16_t)plan->endpoint_port, at, err) < 0)
        return dt_err_wrap(err, "--store-listen");
    if (at->sa.ss_family == AF_UNIX || dt_store_host_port(at) != plan->endpoint_port)
        return dt_err_set(err, DT_E_USAGE,
                          "--store-listen: \"%s\" has a port or path of its own; give an address "
                          "alone, the port is that of the endpoint",
                          plan->store_listen);
    return 0;
}

int dt_store_host_decide(const struct dt_plan *plan, const char *master,
                         struct dt_store_host_where *out, struct dt_err *err)
{
    char text[DT_ADDR_TEXT];
    uint16_t port = (uint16_t)plan->endpoint_port;
    *out = (struct dt_store_host_where){.count = 1};
    if (plan->store_listen)
        return listen_as_told(plan, &out->at[0], err);
    bool localhost = strcmp(master, "localhost") == 0;
    if (localhost && !dt_plan_has_others(plan)) {
        out->count = 2;
        return dt_addr_parse("[::1]", port, &out->at[1], err) < 0
                   ? -1
                   : dt_addr_parse("127.0.0.1", port, &out->at[0], err);
    }
    if (localhost || !is_loopback(master))
        return dt_addr_parse("*", port, &out->at[0], err);
    const char *v6 = strchr(master, ':');
    snprintf(text, sizeof text, "%s%s%s", v6 ? "[" : "", master, v6 ? "]" : "");
    return dt_addr_parse(text, port, &out->at[0], err);
}

/* -- for whom --------------------------------------------------------------------------------- */

/* The range of one that an address is; false for "every address". */
static bool range_of(const struct dt_addr *a, struct dt_cidr *out)
{
    static const uint8_t any[16];
    const struct sockaddr_in *in = (const struct sockaddr_in *)&a->sa;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->sa;
    *out = (struct dt_cidr){.family = a->sa.ss_family, .bits = 128};
    if (a->sa.ss_family == AF_INET6) {
        memcpy(out->bytes, &in6->sin6_addr, 16);
    } else {
        memcpy(out->bytes, &in->sin_addr, 4);
        out->bits = 32;
    }
    return memcmp(out->bytes, any, 16) != 0;
}

/* The plan's ranges, and this machine's own addresses as far as they are known: its workers connect
 * from there. To be freed; NULL: no memory. */
static struct dt_cidr *allowed(const struct dt_plan *plan, const struct dt_addr *at, size_t *count)
{
    struct dt_cidr *all = calloc(plan->store_allow_count + 3, sizeof *all);
    *count = 0;
    if (!all || plan->store_allow_count == 0)
        return all;
    memcpy(all, plan->store_allow, plan->store_allow_count * sizeof *all);
    *count = plan->store_allow_count;
    dt_cidr_parse("127.0.0.0/8", &all[(*count)++], NULL);
    dt_cidr_parse("::1", &all[(*count)++], NULL);
    *count += range_of(at, &all[*count]);
    return all;
}

/* -- opening ---------------------------------------------------------------------------------- */

static struct dt_store_server *create(uv_loop_t *loop, const struct dt_plan *plan,
                                      const struct dt_addr *at, struct dt_err *err)
{
    struct dt_store_server_config config = DT_STORE_SERVER_CONFIG_DEFAULT;
    struct dt_cidr *allow = allowed(plan, at, &config.allow_count);
    if (!allow) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a store");
        return NULL;
    }
    config.allow = allow;
    config.connections = dt_store_server_places(
        config.connections, RESERVED_FDS + FDS_OF_A_WORKER * (size_t)plan->nproc);
    struct dt_store_server *s = dt_store_server_create(loop, &config, err);
    free(allow);
    return s;
}

/* A port that is taken is told with who has it, where that can be seen. */
static void explain(const struct dt_addr *at, struct dt_err *err)
{
    struct dt_port_owner owner;
    char text[DT_ADDR_TEXT + 128];
    if (dt_store_host_port(at) > 0 && dt_port_owner_find(at, &owner))
        dt_err_set(err, DT_E_RUNTIME, "the store of this job: %s; end that or choose another port",
                   dt_port_owner_text(at, text, sizeof text));
    else
        dt_err_wrap(err, "the store of this job");
}

/* *AT: where it was to be. */
static struct dt_store_server *serve(uv_loop_t *loop, const struct dt_plan *plan,
                                     const char *master, struct dt_addr *at, struct dt_addr *bound,
                                     struct dt_err *err)
{
    struct dt_store_host_where where;
    struct dt_err second;
    char text[DT_ADDR_TEXT];
    if (dt_store_host_decide(plan, master, &where, err) < 0)
        return NULL;
    *at = where.at[0];
    struct dt_store_server *s = create(loop, plan, at, err);
    if (!s)
        return NULL;
    if (dt_store_server_listen(s, at, bound, err) < 0) {
        dt_store_server_close(s, 0, NULL, NULL);
        return NULL;
    }
    dt_info("serving the store of this job on %s", dt_addr_text(bound, text, sizeof text));
    if (where.count > 1) {
        set_port(&where.at[1], dt_store_host_port(bound));
        if (dt_store_server_listen(s, &where.at[1], NULL, &second) < 0)
            dt_debug("%s", second.text); /* a machine without IPv6 */
    }
    return s;
}

struct dt_store_server *dt_store_host_try(uv_loop_t *loop, const struct dt_plan *plan,
                                          const char *master, struct dt_addr *bound,
                                          struct dt_err *err)
{
    struct dt_addr at;
    return serve(loop, plan, master, &at, bound, err);
}

struct dt_store_server *dt_store_host_open(uv_loop_t *loop, const struct dt_plan *plan,
                                           const char *master, struct dt_addr *bound,
                                           struct dt_err *err)
{
    struct dt_addr at = {0};
    struct dt_store_server *s = serve(loop, plan, master, &at, bound, err);
    if (!s && err->code == DT_E_RUNTIME && at.len > 0)
        explain(&at, err);
    return s;
}

/* -- closing ---------------------------------------------------------------------------------- */

void dt_store_host_close(struct dt_store_server *s, bool last, bool hurry,
                         void (*on_closed)(void *arg), void *arg)
{
    if (last && !hurry)
        dt_store_server_leave(s, LINGER, on_closed, arg);
    else
        dt_store_server_close(s, hurry ? 0 : DRAIN, on_closed, arg);
}
