/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/plan.h"

#include <stdlib.h>

static void free_list(char **list)
{
    for (char **s = list; s && *s; s++)
        free(*s);
    free(list);
}

void dt_plan_finish(struct dt_plan *plan)
{
    free_list(plan->argv);
    free_list(plan->stdout_filters);
    free_list(plan->stderr_filters);
    free_list(plan->ignored);
    free_list(plan->needless);
    free(plan->title);
    free(plan->role);
    free(plan->run_id);
    free(plan->endpoint_host);
    free(plan->local_addr);
    free(plan->store_listen);
    free(plan->store_allow);
    free(plan->log_dir);
    free(plan->streams);
    free(plan->line_prefix);
    free(plan->event_log);
    free(plan->watchdog_path);
    free(plan->error_file);
    *plan = (struct dt_plan){0};
}
