/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include "agent/backend/backend.h"
#include "agent/bind/bind.h"
#include "agent/events.h"
#include "agent/process/group.h"
#include "agent/watch/health.h"
#include "agent/lineup.h"
#include "agent/log_dir.h"
#include "agent/output/output.h"
#include "agent/process/reap.h"
#include "agent/sigwatch.h"
#include "agent/failure/verdict.h"
#include "agent/watch/watchdog.h"
#include "base/addr.h"
#include "base/list.h"
#include "base/log.h"
#include "base/signame.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

/* For what workers printed to get onto a console that is slow, once we have been told to end. */
#define LAST_WORDS (5 * DT_SECOND)
#define FILES_AT_LEAST 64 /* the loop, a store and its clients, logs; not what workers take */

/* Where an agent is. Each event that can come in a phase is looked at where it comes in. */
enum phase {
    JOINING,  /* waiting for a world */
    RUNNING,  /* a group is alive, or its output is being drained */
    FINISHED, /* all went well here; waiting in the barrier for the other nodes */
    ENDING,   /* everything is being closed */
};

static const char *const phase_name[] = {
    [JOINING] = "joining", [RUNNING] = "running", [FINISHED] = "finished", [ENDING] = "ending"};

struct agent {
    uv_loop_t loop;
    const struct dt_plan *plan;
    struct dt_spawn_inherited inherited;
    struct dt_log_dir logs;
    struct dt_events *events;
    struct dt_bind *bind;
    struct dt_sigwatch *signals;
    struct dt_output *output;
    struct dt_backend *backend;
    struct dt_health *health;
    struct dt_watchdog *watchdog; /* of the present attempt */
    struct dt_group *group;       /* ... too */
    struct dt_world world;
    uv_timer_t last_words;
    enum phase phase;
    dt_ms phase_began;
    bool drains;  /* the group is over and what it printed is not all out */
    int restarts; /* so far */
    int signum;   /* that told us to end; 0: none */
    int status;   /* we will exit with */
};

static void enter(struct agent *a, enum phase phase)
{
    a->phase = phase;
    a->phase_began = dt_clock_monotonic();
}

static dt_ms phase_time(const struct agent *a)
{
    return dt_clock_monotonic() - a->phase_began;
}

/* -- the end ---------------------------------------------------------------------------------- */

static void on_backend_closed(void *arg)
{
    ((struct agent *)arg)->backend = NULL;
}

/* Each handle keeps the loop going until it is closed; then dt_agent_run() goes on. */
static void end(struct agent *a, int status)
{
    if (a->phase == ENDING)
        return;
    a->status = status;
    enter(a, ENDING);
    uv_close((uv_handle_t *)&a->last_words, NULL);
    if (a->watchdog)
        dt_watchdog_close(a->watchdog, NULL, NULL);
    if (a->health)
        dt_health_close(a->health, NULL, NULL);
    if (a->backend)
        a->backend->ops->close(a->backend, status != 0, on_backend_closed, a);
    if (a->output)
        dt_output_close(a->output, NULL, NULL);
}

static void fail(struct agent *a, const struct dt_err *err)
{
    dt_error("%s", err->text);
    dt_events_agent(a->events, "FAILED", -1, NULL);
    end(a, 1);
}

/* The line that scripts look for is that of the exception in torchrun. */
static void end_by_signal(struct agent *a)
{
    char line[160];
    snprintf(
        line, sizeof line,
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process %d got signal: "
        "%d\n",
        (int)getpid(), a->signum);
    dt_log_plain(line);
    dt_events_agent(a->events, "FAILED", -1, NULL);
    end(a, a->plan->exit_policy == DT_EXIT_ROOT_CAUSE ? 128 + a->signum : 1);
}

/* -- after an attempt ------------------------------------------------------------------------- */

static void join(struct agent *a)
{
    enter(a, JOINING);
    if (a->plan->max_nodes > 1)
        dt_info("node %d of %d: joining at %s:%d", a->plan->node_rank, a->plan->max_nodes,
                a->plan->endpoint_host, a->plan->endpoint_port);
    a->backend->ops->join(a->backend);
}

/* What is known of a worker's failure, as an event has it; NULL when nothing is. */
static const char *raw_error(const struct dt_verdict *v, int local_rank, struct dt_buf *out)
{
    for (size_t i = 0; v && i < v->count; i++)
        if (v->failures[i].local_rank == local_rank)
            return dt_failure_json(&v->failures[i], out, NULL) == 0 ? dt_buf_cstr(out) : NULL;
    return NULL;
}

