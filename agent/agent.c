/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include "agent/backend/elastic/own_node.h"
#include "agent/inside.h"
#include "base/addr.h"
#include "base/list.h"
#include "base/log.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TELL_EVERY DT_SECOND
#define HEAR_WITHIN (5 * DT_SECOND) /* from the rendezvous, why a job is lost */
#define RENDEZVOUS_UNREACHABLE 69   /* exit statuses under --exit-code=root-cause: sysexits.h */
#define HOST_UNFIT 78

/* Then the rendezvous decides what follows a failure, and when a round is over. */
static bool is_elastic(const struct agent *a)
{
    return a->backend->ops->failed != NULL;
}

static void enter(struct agent *a, enum agent_phase phase)
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

static void close_output(struct agent *a)
{
    if (a->output)
        dt_output_close(a->output, NULL, NULL);
    a->output = NULL;
}

/* Each handle keeps the loop going until it is closed; then dt_agent_run() goes on. Workers that
 * wait for a next world are ended first, and what they print is still shown. */
static void end(struct agent *a, int status)
{
    if (a->phase == AGENT_ENDING)
        return;
    a->status = status;
    const char *decided = a->signum                         ? "a signal ended the job"
                          : dt_closing_is_wish(&a->closing) ? "a person ended the job"
                                                            : "the job ended";
    dt_aftermath_note(&a->aftermath, NULL, status == 0 ? "the job succeeded" : decided, NULL);
    enter(a, AGENT_ENDING);
    uv_close((uv_handle_t *)&a->tell, NULL);
    dt_own_addr_stop(&a->own_addr);
    dt_preflight_close(a->preflight);
    a->preflight = NULL;
    dt_progress_close(a->progress);
    a->progress = NULL;
    if (a->health)
        dt_health_close(a->health, NULL, NULL);
    agent_keep_safe(a);
    dt_tails_close(a->tails); /* they tell by the backend */
    a->tails = NULL;
    /* Where it hosts the rendezvous, others are to hear how the job ended. */
    if (a->backend)
        a->backend->ops->close(a->backend, status != 0 && !is_elastic(a), on_backend_closed, a);
    if (a->waits)
        dt_attempt_stop(a->attempt, SIGTERM);
    else
        close_output(a);
}

static void fail_with(struct agent *a, const struct dt_err *err, int status)
{
    dt_error("%s", err->text);
    dt_events_agent(a->events, "FAILED", -1, NULL);
    end(a, status);
}

void agent_leave(struct agent *a, const char *why)
{
    if (a->backend && a->backend->ops->leave)
        a->backend->ops->leave(a->backend, why);
}

static void fail(struct agent *a, const struct dt_err *err)
{
    agent_leave(a, err->text);
    fail_with(a, err, 1);
}

/* The line that scripts look for is that of the exception in torchrun. */
void agent_end_by_signal(struct agent *a)
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

/* The report is that of a failure here, whose last round nobody has followed by another. */
static void end_closed(struct agent *a)
{
    enum dt_close_kind kind = a->closing.kind;
    if (*a->aftermath.cause)
        dt_aftermath_note(&a->aftermath, a->aftermath.cause, "the job ended", &a->verdict);
    bool report = kind != DT_CLOSE_SUCCEEDED && kind != DT_CLOSE_STOPPED && a->verdict.count > 0;
    int own = dt_aftermath_deliver(&a->aftermath, &a->verdict, report);
    bool well = report || kind == DT_CLOSE_SUCCEEDED; /* the agent itself, as in torchrun */
    dt_events_agent(a->events, well ? "SUCCEEDED" : "FAILED", -1, NULL);
    end(a, dt_closing_status(kind, a->plan->exit_policy, own));
}

/* -- after an attempt ------------------------------------------------------------------------- */

