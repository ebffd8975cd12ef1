/* SPDX-License-Identifier: Apache-2.0 */
/* The session may call for something while it hears of something else, so what it calls for is
 * kept, and told when the session is through. */
#include "agent/backend/elastic/inside.h"

#include "agent/backend/elastic/own_node.h"
#include "base/log.h"
#include "base/map.h"
#include "rendezvous/hang/finding.h"

#include <stdio.h>

/* -- what the session calls ------------------------------------------------------------------- */

static void on_send(void *arg, const struct dt_message *m)
{
    dt_control_say(((struct dt_presence *)arg)->control, m);
}

static void on_world(void *arg, int round, const struct dt_world_message *w)
{
    struct dt_presence *p = arg;
    struct dt_world *world = &p->news.world;
    p->news.what = DT_NEWS_WORLD;
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
    p->news.what = DT_NEWS_STOP;
    p->news.how = how;
    snprintf(p->news.why, sizeof p->news.why, "%s", why);
}

static void on_session_closed(void *arg, enum dt_close_kind kind, const char *why)
{
    struct dt_presence *p = arg;
    p->news.what = DT_NEWS_CLOSED;
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
    p->news.what = DT_NEWS_LOOK;
    p->news.look = id;
    p->news.native = native;
}

static void on_session_keep(void *arg)
{
    struct dt_presence *p = arg;
    p->news.what = DT_NEWS_KEEP;
}

static void on_session_finding(void *arg, const struct dt_finding_message *f)
{
    struct dt_presence *p = arg;
    p->news.what = DT_NEWS_FINDING;
    p->news.finding = f;
}

static void on_session_straggler(void *arg, const char *sentence, bool holds_up)
{
    struct dt_presence *p = arg;
    p->news.what = DT_NEWS_STRAGGLER;
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
    dt_presence_start_notes(p);
    dt_control_drop(p->control, why);
}

static void on_session_refused(void *arg, const char *why)
{
    struct dt_presence *p = arg;
    dt_presence_tell_refusal(p, why);
    dt_control_drop_refused(p->control, why);
}

static uint64_t on_random(void *arg)
{
    (void)arg;
    return dt_map_random_seed();
}

const struct dt_session_ops dt_presence_session_ops = {
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

void dt_presence_tell_news(struct dt_presence *p)
{
    const struct dt_backend_events *events = p->config.events;
    enum dt_news_kind what = p->news.what;
    tell_lease(p); /* before a world, whose workers begin with it */
    p->news.what = DT_NEWS_NONE;
    switch (what) {
    case DT_NEWS_NONE:
        break;
    case DT_NEWS_WORLD:
        p->joining = false;
        p->had_world = true;
        warn_of_loopback(p, &p->news.world);
        tell_cause(p);
        events->on_world(p->config.arg, &p->news.world);
        break;
    case DT_NEWS_STOP:
        p->in_barrier = false;
        events->on_stop(p->config.arg, p->news.how, p->news.why);
        break;
    case DT_NEWS_CLOSED:
        tell_cause(p);
        tell_closed(p, p->news.kind, p->news.why);
        break;
    case DT_NEWS_LOOK:
        events->on_look(p->config.arg, p->news.look, p->news.native);
        break;
    case DT_NEWS_KEEP:
        events->on_save(p->config.arg);
        break;
    case DT_NEWS_FINDING:
        tell_finding(p, p->news.finding);
        break;
    case DT_NEWS_STRAGGLER:
        events->on_straggler(p->config.arg, p->news.why, p->news.holds_up);
        break;
    }
}
