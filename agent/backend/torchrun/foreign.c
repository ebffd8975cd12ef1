/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/torchrun/foreign.h"

#include "agent/backend/store_host.h"
#include "agent/backend/torchrun/dynamic_store.h"
#include "agent/backend/torchrun/foreign_round.h"
#include "agent/backend/torchrun/foreign_store.h"
#include "agent/backend/torchrun/foreign_wait.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/ending.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LOOK 100            /* for the state to be there, once the store is */
#define LAST_WORD (2 * DT_SECOND) /* for the others to be told that this node goes */

/* What the agent waits for, or what its workers do. */
enum phase {
    IDLE,
    JOINING,  /* a round is to begin ... */
    AGREEING, /* ... it has, and the ranks are not given out yet */
    RUNNING,
    STOPPING, /* the agent was told to */
    MEETING,  /* at the barrier */
};

/* What is done about the shared state, meanwhile. */
enum aim {
    RESTING,
    EXITING,  /* from the last round, to ... */
    ENTERING, /* ... the next */
    WATCHING, /* the round this node is in */
    LEAVING,  /* for good; the job goes on */
    CLOSING,  /* it does not */
};

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
    struct dt_err gave_up; /* the client has, and why */

    struct dt_dynamic_store shared;
    struct dt_dynamic_self self;
    struct dt_dynamic_state then;   /* the state that began this node's round */
    struct dt_foreign_round *round; /* NULL: in none */
    enum phase phase;
    enum aim aim;
    uv_timer_t next;             /* look at the state */
    struct dt_foreign_wait wait; /* for a round */
    dt_ms at_barrier;            /* since when */
    bool closes_job, met, told_closed, told_away;

    bool torn_down;
    uv_timer_t soon;      /* the barrier is begun from the loop */
    uv_timer_t last_word; /* the limit to it */
    struct dt_ending ending;
};

static dt_ms now(const struct foreign *f)
{
    return (dt_ms)uv_now(f->loop);
}

static void look(struct foreign *f);
static void tear_down(struct foreign *f, bool hurry);

static void on_next(uv_timer_t *t)
{
    look(dt_container_of(t, struct foreign, next));
}

static void look_in(struct foreign *f, dt_ms wait)
{
    if (!f->torn_down)
        uv_timer_start(&f->next, on_next, (uint64_t)wait, 0);
}

/* What is under way is finished first, and then goes by the new aim. */
static void aim_for(struct foreign *f, enum aim aim)
{
    f->aim = aim;
    if (!f->shared.syncing)
        look_in(f, 0);
}

/* No world will come. The agent may still have workers, so no more than that is said. */
static void fail(struct foreign *f, const struct dt_err *why)
{
    f->aim = RESTING;
    f->phase = IDLE;
    if (f->ending.begun)
        tear_down(f, true);
    else
        f->events->on_failed(f->arg, why);
}

static void fail_at_store(struct foreign *f, const struct dt_err *why)
{
    struct dt_err err;
    dt_err_set(&err, why->code, "the rendezvous at %s, which a torchrun serves: %s", f->store,
               why->text);
    fail(f, &err);
}

/* -- a round ---------------------------------------------------------------------------------- */

static void on_world(void *arg, const struct dt_world *world)
{
    struct foreign *f = arg;
    f->phase = RUNNING;
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
    f->phase = IDLE;
    f->met = !err;
    f->events->on_barrier_over(f->arg, err ? &why : NULL);
}

static int open_round(struct foreign *f, struct dt_err *err)
{
    const struct dt_dynamic_state *s = &f->shared.state;
    int node = dt_dynamic_find(s, &f->self.node)->rank;
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
                                          .addr = f->self.node.addr,
                                          .port = f->workers.port,
                                          .on_world = on_world,
                                          .on_failed = on_round_failed,
                                          .on_met = on_met,
                                          .arg = f},
        err);
    return f->round ? 0 : -1;
}

static void begin_round(struct foreign *f)
{
    struct dt_err err;
    f->aim = WATCHING;
    f->phase = AGREEING;
    if (open_round(f, &err) < 0)
        fail(f, &err);
    else
        look_in(f, DT_DYNAMIC_LOOK);
}

