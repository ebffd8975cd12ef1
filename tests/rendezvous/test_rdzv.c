/* SPDX-License-Identifier: Apache-2.0 */
/* Stories about one run: what nodes say, what time brings, and what each is told. What random
 * stories bring to light is the simulator's; here is what a person would tell. */
#include "rendezvous/rdzv/rdzv.h"
#include "tests/lib/check.h"

#include <limits.h>

#define NODES 16

static struct dt_run_spec spec;
static struct dt_exclude exclude;
static struct dt_rdzv *run;
static struct dt_rdzv_actions done;
static dt_ms now;
static unsigned at_home;       /* nodes that are on the server's host; a mask */
static char told[NODES][4096]; /* node i's messages: "world 0:0/2 park stop " */
static struct dt_world_message world[NODES];
static int last_round[NODES];
static char why[NODES][DT_WHY_MAX], news[NODES][DT_WHY_MAX];
static bool journalled_first; /* no send went before a journal in the step */

static int node_of(uint64_t id)
{
    return (int)(id % 1000);
}

static void note_send(const struct dt_rdzv_action *a)
{
    int i = node_of(a->to);
    char text[80];
    struct dt_message m;
    dt_rdzv_message(&done, a, "run", &m);
    if (*m.why)
        snprintf(why[i], sizeof why[i], "%s", m.why);
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

static void step(const struct dt_rdzv_event *ev)
{
    bool sent = false;
    dt_rdzv_step(run, ev, now, &done);
    CHECK(!done.bad);
    for (size_t i = 0; i < done.len; i++) {
        journalled_first = journalled_first && !(done.at[i].type == DT_DO_JOURNAL && sent);
        if (done.at[i].type == DT_DO_SEND) {
            sent = sent || done.at[i].message != DT_MSG_BEAT;
            note_send(&done.at[i]);
        }
    }
}

#define set_text(member, text) snprintf(member, sizeof(member), "%s", text)

static void begin(int min, int max)
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
    for (int i = 0; i < NODES; i++)
        last_round[i] = -1;
    journalled_first = true;
}

static void end(void)
{
    CHECK(journalled_first);
    dt_rdzv_destroy(run);
    dt_exclude_finish(&exclude);
    dt_rdzv_actions_finish(&done);
    at_home = 0;
}

static void tick(void)
{
    step(&(struct dt_rdzv_event){.type = DT_EV_TICK});
}

static void frame(uint64_t id, struct dt_message m)
{
    const struct dt_member *known = dt_members_find(&run->members, id);
    m.run = "run";
    m.incarnation = id;
    step(&(struct dt_rdzv_event){.type = DT_EV_FRAME,
                                 .frame = &m,
                                 .local = at_home >> node_of(id) & 1,
                                 .anew = !known || !known->connected});
}

static struct dt_join join_of(uint64_t id)
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
                                     .order = -1},
                            .claim = {.seat = -1}};
}

/* Node i's incarnation g is i + 1000 * g; it has no workers and wants some. */
static void join(uint64_t id)
{
    frame(id, (struct dt_message){
                  .type = DT_MSG_JOIN, .round = last_round[node_of(id)], .join = join_of(id)});
}

static void come_back(uint64_t id, bool all_done)
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

static void result(uint64_t id, bool succeeded)
{
    frame(id, (struct dt_message){.type = DT_MSG_RESULT,
                                  .round = last_round[node_of(id)],
                                  .result = {.succeeded = succeeded,
                                             .evidence = DT_EVIDENCE_PROGRAM,
                                             .exit_code = 1,
                                             .signature = "",
                                             .text = "rank 0 exited with 1"}});
}

static void lose(uint64_t id)
{
    step(&(struct dt_rdzv_event){.type = DT_EV_LOST, .from = id});
}

static void beat(uint64_t id)
{
    frame(id, (struct dt_message){.type = DT_MSG_BEAT,
                                  .round = last_round[node_of(id)],
                                  .beat = {.seq = 1, .step = -1}});
}

/* Lets time pass in which those of ALIVE (a mask) beat. */
static void pass(dt_ms time, unsigned alive, uint64_t generation)
{
    for (dt_ms until = now + time; now < until;) {
        now = now + DT_SECOND < until ? now + DT_SECOND : until;
        for (int i = 0; i < NODES; i++)
            if (alive >> i & 1)
                beat((uint64_t)i + 1000 * generation);
        tick();
    }
}

static void forget_told(void)
{
    memset(told, 0, sizeof told);
}

/* Nodes 0 and 2 come again if they were told to stop. */
static void obey_stops(void)
{
    for (int i = 0; i < 3; i += 2)
        if (strstr(told[i], "stop") && last_round[i] < run->round)
            join(1000 + (uint64_t)i);
}

/* N nodes 1000..., all in round 0. */
static void begin_running(int n, int min, int max)
{
    begin(min, max);
    for (int i = 0; i < n; i++)
        join(1000 + (uint64_t)i);
    if (n < max)
        pass(spec.last_call + DT_SECOND, (1u << n) - 1, 1);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    forget_told();
}

TEST(nodes_that_are_all_there_run_at_once)
{
    begin(3, 3);
    join(1000);
    join(1001);
    CHECK_STR(told[0], "");
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    join(1002);
    CHECK_STR(told[0], "world 0:0/3 ");
    CHECK_STR(told[1], "world 0:1/3 ");
    CHECK_STR(told[2], "world 0:2/3 ");
    CHECK_EQ(world[2].first_rank, 4);
    CHECK_EQ(world[2].size, 6);
    CHECK_EQ(world[2].role_size, 6);
    CHECK_STR(world[2].master_addr, "10.0.0.0");
    CHECK_EQ(world[2].master_port, 40000);
    CHECK_EQ(world[2].prev_rank, -1);
    end();
}

TEST(more_than_the_least_are_waited_for_until_the_last_call_is_over)
{
    begin(2, 4);
    join(1000);
    join(1001);
    pass(29 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "");
    join(1002);
    pass(2 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "world 0:0/3 ");
    end();
}

TEST(a_scheduler_that_said_how_many_there_are_cuts_the_last_call_short)
{
    begin(2, 4);
    for (uint64_t id = 1000; id < 1003; id++) {
        struct dt_join j = join_of(id);
        j.node.expected = 3;
        frame(id, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    }
    CHECK_STR(told[0], "world 0:0/3 ");
    end();
}

TEST(who_comes_too_late_parks_and_takes_the_seat_of_one_who_goes)
{
    begin_running(3, 3, 3);
    join(1003);
    CHECK_STR(told[3], "park ");
    lose(1001);
    now += DT_SECOND;
    tick();
    CHECK_STR(told[0], "stop ");
    CHECK(strstr(why[0], "node1 went offline") != NULL);
    join(1000);
    CHECK_STR(told[0], "stop ");
    join(1002);
    CHECK_STR(told[0], "stop world 1:0/3 ");
    CHECK_STR(told[2], "stop world 1:2/3 ");
    CHECK_STR(told[3], "park world 1:1/3 ");
    for (int i = 0; i < 4; i += i == 0 ? 2 : 1) /* all but node1 */
        CHECK_STR(news[i], "node1 went offline (its connection closed, and it was not back within "
                           "1 s); node3 takes seat 1 of node1");
    CHECK_EQ(world[2].prev_rank, 4);
    CHECK_EQ(world[3].prev_rank, -1);
    CHECK_EQ(world[0].restarts, 0);
    end();
}

TEST(survivors_go_on_alone_when_they_are_enough)
{
    begin_running(3, 2, 3);
    lose(1000);
    now += DT_SECOND;
    tick();
    join(1002);
    CHECK_STR(told[2], "stop ");
    join(1001);
    CHECK_STR(told[1], "stop world 1:1/2 ");
    CHECK_STR(told[2], "stop world 1:0/2 "); /* the highest moves into the hole */
    CHECK_STR(world[1].master_addr, "10.0.0.2");
    CHECK(strstr(world[1].news, "node0 went offline") != NULL);
    CHECK(strstr(world[1].news, "node2 takes seat 0 of node0; 2 nodes instead of 3") != NULL);
    end();
}

TEST(a_connection_that_is_back_in_time_was_never_away)
{
    begin_running(3, 3, 3);
    lose(1001);
    now += DT_SECOND - 1;
    tick();
    come_back(1001, false);
    pass(20 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "");
    CHECK_STR(told[1], "");
    end();
}

/* A proxy that is started anew ends all connections, and its clients come one after the other. */
TEST(most_connections_that_are_lost_at_once_have_longer_to_come_back)
{
    begin_running(4, 2, 4);
    spec.reconnect_grace = run->spec.reconnect_grace = 100;
    for (uint64_t id = 1000; id < 1003; id++)
        lose(id);
    for (uint64_t id = 1000; id < 1003; id++) {
        now += 140;
        tick();
        come_back(id, false);
    }
    CHECK_STR(told[3], "");
    lose(1001); /* it may still be one of those */
    for (int i = 0; i < 4; i++, now += 100)
        tick();
    CHECK_STR(told[3], "");
    for (int i = 0; i < 2; i++, now += 100)
        tick();
    CHECK_STR(told[3], "stop ");
    end();
}

TEST(a_look_that_comes_late_finds_nobody_lost_that_may_be_back)
{
    begin_running(4, 2, 4);
    spec.reconnect_grace = run->spec.reconnect_grace = 100;
    lose(1001);
    now += 400; /* what was said meanwhile is yet to be read */
    tick();
    come_back(1001, false);
    CHECK_STR(told[0], "");
    end();
}

TEST(a_silent_node_is_given_up_after_three_beats_and_hears_of_it)
{
    begin_running(3, 2, 3);
    pass(14 * DT_SECOND, 5, 1);
    CHECK_STR(told[0], "");
    pass(2 * DT_SECOND, 5, 1);
    CHECK_STR(told[0], "stop ");
    beat(1001);
    CHECK_STR(told[1], "stale ");
    end();
}

TEST(a_pause_of_our_own_is_held_against_nobody)
{
    begin_running(3, 2, 3);
    now += 60 * DT_SECOND;
    tick();
    pass(10 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "");
    end();
}

TEST(a_pause_of_our_own_is_no_time_in_which_nodes_did_not_stop)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 1;
    result(1001, false);
    now += 60 * DT_SECOND;
    tick();
    CHECK_STR(told[0], "stop ");
    join(1000);
    join(1001);
    CHECK_STR(told[0], "stop world 1:0/2 ");
    end();
}

