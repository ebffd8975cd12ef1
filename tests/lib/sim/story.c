/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sim/story.h"

#include "tests/lib/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIG 256 /* nodes from which on a story has few faults and no long ones */

/* -- faults ----------------------------------------------------------------------------------- */

enum fault {
    FAULT_FAIL,
    FAULT_KILL,
    FAULT_LOSE_HOST,
    FAULT_PAUSE,
    FAULT_CUT,
    FAULT_LOSE_CONNECTION,
    FAULT_BLOCK,
    FAULT_SPLIT,
    FAULT_JUMP,
    FAULT_LEAVE,
    FAULT_DRAIN,
    FAULT_START,
    FAULT_SERVER_PAUSE,
    FAULT_SERVER_JUMP,
    FAULT_SERVER_CRASH,
    FAULT_SERVER_BLANK,
    FAULT_SERVER_CUT,
    FAULT_SLOW_DISK,
    FAULT_SERVER_END,
    FAULT_STALE,
    FAULT_HANG,
    FAULT_RESTART,
    FAULT_STOP,
    FAULTS,
};

/* How much of each there is in a story that has it. */
static const unsigned weights[FAULTS] = {
    [FAULT_FAIL] = 6,         [FAULT_KILL] = 5,        [FAULT_LOSE_HOST] = 4,
    [FAULT_PAUSE] = 3,        [FAULT_CUT] = 5,         [FAULT_LOSE_CONNECTION] = 3,
    [FAULT_BLOCK] = 4,        [FAULT_SPLIT] = 2,       [FAULT_JUMP] = 2,
    [FAULT_LEAVE] = 2,        [FAULT_DRAIN] = 2,       [FAULT_START] = 3,
    [FAULT_SERVER_PAUSE] = 2, [FAULT_SERVER_JUMP] = 1, [FAULT_SERVER_CRASH] = 3,
    [FAULT_SERVER_BLANK] = 1, [FAULT_SERVER_CUT] = 2,  [FAULT_SLOW_DISK] = 1,
    [FAULT_SERVER_END] = 1,   [FAULT_STALE] = 6,       [FAULT_HANG] = 4,
    [FAULT_RESTART] = 2,      [FAULT_STOP] = 1,
};

static void plan(struct sim *s, dt_ms wait, void (*run)(struct sim *, struct sim_event *),
                 uint32_t who, int what)
{
    sim_queue_put(&s->queue,
                  (struct sim_event){.at = s->now + wait, .run = run, .who = who, .what = what});
}

/* Mostly about as long as it takes to be noticed, now and then far longer or a moment. */
static dt_ms some_time(struct sim *s)
{
    const struct dt_run_spec *spec = &s->story.spec;
    dt_ms silence = spec->beat * spec->beats;
    switch (sim_below(&s->random, 4)) {
    case 0:
        return sim_between(&s->random, 1, 2 * DT_SECOND);
    case 1:
        return sim_between(&s->random, 1, 4 * silence);
    default:
        return sim_between(&s->random, 1, 2 * silence);
    }
}

/* A scheduler starts nothing for a job that is over. */
static void on_start(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = &s->nodes[ev->who];
    const struct dt_rdzv *r = s->server.run;
    if (n->ended || s->judge.closed || (r && r->state == DT_RUN_CLOSED))
        return;
    sim_node_boot(s, n);
    sim_node_start(s, n);
}

/* ... but the next one starts wherever it can. */
static void on_next_start(struct sim *s, struct sim_event *ev)
{
    sim_node_start(s, &s->nodes[ev->who]);
}

static void on_server_start(struct sim *s, struct sim_event *ev)
{
    (void)ev;
    sim_server_start(s);
}

static void on_undrain(struct sim *s, struct sim_event *ev)
{
    sim_server_drain(s, s->nodes[ev->who].host, true);
}

static void on_disk_well(struct sim *s, struct sim_event *ev)
{
    s->server.disk_max = (dt_ms)ev->what;
}

static void come_back(struct sim *s, struct sim_node *n, unsigned percent)
{
    if (sim_likely(&s->random, percent))
        plan(s, some_time(s), on_start, n->index, 0);
}

