/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sim/plant.h"

#include "tests/lib/sim/sim.h"

const struct sim_plant_row sim_plants[SIM_PLANTS] = {
    [SIM_PLANT_NONE] = {"none", SIM_RULES},
    [SIM_PLANT_SEAT_TWICE] = {"seat-twice", SIM_RULE_SEAT},
    [SIM_PLANT_RANK_GAP] = {"rank-gap", SIM_RULE_RANKS},
    [SIM_PLANT_ONE_TOO_FEW] = {"one-too-few", SIM_RULE_SIZE},
    [SIM_PLANT_JOIN_EARLY] = {"join-early", SIM_RULE_OVERLAP},
    [SIM_PLANT_LEASE_LASTS] = {"lease-lasts", SIM_RULE_COMMIT},
    [SIM_PLANT_SEATS_MOVE] = {"seats-move", SIM_RULE_SURVIVORS},
    [SIM_PLANT_FREE_RESTARTS] = {"free-restarts", SIM_RULE_BUDGET},
    [SIM_PLANT_FREE_LOSSES] = {"free-losses", SIM_RULE_BUDGET},
    [SIM_PLANT_CHARGED_TWICE] = {"charged-twice", SIM_RULE_BUDGET},
    [SIM_PLANT_RESTARTS_DIFFER] = {"restarts-differ", SIM_RULE_RESTARTS},
    [SIM_PLANT_STRICT_QUARANTINE] = {"strict-quarantine", SIM_RULE_QUARANTINE},
    [SIM_PLANT_DEAF] = {"deaf", SIM_RULE_LIVE},
    [SIM_PLANT_OLD_IS_NEW] = {"old-is-new", SIM_RULE_STALE},
    [SIM_PLANT_SPARE_DISTURBS] = {"spare-disturbs", SIM_RULE_CALM},
    [SIM_PLANT_IMPATIENT] = {"impatient", SIM_RULE_HEALTHY},
    [SIM_PLANT_CLOSE_UNTOLD] = {"close-untold", SIM_RULE_CLOSED},
    [SIM_PLANT_SUCCESS_EARLY] = {"success-early", SIM_RULE_SUCCESS},
    [SIM_PLANT_SENDS_EARLY] = {"sends-early", SIM_RULE_SIZE},
    [SIM_PLANT_LEAVES_AT_ONCE] = {"leaves-at-once", SIM_RULE_LEAVE},
    [SIM_PLANT_SAVES_ON] = {"saves-on", SIM_RULE_COMMIT},
    [SIM_PLANT_HEAD_VOTES] = {"head-votes", SIM_RULE_HEALTHY},
    [SIM_PLANT_DEAF_TO_MOVES] = {"deaf-to-moves", SIM_RULE_HANG},
    [SIM_PLANT_TELLS_AGAIN] = {"tells-again", SIM_RULE_HANG},
};

/* Tells who has seat 0 what belongs to seat 1, and the other way round. */
static void swap_seats(const struct dt_rdzv *r, struct dt_world_message *w)
{
    if (r->seats_len < 2 || r->round % 2 == 0 || w->seat > 1)
        return;
    const struct dt_member *other = dt_members_find(&r->members, r->seats[1 - w->seat].holder);
    if (!other)
        return;
    w->seat = other->seat;
    w->first_rank = other->first_rank;
    w->first_role_rank = other->first_role_rank;
    w->role_size = other->role_size;
}

static void plant_in_world(const struct sim *s, struct dt_world_message *w)
{
    if (sim_planted(s, SIM_PLANT_SEAT_TWICE) && w->seat == 1)
        w->seat = 0;
    if (sim_planted(s, SIM_PLANT_RANK_GAP) && w->seat == 1)
        w->first_rank++;
    if (sim_planted(s, SIM_PLANT_RESTARTS_DIFFER) && w->seat == 1 && w->restarts > 0)
        w->restarts--;
    if (sim_planted(s, SIM_PLANT_SEATS_MOVE))
        swap_seats(s->server.run, w);
}

bool sim_plant_in_message(struct sim *s, struct dt_message *m)
{
    if (m->type == DT_MSG_WORLD)
        plant_in_world(s, &m->world);
    return m->type != DT_MSG_CLOSE || !sim_planted(s, SIM_PLANT_CLOSE_UNTOLD) ||
           sim_node_by_incarnation(s, m->incarnation)->index != 0;
}

