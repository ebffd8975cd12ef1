/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/presence.h"

#include "agent/backend/elastic/control.h"
#include "agent/backend/elastic/own_node.h"
#include "agent/backend/elastic/remarks.h"
#include "agent/backend/elastic/session.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/ending.h"
#include "base/map.h"
#include "rendezvous/hang/finding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the session called for. It is told when the session is through. */
enum news {
    NO_NEWS,
    NEWS_WORLD,
    NEWS_STOP,
    NEWS_CLOSED,
    NEWS_LOOK,
    NEWS_KEEP,
    NEWS_FINDING,
    NEWS_STRAGGLER
};

/* How long a rendezvous that has not answered yet is waited for, to tell why this agent ends. */
#define PARTING DT_SECOND

struct dt_presence {
    uv_loop_t *loop;
    struct dt_presence_config config;
    struct dt_session session;
    struct dt_control *control; /* NULL once it is over */
    struct dt_remarks remarks;
    bool hosted; /* by an agent */
    bool was_up;
    bool joining; /* a world is wanted */
    bool had_world, in_barrier;
    struct dt_err gave_up;                          /* once it is over: why there is no world */
    uv_timer_t soon;                                /* answers a join then, or ends the parting */
    char refusal[sizeof((struct dt_err *)0)->text]; /* why it does not want us now; "": it was not
                                                       heard to say so */
    struct {
        enum news what;
        struct dt_world world;
        enum dt_stop_how how;
        enum dt_close_kind kind;
        char why[DT_WHY_MAX];
        int64_t look;
        bool native;
        const struct dt_finding_message *finding; /* of the frame that is being heard */
        bool holds_up;
    } news;
    dt_ms lease;      /* as the owner was told; DT_FOREVER: not yet */
    dt_ms since;      /* it was opened */
    dt_ms wanted;     /* since then a world, or that the others are done */
    uv_timer_t tick;  /* the session's, and the end of being away */
    uv_timer_t notes; /* says what is waited for */
    struct {
        bool is; /* asked to close, with remarks that nobody has heard */
        void (*on_closed)(void *arg);
        void *arg;
    } parting;
    struct dt_ending ending;
};

static dt_ms now(const struct dt_presence *p)
{
    return (dt_ms)uv_now(p->loop);
}

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
    dt_session_end(&p->session, now(p));
    dt_session_disconnected(&p->session, now(p));
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

/* There will never be a world again. Who had one may have a failure to report. */
static void give_up(struct dt_presence *p, enum dt_close_kind kind, const struct dt_err *why)
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

/* False: it stays. */
static bool part(struct dt_presence *p)
{
    if (p->parting.is)
        close_now(p, p->parting.on_closed, p->parting.arg);
    return p->parting.is;
}

static void on_parting_over(uv_timer_t *t)
{
    part(dt_container_of(t, struct dt_presence, soon));
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
    int away = dt_clock_seconds(now(p) - p->session.away_since);
    dt_err_set(&err, DT_E_DISCONNECTED, "the rendezvous at %s%s has been gone for %d s: %s",
               p->config.endpoint, p->hosted ? ", hosted by an agent there," : "", away,
               trouble(p));
    if (p->hosted || !p->in_barrier) {
        give_up(p, DT_CLOSE_ENDED, &err);
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
            p->was_up ? " to come back" : "", trouble(p), dt_clock_seconds(end - now(p)));
}

static void start_notes(struct dt_presence *p)
{
    uv_timer_start(&p->notes, on_note, (uint64_t)DT_FIRST_NOTE, (uint64_t)DT_NEXT_NOTE);
}

/* -- what the session calls ------------------------------------------------------------------- */

static void on_send(void *arg, const struct dt_message *m)
{
    dt_control_say(((struct dt_presence *)arg)->control, m);
}

static void on_world(void *arg, int round, const struct dt_world_message *w)
{
    struct dt_presence *p = arg;
    struct dt_world *world = &p->news.world;
    p->news.what = NEWS_WORLD;
    *world = (struct dt_world){.round = round,
                               .group_rank = w->seat,
                               .group_size = w->seats,
                               .first_rank = w->first_rank,
                               .size = w->size,
                               .first_role_rank = w->first_role_rank,
                               .role_size = w->role_size,
                               .master_port = w->master_port,
                               .store_is_served = true,
                               .prev_first_rank = w->prev_rank,
                               .prev_size = w->prev_size,
                               .restarts = w->restarts};
    snprintf(world->master_addr, sizeof world->master_addr, "%s", w->master_addr);
    snprintf(world->news, sizeof world->news, "%s", w->news);
}

static void on_stop(void *arg, enum dt_stop_how how, const char *why)
{
    struct dt_presence *p = arg;
    p->news.what = NEWS_STOP;
    p->news.how = how;
    snprintf(p->news.why, sizeof p->news.why, "%s", why);
}