/* V: the failures; NULL when there are none. */
static void report_workers(struct agent *a, const struct dt_verdict *v)
{
    static const char *const state[] = {
        [DT_WORKER_SUCCEEDED] = "SUCCEEDED",
        [DT_WORKER_FAILED] = "FAILED",
        [DT_WORKER_TERMINATED] = "TERMINATED",
    };
    for (int i = 0; i < a->plan->nproc; i++) {
        const struct dt_worker *w = dt_group_worker(a->group, i);
        struct dt_buf why = {0};
        if (w->end >= DT_WORKER_SUCCEEDED)
            dt_events_worker(a->events, state[w->end], i, w->pid, raw_error(v, i, &why));
        dt_buf_finish(&why);
    }
}

/* Some worker failed: once more, or the report. */
static void take_failure(struct agent *a)
{
    char words[160];
    struct dt_err err;
    struct dt_verdict v;
    if (dt_verdict_make(&v, a->plan, &a->world, a->group, &a->logs, a->output, &err) < 0) {
        fail(a, &err);
    } else if (a->restarts < a->plan->max_restarts) {
        a->restarts++;
        dt_warn("%s; restart %d of %d", dt_verdict_sentence(&v, a->group, words, sizeof words),
                a->restarts, a->plan->max_restarts);
        join(a);
    } else {
        report_workers(a, &v);
        dt_events_agent(a->events, "SUCCEEDED", -1, NULL); /* the agent itself did, as there */
        end(a, dt_verdict_deliver(&v, a->plan));
    }
    dt_verdict_finish(&v);
}

static void take_success(struct agent *a)
{
    report_workers(a, NULL);
    enter(a, FINISHED);
    a->backend->ops->barrier(a->backend);
}

/* Nothing of the attempt is left and all that it printed is out. */
static void on_drained(void *arg)
{
    struct agent *a = arg;
    struct dt_group *g = a->group;
    a->drains = false;
    uv_timer_stop(&a->last_words);
    if (a->watchdog)
        dt_watchdog_close(a->watchdog, NULL, NULL);
    a->watchdog = NULL;
    if (a->signum)
        end_by_signal(a);
    else if (dt_group_outcome(g) == DT_GROUP_SUCCEEDED)
        take_success(a);
    else if (dt_group_outcome(g) == DT_GROUP_REFUSED)
        fail(a, dt_group_refusal(g));
    else
        take_failure(a);
    a->group = NULL;
    dt_group_close(g, NULL, NULL);
}

static void give_up_console(struct agent *a)
{
    dt_warn("what workers printed last is not shown: nobody reads it");
    dt_output_give_up(a->output);
}

static void on_last_words_over(uv_timer_t *t)
{
    give_up_console(dt_container_of(t, struct agent, last_words));
}

/* A pager on its first page would keep us for ever. */
static void limit_last_words(struct agent *a)
{
    uv_timer_start(&a->last_words, on_last_words_over, LAST_WORDS, 0);
}

static void on_group_over(void *arg)
{
    struct agent *a = arg;
    a->drains = true;
    if (a->signum)
        limit_last_words(a);
    dt_output_drain(a->output, on_drained, a);
}

static void on_worker_started(void *arg, int local_rank, pid_t pid)
{
    struct agent *a = arg;
    struct dt_buf place = {0};
    if (a->bind && dt_log_wants(DT_LOG_INFO)) {
        dt_bind_describe(a->bind, local_rank, &place);
        dt_info("%s", dt_buf_cstr(&place));
        dt_buf_finish(&place);
    }
    dt_debug("worker %d (rank %d) is pid %d", local_rank, a->world.first_rank + local_rank, pid);
}

static void on_worker_exited(void *arg, int local_rank)
{
    struct agent *a = arg;
    dt_debug("worker %d is over, pid %d", local_rank, dt_group_worker(a->group, local_rank)->pid);
}

static const struct dt_group_events group_events = {on_worker_started, on_worker_exited,
                                                    on_group_over};

/* -- an attempt ------------------------------------------------------------------------------- */

static bool watchdog_may_signal(void *arg, pid_t pid)
{
    const struct agent *a = arg;
    return a->group && dt_group_has(a->group, pid);
}

