/* SPDX-License-Identifier: Apache-2.0 */
/* Who is in the run, and should be: nobody is thrown out without a reason, and a round begins with
 * those, and only those, who may be in it. */
#include "tests/lib/sim/judge_parts.h"

/* Whether N, that was a member as that, may be none any more: it goes, is another by now, or was
 * ill; while workers are to end, perhaps so that it heard late of it, also for a cut of the
 * server's own network. */
static bool may_be_gone(const struct sim *s, const struct sim_node *n, uint64_t as)
{
    bool gathers = s->judge.before.state == DT_RUN_GATHERING;
    dt_ms ill = n->ill_until > s->server.ill_until ? n->ill_until : s->server.ill_until;
    if (gathers && s->server.cut_until > ill)
        ill = s->server.cut_until;
    return n->leaving || n->closed || n->session.incarnation != as || ill == DT_FOREVER ||
           ill + sim_judge_aftermath(s) + (gathers ? s->story.spec.stop_bound : 0) > s->now;
}

/* Marks the seats of the present round whose holders are no members. */
void sim_judge_note_holes(struct sim_world *w, const struct dt_rdzv *r)
{
    for (int i = 0; i < w->seats_len; i++)
        if (!r || !dt_members_find(&r->members, w->seats[i].holder))
            w->lost = w->seats[i].gone = true;
}

/* Whether N is lost for a cut of the server's own network because nobody could tell: no other node
 * is on another host, and those on the server's own can go on. */
static bool is_lost_alone(const struct sim *s, const struct sim_node *n)
{
    const struct dt_members *ms = &s->server.run->members;
    return !n->local && s->server.cut_until + sim_judge_aftermath(s) > s->now && ms->remote == 0 &&
           ms->connected >= (size_t)s->story.spec.min_nodes;
}

/* Whether an agent that has just come is taken for N, started anew: it is of the same host, and N
 * has no connection because of a cut of the server's own network. */
static bool is_succeeded(struct sim *s, const struct sim_node *n, const struct dt_rdzv_event *event)
{
    if (event->type != DT_EV_FRAME || event->frame->type != DT_MSG_JOIN)
        return false;
    return s->server.cut_until + sim_judge_aftermath(s) > s->now &&
           strcmp(event->frame->join.node.name, n->host) == 0;
}

/* Looks for members that are none any more. */
static void note_gone(struct sim *s, const struct dt_rdzv_event *event)
{
    struct sim_judge *j = &s->judge;
    const struct dt_members *ms = &s->server.run->members;
    bool next_job = j->before.state == DT_RUN_CLOSED && s->server.run->state != DT_RUN_CLOSED;
    for (uint32_t i = 0; i < s->nodes_len; i++) {
        struct sim_node *n = &s->nodes[i];
        uint64_t was = n->member;
        if (!was || dt_members_find(ms, was))
            continue;
        n->member = 0;
        if (!next_job && !may_be_gone(s, n, was) && !is_lost_alone(s, n) &&
            !is_succeeded(s, n, event))
            sim_judge_fail(s, SIM_RULE_HEALTHY, "%s is well, and no member any more", n->name);
    }
    if (sim_judge_knows_round(s, j->now.round))
        sim_judge_note_holes(&j->now, s->server.run);
}

void sim_judge_follow_members(struct sim *s, const struct dt_rdzv_event *event)
{
    const struct sim_judge *j = &s->judge;
    const struct dt_members *ms = &s->server.run->members;
    int64_t there = (int64_t)j->before.members + ms->comings - j->before.comings;
    if ((int64_t)ms->count < there)
        note_gone(s, event);
    if (event->type != DT_EV_FRAME || event->frame->type != DT_MSG_JOIN)
        return;
    struct sim_node *n = sim_node_by_incarnation(s, event->frame->incarnation);
    if (!n || n->member == event->frame->incarnation ||
        !dt_members_find(ms, event->frame->incarnation))
        return;
    n->member = event->frame->incarnation;
    n->member_since = s->now;
}

static bool is_past(const struct sim *s, dt_ms illness)
{
    return illness != DT_FOREVER && illness + sim_judge_aftermath(s) <= s->now;
}