static void on_session_closed(void *arg, enum dt_close_kind kind, const char *why)
{
    struct dt_presence *p = arg;
    p->news.what = NEWS_CLOSED;
    p->news.kind = kind;
    snprintf(p->news.why, sizeof p->news.why, "%s", why);
}

static void on_session_note(void *arg, const char *text)
{
    (void)arg;
    dt_warn("%s", text);
}

static void on_session_look(void *arg, int64_t id, bool native)
{
    struct dt_presence *p = arg;
    p->news.what = NEWS_LOOK;
    p->news.look = id;
    p->news.native = native;
}

static void on_session_keep(void *arg)
{
    struct dt_presence *p = arg;
    p->news.what = NEWS_KEEP;
}

static void on_session_finding(void *arg, const struct dt_finding_message *f)
{
    struct dt_presence *p = arg;
    p->news.what = NEWS_FINDING;
    p->news.finding = f;
}

static void on_session_straggler(void *arg, const char *sentence, bool holds_up)
{
    struct dt_presence *p = arg;
    p->news.what = NEWS_STRAGGLER;
    p->news.holds_up = holds_up;
    snprintf(p->news.why, sizeof p->news.why, "%s", sentence);
}

/* At once: it may come with a stop, which is told later, and changes nothing of the session. */
static void on_session_tail(void *arg, const struct dt_message *m)
{
    struct dt_presence *p = arg;
    p->config.events->on_tail(p->config.arg, m);
}

static void on_disconnect(void *arg, const char *why)
{
    struct dt_presence *p = arg;
    dt_warn("the rendezvous at %s: %s; connecting again", p->config.endpoint, why);
    start_notes(p);
    dt_control_drop(p->control, why);
}

/* A reason is told once, however often it is heard. */
static void tell_refusal(struct dt_presence *p, const char *why)
{
    if (strcmp(p->refusal, why) == 0)
        return;
    snprintf(p->refusal, sizeof p->refusal, "%s", why);
    dt_warn("the rendezvous at %s: %s; trying again and again%s", p->config.endpoint, why,
            p->session.phase == DT_SESSION_RUNNING ? ", workers run on" : "");
    start_notes(p);
}

static void on_session_refused(void *arg, const char *why)
{
    struct dt_presence *p = arg;
    tell_refusal(p, why);
    dt_control_drop_refused(p->control, why);
}

static uint64_t on_random(void *arg)
{
    (void)arg;
    return dt_map_random_seed();
}

static const struct dt_session_ops session_ops = {
    .send = on_send,
    .world = on_world,
    .stop = on_stop,
    .closed = on_session_closed,
    .note = on_session_note,
    .look = on_session_look,
    .keep = on_session_keep,
    .finding = on_session_finding,
    .straggler = on_session_straggler,
    .tail = on_session_tail,
    .disconnect = on_disconnect,
    .refused = on_session_refused,
    .random = on_random,
};

/* -- telling the owner ------------------------------------------------------------------------ */

/* Nothing while the store may turn out to be foreign: then nobody here knows. When the job is over
 * the last lease runs out by itself, since workers that a person ends may save. */
static void tell_lease(struct dt_presence *p)
{
    dt_ms lease = dt_session_lease(&p->session);
    if (!p->was_up || p->session.phase == DT_SESSION_ENDED || lease == p->lease)
        return;
    p->lease = lease;
    p->config.events->on_lease(p->config.arg, lease);
}

/* Node 0 came to the endpoint by an address of loopback, and we did not. It may be on this host all
 * the same. */
static void warn_of_loopback(const struct dt_presence *p, const struct dt_world *world)
{
    const char *addr = p->config.node.addr;
    if (world->group_rank > 0 && dt_own_node_is_loopback(world->master_addr) &&
        !dt_own_node_is_loopback(addr))
        dt_warn("workers are to meet at %s, which is this host itself, while others know this host "
                "as %s; if node 0 is another host, give it --local-addr, or an --rdzv-endpoint "
                "that is no loopback address",
                world->master_addr, addr);
}

static void tell_closed(struct dt_presence *p, enum dt_close_kind kind, const char *text)
{
    const struct dt_backend_events *events = p->config.events;
    const char *host = p->config.plan->endpoint_host;
    struct dt_err why;
    dt_err_set(&why, DT_E_CANCELED, "%s", text);
    if (kind == DT_CLOSE_TIMEOUT && p->config.ours && dt_own_node_is_loopback(host))
        dt_err_set(&why, DT_E_CANCELED,
                   "%s; %s leads each host to itself, so nodes of other hosts could not come", text,
                   host);
    dt_presence_end(p, &why);
    if (p->in_barrier && kind == DT_CLOSE_SUCCEEDED)
        events->on_barrier_over(p->config.arg, NULL);
    else
        events->on_closed(p->config.arg, kind, why.text);
}

