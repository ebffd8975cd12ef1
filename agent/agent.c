/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include "agent/backend/elastic/own_node.h"
#include "agent/inside.h"
#include "base/addr.h"
#include "base/log.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TELL_EVERY DT_SECOND
#define HOST_UNFIT 78 /* exit status under --exit-code=root-cause: sysexits.h */

static int open_loop(struct agent *a, struct dt_err *err)
{
    if (dt_self_check_files(&a->inherited, err) < 0)
        return -1;
    int rc = uv_loop_init(&a->loop);
    if (rc < 0)
        return dt_err_set(err, DT_E_RUNTIME, "no event loop can be opened: %s", uv_strerror(rc));
    uv_timer_init(&a->loop, &a->tell);
    return 0;
}

/* The name of this host can take a name server: only for who wants to know. */
static int open_events(struct agent *a, struct dt_err *err)
{
    char host[256] = "";
    if (strcmp(a->plan->event_log, "null") != 0)
        dt_addr_own_name(host, sizeof host);
    a->events = dt_events_open(a->plan, host, err);
    return a->events ? 0 : -1;
}

static int open_backend(struct agent *a, struct dt_err *err)
{
    const struct dt_plan *plan = a->plan;
    dt_own_addr_check(&a->own_addr, &a->loop, plan);
    if (dt_plan_is_elastic(plan)) {
        if (plan->progress_file &&
            !(a->progress = dt_progress_open(&a->loop, plan->progress_file, err)))
            return -1;
        a->backend = dt_backend_elastic_open(&a->loop, plan, &agent_backend_events, a, err);
    } else if (plan->max_nodes == 1) {
        a->backend = dt_backend_local_open(&a->loop, plan, &agent_backend_events, a, err);
    } else {
        a->backend = dt_backend_static_open(&a->loop, plan, &agent_backend_events, a, err);
    }
    if (a->backend && a->backend->ops->tell)
        agent_watch_host(a);
    if (a->backend && (a->backend->ops->tell || a->health))
        uv_timer_start(&a->tell, agent_on_tell, 0, TELL_EVERY);
    return a->backend ? 0 : -1;
}

/* A folder that cannot be kept in order is one all the same. */
static int open_logs(struct agent *a, struct dt_err *err)
{
    const struct dt_plan *plan = a->plan;
    struct dt_err why;
    if (dt_log_dir_open(&a->logs, plan->log_dir, plan->run_id, err) < 0)
        return -1;
    if (dt_log_limits_any(&plan->log_limits) &&
        dt_log_dir_keep(&a->logs, &plan->log_limits, &why) < 0)
        dt_warn("--log-dir: %s", why.text);
    return 0;
}

static int open_all(struct agent *a, struct dt_err *err)
{
    const struct dt_plan *plan = a->plan;
    uint64_t heard = plan->stop_signals | plan->forward_signals | UINT64_C(1) << SIGWINCH |
                     UINT64_C(1) << SIGTSTP | UINT64_C(1) << DT_AGENT_JOB_LOST;
    if (plan->look_signal)
        heard |= UINT64_C(1) << plan->look_signal;
    if (open_events(a, err) < 0)
        return -1;
    a->signals = dt_sigwatch_open(&a->loop, heard, agent_on_signal, a, err);
    if (!a->signals)
        return -1;
    if (plan->bind != DT_BIND_NONE &&
        !(a->bind = dt_bind_create(plan, getenv("CUDA_VISIBLE_DEVICES"), err)))
        return -1;
    if (!plan->no_logs && open_logs(a, err) < 0)
        return -1;
    a->output = dt_output_create(&a->loop, plan, (const int[]){STDOUT_FILENO, STDERR_FILENO}, err);
    if (!a->output)
        return -1;
    if (plan->health_port &&
        !(a->health = dt_health_open(&a->loop, plan->health_address, plan->health_port,
                                     agent_put_state, a, err)))
        return -1;
    return open_backend(a, err);
}

/* Only a full look is waited for, and only that one may refuse. */
static void on_preflight_over(void *arg, const char *failed)
{
    struct agent *a = arg;
    struct dt_err err;
    bool coded = a->plan->exit_policy == DT_EXIT_ROOT_CAUSE;
    a->preflight = NULL;
    if (a->plan->preflight != DT_PREFLIGHT_FULL)
        return;
    if (!failed) {
        agent_join(a);
        return;
    }
    dt_err_set(&err, DT_E_RUNTIME,
               "the job is not started on this host: %.300s; with --preflight fast it would be",
               failed);
    agent_fail_with(a, &err, coded ? HOST_UNFIT : 1);
}

static void finish_logs(struct agent *a)
{
    struct dt_err err;
    bool all = a->status == 0 && a->plan->keep_logs == DT_KEEP_LOGS_OF_FAILURE;
    if ((all ? dt_log_dir_remove : dt_log_dir_remove_empty)(&a->logs, &err) < 0)
        dt_warn("%s", err.text);
    dt_log_dir_finish(&a->logs);
}

static void finish(struct agent *a)
{
    dt_host_watch_close(a->host);
    a->host = NULL;
    finish_logs(a);
    dt_verdict_finish(&a->verdict);
    dt_bind_destroy(a->bind);
    dt_vaults_destroy(a->vaults);
    dt_events_close(a->events);
    dt_self_block_signals();
    if (a->signals)
        dt_sigwatch_close(a->signals, NULL, NULL);
    uv_run(&a->loop, UV_RUN_DEFAULT);
    uv_loop_close(&a->loop);
}

static int listen_to_helpers(struct agent *a, struct dt_err *err)
{
    if (a->uploads && dt_uploads_listen(a->uploads, &a->loop, err) < 0)
        return -1;
    if (!a->preflight)
        return 0;
    return dt_preflight_listen(a->preflight, &a->loop, agent_on_remark, on_preflight_over, a, err);
}

int dt_agent_run(const struct dt_plan *plan)
{
    struct agent a = {.plan = plan, .lease = DT_FOREVER, .aftermath.plan = plan};
    struct dt_err err;
    char node[DT_NODE_NAME_MAX];
    if (!plan->node_name)
        dt_own_node_name(node, sizeof node);
    dt_log_set_job(plan->run_id, plan->node_name ? plan->node_name : node);
    a.aftermath.logs = &a.logs;
    dt_pace_init(&a.pace);
    dt_self_prepare(&a.inherited);
    /* The look first: a probe that hangs must not hold a descriptor of the uploads. */
    if ((plan->preflight >= DT_PREFLIGHT_FAST && !(a.preflight = dt_preflight_start(plan, &err))) ||
        (plan->upload_count && !(a.uploads = dt_uploads_start(plan, &err))) ||
        open_loop(&a, &err) < 0 || listen_to_helpers(&a, &err) < 0) {
        dt_error("%s", err.text);
        return 1;
    }
    if (open_all(&a, &err) < 0)
        agent_fail(&a, &err);
    else if (plan->preflight != DT_PREFLIGHT_FULL)
        agent_join(&a);
    uv_run(&a.loop, UV_RUN_DEFAULT);
    finish(&a);
    dt_log_set_job(NULL, NULL);
    return a.status;
}
