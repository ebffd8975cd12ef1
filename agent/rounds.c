/* SPDX-License-Identifier: Apache-2.0 */
/* Round after round: what follows what becomes of the workers here, and what the others decide. */
#include "agent/inside.h"
#include "base/list.h"
#include "base/log.h"

#include <signal.h>
#include <stdio.h>

#define HEAR_WITHIN (5 * DT_SECOND) /* from the rendezvous, why a job is lost */
#define RENDEZVOUS_UNREACHABLE 69   /* exit status under --exit-code=root-cause: sysexits.h */

void agent_enter(struct agent *a, enum agent_phase phase)
{
    a->phase = phase;
    a->phase_began = dt_clock_monotonic();
}

static dt_ms phase_time(const struct agent *a)
{
    return dt_clock_monotonic() - a->phase_began;
}

/* -- after an attempt ------------------------------------------------------------------------- */

void agent_join(struct agent *a)
{
    agent_enter(a, AGENT_JOINING);
    if (agent_is_elastic(a))
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
        agent_end_closed(a);
    else
        agent_join(a);
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
        agent_join(a);
    } else {
        dt_events_workers(a->events, dt_attempt_group(a->attempt), v);
        dt_events_agent(a->events, "SUCCEEDED", -1, NULL); /* the agent itself did, as there */
        agent_end(a, dt_verdict_deliver(v, a->plan, NULL));
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
        agent_fail(a, &err);
        dt_verdict_finish(&v);
        return;
    }
    dt_verdict_say_steps(&v, dt_attempt_pages(a->attempt));
    dt_verdict_say_cores(&v, g);
    if (agent_is_elastic(a))
        keep_verdict(a, &v);
    else
        decide_alone(a, &v);
}

static void take_success(struct agent *a)
{
    dt_events_workers(a->events, dt_attempt_group(a->attempt), NULL);
    agent_enter(a, AGENT_FINISHED);
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
        agent_fail(a, dt_group_refusal(g));
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
        agent_close_output(a);
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

void agent_on_tell(uv_timer_t *t)
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
    return agent_is_elastic(a) || a->restarts < a->plan->max_restarts;
}

/* A rendezvous decides what follows a failure, and so does a torchrun's, which does not ask about
 * hangs; the nodes of a static job find out about hangs, and each has its own restarts. */
static const struct dt_attempt_events *events_for(struct agent *a)
{
    a->attempt_events = (struct dt_attempt_events){
        .on_changed = on_changed,
        .on_failed = agent_is_elastic(a) ? on_failed : NULL,
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
           (agent_is_elastic(a) ? a->backend->ops->still != NULL : a->plan->max_nodes == 1);
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
    if (agent_is_elastic(a))
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
        agent_fail(a, &err);
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
    agent_enter(a, AGENT_RUNNING);
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
    agent_end(a, 0);
}

static void on_backend_failed(void *arg, const struct dt_err *err)
{
    struct agent *a = arg;
    bool coded = agent_is_elastic(a) && a->plan->exit_policy == DT_EXIT_ROOT_CAUSE;
    if (a->phase == AGENT_JOINING)
        agent_fail_with(a, err, coded ? RENDEZVOUS_UNREACHABLE : 1);
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
        agent_join(a);
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
        agent_end_closed(a);
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

const struct dt_backend_events agent_backend_events = {
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