static void join(struct agent *a)
{
    enter(a, AGENT_JOINING);
    if (is_elastic(a))
        dt_info("joining job %s at %s:%d", a->plan->run_id, a->plan->endpoint_host,
                a->plan->endpoint_port);
    else if (a->plan->max_nodes > 1)
        dt_info("node %d of %d: joining at %s:%d", a->plan->node_rank, a->plan->max_nodes,
                a->plan->endpoint_host, a->plan->endpoint_port);
    a->backend->ops->join(a->backend);
}

/* The workers of a round that others ended are gone. */
static void rejoin(struct agent *a)
{
    if (a->closing.come)
        end_closed(a);
    else
        join(a);
}

/* The rendezvous was told when it happened, unless it had ended the round already. What it decides
 * follows the join. */
static void keep_verdict(struct agent *a, const struct dt_verdict *v)
{
    char words[DT_VERDICT_SENTENCE];
    dt_events_workers(a->events, dt_attempt_group(a->attempt), v);
    dt_warn("%s", dt_verdict_sentence(v, dt_attempt_group(a->attempt), words, sizeof words));
    a->verdict = *v;
    if (!a->closing.come)
        dt_aftermath_tell(a->attempt, &v->culprit, a->backend);
    rejoin(a);
}

static void decide_alone(struct agent *a, struct dt_verdict *v)
{
    char words[DT_VERDICT_SENTENCE], decided[64] = "the job ended";
    bool again = a->restarts < a->plan->max_restarts && !dt_attempt_must_end_job(a->attempt) &&
                 !dt_aftermath_is_futile(&a->aftermath, a->attempt, v);
    if (again)
        snprintf(decided, sizeof decided, "restart %d of %d", a->restarts + 1,
                 a->plan->max_restarts);
    dt_cause_sentence(&v->culprit.cause, v->culprit.rank, words);
    dt_aftermath_note(&a->aftermath, words, decided, v);
    if (again) {
        a->restarts++;
        dt_warn("%s; restart %d of %d",
                dt_verdict_sentence(v, dt_attempt_group(a->attempt), words, sizeof words),
                a->restarts, a->plan->max_restarts);
        join(a);
    } else {
        dt_events_workers(a->events, dt_attempt_group(a->attempt), v);
        dt_events_agent(a->events, "SUCCEEDED", -1, NULL); /* the agent itself did, as there */
        end(a, dt_verdict_deliver(v, a->plan, NULL));
    }
    dt_verdict_finish(v);
}

static void take_failure(struct agent *a)
{
    struct dt_err err;
    struct dt_verdict v;
    const struct dt_group *g = dt_attempt_group(a->attempt);
    struct dt_scene scene = dt_attempt_scene(a->attempt);
    if (dt_verdict_make(&v, &scene, g, &err) < 0) {
        fail(a, &err);
        dt_verdict_finish(&v);
        return;
    }
    dt_verdict_say_steps(&v, dt_attempt_pages(a->attempt));
    dt_verdict_say_cores(&v, g);
    if (is_elastic(a))
        keep_verdict(a, &v);
    else
        decide_alone(a, &v);
}

static void take_success(struct agent *a)
{
    dt_events_workers(a->events, dt_attempt_group(a->attempt), NULL);
    enter(a, AGENT_FINISHED);
    a->backend->ops->barrier(a->backend);
}

/* The round of the workers here is over, or the job. */
static bool is_called_off(const struct agent *a)
{
    return a->recalled || a->closing.come;
}

/* The workers here were stopped with the others'. */
static void leave_round(struct agent *a)
{
    if (!a->closing.come)
        dt_aftermath_confess(a->attempt, a->backend);
    rejoin(a);
}

