/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/torchrun/foreign_member.h"

#include "base/addr.h"
#include "base/list.h"
#include "base/log.h"

#include <stdio.h>
#include <unistd.h>

#define FIRST_LOOK 100 /* for the state to be there, once the store is */

// clang-format off
/* What may follow what. A node that goes does not come back. */
static const bool may_follow[DT_FOREIGN_AIMS][DT_FOREIGN_AIMS] = {
    /*                        RESTING EXITING ENTERING WATCHING LEAVING CLOSING */
    [DT_FOREIGN_RESTING]  = { true,   true,   false,   false,   true,   true  },
    [DT_FOREIGN_EXITING]  = { true,   true,   true,    false,   true,   true  },
    [DT_FOREIGN_ENTERING] = { true,   true,   false,   true,    true,   true  },
    [DT_FOREIGN_WATCHING] = { true,   true,   false,   false,   true,   true  },
    [DT_FOREIGN_LEAVING]  = { true,   false,  false,   false,   true,   false },
    [DT_FOREIGN_CLOSING]  = { true,   false,  false,   false,   false,  false },
};
// clang-format on

static const char *const aim_name[] = {
    [DT_FOREIGN_RESTING] = "resting",   [DT_FOREIGN_EXITING] = "exiting",
    [DT_FOREIGN_ENTERING] = "entering", [DT_FOREIGN_WATCHING] = "watching",
    [DT_FOREIGN_LEAVING] = "leaving",   [DT_FOREIGN_CLOSING] = "closing"};

static void set_aim(struct dt_foreign_member *m, enum dt_foreign_aim to)
{
    if (!may_follow[m->aim][to])
        dt_bug("a node at a torchrun's rendezvous that is %s cannot be %s", aim_name[m->aim],
               aim_name[to]);
    m->aim = to;
}

static dt_ms now(const struct dt_foreign_member *m)
{
    return (dt_ms)uv_now(m->loop);
}

static void fail(struct dt_foreign_member *m, const struct dt_err *why)
{
    set_aim(m, DT_FOREIGN_RESTING);
    m->events->on_failed(m->arg, why);
}

static void fail_at_store(struct dt_foreign_member *m, const struct dt_err *why)
{
    struct dt_err err;
    dt_err_set(&err, why->code, "the rendezvous at %s, which a torchrun serves: %s", m->store,
               why->text);
    fail(m, &err);
}

static void refused(struct dt_foreign_member *m, enum dt_dynamic_act act)
{
    struct dt_err err;
    dt_foreign_wait_refused(&m->wait, act, &err);
    fail(m, &err);
}

/* -- looking ---------------------------------------------------------------------------------- */

static void look(struct dt_foreign_member *m)
{
    struct dt_err err;
    if (m->aim == DT_FOREIGN_RESTING || m->shared.syncing)
        return;
    if (dt_dynamic_store_read(&m->shared, &err) < 0)
        fail_at_store(m, &err);
}

static void on_next(uv_timer_t *t)
{
    look(dt_container_of(t, struct dt_foreign_member, next));
}

static void look_in(struct dt_foreign_member *m, dt_ms wait)
{
    if (!m->ended)
        uv_timer_start(&m->next, on_next, (uint64_t)wait, 0);
}

/* What is under way is finished first, and then goes by the new aim. */
static void aim_for(struct dt_foreign_member *m, enum dt_foreign_aim aim)
{
    set_aim(m, aim);
    if (!m->shared.syncing)
        look_in(m, 0);
}

/* -- what the state says ---------------------------------------------------------------------- */

static void reached(struct dt_foreign_member *m)
{
    switch (m->aim) {
    case DT_FOREIGN_EXITING: /* is followed by entering at once */
    case DT_FOREIGN_ENTERING:
        set_aim(m, DT_FOREIGN_WATCHING);
        m->events->on_round(m->arg);
        if (m->aim == DT_FOREIGN_WATCHING)
            look_in(m, DT_DYNAMIC_LOOK);
        break;
    case DT_FOREIGN_WATCHING:
        look_in(m, DT_DYNAMIC_LOOK);
        m->events->on_seen(m->arg);
        break;
    case DT_FOREIGN_LEAVING:
    case DT_FOREIGN_CLOSING:
        set_aim(m, DT_FOREIGN_RESTING);
        m->events->on_out(m->arg);
        break;
    case DT_FOREIGN_RESTING:
    case DT_FOREIGN_AIMS:
        break;
    }
}

static enum dt_dynamic_act decide(struct dt_foreign_member *m)
{
    struct dt_dynamic_state *s = &m->shared.state;
    int64_t wall = dt_clock_wall_us();
    enum dt_dynamic_act act;
    dt_dynamic_sanitize(s, &m->self, wall);
    switch (m->aim) {
    case DT_FOREIGN_EXITING:
        act = dt_dynamic_exit(s, &m->self);
        if (act != DT_DYNAMIC_DONE)
            return act;
        set_aim(m, DT_FOREIGN_ENTERING);
        return dt_dynamic_join(s, &m->self, now(m), wall);
    case DT_FOREIGN_ENTERING:
        return dt_dynamic_join(s, &m->self, now(m), wall);
    case DT_FOREIGN_WATCHING:
        return dt_dynamic_beat(s, &m->self, wall);
    case DT_FOREIGN_LEAVING:
        return dt_dynamic_leave(s, &m->self);
    case DT_FOREIGN_CLOSING:
        return dt_dynamic_close(s);
    case DT_FOREIGN_RESTING:
    case DT_FOREIGN_AIMS:
        break;
    }
    return DT_DYNAMIC_DONE;
}

