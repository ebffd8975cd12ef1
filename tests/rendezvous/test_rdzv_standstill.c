/* SPDX-License-Identifier: Apache-2.0 */
/* Stories about one run whose workers stand still. Each node has two of them. */
#include "tests/rendezvous/rdzv_story.h"

static void say_still(uint64_t id, dt_ms still, bool sure)
{
    frame(id, (struct dt_message){.type = DT_MSG_STILL,
                                  .round = last_round[node_of(id)],
                                  .still = {.still = still, .sure = sure}});
}

/* Nodes 0 to N - 1 say so. */
static void all_still(int n)
{
    for (int i = 0; i < n; i++)
        say_still(1000 + (uint64_t)i, 2000, true);
}

/* Both workers of a node do the same; ID is that of the look. */
static void answer_look(uint64_t node, int64_t id, enum dt_doing doing, const char *where)
{
    int first = world[node_of(node)].first_rank;
    struct dt_rank_range range = {first, first + 1};
    struct dt_stance_group g = {.stance = {.doing = doing, .sequence = -1, .step = -1, .still = 2},
                                .ranges = &range,
                                .len = 1,
                                .ranks = 2};
    snprintf(g.stance.where, sizeof g.stance.where, "%s", where);
    if (doing == DT_DOING_COLLECTIVE)
        snprintf(g.stance.collective, sizeof g.stance.collective, "all_reduce");
    frame(node, (struct dt_message){.type = DT_MSG_LOOKED,
                                    .round = last_round[node_of(node)],
                                    .looked = {.id = id, .stances = {&g, 1}}});
}

/* The last node of N sleeps, and the others wait for it. */
static void answer_all(int n, int64_t id)
{
    for (int i = 0; i < n - 1; i++)
        answer_look(1000 + (uint64_t)i, id, DT_DOING_COLLECTIVE, "train.py:11");
    answer_look(1000 + (uint64_t)n - 1, id, DT_DOING_SLEEP, "train.py:5");
}

static const char *said(void)
{
    for (size_t i = done.len; i-- > 0;)
        if (done.at[i].type == DT_DO_TELL)
            return dt_rdzv_text(&done, done.at[i].text);
    return "";
}

TEST(when_all_nodes_say_so_all_are_asked_and_then_told)
{
    begin_running(3, 3, 3);
    say_still(1000, 2000, true);
    say_still(1001, 2000, true);
    CHECK_STR(told[0], "");
    say_still(1002, 2000, true);
    for (int i = 0; i < 3; i++)
        CHECK_STR(told[i], "look ");
    answer_all(3, 1);
    for (int i = 0; i < 3; i++)
        CHECK_STR(told[i], "look finding ");
    CHECK(strstr(said(), "stood still") && strstr(said(), "train.py:5"));
    CHECK(strstr(dt_rdzv_standstill(run), "train.py:5") != NULL);
    CHECK_STR(happened, "hang/node2:4 "); /* the first rank of those who are waited for */
    end();
}

TEST(what_nodes_are_told_names_the_guilty)
{
    struct dt_message m;
    size_t i = 0;
    begin_running(3, 3, 3);
    all_still(3);
    answer_all(3, 1);
    while (done.at[i].type != DT_DO_SEND || done.at[i].message != DT_MSG_FINDING)
        i++;
    dt_rdzv_message(&done, &done.at[i], "run", &m);
    CHECK_STR(m.finding.class, "outside");
    CHECK_EQ(m.finding.culprit, world[2].first_rank);
    CHECK_EQ(m.finding.waiting, 0);
    CHECK_EQ(m.finding.stances.len, 2);
    CHECK_EQ(m.finding.stances.at[0].ranks, 4);
    end();
}

TEST(nobody_is_told_twice_while_nobody_moves)
{
    begin_running(2, 2, 2);
    all_still(2);
    answer_all(2, 1);
    pass(10 * DT_SECOND, 3, 1);
    all_still(2);
    CHECK_STR(told[0], "look finding ");
    end();
}