static void fail(struct sim *s, struct sim_node *n)
{
    static const enum dt_evidence kinds[] = {DT_EVIDENCE_PROGRAM, DT_EVIDENCE_PROGRAM,
                                             DT_EVIDENCE_CRASH, DT_EVIDENCE_CRASH,
                                             DT_EVIDENCE_HARDWARE};
    enum dt_evidence kind = kinds[sim_below(&s->random, sizeof kinds / sizeof *kinds)];
    sim_node_fail(s, n, kind, sim_likely(&s->random, 30));
}

static void block(struct sim *s, struct sim_node *n, dt_ms until, unsigned ways)
{
    if (ways != 2)
        sim_node_block(s, n, SIM_UP, until);
    if (ways != 1)
        sim_node_block(s, n, SIM_DOWN, until);
}

/* A part of the cluster is cut off together. */
static void split(struct sim *s)
{
    unsigned percent = sim_below(&s->random, 100), ways = sim_below(&s->random, 3);
    dt_ms until = s->now + some_time(s);
    for (uint32_t i = 0; i < s->nodes_len; i++)
        if (sim_likely(&s->random, percent))
            block(s, &s->nodes[i], until, ways);
}

static void crash_server(struct sim *s, enum sim_crash how)
{
    sim_server_crash(s, how);
    plan(s, some_time(s), on_server_start, 0, 0);
}

static void slow_disk(struct sim *s)
{
    dt_ms was = s->server.disk_max, wait = some_time(s);
    if (was == s->server.disk_worst)
        return;
    s->server.disk_max = s->server.disk_worst;
    sim_disturb(s, s->now + wait);
    plan(s, wait, on_disk_well, 0, (int)was);
}

static void drain(struct sim *s, struct sim_node *n)
{
    sim_server_drain(s, n->host, false);
    if (sim_likely(&s->random, 50))
        plan(s, some_time(s), on_undrain, n->index, 0);
}

/* Workers of all nodes, or of some, stand still; each begins and ends at a time of its own. */
static void hang(struct sim *s)
{
    unsigned percent = sim_likely(&s->random, 70) ? 100 : 80;
    dt_ms until = s->now + some_time(s);
    for (uint32_t i = 0; i < s->nodes_len; i++)
        if (sim_likely(&s->random, percent))
            sim_node_hang(s, &s->nodes[i], until + sim_between(&s->random, 0, 2 * DT_SECOND));
}

static void strike_server(struct sim *s, enum fault fault)
{
    const struct dt_run_spec *spec = &s->story.spec;
    switch (fault) {
    case FAULT_SERVER_PAUSE:
        sim_server_pause(s, s->now + some_time(s));
        break;
    case FAULT_SERVER_JUMP:
        sim_server_jump(s, some_time(s));
        break;
    case FAULT_SERVER_CRASH:
        crash_server(s, sim_likely(&s->random, 50) ? SIM_CRASH_KILL : SIM_CRASH_POWER);
        break;
    case FAULT_SERVER_BLANK:
        crash_server(s, SIM_CRASH_WIPE);
        break;
    case FAULT_SERVER_CUT:
        sim_server_cut(s, s->now + sim_between(&s->random, 1, spec->beat * spec->beats));
        break;
    case FAULT_SLOW_DISK:
        slow_disk(s);
        break;
    case FAULT_SERVER_END:
        sim_server_end(s);
        break;
    case FAULT_STALE:
        sim_server_replay_stale(s);
        break;
    case FAULT_SPLIT:
        split(s);
        break;
    case FAULT_HANG:
        hang(s);
        break;
    case FAULT_RESTART:
        sim_server_wish(s, DT_EV_RESTART, "wants another round");
        break;
    case FAULT_STOP:
        sim_server_wish(s, DT_EV_STOP, "ends the job");
        break;
    default:
        break;
    }
}

