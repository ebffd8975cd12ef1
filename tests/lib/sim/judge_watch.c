/* SPDX-License-Identifier: Apache-2.0 */
/* What takes time to be wrong, looked at once a second: that nothing happens. */
#include "tests/lib/sim/judge_parts.h"

#define ROUNDS_IN_CALM 6

static bool is_up(const struct sim *s, const struct sim_node *n)
{
    return n->agent_up && !n->leaving && n->paused_until <= s->now &&
           n->blocked_until[SIM_UP] <= s->now && n->blocked_until[SIM_DOWN] <= s->now;
}

/* How many could make a world; *SICK: of these, with something held against them. */
static int count_able(const struct sim *s, int *sick)
{
    int able = 0;
    *sick = 0;
    for (uint32_t i = 0; i < s->nodes_len; i++) {
        const struct sim_node *n = &s->nodes[i];
        if (!is_up(s, n) || dt_exclude_is_drained(&s->server.exclude, n->host))
            continue;
        able++;
        *sick += dt_exclude_is_out(&s->server.exclude, n->host, sim_server_clock(s), NULL);
    }
    return able;
}

static bool is_running(struct sim *s)
{
    const struct dt_rdzv *r = s->server.run;
    if (!r || r->state != DT_RUN_RUNNING)
        return false;
    for (size_t i = 0; i < r->seats_len; i++) {
        const struct sim_node *n = sim_node_by_incarnation(s, r->seats[i].holder);
        if (n && (n->round != r->round || n->state == SIM_NO_WORKERS || n->state == SIM_ENDING))
            return false;
    }
    return true;
}

/* Workers of a round that is long over, on a node that could know it. */
static void check_leftovers(struct sim *s)
{
    const struct sim_world *w = &s->judge.now;
    dt_ms enough = sim_judge_aftermath(s) + s->story.spec.stop_bound;
    if (!w->there || w->memory != s->server.memory || s->now < w->began + enough ||
        s->now < s->server.ill_until + enough || s->server.ill_until == DT_FOREVER)
        return;
    for (uint32_t i = 0; i < s->nodes_len; i++) {
        const struct sim_node *n = &s->nodes[i];
        if (sim_node_has_workers(n) && n->round < w->round && n->ill_until != DT_FOREVER &&
            n->ill_until + enough < s->now)
            sim_judge_fail(s, SIM_RULE_OVERLAP,
                           "%s runs workers of round %d, long after round %d began", n->name,
                           n->round, w->round);
    }
}

static void check_closed(struct sim *s)
{
    struct sim_judge *j = &s->judge;
    const struct dt_rdzv *r = s->server.run;
    if (!r || r->state != DT_RUN_CLOSED) {
        j->closed = 0;
        return;
    }
    j->well = s->now;
    if (!j->closed)
        j->closed = s->now;
    dt_ms since = j->closed > s->calm_from ? j->closed : s->calm_from;
    if (s->now < since + sim_judge_aftermath(s) + s->story.spec.stop_bound)
        return;
    for (uint32_t i = 0; i < s->nodes_len; i++)
        if (is_up(s, &s->nodes[i]))
            sim_judge_fail(s, SIM_RULE_CLOSED, "%s has not ended, and the job is long over (%s)",
                           s->nodes[i].name, r->closed.why);
}

static void check_liveness(struct sim *s)
{
    struct sim_judge *j = &s->judge;
    int sick, able = count_able(s, &sick), min = s->story.spec.min_nodes;
    dt_ms since = j->well > s->calm_from ? j->well : s->calm_from;
    if (able < min)
        j->too_few = s->now;
    if (able == 0 || is_running(s))
        j->well = since = s->now;
    dt_ms bound = sim_judge_live_bound(s) + (able < min ? s->story.spec.join_timeout : 0);
    if (s->now <= since + bound)
        return;
    sim_judge_fail(s, able >= min && able - sick < min ? SIM_RULE_QUARANTINE : SIM_RULE_LIVE,
                   "%d nodes are able (%d of them should be kept out), MIN is %d, and for %.1f s "
                   "no round has run",
                   able, sick, min, (double)(s->now - since) / DT_SECOND);
}

void sim_judge_watch(struct sim *s)
{
    if (!s->server.up || s->server.paused_until > s->now)
        return;
    check_closed(s);
    check_liveness(s);
    check_leftovers(s);
    if (s->judge.rounds_in_calm > ROUNDS_IN_CALM)
        sim_judge_fail(s, SIM_RULE_LIVE, "%d rounds began since anything was done to anybody",
                       s->judge.rounds_in_calm);
}

void sim_judge_end(struct sim *s)
{
    for (uint32_t i = 0; i < s->nodes_len; i++)
        if (s->nodes[i].agent_up)
            sim_judge_fail(s, SIM_RULE_CLOSED, "%s has not ended when the story has (%s, %s)",
                           s->nodes[i].name, dt_session_phase_name(s->nodes[i].session.phase),
                           sim_workers_name(s->nodes[i].state));
}
