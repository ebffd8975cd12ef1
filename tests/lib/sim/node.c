/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sim/node.h"

#include "tests/lib/sim/node_parts.h"

#include <stdio.h>

#define DIAL_TIMEOUT (5 * DT_SECOND)
#define DIAL_BACKOFF_MAX (5 * DT_SECOND)

const char *sim_workers_name(enum sim_workers w)
{
    static const char *const names[] = {[SIM_NO_WORKERS] = "no workers",
                                        [SIM_STARTING] = "starting",
                                        [SIM_TRAINING] = "training",
                                        [SIM_ENDING] = "ending",
                                        [SIM_SUCCEEDED] = "succeeded"};
    return names[w];
}

bool sim_node_has_workers(const struct sim_node *n)
{
    return n->state == SIM_STARTING || n->state == SIM_TRAINING || n->state == SIM_ENDING;
}

bool sim_node_may_commit(const struct sim_node *n)
{
    bool ends = n->state == SIM_ENDING;
    if (!sim_node_has_workers(n) || (ends && !n->may_save))
        return false;
    return sim_planted(n->sim, ends ? SIM_PLANT_SAVES_ON : SIM_PLANT_LEASE_LASTS) ||
           dt_session_lease(&n->session) > sim_node_clock(n);
}

dt_ms sim_node_clock(const struct sim_node *n)
{
    return n->sim->now + n->skew;
}

/* -- events of a node: of this life of its agent, and not while that is stopped --------------- */

void sim_node_plan(struct sim_node *n, dt_ms wait, sim_node_fn *run, uint32_t what)
{
    sim_queue_put(&n->sim->queue, (struct sim_event){.at = n->sim->now + wait,
                                                     .run = run,
                                                     .who = n->index,
                                                     .life = n->life,
                                                     .what = (int)what});
}

/* NULL: not now, or not any more. */
struct sim_node *sim_node_of(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = &s->nodes[ev->who];
    if (!n->agent_up || ev->life != n->life)
        return NULL;
    if (n->paused_until <= s->now)
        return n;
    sim_queue_put_off(&s->queue, ev, n->paused_until);
    return NULL;
}

/* NULL also where other workers were meant. */
static struct sim_node *node_of_crew(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = sim_node_of(s, ev);
    return n && n->crew == (uint32_t)ev->what ? n : NULL;
}

static void on_tick(struct sim *s, struct sim_event *ev);

/* After whatever was done with the session. */
void sim_node_settle(struct sim_node *n)
{
    dt_ms next = dt_session_next(&n->session);
    if (!n->agent_up || next == DT_FOREVER)
        return;
    next -= n->skew;
    if (next < n->sim->now)
        next = n->sim->now;
    if (next >= n->tick_at)
        return;
    n->tick_at = next;
    sim_node_plan(n, next - n->sim->now, on_tick, 0);
}

static void on_tick(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = sim_node_of(s, ev);
    if (!n || n->tick_at > s->now)
        return;
    n->tick_at = DT_FOREVER;
    bool alive = n->state == SIM_STARTING || n->state == SIM_TRAINING;
    dt_session_tell(&n->session,
                    &(struct dt_beat){.step = sim_step(s), .running = alive ? n->workers : 0});
    dt_session_tick(&n->session, sim_node_clock(n));
    sim_node_settle(n);
}

/* -- the connection --------------------------------------------------------------------------- */

static void on_dial(struct sim *s, struct sim_event *ev);

static void dial_later(struct sim_node *n)
{
    struct sim *s = n->sim;
    dt_ms most = 100 << (n->dials < 6 ? n->dials : 6), least = n->dials ? 20 : 0;
    if (n->dials == 0)
        most = 1; /* at once */
    n->dials++;
    n->conn = SIM_NO_CONN;
    n->greeted = false;
    sim_node_plan(n,
                  sim_between(&s->random, least, most < DIAL_BACKOFF_MAX ? most : DIAL_BACKOFF_MAX),
                  on_dial, 0);
}

static void on_dial_timeout(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = sim_node_of(s, ev);
    if (!n || n->conn != (uint32_t)ev->what || n->greeted)
        return;
    sim_net_close(s, n->conn, SIM_UP);
    dial_later(n);
}

static void on_dial(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = sim_node_of(s, ev);
    if (!n || n->conn != SIM_NO_CONN)
        return;
    n->conn = sim_net_dial(s, n->index);
    sim_node_plan(n, DIAL_TIMEOUT, on_dial_timeout, n->conn);
}

static void lose_connection(struct sim_node *n)
{
    const struct sim *s = n->sim;
    sim_say(n->sim, n->name, "has no connection any more");
    if (s->server.cut_until < s->now)
        n->ill_until = DT_FOREVER;
    if (n->greeted)
        dt_session_disconnected(&n->session, sim_node_clock(n));
    dial_later(n);
}