static void strike_node(struct sim *s, struct sim_node *n, enum fault fault)
{
    switch (fault) {
    case FAULT_FAIL:
        fail(s, n);
        break;
    case FAULT_KILL:
        sim_node_kill(s, n);
        come_back(s, n, 80);
        break;
    case FAULT_LOSE_HOST:
        sim_node_lose_host(s, n);
        come_back(s, n, 50);
        break;
    case FAULT_PAUSE:
        sim_node_pause(s, n, s->now + some_time(s));
        break;
    case FAULT_CUT:
        if (n->conn != SIM_NO_CONN)
            sim_net_cut(s, n->conn);
        n->ill_until = DT_FOREVER;
        sim_disturb(s, s->now);
        break;
    case FAULT_LOSE_CONNECTION:
        sim_node_lose_connection(s, n);
        break;
    case FAULT_BLOCK:
        block(s, n, s->now + some_time(s), sim_below(&s->random, 3));
        break;
    case FAULT_JUMP:
        sim_node_jump(s, n, some_time(s));
        break;
    case FAULT_LEAVE:
        sim_node_leave(s, n);
        break;
    case FAULT_DRAIN:
        drain(s, n);
        break;
    case FAULT_START:
        plan(s, 0, on_start, n->index, 0);
        break;
    default:
        strike_server(s, fault);
        break;
    }
}

static void on_fault(struct sim *s, struct sim_event *ev)
{
    if (!s->judge.closed)
        strike_node(s, &s->nodes[ev->who], (enum fault)ev->what);
}

/* -- what the job is -------------------------------------------------------------------------- */

static void choose_nodes(struct sim *s, uint32_t nodes)
{
    static const uint32_t most[] = {2, 3, 4, 6, 8, 16, 32, 64};
    s->nodes_len = nodes ? nodes : 1 + sim_below(&s->random, most[sim_below(&s->random, 8)]);
    s->nodes = calloc(s->nodes_len, sizeof *s->nodes);
    if (!s->nodes)
        abort();
    bool roles = sim_likely(&s->random, 20), uneven = sim_likely(&s->random, 20);
    s->story.shares_hosts = sim_likely(&s->random, 10);
    bool orders = sim_likely(&s->random, 30), domains = sim_likely(&s->random, 50);
    bool head = sim_likely(&s->random, 30);
    int workers = 1 + (int)sim_below(&s->random, 8);
    for (uint32_t i = 0; i < s->nodes_len; i++) {
        sim_node_init(s, i);
        struct sim_node *n = &s->nodes[i];
        n->workers = uneven ? 1 + (int)sim_below(&s->random, 8) : workers;
        n->order = orders ? (int)i : -1;
        n->stop_when_away = sim_likely(&s->random, 10);
        snprintf(n->role, sizeof n->role, roles && i % 3 == 0 ? "reader" : "trainer");
        if (s->story.shares_hosts)
            snprintf(n->host, sizeof n->host, "host%02u", i / 2);
        n->local = head && strcmp(n->host, s->nodes[0].host) == 0;
        if (domains)
            snprintf(n->domain, sizeof n->domain, "rack%u", i / 4);
    }
}

static void choose_sizes(struct sim *s, struct dt_run_spec *spec)
{
    uint32_t nodes = s->nodes_len;
    uint32_t max = 1 + sim_below(&s->random, nodes);
    if (sim_likely(&s->random, 50))
        max = nodes;
    spec->max_nodes = (int)max;
    spec->min_nodes = (int)(1 + sim_below(&s->random, max));
    if (sim_likely(&s->random, 20))
        spec->min_nodes = spec->max_nodes;
    spec->spares = (int)(nodes - max);
    spec->fixed_world = sim_likely(&s->random, 20);
    spec->torchrun_ranks = sim_likely(&s->random, 10);
}

