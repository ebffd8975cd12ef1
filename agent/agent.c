/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include "agent/aftermath.h"
#include "agent/attempt.h"
#include "agent/backend/backend.h"
#include "agent/bind/bind.h"
#include "agent/closing.h"
#include "agent/events.h"
#include "agent/failure/verdict.h"
#include "agent/log_dir.h"
#include "agent/output/output.h"
#include "agent/own_addr.h"
#include "agent/process/self.h"
#include "agent/sigwatch.h"
#include "agent/watch/health.h"
#include "agent/watch/pace.h"
#include "agent/watch/progress.h"
#include "base/addr.h"
#include "base/json_write.h"
#include "base/list.h"
#include "base/log.h"
#include "base/signame.h"
#include "base/str.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TELL_EVERY DT_SECOND
#define LOOK_TWICE (2 * DT_SECOND) /* a signal that comes again so soon is no wish for a look */
#define RENDEZVOUS_UNREACHABLE 69  /* exit statuses under --exit-code=root-cause: sysexits.h */

/* Where an agent is. Each event that can come in a phase is looked at where it comes in. */
enum phase {
    JOINING,  /* waiting for a world */
    RUNNING,  /* an attempt is not over */
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
    struct dt_own_addr own_addr;
    struct dt_output *output; /* until ENDING */
    struct dt_backend *backend;
    struct dt_health *health;
    struct dt_attempt *attempt; /* while RUNNING */
    struct dt_world world;
    enum phase phase;
    dt_ms phase_began;
    int restarts; /* so far */
    int signum;   /* that told us to end; 0: none */
    dt_ms looked; /* when a signal asked for a look last; 0: never */
    int status;   /* we will exit with */

    uv_timer_t tell;     /* where somebody wants to know how far the workers are */
    struct dt_pace pace; /* of the furthest of them, at each turn of that timer */

    /* Of an elastic job. */
    int64_t look;                 /* the last that the rendezvous asked for */
    struct dt_progress *progress; /* NULL: no file tells of it */
    dt_ms lease;                  /* no later round can have begun by then; DT_FOREVER: ever */
    bool recalled;                /* the round is over, whatever comes of the workers */
    struct dt_closing closing;    /* the job is over */
    struct dt_aftermath aftermath;
    struct dt_verdict verdict; /* on what failed here last, until there is a new round; or empty */
};

/* Then the rendezvous decides what follows a failure, and when a round is over. */
static bool is_elastic(const struct agent *a)
{
    return a->backend->ops->failed != NULL;
}

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
    uv_close((uv_handle_t *)&a->tell, NULL);
    dt_own_addr_stop(&a->own_addr);
    dt_progress_close(a->progress);
    a->progress = NULL;
    if (a->health)
        dt_health_close(a->health, NULL, NULL);
    /* Where it hosts the rendezvous, others are to hear how the job ended. */
    if (a->backend)
        a->backend->ops->close(a->backend, status != 0 && !is_elastic(a), on_backend_closed, a);
    if (a->output)
        dt_output_close(a->output, NULL, NULL);
    a->output = NULL;
}

static void fail_with(struct agent *a, const struct dt_err *err, int status)
{
    dt_error("%s", err->text);
    dt_events_agent(a->events, "FAILED", -1, NULL);
    end(a, status);
}

/* The other nodes go on without us. */
static void leave(struct agent *a, const char *why)
{
    if (a->backend && a->backend->ops->leave)
        a->backend->ops->leave(a->backend, why);
}

