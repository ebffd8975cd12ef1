/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sim/amnesia.h"

#include "tests/lib/sim/sim.h"

#define HAPPENS (20 * DT_SECOND)
#define AWAY ((dt_ms)500) /* the server is */

enum { FIRST, SECOND, THIRD, NODES };

const char *sim_amnesia_name(enum sim_amnesia_cause c)
{
    static const char *const names[SIM_AMNESIA_CAUSES] = {
        [SIM_AMNESIA_NONE] = "nothing",   [SIM_AMNESIA_LOSS] = "a node is lost",
        [SIM_AMNESIA_JOIN] = "one joins", [SIM_AMNESIA_LEAVE] = "one leaves",
        [SIM_AMNESIA_DRAIN] = "a drain",  [SIM_AMNESIA_FAILURE] = "a worker fails"};
    return names[c];
}

int sim_amnesia_restarts(const struct sim_amnesia *how)
{
    return how->cause == SIM_AMNESIA_FAILURE;
}

static void plan(struct sim *s, dt_ms at, void (*run)(struct sim *, struct sim_event *),
                 uint32_t who, int what)
{
    sim_queue_put(&s->queue, (struct sim_event){.at = at, .run = run, .who = who, .what = what});
}

static void on_start(struct sim *s, struct sim_event *ev)
{
    sim_node_start(s, &s->nodes[ev->who]);
}

static void on_server_start(struct sim *s, struct sim_event *ev)
{
    (void)ev;
    sim_server_start(s);
}

static void on_server_end(struct sim *s, struct sim_event *ev)
{
    (void)ev;
    sim_server_crash(s, SIM_CRASH_WIPE);
}

static void on_cause(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = &s->nodes[THIRD];
    switch ((enum sim_amnesia_cause)ev->what) {
    case SIM_AMNESIA_LOSS:
        sim_node_kill(s, n);
        break;
    case SIM_AMNESIA_JOIN:
        sim_node_start(s, n);
        break;
    case SIM_AMNESIA_LEAVE:
        sim_node_leave(s, n);
        break;
    case SIM_AMNESIA_DRAIN:
        sim_server_drain(s, n->host, false);
        break;
    case SIM_AMNESIA_FAILURE:
        sim_node_fail(s, n, DT_EVIDENCE_PROGRAM, 0);
        break;
    case SIM_AMNESIA_NONE:
    case SIM_AMNESIA_CAUSES:
        break;
    }
}

void sim_amnesia_begin(struct sim *s, const struct sim_amnesia *how)
{
    bool joins = how->cause == SIM_AMNESIA_JOIN;
    sim_story_begin_plain(s, NODES);
    s->story.spec.max_restarts = 1;
    plan(s, 0, on_server_start, 0, 0);
    for (uint32_t i = 0; i < NODES - (uint32_t)joins; i++)
        plan(s, 0, on_start, i, 0);
    plan(s, HAPPENS, on_cause, 0, how->cause);
    plan(s, HAPPENS + how->after, on_server_end, 0, 0);
    plan(s, HAPPENS + how->after + AWAY, on_server_start, 0, 0);
}