static void choose_spec(struct sim *s)
{
    uint64_t *random = &s->random;
    struct dt_run_spec *spec = &s->story.spec;
    choose_sizes(s, spec);
    spec->max_restarts = sim_likely(random, 60) ? 1000 : (int)sim_below(random, 6);
    spec->max_node_losses = sim_likely(random, 70) ? -1 : (int)sim_below(random, 6);
    spec->no_progress = sim_likely(random, 80) ? 0 : 3;
    spec->strikes = sim_likely(random, 60) ? 0 : 1 + (int)sim_below(random, 3);
    spec->quarantine = sim_between(random, 10 * DT_SECOND, 600 * DT_SECOND);
    spec->join_timeout = sim_between(random, 60 * DT_SECOND, 300 * DT_SECOND);
    spec->last_call = sim_between(random, 0, 30 * DT_SECOND);
    spec->beat = sim_between(random, 1 * DT_SECOND, 5 * DT_SECOND);
    spec->beats = 2 + (int)sim_below(random, 3);
    spec->reconnect_grace = sim_between(random, 100, 3 * DT_SECOND);
    spec->stop_bound = sim_between(random, 2 * DT_SECOND, 35 * DT_SECOND);
    spec->grow_interval = sim_likely(random, 50) ? 0 : sim_between(random, 1, 60 * DT_SECOND);
    spec->restart_reset = sim_likely(random, 80) ? 0 : sim_between(random, 1, 60 * DT_SECOND);
    spec->command = 1;
    snprintf(spec->job, sizeof spec->job, "%s", sim_likely(random, 50) ? "" : "job-17");
}

static void choose_times(struct sim *s)
{
    uint64_t *random = &s->random;
    struct sim_story *t = &s->story;
    bool big = s->nodes_len >= BIG;
    t->trouble = sim_between(random, 10 * DT_SECOND, (big ? 30 : 240) * DT_SECOND);
    t->start_time = sim_between(random, 1, 5 * DT_SECOND);
    t->work = sim_between(random, 1 * DT_SECOND, (big ? 20 : 60) * DT_SECOND);
    t->progress = (enum sim_progress)sim_below(random, 3);
    s->net.delay_min = 1;
    s->net.delay_max = sim_between(random, 1, sim_likely(random, 30) ? 500 : 30);
    s->server.disk_min = sim_between(random, 0, 10);
    s->server.disk_max = s->server.disk_min + (sim_likely(random, 15) ? 1500 : 20);
    s->server.disk_worst = s->server.disk_max + sim_below(random, 2000);
    /* What is promised is what is left of it when the word to stop and the answer have gone by. */
    t->spec.stop_bound += 2 * (s->net.delay_max + s->server.disk_worst);
    s->server.skew = sim_between(random, 1000, 1000000000);
}

/* -- what happens ----------------------------------------------------------------------------- */

static enum fault choose_fault(struct sim *s, const bool *has)
{
    unsigned sum = 0;
    for (int i = 0; i < FAULTS; i++)
        sum += has[i] ? weights[i] : 0;
    unsigned at = sim_below(&s->random, sum);
    int i = 0;
    for (; !has[i] || at >= weights[i]; i++)
        at -= has[i] ? weights[i] : 0;
    return (enum fault)i;
}

/* A story has some kinds of faults and not others, so that each is also seen without noise. */
static void plan_faults(struct sim *s)
{
    bool has[FAULTS] = {[FAULT_STALE] = true};
    unsigned share = sim_below(&s->random, 100);
    for (int i = 0; i < FAULTS; i++)
        has[i] = has[i] || sim_likely(&s->random, share);
    has[FAULT_LOSE_HOST] = has[FAULT_LOSE_HOST] && !s->story.shares_hosts; /* one would go alone */
    has[FAULT_SERVER_BLANK] = has[FAULT_SERVER_BLANK] && sim_likely(&s->random, 30);
    has[FAULT_SERVER_END] = has[FAULT_SERVER_END] && sim_likely(&s->random, 10);
    has[FAULT_STOP] = has[FAULT_STOP] && sim_likely(&s->random, 10);
    unsigned count = sim_below(&s->random, sim_likely(&s->random, 20) ? 4 : 80);
    for (unsigned i = 0; i < count; i++)
        plan(s, sim_between(&s->random, 0, s->story.trouble - s->now), on_fault,
             sim_below(&s->random, s->nodes_len), (int)choose_fault(s, has));
}

