/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that stand still: what the server may say of it. */
#include "tests/lib/sim/judge_parts.h"

void sim_judge_forget_hang(struct sim *s)
{
    s->judge.hang++;
    for (uint32_t i = 0; i < s->nodes_len; i++)
        s->nodes[i].still_round = -1;
}

/* Before anything is made of it, planted bugs among that. */
void sim_judge_heard(struct sim *s, const struct dt_message *m)
{
    struct sim_node *n = sim_node_by_incarnation(s, m->incarnation);
    if (m->type != DT_MSG_STILL || !n || m->round != s->server.run->round)
        return;
    n->still_round = m->still.still > 0 ? m->round : -1;
    s->judge.hang += n->still_round < 0;
}

/* Nodes whose workers train in that round, and of whom the server has not heard that they stand
 * still. */
static void check_all_still(struct sim *s)
{
    const struct dt_rdzv *r = s->server.run;
    for (size_t i = 0; i < r->seats_len; i++) {
        const struct sim_node *n = sim_node_by_incarnation(s, r->seats[i].holder);
        bool works = n && (n->state == SIM_STARTING || n->state == SIM_TRAINING);
        if (works && n->round == r->round && n->still_round != r->round)
            sim_judge_fail(s, SIM_RULE_HANG, "it is said why round %d stands still, and %s moves",
                           r->round, n->name);
    }
}

static void check_once(struct sim *s, uint64_t to)
{
    struct sim_node *n = sim_node_by_incarnation(s, to);
    if (!n)
        return;
    if (n->told == s->judge.hang + 1)
        sim_judge_fail(s, SIM_RULE_HANG, "%s is told twice why round %d stands still", n->name,
                       s->server.run->round);
    n->told = s->judge.hang + 1;
}

void sim_judge_check_hang(struct sim *s)
{
    struct sim_judge *j = &s->judge;
    const struct dt_rdzv *r = s->server.run;
    const struct dt_rdzv_actions *a = &s->server.actions;
    if (j->hang_round != r->round || r->state != DT_RUN_RUNNING)
        j->hang++;
    j->hang_round = r->round;
    if (dt_rdzv_standstill(r) && r->state != DT_RUN_RUNNING)
        sim_judge_fail(s, SIM_RULE_HANG, "no round runs, and it stands still");
    for (size_t i = 0; i < a->len; i++)
        if (a->at[i].type == DT_DO_SEND && a->at[i].message == DT_MSG_FINDING) {
            check_all_still(s);
            check_once(s, a->at[i].to);
        }
}