/* How nodes and times are written differs from version to version, so the first to write is one of
 * theirs. */
static void await_first(struct dt_foreign_member *m)
{
    if (m->aim == DT_FOREIGN_LEAVING || m->aim == DT_FOREIGN_CLOSING) {
        reached(m);
    } else if (now(m) > m->self.deadline) {
        refused(m, DT_DYNAMIC_TIMEOUT);
    } else if (m->aim != DT_FOREIGN_RESTING) {
        dt_foreign_wait_note(&m->wait, &m->shared);
        look_in(m, FIRST_LOOK);
    }
}

static void write_state(struct dt_foreign_member *m)
{
    struct dt_err err;
    if (dt_dynamic_store_write(&m->shared, &err) < 0)
        fail_at_store(m, &err);
}

static void act_on_state(struct dt_foreign_member *m)
{
    enum dt_dynamic_act act = decide(m);
    switch (act) {
    case DT_DYNAMIC_WRITE:
        write_state(m);
        break;
    case DT_DYNAMIC_SLEEP:
        dt_foreign_wait_note(&m->wait, &m->shared);
        look_in(m, DT_DYNAMIC_LOOK);
        break;
    case DT_DYNAMIC_DONE:
        reached(m);
        break;
    case DT_DYNAMIC_RELEASED:
        set_aim(m, DT_FOREIGN_RESTING);
        m->events->on_released(m->arg);
        break;
    case DT_DYNAMIC_CLOSED:
    case DT_DYNAMIC_TIMEOUT:
    case DT_DYNAMIC_FULL:
        refused(m, act);
        break;
    }
}

static void on_synced(struct dt_dynamic_store *d, const struct dt_err *why)
{
    struct dt_foreign_member *m = dt_container_of(d, struct dt_foreign_member, shared);
    if (m->ended)
        return;
    if (!why) {
        m->away = false;
        if (d->begun && d->state.dialect.told)
            act_on_state(m);
        else
            await_first(m);
    } else if (why->code == DT_E_DISCONNECTED && !m->last_try) {
        look_in(m, DT_DYNAMIC_LOOK);
    } else {
        fail_at_store(m, why);
    }
}

/* -- what the owner asks for ------------------------------------------------------------------ */

/* As the others know this node, and as their workers reach it. */
static struct dt_dynamic_self introduce(const struct dt_plan *plan)
{
    struct dt_dynamic_self self = {.node.pid = getpid(),
                                   .min_nodes = (size_t)plan->min_nodes,
                                   .max_nodes = (size_t)plan->max_nodes,
                                   .last_call = plan->run.last_call,
                                   .join_timeout = plan->join_timeout};
    if (plan->local_addr)
        snprintf(self.node.addr, sizeof self.node.addr, "%s", plan->local_addr);
    else
        dt_addr_own_name(self.node.addr, sizeof self.node.addr);
    return self;
}

void dt_foreign_member_init(struct dt_foreign_member *m, uv_loop_t *loop,
                            const struct dt_plan *plan, const char *store,
                            const struct dt_foreign_member_events *events, void *arg)
{
    *m = (struct dt_foreign_member){
        .loop = loop,
        .store = store,
        .events = events,
        .arg = arg,
        .shared = {.run_id = plan->run_id, .timeout = plan->read_timeout, .on_synced = on_synced},
        .self = introduce(plan),
        .wait = {.loop = loop, .run_id = plan->run_id, .store = store, .self = &m->self}};
}

void dt_foreign_member_start(struct dt_foreign_member *m, struct dt_store_client *client)
{
    m->shared.client = m->wait.client = client;
    uv_timer_init(m->loop, &m->next);
}

void dt_foreign_member_end(struct dt_foreign_member *m)
{
    m->ended = true;
    dt_foreign_wait_end(&m->wait);
}

void dt_foreign_member_finish(struct dt_foreign_member *m)
{
    dt_dynamic_store_finish(&m->shared);
}

void dt_foreign_member_join(struct dt_foreign_member *m, dt_ms time)
{
    m->self.deadline = dt_clock_after(now(m), time);
    dt_foreign_wait_begin(&m->wait);
    aim_for(m, DT_FOREIGN_EXITING);
}

void dt_foreign_member_leave(struct dt_foreign_member *m)
{
    if (m->shared.begun)
        aim_for(m, DT_FOREIGN_LEAVING);
    else
        set_aim(m, DT_FOREIGN_RESTING);
}

void dt_foreign_member_close_job(struct dt_foreign_member *m)
{
    aim_for(m, DT_FOREIGN_CLOSING);
}

void dt_foreign_member_rest(struct dt_foreign_member *m)
{
    set_aim(m, DT_FOREIGN_RESTING);
}

bool dt_foreign_member_lost(struct dt_foreign_member *m)
{
    bool news = !m->away;
    m->away = true;
    return news;
}