static void fail(struct agent *a, const struct dt_err *err)
{
    leave(a, err->text);
    fail_with(a, err, 1);
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

/* The report is that of a failure here, whose last round nobody has followed by another. */
static void end_closed(struct agent *a)
{
    enum dt_close_kind kind = a->closing.kind;
    if (*a->aftermath.cause && a->world.size > 0)
        dt_aftermath_note(&a->aftermath, a->world.round, a->aftermath.cause, "the job ended",
                          &a->verdict);
    bool report = kind != DT_CLOSE_SUCCEEDED && a->verdict.count > 0;
    int own = dt_aftermath_deliver(&a->aftermath, &a->verdict, report);
    bool well = report || kind == DT_CLOSE_SUCCEEDED; /* the agent itself, as in torchrun */
    dt_events_agent(a->events, well ? "SUCCEEDED" : "FAILED", -1, NULL);
    end(a, dt_closing_status(kind, a->plan->exit_policy, own));
}

/* -- after an attempt ------------------------------------------------------------------------- */

static void join(struct agent *a)
{
    enter(a, JOINING);
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
    dt_aftermath_note(&a->aftermath, a->world.round, words, decided, v);
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
    enter(a, FINISHED);
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

static void on_over(void *arg)
{
    struct agent *a = arg;
    const struct dt_group *g = dt_attempt_group(a->attempt);
    bool failed = dt_group_outcome(g) == DT_GROUP_FAILED || dt_group_outcome(g) == DT_GROUP_REFUSED;
    if (a->signum || (is_called_off(a) && !failed))
        dt_attempt_say_step(a->attempt);
    if (a->signum)
        end_by_signal(a);
    else if (dt_group_outcome(g) == DT_GROUP_REFUSED)
        fail(a, dt_group_refusal(g));
    else if (dt_group_outcome(g) == DT_GROUP_FAILED)
        take_failure(a);
    else if (is_called_off(a))
        leave_round(a);
    else
        take_success(a);
    dt_attempt_close(a->attempt);
    a->attempt = NULL;
}

/* -- while it runs ---------------------------------------------------------------------------- */

static const struct dt_pages *pages_of(const struct agent *a)
{
    return a->attempt ? dt_attempt_pages(a->attempt) : NULL;
}

/* A file that somebody asked us to look at says it, else the workers themselves. */
static int64_t step_of(const struct agent *a)
{
    return a->progress ? dt_progress_step(a->progress) : dt_pages_step(pages_of(a));
}

/* For beats: how the workers are, how far, and how fast while that is still so. */
static void tell(struct agent *a)
{
    struct dt_beat facts = {.step = step_of(a)};
    dt_ms now = dt_clock_monotonic();
    dt_pace_note(&a->pace, facts.step, now);
    if (!a->backend->ops->tell)
        return;
    if (a->attempt)
        dt_attempt_tell(a->attempt, &facts);
    if (facts.step >= 0)
        facts.step_age_ms = dt_pace_age(&a->pace, now) + 1; /* never 0, which is unknown */
    if (dt_pace_is_overdue(&a->pace, now))
        facts.tokens_per_s = 0;
    if (a->phase == FINISHED)
        facts.succeeded = a->plan->nproc;
    a->backend->ops->tell(a->backend, &facts);
}

static void on_changed(void *arg)
{
    tell(arg);
}

/* Before the other workers are stopped, so that those on other nodes need not find out. */
static void on_failed(void *arg, const struct dt_result *result)
{
    struct agent *a = arg;
    if (a->signum || is_called_off(a))
        return;
    tell(a); /* how far it came counts, too */
    struct dt_result said = *result;
    said.ends_job = dt_attempt_must_end_job(a->attempt);
    a->backend->ops->failed(a->backend, &said);
}

static void on_tell(uv_timer_t *t)
{
    struct agent *a = dt_container_of(t, struct agent, tell);
    if (a->progress)
        dt_progress_look(a->progress);
    tell(a);
}

/* Whether it is a hang, and why, is for the rendezvous to find out with all nodes. */
static bool on_still(void *arg, dt_ms still, bool sure)
{
    struct agent *a = arg;
    return a->backend->ops->still(a->backend, still, sure);
}

/* The rendezvous decides what follows a failure, but a torchrun's does not ask about hangs. */
static const struct dt_attempt_events *events_for(const struct agent *a)
{
    static const struct dt_attempt_events alone = {.on_changed = on_changed, .on_over = on_over};
    static const struct dt_attempt_events elastic = {
        .on_changed = on_changed, .on_failed = on_failed, .on_over = on_over};
    static const struct dt_attempt_events judged = {
        .on_changed = on_changed, .on_failed = on_failed, .on_still = on_still, .on_over = on_over};
    if (a->backend->ops->still)
        return &judged;
    return is_elastic(a) ? &elastic : &alone;
}

static int start_attempt(struct agent *a, struct dt_err *err)
{
    struct dt_attempt_means means = {
        .loop = &a->loop,
        .plan = a->plan,
        .inherited = &a->inherited,
        .logs = &a->logs,
        .output = a->output,
        .bind = a->bind,
        .world = &a->world,
        .restarts = a->restarts,
        .lease = a->lease,
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
    if (*cause)
        dt_warn("root cause of the last round: %s", cause);
    if (*cause && a->world.size > 0)
        dt_aftermath_note(&a->aftermath, a->world.round, cause, world->news, &a->verdict);
    *cause = '\0';
    /* What was decided, in the words of who did, on every node. */
    if (*world->news)
        dt_warn("round %d: %s", world->round, world->news);
    if (is_elastic(a))
        a->restarts = world->restarts;
    a->world = *world;
    a->recalled = false;
    dt_verdict_finish(&a->verdict);
}

static void on_world(void *arg, const struct dt_world *world)
{
    struct agent *a = arg;
    struct dt_err err;
    take_world(a, world);
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
    bool coded = is_elastic(a) && a->plan->exit_policy == DT_EXIT_ROOT_CAUSE;
    if (a->phase == JOINING)
        fail_with(a, err, coded ? RENDEZVOUS_UNREACHABLE : 1);
    else
        dt_warn("%s", err->text); /* the workers run on; the next join, if any, says it again */
}

/* Ending workers so is no failure of ours: it costs nothing and is not reported. */
static void on_stop(void *arg, enum dt_stop_how how, const char *why)
{
    struct agent *a = arg;
    if (a->phase != RUNNING && a->phase != FINISHED)
        return; /* no worker is here */
    dt_warn("round %d%s: %s", a->world.round, a->recalled ? "" : " is over", why);
    a->recalled = true;
    if (a->phase == RUNNING && how != DT_STOP_TOGETHER)
        dt_attempt_end_round(a->attempt);
    if (a->phase == FINISHED)
        join(a);
    else if (how == DT_STOP_KILL)
        dt_attempt_kill(a->attempt);
    else
        dt_attempt_stop(a->attempt, SIGTERM);
}

static void on_closed(void *arg, enum dt_close_kind kind, const char *why)
{
    struct agent *a = arg;
    if (a->phase == ENDING || !dt_closing_note(&a->closing, kind, why))
        return;
    if (a->phase != RUNNING) {
        end_closed(a);
        return;
    }
    /* Where the host of the rendezvous was told to end, a person ends the job. */
    if (kind != DT_CLOSE_ENDED && !a->signum)
        dt_attempt_end_round(a->attempt);
    dt_attempt_stop(a->attempt, SIGTERM);
}

static void on_lease(void *arg, dt_ms until)
{
    struct agent *a = arg;
    a->lease = until;
    if (a->attempt)
        dt_attempt_set_lease(a->attempt, until);
}

static struct dt_hang *hang_of(const struct agent *a)
{
    return a->attempt ? dt_attempt_hang(a->attempt) : NULL;
}

static void on_looked(void *arg, const struct dt_stances *stances)
{
    struct agent *a = arg;
    a->backend->ops->looked(a->backend, a->look, stances);
}

/* Where nobody may look, or no worker is left to look at, that is said at once. */
static void on_look(void *arg, int64_t look)
{
    struct agent *a = arg;
    struct dt_err err;
    a->look = look;
    if (!hang_of(a))
        on_looked(a, &(struct dt_stances){0});
    else if (dt_hang_look(hang_of(a), on_looked, a, &err) < 0)
        dt_warn("%s", err.text);
}

static void on_finding(void *arg, const struct dt_stances *all, const struct dt_hang_finding *f)
{
    const struct agent *a = arg;
    if (hang_of(a))
        dt_hang_tell(hang_of(a), all, f);
    else
        dt_warn("%s", f->sentence); /* the workers here are done, and wait for the others */
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
    .on_look = on_look,
    .on_finding = on_finding,
    .on_replaced = on_replaced,
    .on_cause = on_cause,
};

/* -- signals ---------------------------------------------------------------------------------- */

/* Asked twice by hand means now. Not so for SIGTERM: schedulers send it to every process of a job,
 * and their launchers pass it on once more. */
static void stop_again(struct agent *a, int signum)
{
    if (signum != SIGINT)
        return;
    if (a->phase == ENDING && a->backend)
        a->backend->ops->close(a->backend, true, NULL, NULL); /* it may linger for other nodes */
    else if (a->attempt)
        dt_attempt_kill(a->attempt);
}

/* Only a second SIGINT ends the wait, so nobody else is told of it. */
static void say_how_long(const struct agent *a)
{
    char grace[32];
    dt_str_from_duration(a->plan->shutdown_timeout, grace, sizeof grace);
    dt_warn("waiting up to %s for the workers to end; Ctrl-C again kills them", grace);
}

static void stop_by_signal(struct agent *a, int signum)
{
    if (a->signum || a->phase == ENDING) {
        stop_again(a, signum);
        return;
    }
    char name[DT_SIGNAME_TEXT], why[64];
    a->signum = signum;
    snprintf(why, sizeof why, "it got %s", dt_signame_text(signum, name));
    leave(a, why);
    dt_warn("Received %d death signal, shutting down workers", signum);
    if (a->attempt && signum == SIGINT)
        say_how_long(a);
    if (a->attempt)
        dt_attempt_stop(a->attempt, signum);
    else
        end_by_signal(a);
}

/* Ctrl-Z reaches nobody but us: workers are in sessions of their own. The other nodes of an elastic
 * job give up one that is stopped for long, and it joins again when it goes on. */
static void pause_job(struct agent *a)
{
    dt_ms began = dt_clock_monotonic();
    dt_warn("SIGTSTP stops this dtrun and its workers; fg or SIGCONT lets them go on");
    if (a->attempt)
        dt_attempt_pause(a->attempt);
    dt_sigwatch_stop_process();
    if (a->attempt)
        dt_attempt_resume(a->attempt, dt_clock_monotonic() - began);
}

/* Whoever presses Ctrl-\ wants to know what the job does, and who presses it twice wants it to end.
 */
static bool is_for_look(struct agent *a, int signum)
{
    dt_ms before = a->looked;
    if (signum != a->plan->look_signal)
        return false;
    a->looked = dt_clock_monotonic();
    return !before || a->looked - before >= LOOK_TWICE || !(a->plan->stop_signals >> signum & 1);
}

static void print_look(struct agent *a, int signum)
{
    char line[128], name[DT_SIGNAME_TEXT];
    bool ends = a->plan->stop_signals >> signum & 1;
    snprintf(line, sizeof line, "this node is %s%s%s%s\n", phase_name[a->phase], ends ? "; " : "",
             ends ? dt_signame_text(signum, name) : "",
             ends ? " again within 2 s ends the job" : "");
    dt_log_plain(line);
    if (hang_of(a))
        dt_hang_print_look(hang_of(a));
}

static void on_signal(void *arg, int signum)
{
    struct agent *a = arg;
    if (is_for_look(a, signum))
        print_look(a, signum);
    else if (a->plan->stop_signals >> signum & 1)
        stop_by_signal(a, signum);
    else if (signum == SIGWINCH && a->output)
        dt_output_resize(a->output);
    else if (signum == SIGTSTP && !(a->plan->forward_signals >> signum & 1))
        pause_job(a);
    else if (signum != SIGWINCH && a->attempt)
        dt_attempt_forward(a->attempt, signum);
}

/* -- the beginning ---------------------------------------------------------------------------- */

/* The timer looks each second, and so the age may be a second too short. */
static void put_step(const struct agent *a, struct dt_json_writer *w)
{
    dt_ms age = dt_pace_age(&a->pace, dt_clock_monotonic());
    if (age < 0)
        return;
    dt_json_put_int(w, "step", a->pace.step);
    dt_json_put_int(w, "step_age_s", age / DT_SECOND);
}

static bool health(void *arg, struct dt_buf *out)
{
    const struct agent *a = arg;
    const char *hang = hang_of(a) ? dt_hang_sentence(hang_of(a)) : NULL;
    struct dt_json_writer w = {.out = out, .style = DT_JSON_SPACED};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "state", phase_name[a->phase]);
    dt_json_put_int(&w, "round", a->world.round);
    dt_json_put_int(&w, "restarts", a->restarts);
    dt_json_put_int(&w, "workers", a->plan->nproc);
    put_step(a, &w);
    if (hang)
        dt_json_put_text(&w, "hang", hang);
    dt_json_put_end(&w);
    return a->phase != ENDING && !hang;
}

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
    if (a->backend && (a->backend->ops->tell || a->health))
        uv_timer_start(&a->tell, on_tell, 0, TELL_EVERY);
    return a->backend ? 0 : -1;
}

static int open_all(struct agent *a, struct dt_err *err)
{
    const struct dt_plan *plan = a->plan;
    uint64_t heard = plan->stop_signals | plan->forward_signals | UINT64_C(1) << SIGWINCH |
                     UINT64_C(1) << SIGTSTP;
    if (plan->look_signal)
        heard |= UINT64_C(1) << plan->look_signal;
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
    if (plan->health_port && !(a->health = dt_health_open(&a->loop, plan->health_address,
                                                          plan->health_port, health, a, err)))
        return -1;
    return open_backend(a, err);
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
    finish_logs(a);
    dt_verdict_finish(&a->verdict);
    dt_bind_destroy(a->bind);
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
    a.aftermath.logs = &a.logs;
    dt_pace_init(&a.pace);
    dt_self_prepare(&a.inherited);
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