static void greet(struct sim_node *n)
{
    struct sim *s = n->sim;
    n->greeted = true;
    n->dials = 0;
    if (n->ill_until == DT_FOREVER)
        n->ill_until = s->now;
    for (int way = 0; way < 2; way++)
        if (n->blocked_until[way] > n->ill_until)
            n->ill_until = n->blocked_until[way];
    sim_say(s, n->name, "is connected");
    dt_session_connected(&n->session, true, sim_node_clock(n));
}

void sim_node_receive(struct sim *s, struct sim_node *n, uint32_t conn, enum sim_parcel what,
                      const struct sim_letter *letter)
{
    if (conn != n->conn)
        return;
    switch (what) {
    case SIM_HELLO:
        greet(n);
        break;
    case SIM_FIN:
    case SIM_RESET:
        sim_net_conn(s, conn)->open[SIM_UP] = false;
        lose_connection(n);
        break;
    case SIM_LETTER:
        sim_say_message(s, n->name, "hears", &letter->m);
        dt_session_frame(&n->session, &letter->m, sim_node_clock(n));
        break;
    }
    sim_node_settle(n);
}

/* -- what the session asks for ---------------------------------------------------------------- */

static void send_message(void *arg, const struct dt_message *m)
{
    struct sim_node *n = arg;
    sim_say_message(n->sim, n->name, "says", m);
    struct sim_letter *l = sim_make_letter(n->sim, m);
    if (l)
        sim_net_send(n->sim, n->conn, SIM_UP, SIM_LETTER, l);
}

static void on_workers_done(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = node_of_crew(s, ev);
    if (!n || n->state != SIM_TRAINING)
        return;
    n->state = SIM_SUCCEEDED;
    n->succeeded_round = n->round;
    sim_say(s, n->name, "its workers of round %d have succeeded", n->round);
    dt_session_succeeded(&n->session, sim_node_clock(n));
    sim_node_settle(n);
}

static void on_workers_started(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = node_of_crew(s, ev);
    if (!n || n->state != SIM_STARTING)
        return;
    n->state = SIM_TRAINING;
    dt_ms end = s->now + s->story.work;
    if (end < s->story.finish)
        end = s->story.finish;
    sim_node_plan(n, end - s->now + sim_between(&s->random, 0, 500), on_workers_done, n->crew);
}

static void start_workers(void *arg, int round, const struct dt_world_message *w)
{
    struct sim_node *n = arg;
    struct sim *s = n->sim;
    sim_judge_told(s, n, round, w);
    n->state = SIM_STARTING;
    n->may_save = false;
    n->round = round;
    n->crew++;
    sim_node_plan(n, sim_between(&s->random, 10, 10 + s->story.start_time), on_workers_started,
                  n->crew);
}

static void end_agent(struct sim_node *n)
{
    n->agent_up = false;
    n->ended = true;
    n->ill_until = DT_FOREVER;
    sim_say(n->sim, n->name, "its agent has ended");
    if (n->conn != SIM_NO_CONN)
        sim_net_close(n->sim, n->conn, SIM_UP);
    n->conn = SIM_NO_CONN;
}

/* What its workers printed last has been read: some failed of themselves, too, and earlier. */
static void find_out(struct sim_node *n)
{
    struct dt_result found = {.rank = n->session.claim.first_rank,
                              .exit_code = 1,
                              .signature = "",
                              .text = "rank 0 (local rank 0) exited with status 1",
                              .weak = n->crew % 4 == 3,
                              .age = DT_SECOND * (dt_ms)(n->crew % 5),
                              .cause = "rank 0 raised an exception"};
    dt_session_found(&n->session, &found, sim_node_clock(n));
}

static void on_workers_gone(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = node_of_crew(s, ev);
    if (!n)
        return;
    n->state = SIM_NO_WORKERS;
    if (n->closed || n->leaving) {
        dt_session_end(&n->session, sim_node_clock(n));
        end_agent(n);
        return;
    }
    sim_say(s, n->name, "its workers are gone");
    if (n->crew % 2)
        find_out(n);
    dt_session_join(&n->session, sim_node_clock(n));
    sim_node_settle(n);
}

/* Workers end within the stop bound, counted from when it is decided; those who need not save,
 * sooner. */
void sim_node_end_workers(struct sim_node *n, bool kill)
{
    struct sim *s = n->sim;
    dt_ms way = 2 * (s->net.delay_max + s->server.disk_worst);
    dt_ms most = sim_node_has_workers(n) ? s->story.spec.stop_bound - way : 0;
    if (kill && most > 200)
        most = 200;
    if (most < 0)
        most = 0;
    if (sim_node_has_workers(n))
        n->state = SIM_ENDING;
    n->crew++;
    sim_node_plan(n, sim_between(&s->random, 0, most), on_workers_gone, n->crew);
}

/* Planted: it says that they are gone while they are not. */
static void on_join_early(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = sim_node_of(s, ev);
    if (!n)
        return;
    dt_session_join(&n->session, sim_node_clock(n));
    sim_node_settle(n);
}