TEST(one_that_moves_ends_it_and_the_next_time_is_told_anew)
{
    begin_running(2, 2, 2);
    all_still(2);
    answer_all(2, 1);
    pass(DT_SECOND, 3, 1);
    say_still(1001, 0, false);
    CHECK_STR(said(), "moves again, as node1 says, after 3 s");
    CHECK_STR(happened, "hang/node1:2 hang_over/node1 ");
    CHECK(dt_rdzv_standstill(run) == NULL);
    forget_told();
    pass(10 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "");
    say_still(1001, 2000, true);
    CHECK_STR(told[0], "look ");
    answer_all(2, 2);
    CHECK_STR(told[1], "look finding ");
    end();
}

TEST(one_that_moves_while_all_are_asked_ends_it_too)
{
    begin_running(2, 2, 2);
    all_still(2);
    say_still(1000, 0, false);
    answer_all(2, 1);
    pass(3 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "look ");
    CHECK_STR(told[1], "look ");
    end();
}

TEST(who_does_not_answer_is_waited_for_a_second)
{
    begin_running(3, 3, 3);
    all_still(3);
    answer_look(1000, 1, DT_DOING_COLLECTIVE, "train.py:11");
    answer_look(1001, 1, DT_DOING_COLLECTIVE, "train.py:11");
    CHECK_EQ(dt_rdzv_next(run), now + DT_SECOND);
    pass_in_silence(900);
    CHECK_STR(told[0], "look ");
    pass_in_silence(100);
    CHECK_STR(told[0], "look finding ");
    CHECK(strstr(dt_rdzv_standstill(run), "4") != NULL); /* a rank of node 2 */
    end();
}

TEST(answers_to_another_look_of_others_or_twice_have_no_effect)
{
    begin_running(2, 2, 2);
    answer_look(1000, 1, DT_DOING_SLEEP, "a.py:1"); /* nobody asked */
    all_still(2);
    answer_look(1000, 7, DT_DOING_SLEEP, "a.py:1");
    answer_look(1000, 1, DT_DOING_COLLECTIVE, "train.py:11");
    answer_look(1000, 1, DT_DOING_SLEEP, "a.py:1");
    CHECK_STR(told[0], "look ");
    world[1].first_rank = 0; /* it speaks for the workers of node 0 */
    answer_look(1001, 1, DT_DOING_SLEEP, "a.py:1");
    CHECK_EQ(run->running.look.stances.len, 1);
    CHECK_STR(run->running.look.stances.at[0].stance.where, "train.py:11");
    end();
}

TEST(stacks_alone_are_doubted_where_nobody_waits_and_looked_at_again)
{
    begin_running(2, 2, 2);
    say_still(1000, 2000, false);
    say_still(1001, 2000, false);
    answer_look(1000, 1, DT_DOING_COMPUTE, "a.py:1");
    answer_look(1001, 1, DT_DOING_COMPUTE, "a.py:1");
    CHECK_STR(told[0], "look ");
    pass(4900, 3, 1);
    CHECK_STR(told[0], "look ");
    pass(100, 3, 1);
    CHECK_STR(told[0], "look look ");
    answer_all(2, 2);
    CHECK_STR(told[0], "look look finding ");
    end();
}

TEST(nodes_whose_workers_are_done_need_not_say_so_but_are_told)
{
    begin_running(2, 2, 2);
    result(1000, true);
    say_still(1001, 2000, true);
    CHECK_STR(told[0], "");
    CHECK_STR(told[1], "look ");
    answer_look(1001, 1, DT_DOING_COLLECTIVE, "train.py:11");
    CHECK_STR(told[0], "finding ");
    CHECK_STR(told[1], "look finding ");
    CHECK_EQ(run->running.standstill.finding.class, DT_HANG_LEFT);
    end();
}

