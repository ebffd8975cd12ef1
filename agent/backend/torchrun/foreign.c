/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/torchrun/foreign.h"

#include "agent/backend/store_host.h"
#include "agent/backend/torchrun/foreign_member.h"
#include "agent/backend/torchrun/foreign_round.h"
#include "agent/backend/torchrun/foreign_store.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/ending.h"

#include <stdio.h>
#include <stdlib.h>

#define LAST_WORD (2 * DT_SECOND) /* for the others to be told that this node goes */

/* What the agent waits for, or what its workers do. */
enum phase {
    IDLE,
    JOINING,  /* a round is to begin ... */
    AGREEING, /* ... it has, and the ranks are not given out yet */
    RUNNING,
    STOPPING, /* the agent was told to */
    MEETING,  /* at the barrier */
    PHASES,
};

// clang-format off
/* What may follow what: any may end as idle. The agent may say that its workers are through while
 * it is told to stop them, or after the store has failed. */
static const bool may_follow[PHASES][PHASES] = {
    /*             IDLE  JOINING AGREEING RUNNING STOPPING MEETING */
    [IDLE]     = { true, true,   false,   false,  false,   true  },
    [JOINING]  = { true, false,  true,    false,  false,   false },
    [AGREEING] = { true, true,   false,   true,   false,   false },
    [RUNNING]  = { true, true,   false,   false,  true,    true  },
    [STOPPING] = { true, true,   false,   false,  false,   true  },
    [MEETING]  = { true, false,  false,   false,  true,    false },
};
// clang-format on

static const char *const phase_name[] = {
    [IDLE] = "idle",       [JOINING] = "joining",   [AGREEING] = "agreeing",
    [RUNNING] = "running", [STOPPING] = "stopping", [MEETING] = "meeting"};

struct foreign {
    struct dt_backend base;
    uv_loop_t *loop;
    const struct dt_plan *plan;
    const struct dt_backend_events *events;
    void *arg;
    char store[DT_PLAN_ENDPOINT];
    struct dt_store_client *client;
    struct dt_foreign_store workers;
    bool connected;

    struct dt_foreign_member member; /* what is done about the shared state, meanwhile */
    struct dt_dynamic_state then;    /* the state that began this node's round */
    struct dt_foreign_round *round;  /* NULL: in none */
    enum phase phase;
    dt_ms at_barrier; /* since when */
    bool closes_job, met, told_closed;

    bool torn_down;
    uv_timer_t soon;      /* the barrier is begun from the loop */
    uv_timer_t last_word; /* the limit to it */
    struct dt_ending ending;
};

static dt_ms now(const struct foreign *f)
{
    return (dt_ms)uv_now(f->loop);
}

static void enter(struct foreign *f, enum phase to)
{
    if (!may_follow[f->phase][to])
        dt_bug("an agent at a torchrun's rendezvous that is %s cannot be %s", phase_name[f->phase],
               phase_name[to]);
    f->phase = to;
}

static void tear_down(struct foreign *f, bool hurry);

/* No world will come. The agent may still have workers, so no more than that is said. */
static void fail(struct foreign *f, const struct dt_err *why)
{
    dt_foreign_member_rest(&f->member);
    enter(f, IDLE);
    if (f->ending.begun)
        tear_down(f, true);
    else
        f->events->on_failed(f->arg, why);
}

/* -- a round ---------------------------------------------------------------------------------- */

static void leave_round(struct foreign *f)
{
    dt_foreign_round_leave(f->round);
    f->round = NULL;
}

/* No world is waited for any more, and none comes. A barrier that was begun still ends. */
static void become_idle(struct foreign *f)
{
    if (f->phase == AGREEING)
        leave_round(f);
    enter(f, IDLE);
}

static void on_world(void *arg, const struct dt_world *world)
{
    struct foreign *f = arg;
    enter(f, RUNNING);
    f->closes_job = true;
    f->events->on_world(f->arg, world);
}

static void on_round_failed(void *arg, const struct dt_err *err)
{
    fail(arg, err);
}

/* Who serves the rendezvous leaves as soon as he is through himself. */
static void on_met(void *arg, const struct dt_err *err)
{
    struct foreign *f = arg;
    struct dt_err why = err ? *err : (struct dt_err){0};
    if (why.code == DT_E_DISCONNECTED) {
        dt_info("the agent that serves %s has left, so all are through", f->store);
        err = NULL;
    } else if (why.code == DT_E_TIMEOUT) {
        dt_err_set(&why, DT_E_TIMEOUT, "waited %d s for the other nodes to finish",
                   dt_clock_seconds(now(f) - f->at_barrier));
    }
    enter(f, IDLE);
    f->met = !err;
    f->events->on_barrier_over(f->arg, err ? &why : NULL);
}

