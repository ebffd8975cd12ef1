/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/own_addr.h"

#include "base/log.h"

#include <arpa/inet.h>

static bool is_literal(const char *name)
{
    struct in6_addr ignored;
    return inet_pton(AF_INET, name, &ignored) == 1 || inet_pton(AF_INET6, name, &ignored) == 1;
}

static void on_looked_up(void *arg, const struct dt_addr *found, size_t count,
                         const struct dt_err *err)
{
    struct dt_own_addr *o = arg;
    (void)found;
    (void)count;
    o->lookup = NULL;
    if (err)
        dt_warn("%s: this host itself does not know \"%s\", by which workers are to reach it: %s; "
                "give a name or an address that leads here from all nodes",
                o->option, o->name, err->text);
}

void dt_own_addr_check(struct dt_own_addr *o, uv_loop_t *loop, const struct dt_plan *plan)
{
    bool is_static = plan->backend == DT_BACKEND_STATIC;
    *o = (struct dt_own_addr){.option = is_static ? "--master-addr" : "--local-addr",
                              .name = is_static ? plan->endpoint_host : plan->local_addr};
    if (o->name && !is_literal(o->name) && !(is_static && plan->node_rank > 0))
        o->lookup = dt_lookup_start(loop, o->name, 1, on_looked_up, o);
}

void dt_own_addr_stop(struct dt_own_addr *o)
{
    dt_lookup_forget(o->lookup);
    o->lookup = NULL;
}