TEST(most_nodes_silent_at_once_get_one_more_window)
{
    begin_running(4, 1, 4);
    pass(16 * DT_SECOND, 1, 1);
    CHECK_STR(told[0], "");
    pass(16 * DT_SECOND, 1, 1);
    CHECK_STR(told[0], "stop ");
    end();
}

/* N nodes that run, each of which beats some 0.6 s after the one before. */
static void begin_spread(int n, int min, int max)
{
    begin_running(n, min, max);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < n; i++) {
            now += 5 * DT_SECOND / n;
            beat(1000 + (uint64_t)i);
        }
    }
}

/* Nobody is heard for so long, and the time is looked at every 100 ms. */
static void pass_in_silence(dt_ms time)
{
    for (dt_ms until = now + time; now < until;) {
        now = now + 100 < until ? now + 100 : until;
        tick();
    }
}

static void come_back_all(int n)
{
    for (int i = 0; i < n; i++) {
        now += 700;
        come_back(1000 + (uint64_t)i, false);
    }
}

TEST(an_outage_of_our_own_link_restarts_nobody)
{
    for (int n = 1; n <= 8; n++) {
        begin_spread(n, (n + 1) / 2, n);
        for (int i = 0; i < 3; i++) {
            pass_in_silence(12 * DT_SECOND);
            come_back_all(n);
            pass(20 * DT_SECOND, (1u << n) - 1, 1);
        }
        CHECK_EQ(run->round, 0);
        CHECK_STR(told[0], "");
        CHECK_EQ(exclude.nodes.count, 0);
        end();
    }
}

TEST(a_connection_that_an_outage_broke_has_time_to_be_replaced)
{
    begin_spread(8, 4, 8);
    pass_in_silence(14 * DT_SECOND);
    for (uint64_t id = 1000; id < 1008; id++) {
        beat(id); /* sent long ago, and so was its end */
        lose(id);
    }
    pass_in_silence(4 * DT_SECOND);
    come_back_all(8);
    pass(40 * DT_SECOND, 255, 1);
    CHECK_STR(told[0], "");
    end();
}

TEST(who_stays_silent_with_the_crowd_is_lost_without_a_strike)
{
    begin_spread(8, 4, 8);
    pass_in_silence(12 * DT_SECOND);
    pass(20 * DT_SECOND, 0x7f, 1);
    CHECK_STR(told[0], "stop ");
    CHECK(strstr(why[0], "node7 went offline") != NULL);
    CHECK(!dt_members_find_name(&run->members, "node7"));
    CHECK_EQ(exclude.nodes.count, 0);
    end();
}

TEST(one_node_of_two_that_falls_silent_is_lost_in_time)
{
    begin_spread(2, 1, 2);
    pass(16 * DT_SECOND, 1, 1);
    CHECK_STR(told[0], "stop ");
    CHECK_EQ(exclude.nodes.count, 1);
    end();
}

/* N nodes, of which node 0 is on the server's own host and heard while the others are silent. */
static void outage_at_head(int n, int min, dt_ms time)
{
    at_home = 1;
    begin_spread(n, min, n);
    pass(time, 1, 1);
    for (int i = 1; i < n; i++)
        come_back(1000 + (uint64_t)i, false);
    pass(40 * DT_SECOND, (1u << n) - 1, 1);
}

TEST(a_node_beside_the_server_does_not_hide_an_outage_of_our_own_link)
{
    for (int n = 3; n <= 8; n++)
        for (int min = 1; min <= n; min++) {
            CHECK_ROW("%d nodes, at least %d", n, min);
            outage_at_head(n, min, 25 * DT_SECOND);
            CHECK_EQ(run->round, 0);
            CHECK_STR(told[0], "");
            CHECK_EQ(exclude.nodes.count, 0);
            end();
        }
}

TEST(the_only_remote_node_is_waited_for_where_the_job_cannot_go_on_without_it)
{
    outage_at_head(2, 2, 25 * DT_SECOND);
    CHECK_STR(told[0], "");
    pass(35 * DT_SECOND, 1, 1);
    CHECK_STR(told[0], "stop ");
    CHECK_EQ(exclude.nodes.count, 0);
    end();
}

TEST(the_only_remote_node_is_lost_in_time_where_others_can_go_on)
{
    at_home = 1;
    begin_spread(2, 1, 2);
    pass(16 * DT_SECOND, 1, 1);
    CHECK_STR(told[0], "stop ");
    CHECK_EQ(exclude.nodes.count, 0); /* nobody knows that it was not the network */
    end();
}

TEST(two_nodes_beside_the_server_wait_for_no_third)
{
    at_home = 3;
    begin_spread(3, 2, 3);
    pass(16 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "stop ");
    end();
}

TEST(a_node_beside_the_server_that_falls_silent_is_lost_in_time)
{
    at_home = 1;
    begin_spread(3, 2, 3);
    pass(16 * DT_SECOND, 6, 1);
    CHECK_STR(told[1], "stop ");
    CHECK_EQ(exclude.nodes.count, 1);
    end();
}

TEST(where_all_nodes_come_through_a_proxy_on_our_host_all_have_a_say)
{
    at_home = 0xf;
    begin_spread(4, 1, 4);
    pass(16 * DT_SECOND, 1, 1);
    CHECK_STR(told[0], "");
    end();
}

TEST(with_two_beats_a_crowd_is_known_before_its_first_node_is_lost)
{
    begin_spread(8, 4, 8);
    run->spec.beats = 2;
    pass_in_silence(9 * DT_SECOND);
    come_back_all(8);
    pass(20 * DT_SECOND, 255, 1);
    CHECK_STR(told[0], "");
    end();
}

/* Agents that were started together beat together: the other's next beat is due just then. */
TEST(a_beat_that_is_due_when_another_node_is_lost_makes_no_crowd)
{
    begin_running(2, 1, 2);
    for (int i = 0; i < 2; i++) {
        now += 5 * DT_SECOND;
        beat(1000);
        now += 1;
        tick();
    }
    pass_in_silence(5 * DT_SECOND);
    CHECK_STR(told[0], "stop ");
    end();
}

TEST(a_failure_is_paid_once_and_by_all)
{
    begin_running(3, 3, 3);
    run->spec.max_restarts = 1;
    result(1001, false);
    CHECK_STR(told[0], "stop ");
    result(1002, false); /* it fell with the first; of a round that is over */
    CHECK_STR(told[2], "stop ");
    for (uint64_t id = 1000; id < 1003; id++)
        join(id);
    CHECK_STR(told[0], "stop world 1:0/3 ");
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(world[i].restarts, 1);
        CHECK_STR(news[i], "node1: rank 0 exited with 1; restart 1 of 1");
    }
    forget_told();
    result(1000, false);
    for (uint64_t id = 1000; id < 1003; id++)
        join(id);
    for (int i = 0; i < 3; i++)
        CHECK_STR(told[i], "stop close-failed ");
    CHECK(strstr(why[2], "node0: rank 0 exited with 1") != NULL);
    CHECK(strstr(why[2], "of 1 restart none is left") != NULL);
    end();
}

