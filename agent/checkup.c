/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/checkup.h"

#include <stdlib.h>
#include <string.h>

/* Nodes that meet at loopback are on one host, and need no network. */
static bool meets_at_loopback(const struct dt_plan *plan)
{
    const char *host = plan->endpoint_host;
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 ||
           strcmp(host, "::1") == 0;
}

/* The file that Python runs, or the program itself; NULL: it is a module, or a text. */
static const char *find_script(const struct dt_plan *plan)
{
    char *const *argv = plan->argv;
    if (!plan->python_from)
        return argv[0];
    for (argv++; *argv && strcmp(*argv, "-u") == 0; argv++)
        ;
    return *argv && **argv != '-' ? *argv : NULL;
}

static bool serves_port(const struct dt_plan *plan)
{
    return !dt_plan_is_elastic(plan) && plan->node_rank == 0 && plan->endpoint_port > 0;
}

struct dt_checkup dt_checkup_of(const struct dt_plan *plan)
{
    bool is_static = !dt_plan_is_elastic(plan);
    return (struct dt_checkup){
        .root = "",
        .hosts = meets_at_loopback(plan) ? 1 : plan->max_nodes,
        .workers = plan->nproc,
        .thorough = plan->preflight == DT_PREFLIGHT_FULL,
        .compute = plan->preflight == DT_PREFLIGHT_FULL ? DT_COMPUTE_GPUS : DT_COMPUTE_NOTHING,
        .python = plan->python_from ? plan->argv[0] : NULL,
        .script = find_script(plan),
        .log_dir = plan->no_logs ? NULL : plan->log_dir,
        .meeting_host = plan->endpoint_host,
        .meets_elsewhere = is_static ? plan->node_rank > 0 : plan->is_host == DT_HOST_NO,
        .own_port = serves_port(plan) ? plan->endpoint_port : 0,
    };
}