bool sim_plant_in_frame(struct sim *s, const struct dt_message *m)
{
    const struct sim_server *v = &s->server;
    if (m->type == DT_MSG_STILL && m->still.still == 0)
        return !sim_planted(s, SIM_PLANT_DEAF_TO_MOVES);
    if (m->type != DT_MSG_JOIN)
        return true;
    if (sim_planted(s, SIM_PLANT_DEAF))
        return !v->run->had_world;
    return !sim_planted(s, SIM_PLANT_STRICT_QUARANTINE) ||
           !dt_exclude_is_out(&v->exclude, m->join.node.name, sim_server_clock(s), NULL);
}

static void leave_at_once(struct dt_rdzv_event *event, struct dt_message *room)
{
    if (event->type != DT_EV_FRAME || event->frame->type != DT_MSG_LEAVE)
        return;
    *room = *event->frame;
    room->leave.stopping = false;
    event->frame = room;
}

void sim_plant_in_event(struct sim *s, struct dt_rdzv_event *event, struct dt_message *room)
{
    const struct dt_rdzv *r = s->server.run;
    if (sim_planted(s, SIM_PLANT_LEAVES_AT_ONCE))
        leave_at_once(event, room);
    if (sim_planted(s, SIM_PLANT_HEAD_VOTES))
        event->local = false;
    if (!sim_planted(s, SIM_PLANT_SPARE_DISTURBS) || event->type != DT_EV_LOST ||
        r->state != DT_RUN_RUNNING || !r->seats[0].holder)
        return;
    const struct dt_member *m = dt_members_find(&r->members, event->from);
    if (!m || m->doing != DT_MEMBER_WAITING)
        return;
    *room = (struct dt_message){.type = DT_MSG_RESULT,
                                .run = s->story.run,
                                .round = r->round,
                                .incarnation = r->seats[0].holder,
                                .result = {.signature = "", .text = "it misses its spare"}};
    *event = (struct dt_rdzv_event){.type = DT_EV_FRAME, .frame = room};
}

/* Of the first that is, and is not SENDER. */
static struct dt_member *find_running(const struct dt_rdzv *r, uint64_t sender)
{
    dt_list_each(&r->members.all, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (m->doing == DT_MEMBER_RUNNING && m->connected && m->id != sender)
            return m;
    }
    return NULL;
}

static void succeed_early(struct dt_rdzv *r, const struct dt_rdzv_event *event)
{
    if (event->type != DT_EV_FRAME || event->frame->type != DT_MSG_RESULT ||
        !event->frame->result.succeeded || r->state != DT_RUN_RUNNING)
        return;
    struct dt_member *m = find_running(r, event->frame->incarnation);
    if (!m)
        return;
    dt_members_set_doing(&r->members, m, DT_MEMBER_DONE);
    r->seats[m->seat].done = true;
}

static void forget_finding(struct dt_rdzv *r)
{
    r->running.standstill.state = DT_STANDSTILL_NONE;
    dt_list_each(&r->members.all, n) dt_container_of(n, struct dt_member, in_all)->told_finding =
        false;
}

void sim_plant_in_run(struct sim *s, const struct dt_rdzv_event *event)
{
    struct dt_rdzv *r = s->server.run;
    if (sim_planted(s, SIM_PLANT_FREE_RESTARTS))
        r->budget.restarts = r->budget.spent = 0;
    if (sim_planted(s, SIM_PLANT_CHARGED_TWICE))
        r->budget.spent = 2 * r->budget.restarts;
    if (sim_planted(s, SIM_PLANT_FREE_LOSSES))
        r->budget.losses = 0;
    if (sim_planted(s, SIM_PLANT_SUCCESS_EARLY))
        succeed_early(r, event);
    if (sim_planted(s, SIM_PLANT_TELLS_AGAIN) && event->type == DT_EV_TICK)
        forget_finding(r);
    if (sim_planted(s, SIM_PLANT_IMPATIENT) && sim_below(&s->random, 100) == 0) {
        struct dt_member *m = find_running(r, 0);
        if (m)
            dt_members_lost(&r->members, m, r->now);
    }
}

void sim_plant_in_story(struct sim *s)
{
    if (sim_planted(s, SIM_PLANT_SENDS_EARLY))
        s->server.disk_max = 10 * DT_SECOND; /* so that crashes come between */
}

struct dt_run_spec sim_plant_in_spec(const struct sim *s)
{
    struct dt_run_spec spec = s->story.spec;
    if (sim_planted(s, SIM_PLANT_ONE_TOO_FEW) && spec.min_nodes > 1)
        spec.min_nodes--;
    return spec;
}
