/* SPDX-License-Identifier: Apache-2.0 */
/* A run to tell stories about: what nodes say, what time brings, and what each node is told. */
#ifndef DT_TESTS_RENDEZVOUS_RDZV_STORY_H
#define DT_TESTS_RENDEZVOUS_RDZV_STORY_H

#include "rendezvous/rdzv/rdzv.h"
#include "tests/lib/check.h"

#define NODES 16

static struct dt_run_spec spec;
static struct dt_exclude exclude;
static struct dt_rdzv *run;
static struct dt_rdzv_actions done;
static dt_ms now;
static unsigned at_home;       /* nodes that are on the server's host; a mask */
static unsigned older;         /* nodes with an older agent; the same */
static char told[NODES][4096]; /* node i's messages: "world 0:0/2 park stop " */
static struct dt_world_message world[NODES];
static int last_round[NODES];
static const char *key; /* that the nodes show in a join; NULL: none */
static char why[NODES][DT_WHY_MAX], news[NODES][DT_WHY_MAX];
static char cause_told[NODES][DT_WHY_MAX]; /* by the last world, or the end */
static char
    happened[8192]; /* kinds of events: "run_began node_joined/node0 ", with node and rank */
static bool journalled_first; /* no send went before a journal in the step */

static inline int node_of(uint64_t id)
{
    return (int)(id % 1000);
}

static inline void note_send(const struct dt_rdzv_action *a)
{
    int i = node_of(a->to);
    char text[80];
    struct dt_message m;
    dt_rdzv_message(&done, a, "run", &m);
    if (*m.why)
        snprintf(why[i], sizeof why[i], "%s", m.why);
    const char *cause = m.type == DT_MSG_WORLD ? m.world.cause : m.close.cause;
    if (m.type == DT_MSG_WORLD || m.type == DT_MSG_CLOSE)
        snprintf(cause_told[i], sizeof cause_told[i], "%s", cause);
    if (m.type == DT_MSG_WORLD) {
        world[i] = m.world;
        snprintf(news[i], sizeof news[i], "%s", m.world.news);
        last_round[i] = m.round;
        snprintf(text, sizeof text, "world %d:%d/%d ", m.round, m.world.seat, m.world.seats);
    } else if (m.type == DT_MSG_CLOSE) {
        snprintf(text, sizeof text, "close-%s ", dt_close_kind_name(m.close.kind));
    } else if (m.type == DT_MSG_STOP && m.stop.together) {
        snprintf(text, sizeof text, "stop-together ");
    } else {
        snprintf(text, sizeof text, "%s ", dt_message_name(m.type));
    }
    if (m.type != DT_MSG_BEAT && m.type != DT_MSG_NOTE)
        strcat(told[i], text);
}

static inline void note_tell(const struct dt_rdzv_action *a)
{
    const char *node = dt_rdzv_text(&done, a->tell.node);
    size_t used = strlen(happened);
    char rank[16] = "";
    if (a->tell.rank >= 0)
        snprintf(rank, sizeof rank, ":%d", a->tell.rank);
    snprintf(happened + used, sizeof happened - used, "%s%s%s%s ", dt_event_kind_name(a->tell.kind),
             *node ? "/" : "", node, rank);
}

static inline void step(const struct dt_rdzv_event *ev)
{
    bool sent = false;
    dt_rdzv_step(run, ev, now, &done);
    CHECK(!done.bad);
    for (size_t i = 0; i < done.len; i++) {
        journalled_first = journalled_first && !(done.at[i].type == DT_DO_JOURNAL && sent);
        if (done.at[i].type == DT_DO_SEND) {
            sent = sent || done.at[i].message != DT_MSG_BEAT;
            note_send(&done.at[i]);
        } else if (done.at[i].type == DT_DO_TELL) {
            note_tell(&done.at[i]);
        }
    }
}

#define set_text(member, text) snprintf(member, sizeof(member), "%s", text)

static inline void begin(int min, int max)
{
    now = 1000000;
    spec = (struct dt_run_spec){.min_nodes = min,
                                .max_nodes = max,
                                .max_restarts = 0,
                                .max_node_losses = -1,
                                .no_progress = 3,
                                .strikes = 3,
                                .quarantine = 600 * DT_SECOND,
                                .join_timeout = 600 * DT_SECOND,
                                .last_call = 30 * DT_SECOND,
                                .beat = 5 * DT_SECOND,
                                .beats = 3,
                                .reconnect_grace = DT_SECOND,
                                .stop_bound = 35 * DT_SECOND,
                                .command = 7,
                                .job = ""};
    dt_exclude_init(&exclude, 1);
    run = dt_rdzv_create("run", &exclude, 1);
    CHECK(run != NULL);
    memset(told, 0, sizeof told);
    *happened = '\0';
    for (int i = 0; i < NODES; i++)
        last_round[i] = -1;
    journalled_first = true;
}