static int open_round(struct foreign *f, struct dt_err *err)
{
    const struct dt_dynamic_state *s = &f->member.shared.state;
    int node = dt_dynamic_find(s, &f->member.self.node)->rank;
    bool elders = dt_store_client_legacy(f->client);
    if (dt_dynamic_copy(&f->then, s, err) < 0 ||
        (node == 0 && dt_foreign_store_prepare(&f->workers, elders, err) < 0))
        return -1;
    f->round = dt_foreign_round_begin(
        &(struct dt_foreign_round_config){.client = f->client,
                                          .plan = f->plan,
                                          .round = s->round,
                                          .node = node,
                                          .nodes = (int)dt_dynamic_participants(s),
                                          .served = !elders,
                                          .addr = f->member.self.node.addr,
                                          .port = f->workers.port,
                                          .on_world = on_world,
                                          .on_failed = on_round_failed,
                                          .on_met = on_met,
                                          .arg = f},
        err);
    return f->round ? 0 : -1;
}

static void on_round(void *arg)
{
    struct foreign *f = arg;
    struct dt_err err;
    enter(f, AGREEING);
    if (open_round(f, &err) < 0)
        fail(f, &err);
}

/* Asked for anew: by the agent, or since the round fell apart before it had workers. */
static void enter_anew(struct foreign *f)
{
    leave_round(f);
    enter(f, JOINING);
    dt_foreign_member_join(&f->member, f->plan->join_timeout);
}

/* -- what the state says ---------------------------------------------------------------------- */

static void stop_workers(struct foreign *f, const char *why)
{
    leave_round(f);
    enter(f, STOPPING);
    f->events->on_stop(f->arg, DT_STOP_ALONE, why);
}

static void tell_closed(struct foreign *f)
{
    if (!f->told_closed && f->phase == RUNNING)
        dt_info("another node has closed job \"%s\": no round follows this one", f->plan->run_id);
    f->told_closed = true;
}

/* The round cannot go on as it began: nobody joins it, and nobody takes the place of who is gone,
 * while others stay in it. Torchrun's own agents look for those who wait and not for those who are
 * gone. At the barrier only one that begins again counts: who is silent may have finished. */
static void on_seen(void *arg)
{
    struct foreign *f = arg;
    const struct dt_dynamic_state *s = &f->member.shared.state;
    const struct dt_dynamic_member *gone = dt_dynamic_missing(&f->then, s);
    const struct dt_dynamic_member *is = gone ? dt_dynamic_find(s, &gone->node) : NULL;
    size_t waiting = dt_dynamic_waiting(s);
    char why[DT_WHY_MAX];
    if (gone)
        snprintf(why, sizeof why, "node %.200s (pid %lld) %s: the workers are started anew",
                 gone->node.addr, (long long)gone->node.pid,
                 is && is->waits ? "begins again" : "is gone");
    else
        snprintf(why, sizeof why, "nodes to join: %zu; the workers are started anew with them",
                 waiting);
    if (s->closed)
        tell_closed(f);
    else if (f->phase == AGREEING && gone)
        enter_anew(f);
    else if ((f->phase == RUNNING && (gone || waiting > 0)) ||
             (f->phase == MEETING && is && is->waits))
        stop_workers(f, why);
}

static void on_out(void *arg)
{
    struct foreign *f = arg;
    if (f->ending.begun)
        tear_down(f, false);
}

static void on_released(void *arg)
{
    struct foreign *f = arg;
    enter(f, IDLE);
    f->events->on_closed(f->arg, DT_CLOSE_SUCCEEDED,
                         "the job was closed while this node stood by; it was not needed");
}

static void on_member_failed(void *arg, const struct dt_err *err)
{
    become_idle(arg);
    fail(arg, err);
}

static const struct dt_foreign_member_events member_events = {on_round, on_seen, on_out,
                                                              on_released, on_member_failed};

/* -- the connection --------------------------------------------------------------------------- */

/* The workers run on; when they have to join again it is said why they cannot. */
static void store_is_away(struct foreign *f, const struct dt_err *why)
{
    bool busy = f->phase == RUNNING || f->phase == STOPPING || f->phase == MEETING;
    if (dt_foreign_member_lost(&f->member) && busy)
        dt_warn("the rendezvous at %s cannot be reached: %s", f->store, why->text);
    if (f->phase == RUNNING && f->plan->stop_when_away)
        stop_workers(f, "the workers are stopped, as --on-daemon-loss=stop says");
}

static void on_event(void *arg, enum dt_store_client_event event, const struct dt_err *why)
{
    struct foreign *f = arg;
    f->connected = event == DT_STORE_CLIENT_CONNECTED;
    if (event == DT_STORE_CLIENT_FAILED)
        f->member.last_try = true;
    if (!f->connected && !f->ending.begun)
        store_is_away(f, why); /* what is asked for hears of it by itself */
}

/* -- what is asked for ------------------------------------------------------------------------ */

static void foreign_join(struct dt_backend *b)
{
    enter_anew(dt_container_of(b, struct foreign, base));
}

static void begin_barrier(struct foreign *f)
{
    struct dt_err err;
    int rc = -1;
    f->at_barrier = now(f);
    if (!f->connected)
        dt_err_set(&err, DT_E_DISCONNECTED, "the rendezvous at %s is gone", f->store);
    else if (!f->round)
        dt_err_set(&err, DT_E_CANCELED, "the round is over");
    else
        rc = dt_foreign_round_meet(f->round, f->plan->barrier_timeout, &err);
    if (rc == 0)
        return;
    enter(f, IDLE);
    f->events->on_barrier_over(f->arg, &err);
}