/* The workers of the round are gone, or wait for the next. */
static void follow_round(struct agent *a)
{
    const struct dt_group *g = dt_attempt_group(a->attempt);
    bool failed = dt_group_outcome(g) == DT_GROUP_FAILED || dt_group_outcome(g) == DT_GROUP_REFUSED;
    if (a->signum || (is_called_off(a) && !failed))
        dt_attempt_say_step(a->attempt);
    if (a->signum)
        agent_end_by_signal(a);
    else if (dt_group_outcome(g) == DT_GROUP_REFUSED)
        fail(a, dt_group_refusal(g));
    else if (dt_group_outcome(g) == DT_GROUP_FAILED)
        take_failure(a);
    else if (is_called_off(a))
        leave_round(a);
    else
        take_success(a);
}

static void on_waiting(void *arg)
{
    struct agent *a = arg;
    dt_aftermath_end(&a->aftermath, agent_step(a));
    dt_tails_flush(a->tails);
    a->waits = true;
    follow_round(a);
}

static void close_attempt(struct agent *a)
{
    dt_attempt_close(a->attempt);
    a->attempt = NULL;
    a->waits = a->begins_anew = false;
}

static void begin(struct agent *a);

/* Those that waited for a world are gone before their time: they were told to end, or ended of
 * themselves. A world that has come meanwhile begins now, with new ones. */
static void on_waiting_over(struct agent *a)
{
    bool begins = a->begins_anew;
    close_attempt(a);
    if (a->phase == AGENT_ENDING)
        close_output(a);
    else if (a->signum)
        agent_end_by_signal(a);
    else if (begins && is_called_off(a))
        rejoin(a);
    else if (begins)
        begin(a);
}

static void on_over(void *arg)
{
    struct agent *a = arg;
    dt_tails_flush(a->tails); /* before it is said that they are over */
    if (a->waits) {
        on_waiting_over(a);
        return;
    }
    dt_aftermath_end(&a->aftermath, agent_step(a));
    follow_round(a);
    close_attempt(a);
}

/* -- while it runs ---------------------------------------------------------------------------- */

static void on_changed(void *arg)
{
    struct agent *a = arg;
    if (a->phase != AGENT_ENDING)
        agent_tell(a);
}

/* Before the other workers are stopped, so that those on other nodes need not find out. */
static void on_failed(void *arg, const struct dt_result *result)
{
    struct agent *a = arg;
    if (a->signum || is_called_off(a) || a->phase == AGENT_ENDING)
        return;
    agent_tell(a); /* how far it came counts, too */
    struct dt_result said = *result;
    said.ends_job = dt_attempt_must_end_job(a->attempt);
    a->backend->ops->failed(a->backend, &said);
}

static void on_tell(uv_timer_t *t)
{
    struct agent *a = dt_container_of(t, struct agent, tell);
    if (a->progress)
        dt_progress_look(a->progress);
    agent_tell(a);
    if (a->phase == AGENT_JOINING)
        agent_keep_safe_in_wait(a, phase_time(a));
    if (a->lost && dt_clock_monotonic() - a->lost >= HEAR_WITHIN)
        agent_lose(a);
}

/* The rendezvous may still close the job; a node that decides alone knows whether it will. */
static bool may_follow(void *arg)
{
    const struct agent *a = arg;
    if (a->signum || a->closing.come || dt_attempt_must_end_job(a->attempt))
        return false;
    return is_elastic(a) || a->restarts < a->plan->max_restarts;
}

/* A rendezvous decides what follows a failure, and so does a torchrun's, which does not ask about
 * hangs; the nodes of a static job find out about hangs, and each has its own restarts. */
static const struct dt_attempt_events *events_for(struct agent *a)
{
    a->attempt_events = (struct dt_attempt_events){
        .on_changed = on_changed,
        .on_failed = is_elastic(a) ? on_failed : NULL,
        .on_still = a->backend->ops->still ? agent_on_still : NULL,
        /* Where there are beats the rendezvous finds it. */
        .on_straggler = a->backend->ops->tell ? NULL : agent_on_straggler,
        .may_follow = may_follow,
        .on_waiting = on_waiting,
        .on_over = on_over,
    };
    return &a->attempt_events;
}