static void on_timer_expired(void *arg, pid_t pid, const char *scope, int signum)
{
    (void)arg;
    char name[DT_SIGNAME_TEXT];
    dt_warn("process %d is over its time in \"%s\": sending %s", pid, scope,
            dt_signame_text(signum, name));
}

static int open_watchdog(struct agent *a, struct dt_err *err)
{
    if (!a->plan->watchdog)
        return 0;
    a->watchdog = dt_watchdog_open(&a->loop, a->plan->watchdog_path, watchdog_may_signal,
                                   on_timer_expired, a, err);
    return a->watchdog ? 0 : -1;
}

static int start_group(struct agent *a, struct dt_err *err)
{
    struct dt_lineup from = {
        .plan = a->plan,
        .world = &a->world,
        .restart_count = a->restarts,
        .logs = &a->logs,
        .output = a->output,
        .bind = a->bind,
        .timer_file = a->watchdog ? dt_watchdog_path(a->watchdog) : NULL,
        .env = environ,
    };
    struct dt_spawn *spawns = dt_lineup_make(&from, err);
    if (!spawns)
        return -1;
    a->group = dt_group_start(&a->loop, a->plan, spawns, &a->inherited, &group_events, a, err);
    dt_lineup_free(spawns, a->plan->nproc);
    dt_output_started(a->output);
    return a->group ? 0 : -1;
}

static int start_attempt(struct agent *a, struct dt_err *err)
{
    if (!a->plan->no_logs &&
        dt_log_dir_begin(&a->logs, a->restarts, a->world.round, a->plan->nproc, err) < 0)
        return -1;
    if (dt_output_begin(a->output, a->logs.attempt, a->world.first_rank, err) < 0 ||
        open_watchdog(a, err) < 0)
        return -1;
    return start_group(a, err);
}

static void on_world(void *arg, const struct dt_world *world)
{
    struct agent *a = arg;
    struct dt_err err;
    a->world = *world;
    dt_info("node %d of %d: ranks %d to %d of %d, workers meet at %s:%d", world->group_rank,
            world->group_size, world->first_rank, world->first_rank + a->plan->nproc - 1,
            world->size, world->master_addr, world->master_port);
    dt_events_set_world(a->events, world, a->restarts);
    dt_events_agent(a->events, "RENDEZVOUS", phase_time(a), NULL);
    enter(a, RUNNING);
    if (start_attempt(a, &err) < 0)
        fail(a, &err);
    else
        dt_events_agent(a->events, "ASSIGN_WORKER_RANKS", phase_time(a), NULL);
}

static void on_barrier_over(void *arg, const struct dt_err *why)
{
    struct agent *a = arg;
    if (why)
        dt_warn("not waiting for the other nodes to finish: %s", why->text);
    dt_events_agent(a->events, "SUCCEEDED", -1, NULL);
    end(a, 0);
}

static void on_backend_failed(void *arg, const struct dt_err *err)
{
    struct agent *a = arg;
    if (a->phase == JOINING)
        fail(a, err);
    else
        dt_warn("%s", err->text); /* the workers run on; the next join, if any, says it again */
}

static const struct dt_backend_events backend_events = {on_world, on_barrier_over,
                                                        on_backend_failed, NULL, NULL};

/* -- signals ---------------------------------------------------------------------------------- */

/* Asked twice by hand means now. Not so for SIGTERM: schedulers send it to every process of a job,
 * and their launchers pass it on once more. */
static void stop_again(struct agent *a, int signum)
{
    if (signum != SIGINT)
        return;
    if (a->phase == ENDING && a->backend)
        a->backend->ops->close(a->backend, true, NULL, NULL); /* it may linger for other nodes */
    else if (a->drains)
        give_up_console(a);
    else if (a->group)
        dt_group_kill(a->group);
}

static void stop_by_signal(struct agent *a, int signum)
{
    if (a->signum || a->phase == ENDING) {
        stop_again(a, signum);
        return;
    }
    a->signum = signum;
    dt_warn("Received %d death signal, shutting down workers", signum);
    if (a->drains)
        limit_last_words(a);
    else if (a->group)
        dt_group_stop(a->group, signum);
    else
        end_by_signal(a);
}

static void on_signal(void *arg, int signum)
{
    struct agent *a = arg;
    if (a->plan->stop_signals >> signum & 1)
        stop_by_signal(a, signum);
    else if (signum == SIGWINCH)
        dt_output_resize(a->output);
    else if (a->group)
        dt_group_forward(a->group, signum);
}