static void on_soon(uv_timer_t *t)
{
    struct foreign *f = dt_container_of(t, struct foreign, soon);
    if (f->phase == MEETING)
        begin_barrier(f);
}

static void foreign_barrier(struct dt_backend *b)
{
    struct foreign *f = dt_container_of(b, struct foreign, base);
    enter(f, MEETING);
    uv_timer_start(&f->soon, on_soon, 0, 0);
}

static void foreign_leave(struct dt_backend *b, const char *why)
{
    struct foreign *f = dt_container_of(b, struct foreign, base);
    (void)why; /* the state has no place for it */
    become_idle(f);
    f->closes_job = false;
    dt_foreign_member_leave(&f->member);
}

/* -- the end ---------------------------------------------------------------------------------- */

static void foreign_free(void *foreign)
{
    struct foreign *f = foreign;
    dt_foreign_member_finish(&f->member);
    dt_dynamic_finish(&f->then);
    free(f); /* the only free of one that was opened */
}

static void on_server_closed(void *arg)
{
    dt_container_of(arg, struct foreign, ending)->workers.server = NULL;
    dt_ending_step(arg);
}

static void tear_down(struct foreign *f, bool hurry)
{
    if (f->torn_down)
        return;
    f->torn_down = true;
    dt_foreign_member_end(&f->member);
    leave_round(f);
    dt_ending_close(&f->ending, &f->soon);
    dt_ending_close(&f->ending, &f->member.next);
    dt_ending_close(&f->ending, &f->last_word);
    dt_store_client_close(f->client, dt_ending_step, dt_ending_add(&f->ending));
    if (f->workers.server)
        dt_store_host_close(f->workers.server, f->met, hurry, on_server_closed,
                            dt_ending_add(&f->ending));
}

static void on_last_word_over(uv_timer_t *t)
{
    tear_down(dt_container_of(t, struct foreign, last_word), true);
}

/* Whoever was in a world closes the job when it ends, well or not, as all torchruns do; the others
 * would otherwise wait for it. One that was told to go, or never got that far, leaves it. */
static void foreign_close(struct dt_backend *b, bool hurry, void (*on_closed)(void *arg), void *arg)
{
    struct foreign *f = dt_container_of(b, struct foreign, base);
    if (f->ending.begun) {
        tear_down(f, hurry);
        if (f->workers.server && hurry)
            dt_store_server_close(f->workers.server, 0, NULL, NULL);
        return;
    }
    dt_ending_begin(&f->ending, foreign_free, f, on_closed, arg);
    become_idle(f);
    f->member.last_try = true;
    if (!f->connected || !f->member.shared.begun) {
        tear_down(f, hurry);
        return;
    }
    uv_timer_start(&f->last_word, on_last_word_over, LAST_WORD, 0);
    if (f->closes_job)
        dt_foreign_member_close_job(&f->member);
    else
        dt_foreign_member_leave(&f->member);
}

/* -- the beginning ---------------------------------------------------------------------------- */

static const struct dt_backend_ops foreign_ops = {
    .join = foreign_join,
    .barrier = foreign_barrier,
    .leave = foreign_leave,
    .close = foreign_close,
};

static int open_client(struct foreign *f, struct dt_err *err)
{
    struct dt_store_client_config config = DT_STORE_CLIENT_CONFIG_DEFAULT;
    if (dt_plan_endpoint(f->plan, f->store, err) < 0)
        return -1;
    config.addr = f->store;
    config.open_timeout = f->plan->join_timeout;
    config.reconnect_timeout = f->plan->read_timeout;
    config.on_event = on_event;
    config.arg = f;
    f->client = dt_store_client_open(f->loop, &config, err);
    return f->client ? 0 : -1;
}

struct dt_backend *dt_backend_foreign_open(uv_loop_t *loop, const struct dt_plan *plan,
                                           const struct dt_backend_events *events, void *arg,
                                           struct dt_err *err)
{
    struct foreign *f = plan->identical ? NULL : calloc(1, sizeof *f);
    if (plan->identical)
        dt_err_set(
            err, DT_E_USAGE,
            "TORCH_ELASTIC_WORKER_IDENTICAL: at a torchrun's rendezvous dtrun learns from the "
            "exchange of ranks where workers meet; unset it on all nodes");
    else if (!f)
        dt_err_set(err, DT_E_MEMORY, "no memory for a job");
    if (!f)
        return NULL;
    f->base.ops = &foreign_ops;
    f->loop = loop;
    f->plan = plan;
    f->events = events;
    f->arg = arg;
    dt_foreign_member_init(&f->member, loop, plan, f->store, &member_events, f);
    f->workers =
        (struct dt_foreign_store){.loop = loop, .plan = plan, .addr = f->member.self.node.addr};
    if (open_client(f, err) < 0) {
        free(f);
        return NULL;
    }
    dt_foreign_member_start(&f->member, f->client);
    uv_timer_init(loop, &f->soon);
    uv_timer_init(loop, &f->last_word);
    return &f->base;
}