/* Whose round ends everywhere at once, so that nobody waits for a peer that does not know: on one
 * node, or by a rendezvous of dtrun's. */
static bool keeps_workers(const struct agent *a)
{
    return a->plan->keep_workers &&
           (is_elastic(a) ? a->backend->ops->still != NULL : a->plan->max_nodes == 1);
}

static int start_attempt(struct agent *a, struct dt_err *err)
{
    if (!a->vaults)
        a->vaults = dt_vaults_create(a->plan->nproc);
    struct dt_attempt_means means = {
        .loop = &a->loop,
        .plan = a->plan,
        .inherited = &a->inherited,
        .logs = &a->logs,
        .output = a->output,
        .bind = a->bind,
        .vaults = a->vaults,
        .world = &a->world,
        .restarts = a->restarts,
        .lease = a->lease,
        .keeps = keeps_workers(a),
    };
    a->attempt = dt_attempt_start(&means, events_for(a), a, err);
    return a->attempt ? 0 : -1;
}

/* -- what the others decide ------------------------------------------------------------------- */

static void on_cause(void *arg, const char *cause)
{
    struct agent *a = arg;
    snprintf(a->aftermath.cause, sizeof a->aftermath.cause, "%s", cause);
}

static void take_world(struct agent *a, const struct dt_world *world)
{
    char *cause = a->aftermath.cause;
    dt_log_set_round(world->round);
    if (*cause)
        dt_warn("root cause of the last round: %s", cause);
    dt_aftermath_note(&a->aftermath, cause, world->news, &a->verdict);
    *cause = '\0';
    /* What was decided, in the words of who did, on every node. */
    if (*world->news)
        dt_warn("round %d: %s", world->round, world->news);
    if (is_elastic(a))
        a->restarts = world->restarts;
    a->world = *world;
    a->recalled = false;
    a->straggler[0] = '\0';
    a->holds_up = false;
    agent_leave_to_workers(a);
    dt_verdict_finish(&a->verdict);
}

/* The workers of the world that has come: those that wait for it and new ones, or new ones alone.
 */
static void begin(struct agent *a)
{
    struct dt_err err;
    if ((a->waits ? dt_attempt_go_on(a->attempt, &a->world, a->restarts, a->lease, &err)
                  : start_attempt(a, &err)) < 0) {
        fail(a, &err);
        return;
    }
    a->waits = false;
    dt_events_agent(a->events, "ASSIGN_WORKER_RANKS", phase_time(a), NULL);
    dt_aftermath_begin(&a->aftermath, &a->world, a->plan->nproc);
}

static void on_world(void *arg, const struct dt_world *world)
{
    struct agent *a = arg;
    take_world(a, world);
    dt_info("node %d of %d: ranks %d to %d of %d, workers meet at %s:%d", world->group_rank,
            world->group_size, world->first_rank, world->first_rank + a->plan->nproc - 1,
            world->size, world->master_addr, world->master_port);
    if (a->uploads)
        dt_uploads_set_first(a->uploads, world->group_rank == 0);
    dt_events_set_world(a->events, world, a->restarts);
    dt_events_agent(a->events, "RENDEZVOUS", phase_time(a), NULL);
    enter(a, AGENT_RUNNING);
    if (a->waits && !dt_attempt_is_waiting(a->attempt))
        a->begins_anew = true; /* they are about to be gone */
    else
        begin(a);
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
    bool coded = is_elastic(a) && a->plan->exit_policy == DT_EXIT_ROOT_CAUSE;
    if (a->phase == AGENT_JOINING)
        fail_with(a, err, coded ? RENDEZVOUS_UNREACHABLE : 1);
    else
        dt_warn("%s", err->text); /* the workers run on; the next join, if any, says it again */
}