/* -- the beginning ---------------------------------------------------------------------------- */

static bool health(void *arg, struct dt_buf *out)
{
    const struct agent *a = arg;
    dt_buf_printf(out, "{\"state\": \"%s\", \"round\": %d, \"restarts\": %d, \"workers\": %d}",
                  phase_name[a->phase], a->world.round, a->restarts, a->plan->nproc);
    return a->phase != ENDING;
}

/* What workers inherit is noted before anything of it is changed. */
static void prepare_process(struct agent *a)
{
    struct rlimit *files = &a->inherited.files;
    sigprocmask(SIG_SETMASK, NULL, &a->inherited.mask);
    getrlimit(RLIMIT_NOFILE, files);
    struct rlimit most = {.rlim_cur = files->rlim_max, .rlim_max = files->rlim_max};
    setrlimit(RLIMIT_NOFILE, &most); /* the workers of a whole job may connect to our store */
    signal(SIGPIPE, SIG_IGN);
    dt_reap_adopt();
}

/* Before libuv finds out in the middle of something that it cannot undo. */
static int open_loop(struct agent *a, struct dt_err *err)
{
    rlim_t most = a->inherited.files.rlim_max;
    if (most < FILES_AT_LEAST)
        return dt_err_set(err, DT_E_RUNTIME,
                          "this process may have only %llu files open, by the hard limit of "
                          "ulimit -n; raise it to %d and some for each worker",
                          (unsigned long long)most, FILES_AT_LEAST);
    int rc = uv_loop_init(&a->loop);
    if (rc < 0)
        return dt_err_set(err, DT_E_RUNTIME, "no event loop can be opened: %s", uv_strerror(rc));
    uv_timer_init(&a->loop, &a->last_words);
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

static int open_all(struct agent *a, struct dt_err *err)
{
    const struct dt_plan *plan = a->plan;
    uint64_t heard = plan->stop_signals | plan->forward_signals | UINT64_C(1) << SIGWINCH;
    if (open_events(a, err) < 0)
        return -1;
    a->signals = dt_sigwatch_open(&a->loop, heard, on_signal, a, err);
    if (!a->signals)
        return -1;
    if (plan->bind != DT_BIND_NONE &&
        !(a->bind = dt_bind_create(plan, getenv("CUDA_VISIBLE_DEVICES"), err)))
        return -1;
    if (!plan->no_logs && dt_log_dir_open(&a->logs, plan->log_dir, plan->run_id, err) < 0)
        return -1;
    a->output = dt_output_create(&a->loop, plan, (const int[]){STDOUT_FILENO, STDERR_FILENO}, err);
    if (!a->output)
        return -1;
    if (plan->health_port &&
        !(a->health = dt_health_open(&a->loop, plan->health_port, health, a, err)))
        return -1;
    a->backend = plan->max_nodes == 1
                     ? dt_backend_local_open(&a->loop, plan, &backend_events, a, err)
                     : dt_backend_static_open(&a->loop, plan, &backend_events, a, err);
    return a->backend ? 0 : -1;
}

/* One that comes between the last handler and the exit must not change the exit status. */
static void leave_signals_alone(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
}

static void finish(struct agent *a)
{
    struct dt_err err;
    if (a->status == 0 && a->plan->keep_logs == DT_KEEP_LOGS_OF_FAILURE && a->logs.run &&
        dt_log_dir_remove(&a->logs, &err) < 0)
        dt_warn("%s", err.text);
    dt_log_dir_finish(&a->logs);
    dt_bind_destroy(a->bind);
    dt_events_close(a->events);
    leave_signals_alone();
    if (a->signals)
        dt_sigwatch_close(a->signals, NULL, NULL);
    uv_run(&a->loop, UV_RUN_DEFAULT);
    uv_loop_close(&a->loop);
}

int dt_agent_run(const struct dt_plan *plan)
{
    struct agent a = {.plan = plan};
    struct dt_err err;
    prepare_process(&a);
    if (open_loop(&a, &err) < 0) {
        dt_error("%s", err.text);
        return 1;
    }
    if (open_all(&a, &err) == 0)
        join(&a);
    else
        fail(&a, &err);
    uv_run(&a.loop, UV_RUN_DEFAULT);
    finish(&a);
    return a.status;
}