static void tell_finding(struct dt_presence *p, const struct dt_finding_message *m)
{
    struct dt_hang_finding found;
    dt_hang_finding_get(m, &found);
    p->config.events->on_finding(p->config.arg, &m->stances, &found);
}

static void tell_cause(struct dt_presence *p)
{
    if (*p->session.cause && p->config.events->on_cause)
        p->config.events->on_cause(p->config.arg, p->session.cause);
}

static void tell(struct dt_presence *p)
{
    const struct dt_backend_events *events = p->config.events;
    enum news what = p->news.what;
    tell_lease(p); /* before a world, whose workers begin with it */
    p->news.what = NO_NEWS;
    switch (what) {
    case NO_NEWS:
        break;
    case NEWS_WORLD:
        p->joining = false;
        p->had_world = true;
        warn_of_loopback(p, &p->news.world);
        tell_cause(p);
        events->on_world(p->config.arg, &p->news.world);
        break;
    case NEWS_STOP:
        p->in_barrier = false;
        events->on_stop(p->config.arg, p->news.how, p->news.why);
        break;
    case NEWS_CLOSED:
        tell_cause(p);
        tell_closed(p, p->news.kind, p->news.why);
        break;
    case NEWS_LOOK:
        events->on_look(p->config.arg, p->news.look, p->news.native);
        break;
    case NEWS_KEEP:
        events->on_save(p->config.arg);
        break;
    case NEWS_FINDING:
        tell_finding(p, p->news.finding);
        break;
    case NEWS_STRAGGLER:
        events->on_straggler(p->config.arg, p->news.why, p->news.holds_up);
        break;
    }
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
        uv_timer_start(&p->tick, on_tick, next > now(p) ? (uint64_t)(next - now(p)) : 0, 0);
}

/* The same from the loop, where what it called for can be told. */
static void settle(struct dt_presence *p)
{
    arm(p);
    tell(p);
}

static void on_tick(uv_timer_t *t)
{
    struct dt_presence *p = dt_container_of(t, struct dt_presence, tick);
    dt_session_tick(&p->session, now(p));
    settle(p);
    if (!dt_presence_is_over(p) && now(p) >= end_of_away(p))
        end_away(p);
}

/* -- the connection --------------------------------------------------------------------------- */

/* Under "none" would wait the nodes of all people's jobs. The first time alone: in a job that runs
 * nothing changes its name. */
static void choose_name(struct dt_presence *p)
{
    const struct dt_plan *plan = p->config.plan;
    if (p->was_up || !plan->scheduled_id || !dt_control_is_shared(p->control))
        return;
    dt_info("no --rdzv-id is given: at the rendezvous at %s the job is run %s, after %s",
            p->config.endpoint, plan->scheduled_id, plan->scheduled_by);
    dt_session_name(&p->session, plan->scheduled_id);
}

static void tell_remarks(struct dt_presence *p)
{
    struct dt_message m = {.run = p->session.config.run,
                           .round = -1,
                           .incarnation = p->session.incarnation,
                           .remark.node = p->config.node.name};
    while (dt_control_takes_remarks(p->control) && dt_remarks_take(&p->remarks, &m))
        dt_control_say(p->control, &m);
}

static void on_up(void *arg, const char *host, const struct dt_addr *local)
{
    struct dt_presence *p = arg;
    struct dt_err err;
    p->hosted = strcmp(host, "agent") == 0;
    choose_name(p);
    if (p->parting.is)
        tell_remarks(p);
    if (part(p))
        return;
    if (p->was_up && !*p->refusal)
        dt_warn("the rendezvous at %s is there again", p->config.endpoint);
    p->was_up = true;
    uv_timer_stop(&p->notes);
    if (p->config.reached(p->config.owner, local, &err) < 0) {
        give_up(p, DT_CLOSE_REFUSED, &err);
        return;
    }
    dt_session_connected(&p->session, dt_control_looks(p->control), now(p));
    tell_remarks(p);
    settle(p);
}

static void on_down(void *arg, const struct dt_err *why)
{
    struct dt_presence *p = arg;
    if (part(p))
        return;
    dt_warn("the rendezvous at %s: %s; connecting again%s", p->config.endpoint, why->text,
            p->session.phase == DT_SESSION_RUNNING ? ", workers run on" : "");
    start_notes(p);
    dt_session_disconnected(&p->session, now(p));
    settle(p);
}

static void on_refused(void *arg, const struct dt_err *why)
{
    struct dt_presence *p = arg;
    if (part(p))
        return;
    tell_refusal(p, why->text);
    dt_session_disconnected(&p->session, now(p));
    settle(p);
}