/* Ending workers so is no failure of ours: it costs nothing and is not reported. */
static void on_stop(void *arg, enum dt_stop_how how, const char *why)
{
    struct agent *a = arg;
    if (a->phase != AGENT_RUNNING && a->phase != AGENT_FINISHED)
        return; /* no worker is here */
    dt_warn("round %d%s: %s", a->world.round, a->recalled ? "" : " is over", why);
    a->recalled = true;
    if (a->phase == AGENT_RUNNING && how != DT_STOP_TOGETHER)
        dt_attempt_end_round(a->attempt);
    if (a->phase == AGENT_FINISHED)
        join(a);
    else if (how == DT_STOP_KILL)
        dt_attempt_kill(a->attempt);
    else if (how == DT_STOP_ALONE)
        dt_attempt_recall(a->attempt);
    else
        dt_attempt_stop(a->attempt, SIGTERM);
}

static void on_closed(void *arg, enum dt_close_kind kind, const char *why)
{
    struct agent *a = arg;
    if (a->phase == AGENT_ENDING || !dt_closing_note(&a->closing, kind, why))
        return;
    if (a->phase != AGENT_RUNNING) {
        end_closed(a);
        return;
    }
    /* Where the host of the rendezvous was told to end, a person ends the job. */
    if (kind != DT_CLOSE_ENDED && !a->signum)
        dt_attempt_end_round(a->attempt);
    dt_attempt_stop(a->attempt, SIGTERM);
}

void agent_lose(struct agent *a)
{
    on_closed(a, DT_CLOSE_FAILED, "too few of its hosts are left, says the dtrun that began it");
}

static void on_lease(void *arg, dt_ms until)
{
    struct agent *a = arg;
    a->lease = until;
    if (a->attempt)
        dt_attempt_set_lease(a->attempt, until);
}

static void on_replaced(void *arg, struct dt_backend *by)
{
    struct agent *a = arg;
    a->backend = by;
}

static const struct dt_backend_events backend_events = {
    .on_world = on_world,
    .on_barrier_over = on_barrier_over,
    .on_failed = on_backend_failed,
    .on_stop = on_stop,
    .on_closed = on_closed,
    .on_lease = on_lease,
    .on_look = agent_on_look,
    .on_tail = agent_on_tail,
    .on_save = agent_on_save,
    .on_finding = agent_on_finding,
    .on_straggler = agent_on_straggler,
    .on_replaced = on_replaced,
    .on_cause = on_cause,
};

/* -- the beginning ---------------------------------------------------------------------------- */

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
        a->backend = dt_backend_elastic_open(&a->loop, plan, &backend_events, a, err);
    } else if (plan->max_nodes == 1) {
        a->backend = dt_backend_local_open(&a->loop, plan, &backend_events, a, err);
    } else {
        a->backend = dt_backend_static_open(&a->loop, plan, &backend_events, a, err);
    }
    if (a->backend && a->backend->ops->tell)
        agent_watch_host(a);
    if (a->backend && (a->backend->ops->tell || a->health))
        uv_timer_start(&a->tell, on_tell, 0, TELL_EVERY);
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
        join(a);
        return;
    }
    dt_err_set(&err, DT_E_RUNTIME,
               "the job is not started on this host: %.300s; with --preflight fast it would be",
               failed);
    fail_with(a, &err, coded ? HOST_UNFIT : 1);
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
        open_loop(&a, &err) < 0) {
        dt_error("%s", err.text);
        return 1;
    }
    if (a.uploads)
        dt_uploads_listen(a.uploads, &a.loop);
    if (a.preflight)
        dt_preflight_listen(a.preflight, &a.loop, agent_on_remark, on_preflight_over, &a);
    if (open_all(&a, &err) < 0)
        fail(&a, &err);
    else if (plan->preflight != DT_PREFLIGHT_FULL)
        join(&a);
    uv_run(&a.loop, UV_RUN_DEFAULT);
    finish(&a);
    dt_log_set_job(NULL, NULL);
    return a.status;
}