bool sim_judge_is_well(const struct sim *s, const struct sim_node *n)
{
    return is_past(s, n->ill_until) && is_past(s, s->server.ill_until);
}

/* N is leaving, the server could hear of it, and nothing was in the way since. */
static bool leaves_well(struct sim *s, const struct sim_node *n)
{
    const struct sim_conn *c = n->leaving ? sim_net_conn(s, n->left) : NULL;
    return c && n->left == n->conn && c->open[SIM_UP] && c->open[SIM_DOWN] && !c->dead &&
           n->paused_until <= n->left_at && n->blocked_until[SIM_UP] <= n->left_at &&
           n->blocked_until[SIM_DOWN] <= n->left_at && s->server.ill_until <= n->left_at;
}

/* A round begins: nobody who could know it has workers of an older one that matter. */
static void check_leaving(struct sim *s, const struct sim_node *n)
{
    const struct dt_rdzv *r = s->server.run;
    if (leaves_well(s, n))
        sim_judge_fail(s, SIM_RULE_LEAVE, "round %d begins, and %s leaves with workers of round %d",
                       r->round, n->name, n->round);
}

/* What a lease does not know of: that only the server takes the connection for closed, that its
 * clock leapt, that it forgot all and learns of a round from those who run it, that it takes one of
 * two agents of a host for the other anew, and the next job of that name. */
static bool is_beyond_lease(struct sim *s, const struct sim_node *n)
{
    const struct sim_conn *c = sim_net_conn(s, n->conn);
    bool half_open = c && c->open[SIM_UP] && !c->open[SIM_DOWN];
    bool leapt = s->server.leapt && !is_past(s, s->server.leapt);
    bool learnt = dt_rdzv_recovery(s->server.run)->until != 0;
    return half_open || leapt || learnt || s->story.shares_hosts ||
           n->world_memory != s->server.memory || s->judge.before.state == DT_RUN_CLOSED;
}

/* A round begins: nobody may commit an older one, whether its agent could hear of that or not. */
static void check_commit(struct sim *s, const struct sim_node *n)
{
    const struct dt_rdzv *r = s->server.run;
    if (sim_node_may_commit(n) && !is_beyond_lease(s, n))
        sim_judge_fail(s, SIM_RULE_COMMIT, "round %d begins, and %s may still save round %d",
                       r->round, n->name, n->round);
}

/* A round begins: no member has workers of another. */
void sim_judge_check_overlap(struct sim *s)
{
    const struct dt_rdzv *r = s->server.run;
    for (uint32_t i = 0; i < s->nodes_len; i++) {
        const struct sim_node *n = &s->nodes[i];
        if (sim_node_has_workers(n) && n->round != r->round &&
            dt_members_find(&r->members, n->session.incarnation))
            sim_judge_fail(s, SIM_RULE_OVERLAP,
                           "round %d begins while %s is a member and has workers of round %d (%s)",
                           r->round, n->name, n->round, sim_workers_name(n->state));
        if (n->state == SIM_ENDING && n->round < r->round)
            check_leaving(s, n);
        if (n->round < r->round)
            check_commit(s, n);
    }
}

/* Who should be kept out is in only where there are too few others. */
void sim_judge_check_quarantine(struct sim *s)
{
    const struct dt_rdzv *r = s->server.run;
    const struct dt_exclude *x = &s->server.exclude;
    const char *sick = NULL;
    for (size_t i = 0; x->nodes.count > 0 && i < r->seats_len; i++) {
        const struct sim_node *n = sim_node_by_incarnation(s, r->seats[i].holder);
        if (n && dt_exclude_is_out(x, n->host, r->now, NULL))
            sick = n->name;
    }
    if (!sick)
        return;
    bool better = r->seats_len > (size_t)s->story.spec.min_nodes;
    dt_list_each(&r->members.all, at)
    {
        const struct dt_member *m = dt_container_of(at, struct dt_member, in_all);
        better = better || (m->doing == DT_MEMBER_WAITING && m->link == DT_LINK_ONLINE &&
                            !dt_exclude_is_out(x, m->said_name, r->now, NULL));
    }
    if (better)
        sim_judge_fail(s, SIM_RULE_QUARANTINE, "%s should be kept out, and is in round %d of %zu",
                       sick, r->round, r->seats_len);
}
