/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that stand still for a while, and what their agent says of it. */
#include "tests/lib/sim/node_parts.h"

#include <string.h>

#define NOTICED (2 * DT_SECOND) /* standing still for so long is */

static struct sim_node *node_of_crew(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = sim_node_of(s, ev);
    return n && n->crew == (uint32_t)ev->what && n->state == SIM_TRAINING ? n : NULL;
}

static void on_moves(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = node_of_crew(s, ev);
    if (!n)
        return;
    sim_say(s, n->name, "its workers move again");
    dt_session_still(&n->session, 0, true, sim_node_clock(n));
    sim_node_settle(n);
}

static void on_still(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = node_of_crew(s, ev);
    if (!n)
        return;
    sim_say(s, n->name, "its workers stand still");
    dt_session_still(&n->session, NOTICED, sim_likely(&s->random, 70), sim_node_clock(n));
    sim_node_settle(n);
}

void sim_node_hang(struct sim *s, struct sim_node *n, dt_ms until)
{
    if (n->state != SIM_TRAINING || !sim_node_looks(n))
        return;
    sim_node_plan(n, sim_between(&s->random, 0, DT_SECOND), on_still, n->crew);
    sim_node_plan(n, DT_SECOND + until - s->now, on_moves, n->crew);
}

/* The first rank sleeps, and the others wait for it. */
static void on_looked(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = sim_node_of(s, ev);
    if (!n)
        return;
    bool sleeps = n->session.claim.first_rank == 0;
    n->ranks = (struct dt_rank_range){n->session.claim.first_rank,
                                      n->session.claim.first_rank + n->workers - 1};
    n->stances =
        (struct dt_stance_group){.stance = {.doing = sleeps ? DT_DOING_SLEEP : DT_DOING_COLLECTIVE,
                                            .where = "train.py:11",
                                            .sequence = -1,
                                            .step = -1},
                                 .ranges = &n->ranks,
                                 .len = 1,
                                 .ranks = n->workers};
    if (!sleeps)
        strcpy(n->stances.stance.collective, "all_reduce");
    dt_session_looked(&n->session, ev->what, &(struct dt_stances){&n->stances, 1},
                      sim_node_clock(n));
    sim_node_settle(n);
}

/* Now and then it takes too long. */
void sim_node_look(void *arg, int64_t id, bool native)
{
    (void)native;
    struct sim_node *n = arg;
    sim_node_plan(n, sim_between(&n->sim->random, 1, 1200), on_looked, (uint32_t)id);
}

void sim_node_find(void *arg, const struct dt_finding_message *f)
{
    struct sim_node *n = arg;
    sim_say(n->sim, n->name, "is told: %s", f->sentence);
}
