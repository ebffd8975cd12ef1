/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_list(char **list)
{
    for (char **s = list; s && *s; s++)
        free(*s);
    free(list);
}

int dt_plan_endpoint(const struct dt_plan *plan, char out[DT_PLAN_ENDPOINT], struct dt_err *err)
{
    const char *host = plan->endpoint_host;
    if (strlen(host) >= DT_PLAN_HOST_MAX)
        return dt_err_set(err, DT_E_USAGE, "\"%.40s...\" is too long for the name of a host", host);
    snprintf(out, DT_PLAN_ENDPOINT, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host,
             plan->endpoint_port);
    return 0;
}

bool dt_plan_is_elastic(const struct dt_plan *plan)
{
    return plan->backend == DT_BACKEND_C10D && plan->endpoint_port > 0;
}

bool dt_plan_has_others(const struct dt_plan *plan)
{
    return plan->max_nodes > 1 || plan->run.spares > 0;
}

void dt_plan_finish(struct dt_plan *plan)
{
    free_list(plan->argv);
    free_list(plan->stdout_filters);
    free_list(plan->stderr_filters);
    free_list(plan->ignored);
    free_list(plan->needless);
    free(plan->title);
    free(plan->python_from);
    free(plan->role);
    free(plan->ctype);
    free(plan->run_id);
    free(plan->scheduled_id);
    free(plan->scheduled_by);
    free(plan->endpoint_host);
    free(plan->local_addr);
    free(plan->store_listen);
    free(plan->store_allow);
    free(plan->node_name);
    free(plan->domain);
    free(plan->token_file);
    free(plan->run_token_file);
    free(plan->progress_file);
    free_list(plan->http);
    free(plan->http_token_file);
    free(plan->log_dir);
    free(plan->streams);
    free(plan->line_prefix);
    free(plan->event_log);
    free(plan->health_address);
    free(plan->watchdog_path);
    free(plan->nccl_profiler);
    free(plan->error_file);
    for (size_t i = 0; i < plan->upload_count; i++) {
        free(plan->uploads[i].dir);
        free(plan->uploads[i].url);
    }
    free(plan->uploads);
    free(plan->upload_cmd);
    *plan = (struct dt_plan){0};
}