TEST(who_comes_without_its_workers_ends_the_round_and_all_are_told_why)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 1;
    lose(1001);
    join(1001);
    for (int i = 0; i < 2; i++) {
        CHECK_STR(told[i], "stop ");
        CHECK_STR(why[i], "node1: its workers are gone, and it does not say why");
    }
    end();
}

/* It says why its workers are gone, and then that they are; what it said over the connection before
 * comes first. */
TEST(who_was_ready_for_a_world_is_not_done_with_it)
{
    begin_running(2, 2, 3);
    run->spec.max_restarts = 1;
    result(1001, false);
    lose(1001);
    join(1001);
    forget_told();
    int before = last_round[1];
    join(1000);
    CHECK_STR(told[1], "world 1:1/2 ");
    join(1002);
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    last_round[1] = before;
    join(1001); /* said before it heard of round 1 */
    last_round[1] = 1;
    join(1000);
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    join(1001);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    end();
}

TEST(a_world_that_was_lost_with_its_connection_is_not_waited_for)
{
    begin_running(2, 2, 3);
    run->spec.max_restarts = 1;
    result(1001, false);
    join(1001);
    int before = last_round[1];
    join(1000);
    join(1002);
    lose(1001);
    last_round[1] = before;
    join(1001);
    join(1000);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    end();
}

TEST(a_job_that_fails_at_once_again_and_again_pauses_before_its_rounds)
{
    static const dt_ms pauses[] = {0, 1000, 2000, 4000};
    begin_running(1, 1, 1);
    run->spec.max_restarts = 20;
    run->spec.no_progress = 0;
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        CHECK_ROW("%zu", i);
        result(1000, false);
        join(1000);
        if (pauses[i]) {
            CHECK_EQ(run->state, DT_RUN_GATHERING);
            CHECK_EQ(dt_rdzv_next(run), now + (pauses[i] < 2500 ? pauses[i] : 2500));
            now += pauses[i] - 1;
            tick();
            CHECK_EQ(run->state, DT_RUN_GATHERING);
            now++;
            tick();
            CHECK(strstr(news[0], "rounds in a row failed at once") != NULL);
        }
        CHECK_EQ(run->state, DT_RUN_RUNNING);
    }
    pass(10 * DT_SECOND, 1, 1);
    result(1000, false);
    join(1000);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    end();
}

TEST(a_spare_takes_the_seat_of_a_node_that_fails_twice_in_a_row)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 20;
    join(1002);
    result(1001, false);
    join(1000);
    join(1001);
    CHECK_STR(told[1], "stop world 1:1/2 ");
    result(1001, false);
    join(1000);
    join(1001);
    pass(2 * DT_SECOND, 7, 1);
    CHECK_STR(told[1], "stop world 1:1/2 stop park ");
    CHECK_STR(told[2], "park world 2:1/2 ");
    CHECK(strstr(news[0], "node1 failed 2 times in a row, so a spare takes its place") != NULL);
    result(1000, false); /* another one: the spare is not for the first that fails */
    join(1000);
    join(1002);
    pass(3 * DT_SECOND, 7, 1);
    CHECK_STR(told[2], "park world 2:1/2 stop world 3:1/2 ");
    end();
}

/* The agent ID says that it is on the host of the agent HOST, too. */
static void join_on(uint64_t id, uint64_t host)
{
    struct dt_join j = join_of(id);
    j.node.name = join_of(host).node.name;
    frame(id,
          (struct dt_message){.type = DT_MSG_JOIN, .round = last_round[node_of(id)], .join = j});
}

TEST(a_spare_of_another_host_comes_before_more_agents_of_the_one_that_failed_twice)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 20;
    join(1002);
    join_on(1003, 1001);
    for (int i = 0; i < 2; i++) {
        result(1001, false);
        if (i == 1) /* so that there are two seats to fill */
            dt_exclude_reject(&exclude, "node0", "no data", 600 * DT_SECOND, now);
        join(1000);
        join(1001);
    }
    pass(2 * DT_SECOND, 15, 1);
    CHECK_STR(told[0], "stop world 1:0/2 stop park ");
    CHECK_STR(told[1], "stop world 1:1/2 stop park ");
    CHECK(strstr(told[2], "park world 2:") != NULL);
    CHECK(strstr(told[3], "park world 2:") != NULL);
    CHECK(strstr(news[2], "node1 failed 2 times in a row, so a spare takes its place") != NULL);
    end();
}

TEST(a_node_with_two_agents_gives_up_as_many_seats_as_there_are_spares)
{
    begin(3, 3);
    join(1000);
    join(1001);
    join_on(1003, 1001);
    join(1002);
    run->spec.max_restarts = 20;
    for (int i = 1; i <= 3; i++) {
        result(1003, false);
        join(1000);
        join(1001);
        join_on(1003, 1001);
        if (i == 3)
            join(1002);
        pass(5 * DT_SECOND, 15, 1);
        CHECK_EQ(run->round, i);
        CHECK_EQ(last_round[1] == i, i != 2); /* nobody knows which of the two it is ... */
        CHECK_EQ(last_round[3] == i, i != 3); /* ... until one fails beside a spare */
        CHECK_EQ(last_round[2] == i, i >= 2);
    }
    end();
}

TEST(a_node_that_fails_twice_stays_where_no_spare_is)
{
    begin_running(2, 1, 2);
    run->spec.max_restarts = 20;
    for (int i = 1; i < 3; i++) {
        result(1001, false);
        join(1000);
        join(1001);
        pass(2 * DT_SECOND, 3, 1);
        CHECK_EQ(last_round[1], i);
    }
    end();
}

TEST(a_node_that_failed_twice_long_ago_keeps_its_seat_when_another_is_lost)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 20;
    for (int i = 0; i < 2; i++) {
        result(1001, false);
        join(1000);
        join(1001);
        pass(2 * DT_SECOND, 3, 1);
    }
    pass(2 * 3600 * DT_SECOND, 3, 1);
    join(1002);
    join(1003);
    lose(1000);
    pass(2 * DT_SECOND, 14, 1);
    join(1001); /* two spares are there, and one is needed */
    CHECK_EQ(last_round[1], 3);
    CHECK_EQ(world[1].seat, 1);
    CHECK_EQ(last_round[2], 3);
    end();
}

/* Two nodes run, and node2 has just joined them. */
static void begin_grown(void)
{
    begin_running(2, 2, 3);
    run->spec.max_restarts = 1;
    join(1002);
    join(1000);
    join(1001);
    CHECK_STR(told[2], "world 1:2/3 ");
    forget_told();
}

TEST(a_newcomer_that_fails_at_once_is_kept_out_and_the_job_goes_on_without_it)
{
    begin_grown();
    result(1002, false);
    join(1002);
    join(1000);
    join(1001);
    CHECK_STR(told[0], "stop world 2:0/2 ");
    CHECK_STR(told[2], "stop park ");
    CHECK(strstr(why[2], "node2 is kept out") != NULL);
    CHECK(strstr(why[2], "failed as soon as it had joined: node2: rank 0 exited with 1") != NULL);
    CHECK(strstr(news[0], "it had just joined, so no restart is charged") != NULL);
    CHECK_EQ(world[0].restarts, 0);
    CHECK_EQ(run->budget.losses, 0);
    pass(601 * DT_SECOND + 75 * DT_SECOND, 7, 1); /* with the most of jitter */
    CHECK_STR(told[0], "stop world 2:0/2 stop-together ");
    end();
}

TEST(a_newcomers_later_failure_is_the_programs)
{
    static const struct {
        const char *name;
        dt_ms wait;
        int64_t first, then; /* steps */
        int restarts;
    } rows[] = {
        {"a minute later", 61 * DT_SECOND, -1, -1, 1},
        {"no step yet", 61 * DT_SECOND, 40, 40, 0},
        {"after a step", 1 * DT_SECOND, 40, 41, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].name);
        begin_grown();
        for (int told_step = 0; told_step < 2 && rows[i].first >= 0; told_step++)
            frame(1000,
                  (struct dt_message){.type = DT_MSG_BEAT,
                                      .round = 1,
                                      .beat = {.step = told_step ? rows[i].then : rows[i].first}});
        pass(rows[i].wait, 7, 1);
        result(1002, false);
        for (uint64_t id = 1000; id < 1003; id++)
            join(id);
        CHECK_EQ(run->state, DT_RUN_RUNNING);
        CHECK_EQ(world[0].restarts, rows[i].restarts);
        end();
    }
}

