/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/inside.h"

#include "base/list.h"
#include "base/log.h"

#include <stdlib.h>

/* How long a rendezvous that has not answered yet is waited for, to tell why this agent ends. */
#define PARTING DT_SECOND

bool dt_presence_is_over(const struct dt_presence *p)
{
    return !p->control;
}

bool dt_presence_is_joining(const struct dt_presence *p)
{
    return p->joining;
}

static const char *trouble(const struct dt_presence *p)
{
    const char *why = dt_control_trouble(p->control);
    return why ? why : "it does not answer";
}

/* -- the end ---------------------------------------------------------------------------------- */

static void disconnect(struct dt_presence *p)
{
    if (dt_presence_is_over(p))
        return;
    dt_session_end(&p->session, dt_presence_now(p));
    dt_session_disconnected(&p->session, dt_presence_now(p));
    dt_control_close(p->control, dt_ending_step, dt_ending_add(&p->ending));
    p->control = NULL;
    uv_timer_stop(&p->tick);
    uv_timer_stop(&p->notes);
}

void dt_presence_end(struct dt_presence *p, const struct dt_err *why)
{
    p->gave_up = *why;
    disconnect(p);
}

void dt_presence_give_up(struct dt_presence *p, enum dt_close_kind kind, const struct dt_err *why)
{
    dt_presence_end(p, why);
    if (p->had_world)
        p->config.events->on_closed(p->config.arg, kind, why->text);
    else if (p->joining)
        p->config.events->on_failed(p->config.arg, why);
}

static void close_now(struct dt_presence *p, void (*on_closed)(void *arg), void *arg)
{
    disconnect(p);
    dt_ending_begin(&p->ending, free, p, on_closed, arg);
    dt_ending_close(&p->ending, &p->tick);
    dt_ending_close(&p->ending, &p->notes);
    dt_ending_close(&p->ending, &p->soon);
}

bool dt_presence_part(struct dt_presence *p)
{
    if (p->parting.is)
        close_now(p, p->parting.on_closed, p->parting.arg);
    return p->parting.is;
}

static void on_parting_over(uv_timer_t *t)
{
    dt_presence_part(dt_container_of(t, struct dt_presence, soon));
}

void dt_presence_close(struct dt_presence *p, void (*on_closed)(void *arg), void *arg)
{
    if (dt_presence_is_over(p) || p->was_up || p->remarks.count == 0) {
        close_now(p, on_closed, arg);
        return;
    }
    p->parting.is = true;
    p->parting.on_closed = on_closed;
    p->parting.arg = arg;
    uv_timer_stop(&p->tick);
    uv_timer_stop(&p->notes);
    uv_timer_start(&p->soon, on_parting_over, PARTING, 0);
}

/* -- being away ------------------------------------------------------------------------------- */

/* How long nobody may be there before that is the end; DT_FOREVER: for ever. */
static dt_ms most_away(const struct dt_presence *p)
{
    const struct dt_plan *plan = p->config.plan;
    if (p->hosted)
        return plan->run.beat * plan->run.beats + plan->run.reconnect_grace;
    switch (p->session.phase) {
    case DT_SESSION_JOINING:
        return plan->join_timeout;
    case DT_SESSION_DONE:
        return plan->barrier_timeout;
    case DT_SESSION_IDLE:
    case DT_SESSION_RUNNING:
    case DT_SESSION_STOPPING:
    case DT_SESSION_LEAVING:
    case DT_SESSION_ENDED:
        return DT_FOREVER;
    }
    return DT_FOREVER;
}

static dt_ms end_of_away(const struct dt_presence *p)
{
    dt_ms most = most_away(p), from = p->session.away_since;
    if (from == DT_FOREVER || most == DT_FOREVER)
        return DT_FOREVER;
    if (!p->hosted && from < p->wanted)
        from = p->wanted; /* before, workers ran and nobody missed it */
    return dt_clock_after(from, most);
}

static void end_away(struct dt_presence *p)
{
    struct dt_err err;
    int away = dt_clock_seconds(dt_presence_now(p) - p->session.away_since);
    dt_err_set(&err, DT_E_DISCONNECTED, "the rendezvous at %s%s has been gone for %d s: %s",
               p->config.endpoint, p->hosted ? ", hosted by an agent there," : "", away,
               trouble(p));
    if (p->hosted || !p->in_barrier) {
        dt_presence_give_up(p, DT_CLOSE_ENDED, &err);
        return;
    }
    dt_presence_end(p, &err);
    p->config.events->on_barrier_over(p->config.arg, &err);
}

static void on_note(uv_timer_t *t)
{
    struct dt_presence *p = dt_container_of(t, struct dt_presence, notes);
    dt_ms end = p->was_up ? end_of_away(p) : dt_clock_after(p->since, p->config.plan->read_timeout);
    if (end == DT_FOREVER)
        return; /* nobody waits for it: workers run */
    dt_warn("waiting for the rendezvous at %s%s: %s; trying for %d s more", p->config.endpoint,
            p->was_up ? " to come back" : "", trouble(p),
            dt_clock_seconds(end - dt_presence_now(p)));
}

void dt_presence_start_notes(struct dt_presence *p)
{
    uv_timer_start(&p->notes, on_note, (uint64_t)DT_FIRST_NOTE, (uint64_t)DT_NEXT_NOTE);
}