static void plan_arrivals(struct sim *s)
{
    dt_ms spread = sim_between(&s->random, 0, sim_likely(&s->random, 70) ? 500 : 20 * DT_SECOND);
    for (uint32_t i = 0; i < s->nodes_len; i++) {
        bool late = s->nodes_len < BIG && sim_likely(&s->random, 5);
        plan(s, sim_between(&s->random, 0, late ? s->story.trouble : spread), on_start, i, 0);
    }
}

/* All faults are over by then, and what they led to has had its time. */
static void choose_end(struct sim *s)
{
    struct sim_story *t = &s->story;
    dt_ms longest = 4 * t->spec.beat * t->spec.beats; /* see some_time() */
    dt_ms calm = t->trouble + 2 * longest;
    t->acts = s->nodes_len < BIG && sim_likely(&s->random, 10);
    if (sim_likely(&s->random, 80))
        t->finish = calm + sim_between(&s->random, 0, 60 * DT_SECOND);
    t->end = calm + 90 * DT_SECOND + 2 * sim_judge_live_bound(s) + t->work + t->spec.join_timeout;
}

void sim_story_begin(struct sim *s, uint32_t nodes)
{
    s->story.run = "sim";
    choose_nodes(s, nodes);
    choose_spec(s);
    choose_times(s);
    choose_end(s);
    sim_say(s, "story", "seed %llu: %u nodes, --nnodes %d:%d%s, %d restarts, %d losses",
            (unsigned long long)s->seed, s->nodes_len, s->story.spec.min_nodes,
            s->story.spec.max_nodes, s->story.spec.fixed_world ? " fixed" : "",
            s->story.spec.max_restarts, s->story.spec.max_node_losses);
    sim_say(s, "story", "beat %d x %.1f s, last call %.1f s, stop bound %.1f s, trouble %.1f s",
            s->story.spec.beats, (double)s->story.spec.beat / DT_SECOND,
            (double)s->story.spec.last_call / DT_SECOND,
            (double)s->story.spec.stop_bound / DT_SECOND, (double)s->story.trouble / DT_SECOND);
    plan(s, sim_likely(&s->random, 80) ? 0 : sim_between(&s->random, 0, 5 * DT_SECOND),
         on_server_start, 0, 0);
    plan_arrivals(s);
    plan_faults(s);
}

void sim_story_begin_plain(struct sim *s, uint32_t nodes)
{
    struct sim_story *t = &s->story;
    t->run = "sim";
    choose_nodes(s, nodes);
    for (uint32_t i = 0; i < nodes; i++) {
        snprintf(s->nodes[i].host, sizeof s->nodes[i].host, "%s", s->nodes[i].name);
        s->nodes[i].stop_when_away = s->nodes[i].local = false;
    }
    t->shares_hosts = false;
    t->spec = (struct dt_run_spec){.min_nodes = 2,
                                   .max_nodes = (int)nodes,
                                   .max_node_losses = -1,
                                   .join_timeout = 300 * DT_SECOND,
                                   .last_call = 5 * DT_SECOND,
                                   .beat = 2 * DT_SECOND,
                                   .beats = 3,
                                   .reconnect_grace = DT_SECOND,
                                   .stop_bound = 8 * DT_SECOND,
                                   .job = ""};
    choose_times(s);
    t->trouble = 60 * DT_SECOND;
    choose_end(s);
    t->acts = 0;
    t->finish = 120 * DT_SECOND;
}

bool sim_story_next_act(struct sim *s)
{
    struct sim_story *t = &s->story;
    dt_ms length = t->end;
    if (t->acts == 0)
        return false;
    t->acts--;
    sim_say(s, "story", "the next job of that name");
    for (uint32_t i = 0; i < s->nodes_len; i++) {
        s->nodes[i].ended = false;
        plan(s, sim_between(&s->random, 0, DT_SECOND), on_next_start, i, 0);
    }
    t->trouble = s->now + 60 * DT_SECOND;
    t->finish = t->trouble + sim_between(&s->random, 0, 60 * DT_SECOND);
    t->end = s->now + length;
    plan_faults(s);
    return true;
}