TEST(a_round_that_ends_takes_it_along)
{
    begin_running(2, 2, 2);
    run->spec.max_restarts = 3;
    all_still(2);
    answer_all(2, 1);
    result(1001, false);
    CHECK(dt_rdzv_standstill(run) == NULL);
    join(1000);
    join(1001);
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    forget_told();
    say_still(1000, 2000, true);
    CHECK_STR(told[0], "");
    say_still(1001, 2000, true);
    CHECK_STR(told[0], "look ");
    end();
}

TEST(what_is_said_of_a_round_that_is_over_has_no_effect)
{
    begin_running(2, 2, 2);
    last_round[0] = last_round[1] = -1;
    all_still(2);
    CHECK_STR(told[0], "");
    end();
}

TEST(a_node_that_was_away_is_told_when_it_says_so_again)
{
    begin_running(2, 2, 2);
    run->spec.reconnect_grace = 10 * DT_SECOND;
    all_still(2);
    lose(1001);
    answer_look(1000, 1, DT_DOING_COLLECTIVE, "train.py:11");
    pass(DT_SECOND, 1, 1);
    CHECK_STR(told[0], "look finding ");
    CHECK_STR(told[1], "look ");
    come_back(1001, false);
    say_still(1001, 3000, true);
    CHECK_STR(told[1], "look finding ");
    say_still(1001, 3000, true);
    CHECK_STR(told[1], "look finding ");
    end();
}

/* Nobody is asked for what it does not understand. */
TEST(an_older_agent_is_asked_nothing_and_told_nothing)
{
    begin_running(2, 2, 2);
    dt_members_find(&run->members, 1001)->looks = false;
    step(&(struct dt_rdzv_event){.type = DT_EV_LOOK});
    CHECK_STR(told[0], "look ");
    CHECK_STR(told[1], "");
    CHECK(dt_rdzv_look_lacks(run, dt_members_find(&run->members, 1001)));
    say_still(1000, 2000, true);
    pass(3 * DT_SECOND, 3, 1);
    CHECK_STR(told[0], "look ");
    end();
}

/* Stopping the threads of workers takes longer, and is done for those alone who ask for it. */
TEST(calls_of_c_code_are_asked_for_once_and_waited_for_longer)
{
    begin_running(2, 2, 2);
    step(&(struct dt_rdzv_event){.type = DT_EV_LOOK});
    CHECK(!run->running.look.native);
    answer_all(2, 1);
    step(&(struct dt_rdzv_event){.type = DT_EV_LOOK, .native = true});
    CHECK_STR(told[0], "look look ");
    CHECK(dt_rdzv_look(run) == NULL);
    answer_all(2, 2);
    CHECK(dt_rdzv_look(run)->native);
    for (int i = 0; i < 2; i++)
        step(&(struct dt_rdzv_event){.type = DT_EV_LOOK, .native = i > 0});
    CHECK_STR(told[0], "look look ");
    now += DT_SECOND;
    step(&(struct dt_rdzv_event){.type = DT_EV_LOOK, .native = true});
    pass(13 * DT_SECOND, 2, 2);
    CHECK(dt_rdzv_look(run) == NULL);
    pass(DT_SECOND, 2, 2);
    CHECK(dt_rdzv_look(run) != NULL);
    end();
}

TEST(a_crowd_that_asks_costs_a_node_one_look_a_second)
{
    begin_running(2, 2, 2);
    for (int i = 0; i < 5; i++)
        step(&(struct dt_rdzv_event){.type = DT_EV_LOOK});
    CHECK(dt_rdzv_look(run) == NULL);
    answer_all(2, 1);
    CHECK(dt_rdzv_look(run) != NULL);
    now += DT_SECOND - 1;
    step(&(struct dt_rdzv_event){.type = DT_EV_LOOK});
    CHECK_STR(told[0], "look ");
    CHECK(dt_rdzv_look(run) != NULL);
    now += 1;
    step(&(struct dt_rdzv_event){.type = DT_EV_LOOK});
    CHECK_STR(told[0], "look look ");
    CHECK(dt_rdzv_look(run) == NULL);
    end();
}