/* Asked for anew: by the agent, or since the round fell apart before it had workers. */
static void enter_anew(struct foreign *f)
{
    dt_foreign_round_leave(f->round);
    f->round = NULL;
    f->phase = JOINING;
    f->self.deadline = dt_clock_after(now(f), f->plan->join_timeout);
    dt_foreign_wait_begin(&f->wait);
    aim_for(f, EXITING);
}

/* -- what the state says ---------------------------------------------------------------------- */

static void stop_workers(struct foreign *f, const char *why)
{
    dt_foreign_round_leave(f->round);
    f->round = NULL;
    f->phase = STOPPING;
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
static void judge(struct foreign *f)
{
    const struct dt_dynamic_state *s = &f->shared.state;
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

static void refused(struct foreign *f, enum dt_dynamic_act act)
{
    struct dt_err err;
    dt_foreign_wait_refused(&f->wait, act, &err);
    fail(f, &err);
}

static void reached(struct foreign *f)
{
    switch (f->aim) {
    case EXITING: /* is followed by entering at once */
    case ENTERING:
        begin_round(f);
        break;
    case WATCHING:
        look_in(f, DT_DYNAMIC_LOOK);
        judge(f);
        break;
    case LEAVING:
    case CLOSING:
        f->aim = RESTING;
        if (f->ending.begun)
            tear_down(f, false);
        break;
    case RESTING:
        break;
    }
}

static enum dt_dynamic_act decide(struct foreign *f)
{
    struct dt_dynamic_state *s = &f->shared.state;
    int64_t wall = dt_clock_wall_us();
    enum dt_dynamic_act act;
    dt_dynamic_sanitize(s, &f->self, wall);
    switch (f->aim) {
    case EXITING:
        act = dt_dynamic_exit(s, &f->self);
        if (act != DT_DYNAMIC_DONE)
            return act;
        f->aim = ENTERING;
        return dt_dynamic_join(s, &f->self, now(f), wall);
    case ENTERING:
        return dt_dynamic_join(s, &f->self, now(f), wall);
    case WATCHING:
        return dt_dynamic_beat(s, &f->self, wall);
    case LEAVING:
        return dt_dynamic_leave(s, &f->self);
    case CLOSING:
        return dt_dynamic_close(s);
    case RESTING:
        break;
    }
    return DT_DYNAMIC_DONE;
}

/* How nodes and times are written differs from version to version, so the first to write is one of
 * theirs. */
static void await_first(struct foreign *f)
{
    if (f->aim == LEAVING || f->aim == CLOSING) {
        reached(f);
    } else if (now(f) > f->self.deadline) {
        refused(f, DT_DYNAMIC_TIMEOUT);
    } else if (f->aim != RESTING) {
        dt_foreign_wait_note(&f->wait, &f->shared);
        look_in(f, FIRST_LOOK);
    }
}

static void write_state(struct foreign *f)
{
    struct dt_err err;
    if (dt_dynamic_store_write(&f->shared, &err) < 0)
        fail_at_store(f, &err);
}

static void act_on_state(struct foreign *f)
{
    enum dt_dynamic_act act = decide(f);
    switch (act) {
    case DT_DYNAMIC_WRITE:
        write_state(f);
        break;
    case DT_DYNAMIC_SLEEP:
        dt_foreign_wait_note(&f->wait, &f->shared);
        look_in(f, DT_DYNAMIC_LOOK);
        break;
    case DT_DYNAMIC_DONE:
        reached(f);
        break;
    case DT_DYNAMIC_RELEASED:
        f->aim = RESTING;
        f->phase = IDLE;
        f->events->on_closed(f->arg, DT_CLOSE_SUCCEEDED,
                             "the job was closed while this node stood by; it was not needed");
        break;
    case DT_DYNAMIC_CLOSED:
    case DT_DYNAMIC_TIMEOUT:
    case DT_DYNAMIC_FULL:
        refused(f, act);
        break;
    }
}

/* -- the connection --------------------------------------------------------------------------- */

/* The workers run on; when they have to join again it is said why they cannot. */
static void store_is_away(struct foreign *f, const struct dt_err *why)
{
    bool busy = f->phase == RUNNING || f->phase == STOPPING || f->phase == MEETING;
    if (busy && !f->told_away)
        dt_warn("the rendezvous at %s cannot be reached: %s", f->store, why->text);
    f->told_away = true;
    if (f->phase == RUNNING && f->plan->stop_when_away)
        stop_workers(f, "the workers are stopped, as --on-daemon-loss=stop says");
}

static void on_synced(struct dt_dynamic_store *d, const struct dt_err *why)
{
    struct foreign *f = dt_container_of(d, struct foreign, shared);
    if (f->torn_down)
        return;
    if (!why) {
        f->told_away = false;
        if (d->begun && d->state.dialect.told)
            act_on_state(f);
        else
            await_first(f);
    } else if (why->code == DT_E_DISCONNECTED && f->gave_up.code == DT_E_NONE && !f->ending.begun) {
        look_in(f, DT_DYNAMIC_LOOK);
    } else {
        fail_at_store(f, why);
    }
}

static void look(struct foreign *f)
{
    struct dt_err err;
    if (f->aim == RESTING || f->shared.syncing)
        return;
    if (dt_dynamic_store_read(&f->shared, &err) < 0)
        fail_at_store(f, &err);
}

static void on_event(void *arg, enum dt_store_client_event event, const struct dt_err *why)
{
    struct foreign *f = arg;
    f->connected = event == DT_STORE_CLIENT_CONNECTED;
    if (event == DT_STORE_CLIENT_FAILED)
        f->gave_up = *why;
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
    f->phase = IDLE;
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
    f->phase = MEETING;
    uv_timer_start(&f->soon, on_soon, 0, 0);
}

static void foreign_leave(struct dt_backend *b, const char *why)
{
    struct foreign *f = dt_container_of(b, struct foreign, base);
    (void)why; /* the state has no place for it */
    f->phase = IDLE;
    f->closes_job = false;
    if (f->shared.begun)
        aim_for(f, LEAVING);
}

/* -- the end ---------------------------------------------------------------------------------- */

static void foreign_free(void *foreign)
{
    struct foreign *f = foreign;
    dt_dynamic_store_finish(&f->shared);
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
    dt_foreign_wait_end(&f->wait);
    dt_foreign_round_leave(f->round);
    dt_ending_close(&f->ending, &f->soon);
    dt_ending_close(&f->ending, &f->next);
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
    f->phase = IDLE;
    if (!f->connected || !f->shared.begun) {
        tear_down(f, hurry);
        return;
    }
    uv_timer_start(&f->last_word, on_last_word_over, LAST_WORD, 0);
    aim_for(f, f->closes_job ? CLOSING : LEAVING);
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
    f->client = f->shared.client = f->wait.client = dt_store_client_open(f->loop, &config, err);
    return f->client ? 0 : -1;
}

/* As the others know this node, and as their workers reach it. */
static void introduce(struct foreign *f)
{
    const struct dt_plan *plan = f->plan;
    struct dt_dynamic_node *me = &f->self.node;
    f->self = (struct dt_dynamic_self){.node.pid = getpid(),
                                       .min_nodes = (size_t)plan->min_nodes,
                                       .max_nodes = (size_t)plan->max_nodes,
                                       .last_call = plan->run.last_call,
                                       .join_timeout = plan->join_timeout};
    if (plan->local_addr)
        snprintf(me->addr, sizeof me->addr, "%s", plan->local_addr);
    else
        dt_addr_own_name(me->addr, sizeof me->addr);
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
    f->shared.run_id = plan->run_id;
    f->shared.timeout = plan->read_timeout;
    f->shared.on_synced = on_synced;
    f->wait = (struct dt_foreign_wait){
        .loop = loop, .run_id = plan->run_id, .store = f->store, .self = &f->self};
    introduce(f);
    f->workers = (struct dt_foreign_store){.loop = loop, .plan = plan, .addr = f->self.node.addr};
    if (open_client(f, err) < 0) {
        free(f);
        return NULL;
    }
    uv_timer_init(loop, &f->next);
    uv_timer_init(loop, &f->soon);
    uv_timer_init(loop, &f->last_word);
    return &f->base;
}
