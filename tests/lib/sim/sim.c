/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sim/sim.h"

#include <stdlib.h>

#define CODED_SHARE 10 /* percent of the seeds */

void sim_disturb(struct sim *s, dt_ms until)
{
    if (until > s->calm_from)
        s->calm_from = until;
    s->judge.rounds_in_calm = 0;
}

struct sim_letter *sim_make_letter(struct sim *s, const struct dt_message *m)
{
    struct dt_err err = {.text = "no word why"};
    struct sim_letter *l = sim_letter_make(m, s->coded, &err);
    if (!l)
        sim_judge_fail(s, SIM_RULE_RECORD, "a %s cannot be read back: %s", dt_message_name(m->type),
                       err.text);
    return l;
}

int64_t sim_step(const struct sim *s)
{
    switch (s->story.progress) {
    case SIM_PROGRESS_UNKNOWN:
        return -1;
    case SIM_PROGRESS_STUCK:
        return 7;
    case SIM_PROGRESS_MOVES:
        return s->now / DT_SECOND;
    }
    return -1;
}

struct sim_node *sim_node_by_incarnation(struct sim *s, uint64_t incarnation)
{
    uint64_t index = incarnation & ((1u << SIM_NODE_BITS) - 1);
    return incarnation && index < s->nodes_len ? &s->nodes[index] : NULL;
}

static bool is_over(const struct sim *s)
{
    if (s->now < s->story.trouble)
        return false;
    for (uint32_t i = 0; i < s->nodes_len; i++)
        if (s->nodes[i].agent_up)
            return false;
    return true;
}

static void on_watch(struct sim *s, struct sim_event *ev)
{
    sim_judge_watch(s);
    if (is_over(s) && !sim_story_next_act(s)) {
        sim_say(s, "story", "all agents have ended");
        s->ended = true;
        return;
    }
    if (s->now < s->story.end) {
        sim_queue_put_off(&s->queue, ev, s->now + DT_SECOND);
        return;
    }
    s->ended = true;
    sim_judge_end(s);
}

void sim_run(struct sim *s, const struct sim_options *options)
{
    struct sim_event ev;
    *s = (struct sim){.seed = options->seed, .tracing = options->tracing, .plant = options->plant};
    s->random = options->seed * 2 + 1;
    s->coded = sim_likely(&s->random, CODED_SHARE);
    if (options->amnesia.cause)
        sim_amnesia_begin(s, &options->amnesia);
    else
        sim_story_begin(s, options->nodes);
    sim_plant_in_story(s);
    sim_queue_put(&s->queue, (struct sim_event){.at = DT_SECOND, .run = on_watch});
    while (!s->judge.failed && !s->ended && sim_queue_take(&s->queue, &ev)) {
        s->now = ev.at;
        s->events++;
        ev.run(s, &ev);
    }
}

void sim_finish(struct sim *s)
{
    sim_server_finish(s);
    sim_queue_finish(&s->queue);
    sim_net_finish(&s->net);
    sim_judge_finish(&s->judge);
    free(s->nodes);
    s->nodes = NULL;
}