static void stop_workers(void *arg, enum dt_stop_how how, const char *why)
{
    static const char *const words[] = {"stops, together with the others,", "stops", "kills"};
    struct sim_node *n = arg;
    sim_say(n->sim, n->name, "%s its workers: %s", words[how], why);
    n->may_save =
        how == DT_STOP_TOGETHER || (sim_planted(n->sim, SIM_PLANT_SAVES_ON) && n->may_save);
    if (n->state == SIM_ENDING && how != DT_STOP_KILL)
        return; /* they are being stopped, and may only do less */
    sim_node_end_workers(n, how == DT_STOP_KILL);
    if (sim_planted(n->sim, SIM_PLANT_JOIN_EARLY) && n->state == SIM_ENDING)
        sim_node_plan(n, 0, on_join_early, 0);
}

static void hear_closed(void *arg, enum dt_close_kind kind, const char *why)
{
    struct sim_node *n = arg;
    sim_say(n->sim, n->name, "hears that the job is over (%s): %s", dt_close_kind_name(kind), why);
    n->closed = true;
    n->closed_as = kind;
    sim_judge_closed(n->sim, n);
    if (n->state != SIM_ENDING)
        sim_node_end_workers(n, false);
}

static void hear_note(void *arg, const char *text)
{
    struct sim_node *n = arg;
    sim_say(n->sim, n->name, "is told: %s", text);
}

static void on_drop(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = sim_node_of(s, ev);
    if (!n || n->conn != (uint32_t)ev->what)
        return;
    sim_net_close(s, n->conn, SIM_UP);
    lose_connection(n);
    sim_node_settle(n);
}

static void hear_straggler(void *arg, const char *sentence, bool holds_up)
{
    struct sim_node *n = arg;
    sim_say(n->sim, n->name, "hears, of %s: %s", holds_up ? "now" : "the past", sentence);
}

static void disconnect(void *arg, const char *why)
{
    struct sim_node *n = arg;
    sim_say(n->sim, n->name, "gives its connection up: %s", why);
    sim_node_plan(n, 0, on_drop, n->conn);
}

/* Whose it is can be read off it. */
static uint64_t new_incarnation(void *arg)
{
    struct sim_node *n = arg;
    return (dt_chance(&n->sim->random) << SIM_NODE_BITS) | n->index;
}

static const struct dt_session_ops session_ops = {
    .send = send_message,
    .world = start_workers,
    .stop = stop_workers,
    .closed = hear_closed,
    .note = hear_note,
    .look = sim_node_look,
    .finding = sim_node_find,
    .straggler = hear_straggler,
    .disconnect = disconnect,
    .refused = disconnect,
    .random = new_incarnation,
};

/* -- a life ----------------------------------------------------------------------------------- */

void sim_node_init(struct sim *s, uint32_t index)
{
    struct sim_node *n = &s->nodes[index];
    *n = (struct sim_node){.sim = s,
                           .index = index,
                           .order = -1,
                           .world_round = -1,
                           .succeeded_round = -1,
                           .still_round = -1,
                           .host_up = true,
                           .boots = 1,
                           .conn = SIM_NO_CONN,
                           .ill_until = DT_FOREVER,
                           .tick_at = DT_FOREVER,
                           .skew = sim_between(&s->random, 1000, 100000000)};
    snprintf(n->name, sizeof n->name, "node%02u", index);
    snprintf(n->host, sizeof n->host, "%s", n->name);
    snprintf(n->addr, sizeof n->addr, "10.0.%u.%u", index / 250, index % 250 + 1);
}

void sim_node_start(struct sim *s, struct sim_node *n)
{
    if (n->agent_up || !n->host_up)
        return;
    n->life++;
    n->crew++;
    n->agent_up = true;
    n->leaving = n->closed = n->ended = n->greeted = n->may_save = false;
    n->left = SIM_NO_CONN;
    n->conn = SIM_NO_CONN;
    n->state = SIM_NO_WORKERS;
    n->tick_at = DT_FOREVER;
    n->dials = 0;
    snprintf(n->boot, sizeof n->boot, "%s-%u", n->host, n->boots);
    struct dt_session_config config = {
        .run = s->story.run,
        .join = {.spec = sim_plant_in_spec(s),
                 .node = {.name = n->host,
                          .boot = n->boot,
                          .domain = n->domain,
                          .addr = n->addr,
                          .port = 29500,
                          .role = n->role,
                          .workers = n->workers,
                          .order = n->order,
                          .looks = sim_node_looks(n)}},
        .stop_when_away = n->stop_when_away,
        .ops = &session_ops,
        .arg = n,
    };
    sim_say(s, n->name, "its agent starts");
    dt_session_init(&n->session, &config);
    dt_session_join(&n->session, sim_node_clock(n));
    sim_node_plan(n, sim_between(&s->random, 0, 20), on_dial, 0);
    sim_node_settle(n);
    sim_disturb(s, s->now);
}