TEST(a_newcomer_that_the_job_cannot_do_without_pays_as_anybody)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 1;
    lose(1001);
    now += DT_SECOND;
    tick();
    join(1000);
    join(1002);
    CHECK_STR(told[2], "world 1:1/2 ");
    result(1002, false);
    join(1000);
    join(1002);
    CHECK_EQ(world[0].restarts, 1);
    CHECK(!dt_exclude_is_out(&exclude, "node2", now, NULL));
    end();
}

TEST(a_newcomers_fault_is_known_to_a_server_that_is_started_again)
{
    struct dt_buf record = {0};
    begin_grown();
    result(1002, false);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL && run->gathering.fault.pending && run->gathering.fault.newcomer);
    dt_buf_finish(&record);
    for (uint64_t id = 1000; id < 1003; id++)
        join(id);
    CHECK_EQ(world[0].restarts, 0);
    CHECK(dt_exclude_is_out(&exclude, "node2", now, NULL));
    end();
}

TEST(a_failure_that_a_lost_node_explains_costs_no_restart)
{
    begin_running(3, 2, 3);
    result(1001, false); /* its peer vanished; nobody knows yet */
    lose(1002);
    join(1000);
    join(1001);
    CHECK_STR(told[0], "stop ");
    now += DT_SECOND;
    tick();
    CHECK_STR(told[0], "stop world 1:0/2 ");
    CHECK_EQ(world[0].restarts, 0);
    end();
}

TEST(no_round_begins_while_workers_of_the_last_may_live)
{
    begin_running(3, 2, 3);
    run->spec.max_restarts = 1;
    result(1000, false);
    join(1000);
    join(1001);
    pass(34 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "stop ");
    pass(2 * DT_SECOND, 7, 1); /* the time for that is over */
    CHECK_STR(told[0], "stop world 1:0/2 ");
    CHECK(strncmp(told[2], "stop stale ", 11) == 0);
    CHECK(strstr(told[2], "world") == NULL);
    end();
}

TEST(all_done_is_success_for_spares_too)
{
    begin_running(2, 2, 2);
    join(1002);
    result(1000, true);
    CHECK_STR(told[0], "");
    result(1001, true);
    CHECK_STR(told[0], "close-succeeded ");
    CHECK_STR(told[1], "close-succeeded ");
    CHECK_STR(told[2], "park close-succeeded ");
    end();
}

TEST(one_who_is_done_may_go_but_a_loss_before_that_runs_all_again)
{
    begin_running(3, 2, 3);
    result(1000, true);
    frame(1000, (struct dt_message){.type = DT_MSG_LEAVE, .round = 0, .why = "SIGTERM"});
    CHECK_STR(told[1], "");
    result(1001, true);
    lose(1002);
    now += DT_SECOND;
    tick();
    CHECK_STR(told[1], "stop ");
    end();
}

TEST(leaving_ends_the_round_and_not_the_job)
{
    begin_running(3, 2, 3);
    frame(1001, (struct dt_message){.type = DT_MSG_LEAVE, .round = 0, .why = "SIGTERM"});
    CHECK_STR(told[0], "stop ");
    CHECK_STR(why[0], "node1 leaves (SIGTERM)");
    join(1000);
    join(1002);
    CHECK_STR(told[0], "stop world 1:0/2 ");
    CHECK(dt_exclude_find(&exclude, "node1") == NULL ||
          !dt_exclude_find(&exclude, "node1")->strikes);
    end();
}

static void leave(uint64_t id, bool stopping, const char *text)
{
    frame(id, (struct dt_message){.type = DT_MSG_LEAVE,
                                  .round = last_round[node_of(id)],
                                  .leave = {.stopping = stopping},
                                  .why = text});
}

TEST(who_leaves_with_workers_is_waited_for_until_they_are_gone)
{
    begin_running(3, 2, 3);
    leave(1001, true, "SIGTERM");
    for (int i = 0; i < 3; i++) {
        CHECK_STR(told[i], "stop-together ");
        CHECK_STR(why[i], "node1 leaves (SIGTERM)");
    }
    CHECK_EQ(run->budget.losses, 1);
    join(1000);
    join(1002);
    pass(9 * DT_SECOND, 5, 1);
    tick();
    beat(1001); /* of no workers */
    pass(11 * DT_SECOND, 5, 1);
    CHECK(strstr(told[0], "world") == NULL);
    CHECK(strstr(why[0], "missing node1 (its workers are gone, what they started is not, 25 s more "
                         "at most)") != NULL);
    leave(1001, false, "its workers are gone");
    CHECK(strstr(told[0], "world 1:0/2 ") != NULL);
    CHECK_STR(news[0], "node1 leaves (SIGTERM); node2 takes seat 1 of node1; 2 nodes instead of 3");
    CHECK(dt_exclude_find(&exclude, "node1") == NULL);
    CHECK_EQ(run->budget.losses, 1);
    end();
}

TEST(who_leaves_is_waited_for_no_longer_than_the_others_are)
{
    for (int i = 0; i < 2; i++) {
        CHECK_ROW("%s", i ? "its connection is lost" : "its workers do not end");
        begin_running(3, 2, 3);
        leave(1001, true, "SIGTERM");
        forget_told();
        join(1000);
        join(1002);
        if (i) {
            lose(1001);
            pass(2 * DT_SECOND, 5, 1);
        } else {
            pass(spec.stop_bound + DT_SECOND, 7, 1);
            CHECK(strstr(told[1], "stale ") != NULL);
        }
        CHECK_EQ(run->state, DT_RUN_RUNNING);
        CHECK(dt_exclude_find(&exclude, "node1") == NULL); /* it was told to go: no strike */
        end();
    }
}

TEST(who_leaves_when_the_round_is_over_is_waited_for_too)
{
    begin_running(3, 2, 3);
    lose(1002);
    pass(DT_SECOND, 3, 1);
    CHECK_STR(told[0], "stop ");
    join(1000);
    leave(1001, true, "SIGTERM");
    forget_told();
    pass(20 * DT_SECOND, 3, 1);
    leave(1001, false, "its workers are gone");
    CHECK_EQ(run->state, DT_RUN_GATHERING); /* of two, one is left */
    CHECK_EQ(run->members.count, 1);
    end();
}

/* As a world without it is no whole one, and some may wait in it for those that are gone. */
TEST(workers_that_stop_together_are_told_when_one_of_them_is_lost)
{
    begin_running(4, 2, 4);
    leave(1001, true, "SIGTERM");
    join(1000);
    forget_told();
    lose(1002);
    pass(2 * DT_SECOND, 11, 1);
    CHECK_STR(told[0], ""); /* its workers are gone */
    CHECK_STR(told[1], "stop ");
    CHECK_STR(told[3], "stop ");
    lose(1003);
    pass(2 * DT_SECOND, 3, 1);
    CHECK_STR(told[1], "stop "); /* once is enough */
    end();
}

TEST(workers_of_a_round_that_grows_stop_together)
{
    begin_running(2, 2, 3);
    join(1002);
    CHECK_STR(told[0], "stop-together ");
    CHECK_STR(told[1], "stop-together ");
    end();
}

TEST(a_node_started_anew_takes_its_own_seat)
{
    begin_running(3, 3, 3);
    lose(1001);
    last_round[1] = -1;
    join(2001); /* before the old one's time is over */
    CHECK_STR(told[0], "stop ");
    join(1000);
    join(1002);
    CHECK_STR(told[1], "world 1:1/3 ");
    end();
}