static void on_frame(void *arg, const struct dt_message *m)
{
    struct dt_presence *p = arg;
    dt_session_frame(&p->session, m, now(p));
    if (*p->refusal && p->session.up) {
        *p->refusal = '\0';
        dt_warn("the rendezvous at %s takes this node again", p->config.endpoint);
    }
    settle(p);
}

static void on_foreign(void *arg)
{
    struct dt_presence *p = arg;
    struct dt_err err;
    if (part(p))
        return;
    if (p->config.foreign(p->config.owner, &err) < 0)
        give_up(p, DT_CLOSE_REFUSED, &err);
}

static void on_failed(void *arg, const struct dt_err *why)
{
    struct dt_presence *p = arg;
    const struct dt_err *no_host = p->config.no_host;
    struct dt_err err = *why, both;
    if (part(p))
        return;
    if (why->code != DT_E_PROTOCOL && p->config.ours)
        dt_err_set(&err, why->code,
                   "the rendezvous that this agent hosts was not reached at %s within %d s: %s; "
                   "does --rdzv-endpoint lead to this host, and to what --store-listen names?",
                   p->config.endpoint, dt_clock_seconds(now(p) - p->since), why->text);
    else if (why->code != DT_E_PROTOCOL)
        dt_err_set(&err, why->code,
                   "no rendezvous was found at %s within %d s: %s; is an agent of this job, or a "
                   "dtrun-rendezvous, running there?",
                   p->config.endpoint, dt_clock_seconds(now(p) - p->since), why->text);
    /* Who was answered knows who has the port: nobody is to be stopped for it. */
    if (no_host->code != DT_E_NONE && why->code != DT_E_PROTOCOL) {
        dt_err_set(&both, err.code, "%s; and %s", no_host->text, err.text);
        err = both;
    }
    give_up(p, DT_CLOSE_REFUSED, &err);
}

static const struct dt_control_events control_events = {
    .up = on_up,
    .down = on_down,
    .refused = on_refused,
    .frame = on_frame,
    .foreign = on_foreign,
    .failed = on_failed,
};

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
    p->wanted = now(p);
    dt_session_join(&p->session, now(p));
    arm(p);
}

void dt_presence_failed(struct dt_presence *p, const struct dt_result *result)
{
    if (dt_presence_is_over(p))
        return;
    dt_session_failed(&p->session, result, now(p));
    arm(p);
}

void dt_presence_found(struct dt_presence *p, const struct dt_result *result)
{
    if (dt_presence_is_over(p))
        return;
    dt_session_found(&p->session, result, now(p));
    arm(p);
}

void dt_presence_barrier(struct dt_presence *p)
{
    p->in_barrier = true;
    if (dt_presence_is_over(p))
        return;
    p->wanted = now(p);
    dt_session_succeeded(&p->session, now(p));
    arm(p);
}

void dt_presence_leave(struct dt_presence *p, const char *why)
{
    if (dt_presence_is_over(p))
        return;
    dt_session_leave(&p->session, why, now(p));
    arm(p);
}

void dt_presence_remark(struct dt_presence *p, bool failed, const char *words)
{
    dt_remarks_add(&p->remarks, failed, words);
    if (!dt_presence_is_over(p))
        tell_remarks(p);
}

void dt_presence_tell(struct dt_presence *p, const struct dt_beat *facts)
{
    dt_session_tell(&p->session, facts);
    if (!dt_presence_is_over(p))
        arm(p);
}

bool dt_presence_still(struct dt_presence *p, dt_ms still, bool sure)
{
    return !dt_presence_is_over(p) && dt_session_still(&p->session, still, sure, now(p));
}

void dt_presence_looked(struct dt_presence *p, int64_t look, const struct dt_stances *stances)
{
    if (!dt_presence_is_over(p))
        dt_session_looked(&p->session, look, stances, now(p));
}

void dt_presence_tailed(struct dt_presence *p, int64_t id, bool over, const char *page)
{
    if (!dt_presence_is_over(p))
        dt_session_tailed(&p->session, id, over, page, now(p));
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
        .ops = &session_ops,
        .arg = p,
    };
    struct dt_control_config control = DT_CONTROL_CONFIG_DEFAULT;
    dt_session_init(&p->session, &session);
    control.addr = p->config.endpoint;
    control.ours = p->config.ours;
    control.token = p->config.token;
    control.run_token = p->config.run_token;
    control.open_timeout = plan->read_timeout;
    control.events = &control_events;
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
    p->since = now(p);
    p->lease = DT_FOREVER;
    if (begin(p, err) < 0) {
        free(p);
        return NULL;
    }
    uv_timer_init(loop, &p->tick);
    uv_timer_init(loop, &p->notes);
    uv_timer_init(loop, &p->soon);
    start_notes(p);
    return p;
}