static inline void end(void)
{
    CHECK(journalled_first);
    dt_rdzv_destroy(run);
    dt_exclude_finish(&exclude);
    dt_rdzv_actions_finish(&done);
    at_home = older = 0;
    key = NULL;
}

static inline void tick(void)
{
    step(&(struct dt_rdzv_event){.type = DT_EV_TICK});
}

static inline void frame(uint64_t id, struct dt_message m)
{
    const struct dt_member *known = dt_members_find(&run->members, id);
    m.run = "run";
    m.incarnation = id;
    m.key = key;
    step(&(struct dt_rdzv_event){.type = DT_EV_FRAME,
                                 .frame = &m,
                                 .local = at_home >> node_of(id) & 1,
                                 .anew = !known || !known->connected});
}

static inline struct dt_join join_of(uint64_t id)
{
    static char names[NODES][16], addrs[NODES][16];
    int i = node_of(id);
    snprintf(names[i], sizeof names[i], "node%d", i);
    snprintf(addrs[i], sizeof addrs[i], "10.0.0.%d", i);
    return (struct dt_join){.spec = spec,
                            .node = {.name = names[i],
                                     .boot = "boot",
                                     .domain = "",
                                     .addr = addrs[i],
                                     .port = 40000 + i,
                                     .role = "default",
                                     .workers = 2,
                                     .order = -1,
                                     .looks = true,
                                     .keeps = true,
                                     .tails = !(older >> i & 1)},
                            .claim = {.seat = -1}};
}

/* Node i's incarnation g is i + 1000 * g; it has no workers and wants some. */
static inline void join(uint64_t id)
{
    frame(id, (struct dt_message){
                  .type = DT_MSG_JOIN, .round = last_round[node_of(id)], .join = join_of(id)});
}

static inline void come_back(uint64_t id, bool all_done)
{
    int i = node_of(id);
    struct dt_message m = {.type = DT_MSG_JOIN, .round = last_round[i], .join = join_of(id)};
    m.join.claim = (struct dt_claim){.running = !all_done,
                                     .done = all_done,
                                     .seat = world[i].seat,
                                     .seats = world[i].seats,
                                     .first_rank = world[i].first_rank,
                                     .size = world[i].size,
                                     .restarts = world[i].restarts};
    frame(id, m);
}

static inline void result(uint64_t id, bool succeeded)
{
    frame(id, (struct dt_message){.type = DT_MSG_RESULT,
                                  .round = last_round[node_of(id)],
                                  .result = {.succeeded = succeeded,
                                             .evidence = DT_EVIDENCE_PROGRAM,
                                             .exit_code = 1,
                                             .signature = "",
                                             .text = "rank 0 exited with 1"}});
}

static inline void lose(uint64_t id)
{
    step(&(struct dt_rdzv_event){.type = DT_EV_LOST, .from = id});
}

static inline void beat(uint64_t id)
{
    frame(id, (struct dt_message){.type = DT_MSG_BEAT,
                                  .round = last_round[node_of(id)],
                                  .beat = {.seq = 1, .step = -1}});
}

/* Lets time pass in which those of ALIVE (a mask) beat. */
static inline void pass(dt_ms time, unsigned alive, uint64_t generation)
{
    for (dt_ms until = now + time; now < until;) {
        now = now + DT_SECOND < until ? now + DT_SECOND : until;
        for (int i = 0; i < NODES; i++)
            if (alive >> i & 1)
                beat((uint64_t)i + 1000 * generation);
        tick();
    }
}

static inline void forget_told(void)
{
    memset(told, 0, sizeof told);
    *happened = '\0';
}

/* Nodes 0 and 2 come again if they were told to stop. */
static inline void obey_stops(void)
{
    for (int i = 0; i < 3; i += 2)
        if (strstr(told[i], "stop") && last_round[i] < run->round)
            join(1000 + (uint64_t)i);
}

/* N nodes 1000..., all in round 0. */
static inline void begin_running(int n, int min, int max)
{
    begin(min, max);
    for (int i = 0; i < n; i++)
        join(1000 + (uint64_t)i);
    if (n < max)
        pass(spec.last_call + DT_SECOND, (1u << n) - 1, 1);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    forget_told();
}

/* Nobody is heard for so long, and the time is looked at every 100 ms. */
static inline void pass_in_silence(dt_ms time)
{
    for (dt_ms until = now + time; now < until;) {
        now = now + 100 < until ? now + 100 : until;
        tick();
    }
}

#endif