TEST(agents_of_one_host_have_names_of_their_own)
{
    begin(2, 2);
    struct dt_join j = join_of(1000);
    frame(1000, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    frame(1001, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    CHECK_STR(told[0], "world 0:0/2 ");
    CHECK_STR(dt_members_find(&run->members, 1001)->name.text, "node0#2");
    end();
}

TEST(what_is_held_against_a_host_is_against_all_its_agents)
{
    begin(2, 4);
    struct dt_join j = join_of(1000);
    dt_exclude_drain(&exclude, "node0", false, "a fan is broken", now);
    frame(1000, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    frame(1001, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    join(1002);
    pass(spec.last_call + DT_SECOND, 7, 1);
    CHECK_STR(told[2], "");
    join(1003);
    pass(spec.last_call + DT_SECOND, 15, 1);
    CHECK_STR(told[2], "world 0:0/2 ");
    CHECK_STR(told[1], "park ");
    end();
}

TEST(growth_ends_the_round_at_once_or_when_it_may)
{
    begin_running(2, 2, 3);
    run->spec.grow_interval = 60 * DT_SECOND;
    join(1002);
    CHECK_STR(told[2], "park ");
    CHECK_STR(told[0], "");
    pass(60 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "stop-together ");
    join(1000);
    join(1001);
    CHECK_STR(told[2], "park world 1:2/3 ");
    CHECK_EQ(world[0].restarts, 0);
    end();
}

TEST(nodes_that_come_one_after_the_other_are_taken_in_together)
{
    begin_running(2, 2, 8);
    run->spec.grow_interval = 5 * DT_SECOND;
    for (uint64_t i = 2; i < 6; i++) {
        join(1000 + i);
        CHECK_STR(told[i], "park ");
        CHECK(strstr(why[i], "joins it in about 5 s") != NULL);
        pass(1500, (2u << i) - 1, 1);
        CHECK_STR(told[0], "");
    }
    pass(3400, 0x3f, 1);
    CHECK_STR(told[0], "");
    pass(100, 0x3f, 1);
    CHECK_STR(told[0], "stop-together ");
    CHECK_STR(why[0], "node2 and 3 other nodes join");
    join(1000);
    join(1001);
    CHECK_STR(told[0], "stop-together world 1:0/6 ");
    end();
}

TEST(nobody_more_is_waited_for_when_a_growing_job_is_full)
{
    begin_running(2, 2, 4);
    run->spec.grow_interval = 5 * DT_SECOND;
    pass(5 * DT_SECOND, 3, 1);
    join(1002);
    CHECK_STR(told[0], "");
    join(1003);
    CHECK_STR(told[0], "stop-together ");
    end();
}

TEST(a_growing_job_waits_no_longer_than_a_last_call)
{
    begin_running(2, 2, 16);
    run->spec.grow_interval = 5 * DT_SECOND;
    run->spec.last_call = 10 * DT_SECOND;
    join(1002);
    for (uint64_t i = 3; i < 6; i++) {
        pass(3 * DT_SECOND, (1u << i) - 1, 1);
        join(1000 + i);
    }
    CHECK_STR(told[0], "");
    pass(DT_SECOND, 0x3f, 1);
    CHECK_STR(told[0], "stop-together ");
    end();
}

TEST(too_few_are_named_when_time_is_over)
{
    begin_running(3, 3, 3);
    lose(1001);
    now += DT_SECOND;
    tick();
    join(1000);
    join(1002);
    pass(601 * DT_SECOND, 5, 1);
    CHECK_STR(told[0], "stop close-timeout ");
    CHECK(strstr(why[0], "2 of 3 nodes are ready; missing node1 (gone 60") != NULL);
    end();
}

TEST(nodes_that_ask_for_another_size_are_refused_by_name)
{
    begin_running(2, 2, 2);
    spec.max_nodes = 5;
    join(1003);
    CHECK_STR(told[3], "close-refused ");
    CHECK(strstr(why[3], "node3 asks for --nnodes 2:5, but run \"run\" has 2:2") != NULL);
    CHECK_STR(told[0], "");
    end();
}

TEST(a_job_whose_agents_were_all_killed_begins_anew_with_another_size)
{
    begin_running(2, 2, 2);
    lose(1000);
    spec.min_nodes = spec.max_nodes = 1;
    last_round[0] = last_round[1] = -1;
    join(2000);
    CHECK_STR(told[0], "close-refused "); /* node1 is still there */
    lose(1001);
    now += 100;
    join(3000);
    CHECK_STR(told[0], "close-refused world 1:0/1 ");
    last_round[1] = 0;
    come_back(1001, false);
    CHECK_STR(told[1], "close-refused "); /* it is of another size */
    end();
}

TEST(an_agent_of_another_host_does_not_replace_a_job_of_another_size)
{
    begin_running(2, 2, 2);
    lose(1000);
    lose(1001);
    spec.min_nodes = spec.max_nodes = 1;
    join(1002);
    CHECK_STR(told[2], "close-refused ");
    spec.min_nodes = spec.max_nodes = 2;
    come_back(1000, false);
    come_back(1001, false);
    CHECK_STR(told[0], "");
    CHECK_EQ(run->round, 0);
    end();
}

TEST(another_schedulers_job_of_the_same_name_is_refused)
{
    begin(2, 2);
    set_text(spec.job, "17");
    join(1000);
    set_text(spec.job, "18");
    join(1001);
    CHECK_STR(told[1], "close-refused ");
    CHECK(strstr(why[1], "job 17") != NULL);
    end();
}

TEST(a_server_started_again_finds_all_as_it_was)
{
    struct dt_buf record = {0};
    begin_running(3, 3, 3);
    result(1002, true);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    now = 50; /* another clock */
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    for (int i = 0; i < 2; i++)
        come_back(1000 + (uint64_t)i, false);
    pass(10 * DT_SECOND, 3, 1);
    come_back(1002, true);
    pass(60 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "");
    result(1000, true);
    result(1001, true);
    CHECK_STR(told[2], "close-succeeded ");
    dt_buf_finish(&record);
    end();
}

TEST(a_failure_is_paid_although_the_server_is_started_again_before_it_is)
{
    struct dt_buf record = {0};
    begin_running(2, 2, 2);
    run->spec.max_restarts = 3;
    result(1001, false);
    join(1000);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    join(1000);
    join(1001);
    CHECK_STR(told[0], "stop world 1:0/2 ");
    CHECK_EQ(world[0].restarts, 1);
    dt_buf_finish(&record);
    end();
}

TEST(who_does_not_come_back_to_a_restarted_server_is_lost)
{
    struct dt_buf record = {0};
    begin_running(3, 2, 3);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    come_back(1000, false);
    come_back(1001, false);
    pass(15 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "");
    pass(2 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "stop ");
    CHECK_EQ(exclude.nodes.count, 1);
    dt_buf_finish(&record);
    end();
}

TEST(nodes_that_a_restarted_server_hears_nothing_of_have_no_strike)
{
    struct dt_buf record = {0};
    begin_running(3, 2, 3);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    pass_in_silence(20 * DT_SECOND);
    CHECK_EQ(run->members.count, 0);
    CHECK_EQ(exclude.nodes.count, 0);
    for (uint64_t id = 1000; id < 1003; id++)
        come_back(id, false);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    CHECK_EQ(run->round, 0);
    dt_buf_finish(&record);
    end();
}

/* -- nodes whose options differ --------------------------------------------------------------- */

/* Whether the last step logged a warning that ends so. */
static bool warned(const char *end_of_line)
{
    for (size_t i = 0; i < done.len; i++) {
        const char *text = dt_rdzv_text(&done, done.at[i].text);
        size_t len = strlen(text), wanted = strlen(end_of_line);
        if (done.at[i].type == DT_DO_SAY && done.at[i].level == DT_SAY_WARN && len >= wanted &&
            strcmp(text + len - wanted, end_of_line) == 0)
            return true;
    }
    return false;
}

TEST(a_node_whose_options_differ_is_told_of_in_the_log)
{
    begin(3, 3);
    join(1000);
    CHECK(!warned("came first"));
    spec.max_restarts = 5;
    join(1001);
    CHECK(warned("node1 asks for --max-restarts 5; the run has 0, from the node that came first"));
    spec.max_restarts = 0;
    spec.torchrun_ranks = true;
    spec.quarantine = DT_SECOND;
    spec.max_node_losses = 2;
    join(1002);
    CHECK(warned("node2 asks for --rank-policy torchrun, --max-node-losses 2, --quarantine-time "
                 "1 s; the run has stable, unlimited, 10 min, from the node that came first"));
    CHECK_EQ(run->spec.max_node_losses, -1);
    CHECK_STR(told[2], "world 0:2/3 ");
    end();
}

/* -- two jobs of one name -----------------------------------------------------------------------
 */

/* The first node runs train.py as ada. */
static void begin_as_ada(bool shared, bool mixed)
{
    begin(2, 2);
    dt_rdzv_set_shared(run, shared);
    set_text(spec.script, "train.py");
    set_text(spec.user, "ada");
    spec.mixed = mixed;
    join(1000);
}

static void join_other(uint64_t id, uint64_t command, const char *script, const char *user,
                       bool mixed)
{
    spec.command = command;
    set_text(spec.script, script);
    set_text(spec.user, user);
    spec.mixed = mixed;
    join(id);
}

TEST(where_several_people_meet_another_job_of_the_same_name_is_refused)
{
    static const struct {
        const char *script, *user, *says;
        uint64_t command;
        bool first_mixed, mixed;
    } rows[] = {
        /* clang-format off */
        {"train.py", "ada", NULL, 7, false, false},
        {"train.py", "", NULL, 7, false, false}, /* of a dtrun that does not tell */
        {"train.py", "bob", "node1 runs train.py as bob, but run \"run\" runs train.py as ada; ", 7, false, false},
        {"eval.py", "ada", "node1 runs eval.py as ada, but run \"run\" runs train.py as ada; ", 8, false, false},
        {"", "", "node1 runs another command, but run \"run\" runs train.py as ada; ", 8, false, false},
        {"eval.py", "bob", "--allow-mixed-nodes", 8, false, true}, /* it takes both */
        {"eval.py", "bob", "give each job an --rdzv-id", 8, true, false},
        {"eval.py", "bob", NULL, 8, true, true},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu: %s as %s", i, rows[i].script, rows[i].user);
        begin_as_ada(true, rows[i].first_mixed);
        join_other(1001, rows[i].command, rows[i].script, rows[i].user, rows[i].mixed);
        CHECK_STR(told[1], rows[i].says ? "close-refused " : "world 0:1/2 ");
        CHECK_STR(told[0], rows[i].says ? "" : "world 0:0/2 ");
        if (rows[i].says && !strstr(why[1], rows[i].says))
            CHECK_STR(why[1], rows[i].says);
        end();
    }
}

TEST(what_a_job_is_for_outlives_a_restart_of_the_server)
{
    struct dt_buf record = {0};
    begin_as_ada(true, false);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    dt_rdzv_set_shared(run, true);
    join(1000);
    join_other(1001, 7, "train.py", "bob", false);
    CHECK_STR(told[1], "close-refused ");
    CHECK(strstr(why[1], "runs train.py as ada"));
    dt_buf_finish(&record);
    end();
}

/* Nobody knows who made the mistake. */
TEST(where_one_of_the_nodes_hosts_all_are_told_of_another_command)
{
    begin(3, 3);
    set_text(spec.script, "train.py");
    set_text(spec.user, "ada");
    join(1000);
    join_other(1001, 8, "wrap.sh", "ada", false);
    join_other(1002, 7, "train.py", "ada", false); /* comes later, and hears of it too */
    for (int i = 0; i < 3; i++) {
        CHECK_ROW("node%d", i);
        CHECK_STR(why[i], "node1 runs wrap.sh as ada, but run \"run\" runs train.py as "
                          "ada; if these are two jobs, give each an --rdzv-id of its own");
    }
    CHECK_STR(told[2], "world 0:2/3 ");
    end();
}

TEST(nodes_of_one_job_that_were_given_two_ids_are_asked_about_it)
{
    static const struct {
        int min, max;
        uint64_t command;
        const char *user, *job;
        bool came, one; /* as many as are wanted; it may be the same job */
    } rows[] = {
        {2, 2, 7, "ada", "", false, true},   {2, 3, 7, "ada", "", false, false},
        {2, 2, 8, "ada", "", false, false},  {2, 2, 7, "bob", "", false, false},
        {2, 2, 7, "ada", "9", false, false}, {2, 2, 7, "ada", "", true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        begin_as_ada(true, false);
        struct dt_rdzv *first = run, *other = dt_rdzv_create("other", &exclude, 1);
        run = other;
        spec.min_nodes = rows[i].min;
        spec.max_nodes = rows[i].max;
        set_text(spec.job, rows[i].job);
        join_other(1001, rows[i].command, "train.py", rows[i].user, false);
        if (rows[i].came)
            join(1002);
        CHECK_EQ(dt_rdzv_may_be_one(first, other), rows[i].one);
        CHECK_EQ(dt_rdzv_may_be_one(other, first), rows[i].one);
        dt_rdzv_destroy(other);
        run = first;
        end();
    }
}

TEST(who_waits_is_told_of_a_run_that_may_be_its_own)
{
    begin_as_ada(true, false);
    pass(9 * DT_SECOND, 1, 1);
    now += DT_SECOND;
    step(&(struct dt_rdzv_event){.type = DT_EV_TICK, .twin = "17263"});
    CHECK(strstr(why[0],
                 "round 0: 1 of 2 nodes are ready; 590 s left; run \"17263\" waits here too"));
    CHECK(strstr(why[0], "was the same --rdzv-id given on all nodes?"));
    end();
}

TEST(a_record_that_is_cut_anywhere_is_no_record)
{
    struct dt_buf record = {0};
    begin_running(3, 3, 3);
    dt_rdzv_save(run, &record);
    for (size_t n = 0; n < record.len; n++)
        CHECK(dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, n}, now) == NULL);
    dt_buf_finish(&record);
    end();
}

/* As it does when it is on a new connection, and its round is over for TEXT. */
static void come_back_from_round_over(uint64_t id, bool has_workers, const char *text)
{
    int i = node_of(id);
    struct dt_message m = {.type = DT_MSG_JOIN, .round = last_round[i], .join = join_of(id)};
    m.join.claim = (struct dt_claim){.running = has_workers,
                                     .again = true,
                                     .seat = world[i].seat,
                                     .seats = world[i].seats,
                                     .first_rank = world[i].first_rank,
                                     .size = world[i].size,
                                     .over = text};
    frame(id, m);
}

static void forget_everything(void)
{
    dt_rdzv_destroy(run);
    run = dt_rdzv_create("run", &exclude, 2);
    forget_told();
}

TEST(a_server_that_forgot_everything_learns_that_a_round_is_over)
{
    begin_running(3, 2, 3);
    lose(1002);
    now += spec.reconnect_grace;
    tick();
    CHECK_STR(told[0], "stop ");
    forget_everything();
    come_back_from_round_over(1000, true, "node2 went offline");
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    come_back(1001, false); /* which never heard of it */
    CHECK_STR(told[1], "stop ");
    CHECK_STR(why[1], "node2 went offline");
    join(1000);
    join(1001);
    CHECK_STR(told[1], "stop "); /* the third may yet come back, with workers */
    pass(spec.beat * spec.beats + spec.reconnect_grace, 3, 1);
    CHECK_STR(told[1], "stop world 1:1/2 ");
    CHECK_EQ(world[0].restarts, 0);
    end();
}

TEST(a_node_that_is_back_without_workers_is_not_told_to_stop_them)
{
    begin_running(3, 3, 3);
    forget_everything();
    come_back_from_round_over(1000, false, "node2 went offline");
    come_back_from_round_over(1001, false, "node2 went offline");
    CHECK_STR(told[0], "");
    CHECK_STR(told[1], "");
    come_back_from_round_over(1002, true, "node2 went offline");
    CHECK_STR(told[2], "stop ");
    join(1002);
    CHECK_STR(told[0], "world 1:0/3 ");
    CHECK_STR(told[1], "world 1:1/3 ");
    CHECK_STR(told[2], "stop world 1:2/3 ");
    end();
}

TEST(a_server_that_forgot_everything_begins_no_round_twice)
{
    begin_running(3, 3, 3);
    forget_everything();
    come_back_from_round_over(1000, false, "node2 went offline");
    last_round[3] = 5;
    join(1003); /* it was in a later round, of which nobody else has told yet */
    CHECK_EQ(run->round, 6);
    last_round[1] = 3;
    come_back(1001, false);
    CHECK_STR(told[1], "stale ");
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    CHECK_EQ(run->round, 6);
    last_round[2] = 6;
    come_back(1002, false); /* this one is news */
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    CHECK_EQ(run->round, 6);
    end();
}

TEST(a_failure_that_the_server_forgot_is_charged_once)
{
    for (int i = 0; i < 3; i++) {
        CHECK_ROW("%s comes first", i == 0 ? "the failed node" : i == 1 ? "one told" : "one not");
        begin(2, 2);
        spec.max_restarts = 3;
        join(1000);
        join(1001);
        result(1000, false);
        forget_everything();
        if (i == 1)
            come_back_from_round_over(1001, true, "rank 0 exited with 1");
        else if (i == 2)
            come_back(1001, false);
        come_back_from_round_over(1000, true, "rank 0 exited with 1");
        result(1000, false);
        result(1000, false);
        come_back_from_round_over(1000, false, "rank 0 exited with 1");
        if (i == 0)
            come_back(1001, false);
        CHECK_STR(told[1], "stop ");
        join(1001);
        CHECK(strstr(told[0], "world 1:0/2 ") != NULL);
        CHECK_EQ(world[0].restarts, 1);
        end();
    }
}

/* It says so on each connection, to whoever may have forgotten it. */
TEST(a_failure_that_was_charged_is_not_charged_again)
{
    begin(2, 2);
    spec.max_restarts = 3;
    join(1000);
    join(1001);
    result(1000, false);
    join(1000);
    lose(1000);
    come_back_from_round_over(1000, true, "rank 0 exited with 1");
    result(1000, false);
    come_back_from_round_over(1000, false, "rank 0 exited with 1");
    join(1001);
    CHECK_STR(told[0], "world 0:0/2 stop world 1:0/2 ");
    last_round[0] = 0; /* it was lost with its connection */
    lose(1000);
    come_back_from_round_over(1000, true, "rank 0 exited with 1");
    result(1000, false);
    come_back_from_round_over(1000, false, "rank 0 exited with 1");
    CHECK_STR(told[0], "world 0:0/2 stop world 1:0/2 world 1:0/2 ");
    CHECK_EQ(world[0].restarts, 1);
    end();
}

TEST(a_server_that_forgot_everything_learns_it_from_the_nodes)
{
    begin_running(3, 3, 3);
    dt_rdzv_destroy(run);
    run = dt_rdzv_create("run", &exclude, 1);
    join(1004); /* a spare comes first */
    for (uint64_t id = 1000; id < 1003; id++)
        come_back(id, false);
    pass(60 * DT_SECOND, 0x17, 1);
    CHECK_STR(told[0], "");
    CHECK_EQ(run->round, 0);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    lose(1002);
    now += DT_SECOND;
    tick();
    join(1000);
    join(1001);
    CHECK_STR(told[4], "world 1:2/3 ");
    end();
}

/* Nodes 0 and 1, in round 0, are not heard of until both are given up. */
static void begin_and_lose_all(void)
{
    begin_running(2, 2, 2);
    pass(2 * spec.beat * spec.beats + DT_SECOND, 0, 1);
    CHECK(dt_rdzv_is_empty(run));
    CHECK(!dt_rdzv_is_idle(run, now));
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    forget_told();
}

TEST(nodes_that_were_all_lost_and_come_back_go_on)
{
    begin_and_lose_all();
    come_back(1000, false);
    come_back(1001, false);
    pass(60 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "");
    CHECK_STR(told[1], "");
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    CHECK_EQ(run->round, 0);
    end();
}

TEST(a_node_that_was_lost_does_not_undo_the_job_that_others_began_anew)
{
    begin_and_lose_all();
    join(1002);
    join(1003);
    CHECK_STR(told[2], "world 1:0/2 ");
    forget_told();
    come_back(1000, false);
    CHECK_STR(told[0], "stale ");
    CHECK_STR(told[2], "");
    CHECK_STR(told[3], "");
    CHECK_EQ(run->round, 1);
    end();
}

TEST(a_run_that_all_were_lost_from_is_remembered_for_a_while)
{
    struct dt_buf record = {0};
    begin_and_lose_all();
    dt_rdzv_save(run, &record);
    CHECK_EQ(record.len, 0);
    dt_ms next = dt_rdzv_next(run);
    CHECK(next < DT_FOREVER);
    CHECK(!dt_rdzv_is_idle(run, next - 1));
    CHECK(dt_rdzv_is_idle(run, next));
    end();
}

TEST(a_last_call_ends_with_those_who_heard_it)
{
    begin_running(2, 1, 3);
    pass(2 * spec.beat * spec.beats + DT_SECOND, 0, 1);
    join(1002); /* begins the job anew, and leaves before it has a world */
    CHECK(run->gathering.last_call > 0);
    frame(1002, (struct dt_message){.type = DT_MSG_LEAVE, .why = ""});
    CHECK(dt_rdzv_is_empty(run));
    now += spec.last_call;
    join(1003);
    CHECK_STR(told[3], "");
    pass(spec.last_call + DT_SECOND, 8, 1);
    CHECK_STR(told[3], "world 1:0/1 ");
    end();
}

TEST(a_run_that_all_have_left_is_forgotten_at_once)
{
    begin_running(1, 1, 1);
    frame(1000, (struct dt_message){.type = DT_MSG_LEAVE, .why = ""});
    CHECK(dt_rdzv_is_idle(run, now));
    end();
}

TEST(a_world_that_was_lost_with_its_connection_is_said_again)
{
    begin_running(2, 2, 2);
    last_round[1] = -1; /* it never got it */
    lose(1001);
    join(1001);
    CHECK_STR(told[1], "world 0:1/2 ");
    CHECK_STR(told[0], "");
    end();
}

TEST(a_drained_node_goes_at_once_and_comes_back_when_it_may)
{
    begin_running(3, 2, 3);
    dt_exclude_drain(&exclude, "node1", false, "a fan is broken", now);
    step(&(struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = "node1"});
    CHECK_STR(why[0], "node1 is drained (a fan is broken)");
    for (uint64_t id = 1000; id < 1003; id++)
        join(id);
    CHECK_STR(told[0], "stop-together world 1:0/2 ");
    CHECK_STR(told[1], "stop-together park ");
    forget_told();
    dt_exclude_drain(&exclude, "node1", true, "", now);
    step(&(struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = "node1"});
    CHECK_STR(told[0], "stop-together ");
    CHECK_STR(why[0], "node1 joins");
    end();
}

TEST(a_drain_that_leaves_too_few_is_told_with_its_reason)
{
    size_t left;
    begin_running(2, 2, 3);
    CHECK(!dt_rdzv_is_short(run, &left));
    dt_exclude_drain(&exclude, "node1", false, "a loud fan", now);
    step(&(struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = "node1"});
    CHECK(dt_rdzv_is_short(run, &left));
    CHECK_EQ(left, 1);
    join(1000);
    join(1001);
    CHECK_EQ(dt_rdzv_count_ready(run), 1);
    pass(600 * DT_SECOND, 3, 1);
    CHECK_EQ(run->state, DT_RUN_CLOSED);
    CHECK_STR(run->closed.why,
              "round 1: 1 of 2 nodes are ready; node1 is drained (a loud fan), after "
              "600 s (join_timeout)");
    end();
}

TEST(a_seat_that_a_smaller_world_lacks_is_nobodys)
{
    begin_running(3, 2, 3);
    dt_exclude_drain(&exclude, "node2", false, "a fan is broken", now);
    step(&(struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = "node2"});
    for (uint64_t id = 1002; id >= 1000; id--)
        join(id);
    CHECK_STR(told[0], "stop-together world 1:0/2 ");
    CHECK_STR(told[2], "stop-together park ");
    end();
}

TEST(a_node_that_is_lost_three_times_is_kept_out_until_its_time_is_over)
{
    begin_running(3, 2, 3);
    for (int i = 0; i < 3; i++) {
        uint64_t id = 1001 + 1000 * (uint64_t)i;
        lose(id);
        now += DT_SECOND;
        tick();
        obey_stops();
        last_round[1] = -1;
        forget_told();
        join(id + 1000);
        obey_stops();
    }
    CHECK_STR(told[1], "park ");
    CHECK(strstr(why[1], "kept out") != NULL);
    end();
}

TEST(somebody_kept_out_is_taken_where_there_would_be_too_few)
{
    begin(2, 3);
    for (int i = 0; i < 3; i++)
        dt_exclude_note(&exclude, "node1", DT_EVIDENCE_OFFLINE, "", 3, 600 * DT_SECOND, now);
    CHECK(dt_exclude_is_out(&exclude, "node1", now, NULL));
    join(1000);
    join(1001);
    pass(31 * DT_SECOND, 3, 1);
    CHECK_STR(told[1], "world 0:1/2 ");
    end();
}

TEST(the_next_job_of_a_name_begins_when_the_last_is_over)
{
    begin_running(2, 2, 2);
    result(1000, true);
    result(1001, true);
    forget_told();
    last_round[0] = last_round[1] = -1;
    now += 40 * DT_SECOND;
    join(2000);
    CHECK_STR(why[0],
              "run \"run\" ended 40 s ago (all nodes (2) have succeeded); this node begins the "
              "next job of that name, and needs 2 nodes for it");
    join(2001);
    CHECK_STR(told[0], "world 1:0/2 ");
    CHECK_EQ(world[0].restarts, 0);
    end();
}

TEST(a_late_loser_of_a_closed_job_hears_how_it_ended)
{
    begin_running(2, 2, 2);
    result(1000, true);
    result(1001, true);
    lose(1000);
    now += 2 * DT_SECOND;
    tick();
    forget_told();
    come_back(1000, true);
    CHECK_STR(told[0], "close-succeeded ");
    end();
}

TEST(a_spare_that_was_away_when_the_job_closed_does_not_begin_it_again)
{
    begin_running(2, 2, 2);
    join(1002);
    lose(1002);
    now += DT_SECOND;
    result(1000, true);
    result(1001, true);
    struct dt_join j = join_of(1002);
    j.claim.again = true;
    frame(1002, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    CHECK_STR(told[2], "park close-succeeded ");
    end();
}

TEST(equal_wishes_for_a_rank_are_named_and_do_no_harm)
{
    begin(2, 2);
    for (uint64_t id = 1000; id < 1002; id++) {
        struct dt_join j = join_of(id);
        j.node.order = 0;
        frame(id, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    }
    CHECK_STR(told[1], "world 0:1/2 ");
    bool named = false;
    for (size_t i = 0; i < done.len; i++)
        named = named || strstr(dt_rdzv_text(&done, done.at[i].text), "both ask for --node-rank 0");
    CHECK(named);
    end();
}

/* What an agent says of itself may be anything that a frame can hold. */
TEST(numbers_beyond_all_reason_do_no_harm)
{
    begin(1, 2);
    spec.join_timeout = spec.last_call = spec.stop_bound = spec.grow_interval = DT_FOREVER;
    struct dt_message m = {.type = DT_MSG_JOIN, .round = INT_MAX, .join = join_of(1000)};
    frame(1000, m);
    CHECK_STR(told[0], "close-refused ");
    m.round = -1;
    frame(1000, m);
    pass(40 * DT_SECOND, 1, 1);
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    CHECK(dt_rdzv_next(run) > now);
    m = (struct dt_message){.type = DT_MSG_JOIN, .round = INT_MAX, .join = join_of(1001)};
    m.join.claim = (struct dt_claim){.running = true, .seat = 0, .seats = 1, .size = 2};
    frame(1001, m);
    m.round = 0;
    m.join.claim.first_rank = 2;
    frame(1001, m);
    CHECK_STR(told[1], "close-refused close-refused ");
    end();
}

TEST(a_job_of_at_least_more_nodes_than_at_most_is_refused)
{
    begin(3, 2);
    join(1000);
    CHECK_STR(told[0], "close-refused ");
    CHECK(!run->begun);
    end();
}

TEST(a_node_that_is_done_may_be_drained)
{
    begin_running(2, 2, 2);
    result(1000, true);
    dt_exclude_drain(&exclude, "node0", false, "a fan is broken", now);
    step(&(struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = "node0"});
    result(1001, true);
    CHECK_STR(told[1], "close-succeeded ");
    end();
}

/* A server that forgot everything learns of the round from node 0, which is done; it is gone before
 * the others are back, and then there again. */
TEST(who_is_done_twice_counts_once)
{
    begin_running(3, 3, 3);
    dt_rdzv_destroy(run);
    run = dt_rdzv_create("run", &exclude, 1);
    come_back(1000, true);
    come_back(1001, false);
    come_back(1002, false);
    lose(1000);
    pass(2 * DT_SECOND, 6, 1);
    CHECK(dt_members_find(&run->members, 1000) == NULL);
    come_back(1000, true);
    CHECK_STR(told[0], "");
    result(1001, true);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    result(1002, true);
    CHECK_STR(told[2], "close-succeeded ");
    end();
}

TEST(a_pause_of_our_own_is_no_time_in_which_a_node_could_have_come_back)
{
    begin_running(3, 3, 3);
    dt_rdzv_destroy(run);
    run = dt_rdzv_create("run", &exclude, 1);
    come_back(1000, false);
    now += 60 * DT_SECOND;
    tick();
    come_back(1001, false);
    come_back(1002, false);
    pass(60 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "");
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    end();
}

TEST(a_pause_of_our_own_is_no_time_in_which_workers_could_have_stopped)
{
    begin_running(3, 2, 3);
    result(1000, false);
    CHECK_EQ(run->state, DT_RUN_GATHERING);
    now += 60 * DT_SECOND;
    tick();
    CHECK_EQ(run->members.count, 3);
    CHECK(strstr(told[1], "stale") == NULL);
    end();
}

TEST(a_spare_that_missed_a_beat_is_taken_in_when_it_is_heard_again)
{
    begin(2, 3);
    spec.grow_interval = 100 * DT_SECOND;
    dt_exclude_drain(&exclude, "node3", false, "a fan is broken", now);
    join(1000);
    join(1001);
    pass(31 * DT_SECOND, 3, 1);
    join(1002);
    join(1003);
    pass(90 * DT_SECOND, 0xf, 1);
    pass(10 * DT_SECOND, 0xb, 1); /* node 2 is not heard of when its time has come */
    CHECK_STR(told[0], "world 0:0/2 ");
    beat(1002);
    CHECK_STR(told[0], "world 0:0/2 stop-together ");
    end();
}

/* What was decided last did not get to the disk, and so the nodes know more than the journal. */
TEST(a_journal_that_is_older_than_the_nodes_is_put_right_by_them)
{
    struct dt_buf record = {0};
    begin_running(3, 2, 3);
    dt_rdzv_save(run, &record);
    lose(1002);
    now += DT_SECOND;
    tick();
    join(1000);
    join(1001);
    CHECK_EQ(last_round[1], 1);
    forget_told();
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    come_back(1001, false);
    come_back(1000, false);
    pass(60 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "");
    CHECK_STR(told[1], "");
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    CHECK_EQ(run->round, 1);
    CHECK_EQ(run->seats_len, 2);
    dt_buf_finish(&record);
    end();
}

/* The server lost its journal, and all nodes but one were replaced before it was back. */
TEST(a_straggler_of_a_forgotten_round_does_not_undo_the_world_of_others)
{
    begin_running(3, 3, 4);
    last_round[0] = 6;
    for (int i = 1; i < 3; i++)
        beat(1000 + (uint64_t)i);
    come_back(2000, false); /* in seat 0 of 3, of round 6 */
    CHECK_STR(told[0], "stale ");
    CHECK(strstr(why[0], "does not know round 6 of this node; other nodes run the job now") !=
          NULL);
    CHECK_STR(told[1], "");
    CHECK_EQ(run->round, 0);
    join(3000); /* as a newcomer */
    CHECK_STR(told[1], "stop-together ");
    CHECK_EQ(run->round, 7); /* news to it */
    end();
}

/* Its first word of the failure was not answered, as far as it knows. */
TEST(a_failure_of_a_round_that_was_learnt_and_that_is_said_again_is_paid_once)
{
    begin(1, 1);
    spec.max_restarts = 5;
    last_round[0] = 4;
    world[0] = (struct dt_world_message){.seat = 0, .seats = 1, .first_rank = 0, .size = 2};
    come_back(1000, false);
    CHECK_EQ(run->round, 4);
    dt_exclude_drain(&exclude, "node0", false, "", now); /* so that no round begins */
    result(1000, false);
    join(1000);
    CHECK_EQ(run->budget.restarts, 1);
    result(1000, false);
    join(1000);
    CHECK_EQ(run->budget.restarts, 1);
    end();
}

TEST(a_larger_world_that_a_node_is_in_takes_the_place_of_a_smaller_one)
{
    begin_running(2, 2, 4);
    last_round[2] = 6;
    world[2] = (struct dt_world_message){.seat = 2, .seats = 4, .first_rank = 4, .size = 8};
    come_back(1002, false);
    CHECK_STR(told[0], "stale ");
    CHECK_STR(told[2], "");
    CHECK_EQ(run->round, 6);
    end();
}

/* Its nodes have been in the run, so they would be told how the one before it ended. */
TEST(a_server_started_again_does_not_take_the_next_job_for_the_last)
{
    struct dt_buf record = {0};
    begin_running(1, 1, 2);
    result(1000, true);
    CHECK_STR(told[0], "close-succeeded ");
    spec.min_nodes = 2;
    last_round[1] = -1;
    join(2001);
    CHECK(done.journalled);
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    struct dt_join j = join_of(2001);
    j.claim.again = true;
    frame(2001, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    CHECK_STR(told[1], "");
    CHECK_EQ(run->members.count, 1);
    dt_buf_finish(&record);
    end();
}

TEST(an_agent_keeps_its_name_when_the_server_is_started_again)
{
    struct dt_buf record = {0};
    begin(1, 2);
    for (uint64_t id = 1000; id < 1002; id++) {
        struct dt_join j = join_of(id);
        j.node.name = "host";
        frame(id, (struct dt_message){.type = DT_MSG_JOIN, .round = -1, .join = j});
    }
    lose(1000);
    now += DT_SECOND;
    tick();
    join(1001);
    CHECK_STR(told[1], "world 0:1/2 stop world 1:0/1 ");
    dt_rdzv_save(run, &record);
    dt_rdzv_destroy(run);
    run = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){record.at, record.len}, now);
    CHECK(run != NULL);
    CHECK_STR(dt_members_find(&run->members, 1001)->name.text, "host#2");
    dt_buf_finish(&record);
    end();
}

/* It was there all the time, so the failure was none that its loss would explain. */
TEST(a_node_that_does_not_stop_takes_no_blame_for_the_failure_before)
{
    begin_running(3, 2, 3);
    result(1000, false);
    join(1000);
    join(1002);
    pass(36 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "stop close-failed ");
    CHECK(strstr(why[0], "no restarts are allowed") != NULL);
    end();
}