static void on_tick(uv_timer_t *t);

/* After each call of the session's: the next tick. */
static void arm(struct dt_presence *p)
{
    dt_ms next = dt_session_next(&p->session);
    if (end_of_away(p) < next)
        next = end_of_away(p);
    if (next == DT_FOREVER)
        uv_timer_stop(&p->tick);
    else
        uv_timer_start(&p->tick, on_tick,
                       next > dt_presence_now(p) ? (uint64_t)(next - dt_presence_now(p)) : 0, 0);
}

void dt_presence_settle(struct dt_presence *p)
{
    arm(p);
    dt_presence_tell_news(p);
}

static void on_tick(uv_timer_t *t)
{
    struct dt_presence *p = dt_container_of(t, struct dt_presence, tick);
    dt_session_tick(&p->session, dt_presence_now(p));
    dt_presence_settle(p);
    if (!dt_presence_is_over(p) && dt_presence_now(p) >= end_of_away(p))
        end_away(p);
}

/* -- what the owner wishes -------------------------------------------------------------------- */

static void on_soon(uv_timer_t *t)
{
    struct dt_presence *p = dt_container_of(t, struct dt_presence, soon);
    p->config.events->on_failed(p->config.arg, &p->gave_up);
}

void dt_presence_join(struct dt_presence *p)
{
    p->joining = true;
    p->in_barrier = false;
    if (dt_presence_is_over(p)) {
        uv_timer_start(&p->soon, on_soon, 0, 0);
        return;
    }
    p->wanted = dt_presence_now(p);
    dt_session_join(&p->session, dt_presence_now(p));
    arm(p);
}

void dt_presence_failed(struct dt_presence *p, const struct dt_result *result)
{
    if (dt_presence_is_over(p))
        return;
    dt_session_failed(&p->session, result, dt_presence_now(p));
    arm(p);
}

void dt_presence_found(struct dt_presence *p, const struct dt_result *result)
{
    if (dt_presence_is_over(p))
        return;
    dt_session_found(&p->session, result, dt_presence_now(p));
    arm(p);
}

void dt_presence_barrier(struct dt_presence *p)
{
    p->in_barrier = true;
    if (dt_presence_is_over(p))
        return;
    p->wanted = dt_presence_now(p);
    dt_session_succeeded(&p->session, dt_presence_now(p));
    arm(p);
}

void dt_presence_leave(struct dt_presence *p, const char *why)
{
    if (dt_presence_is_over(p))
        return;
    dt_session_leave(&p->session, why, dt_presence_now(p));
    arm(p);
}

void dt_presence_remark(struct dt_presence *p, bool failed, const char *words)
{
    dt_remarks_add(&p->remarks, failed, words);
    if (!dt_presence_is_over(p))
        dt_presence_tell_remarks(p);
}

void dt_presence_tell(struct dt_presence *p, const struct dt_beat *facts)
{
    dt_session_tell(&p->session, facts);
    if (!dt_presence_is_over(p))
        arm(p);
}

bool dt_presence_still(struct dt_presence *p, dt_ms still, bool sure)
{
    return !dt_presence_is_over(p) &&
           dt_session_still(&p->session, still, sure, dt_presence_now(p));
}

void dt_presence_looked(struct dt_presence *p, int64_t look, const struct dt_stances *stances)
{
    if (!dt_presence_is_over(p))
        dt_session_looked(&p->session, look, stances, dt_presence_now(p));
}

void dt_presence_tailed(struct dt_presence *p, int64_t id, bool over, const char *page)
{
    if (!dt_presence_is_over(p))
        dt_session_tailed(&p->session, id, over, page, dt_presence_now(p));
}

void dt_presence_set_port(struct dt_presence *p, int port)
{
    dt_session_set_port(&p->session, port);
}

/* -- the beginning ---------------------------------------------------------------------------- */

static int begin(struct dt_presence *p, struct dt_err *err)
{
    const struct dt_plan *plan = p->config.plan;
    struct dt_session_config session = {
        .run = plan->run_id,
        .join = {.spec = plan->run, .node = p->config.node},
        .stop_when_away = plan->stop_when_away,
        .ops = &dt_presence_session_ops,
        .arg = p,
    };
    struct dt_control_config control = DT_CONTROL_CONFIG_DEFAULT;
    dt_session_init(&p->session, &session);
    control.addr = p->config.endpoint;
    control.ours = p->config.ours;
    control.token = p->config.token;
    control.run_token = p->config.run_token;
    control.open_timeout = plan->read_timeout;
    control.events = &dt_presence_control_events;
    control.arg = p;
    p->control = dt_control_open(p->loop, &control, err);
    return p->control ? 0 : -1;
}

struct dt_presence *dt_presence_open(uv_loop_t *loop, const struct dt_presence_config *config,
                                     struct dt_err *err)
{
    struct dt_presence *p = calloc(1, sizeof *p);
    if (!p) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a job");
        return NULL;
    }
    p->loop = loop;
    p->config = *config;
    p->since = dt_presence_now(p);
    p->lease = DT_FOREVER;
    if (begin(p, err) < 0) {
        free(p);
        return NULL;
    }
    uv_timer_init(loop, &p->tick);
    uv_timer_init(loop, &p->notes);
    uv_timer_init(loop, &p->soon);
    dt_presence_start_notes(p);
    return p;
}
