/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/lag/lag.h"
#include "tests/lib/check.h"

#include <string.h>

#define NODES 4
#define EVERY (2 * DT_SECOND) /* a window */
#define STEPS 10              /* in it */

static struct dt_lag lag;
static struct dt_lag_node nodes[NODES];
static int64_t window;
static char said[DT_STRAGGLER_MAX]; /* by the last windows; "": nothing */
static int ranks_of_node;

static void begin(int ranks_each)
{
    ranks_of_node = ranks_each;
    window = 0;
    memset(nodes, 0, sizeof nodes);
    dt_lag_begin(&lag, NODES * ranks_each);
}

static struct dt_own_time told_by(int node, int own)
{
    return (struct dt_own_time){
        .window = window,
        .steps = window * STEPS,
        .step_us = 200000,
        .ranks = ranks_of_node,
        .rank = node * ranks_of_node,
        .own = own,
        .median = own,
    };
}

static void tell(int node, const struct dt_own_time *t)
{
    char name[16];
    snprintf(name, sizeof name, "node%d", node);
    if (dt_lag_take(&lag, &nodes[node], name, t, window * EVERY))
        snprintf(said, sizeof said, "%s", lag.sentence);
}

/* COUNT windows, in each of which node 2 has OWN and the others 400. */
static const char *windows(int count, int own)
{
    *said = '\0';
    for (int i = 0; i < count; i++) {
        window++;
        for (int n = 0; n < NODES; n++) {
            struct dt_own_time t = told_by(n, n == 2 ? own : 400);
            tell(n, &t);
        }
    }
    return said;
}

TEST(one_that_stays_slow_is_named_with_figures_and_its_end_is_said)
{
    begin(1);
    CHECK_STR(windows(6, 800), "");
    CHECK_STR(
        windows(1, 800),
        "rank 2 on node2 holds the others up: of a step of 200 ms it takes 160 ms for its own "
        "part, the others 80 ms (2.0 times as long)");
    CHECK_EQ(lag.state, DT_LAG_THERE);
    CHECK_STR(windows(20, 800), "");
    CHECK_STR(windows(4, 400), "");
    CHECK_STR(windows(1, 400), "rank 2 on node2 keeps up with the others again, after 1 min");
    CHECK_EQ(lag.state, DT_LAG_OVER);
    CHECK_STR(windows(20, 400), "");
    CHECK(strstr(windows(20, 800), "rank 2 on node2 holds the others up") != NULL);
}

TEST(its_reason_is_told_as_its_node_sees_it)
{
    begin(1);
    windows(6, 800);
    window++;
    struct dt_own_time t = told_by(2, 900);
    t.reason = "it waits for a disk, 40 % of the time";
    tell(2, &t);
    CHECK(strstr(said, "; likely because it waits for a disk, 40 % of the time") != NULL);
}

TEST(without_steps_it_is_told_how_much_of_the_time)
{
    begin(1);
    windows(6, 800);
    window++;
    struct dt_own_time t = told_by(2, 800);
    t.step_us = 0;
    tell(2, &t);
    CHECK_STR(said, "rank 2 on node2 holds the others up: it works on its own part for 80 % of the "
                    "time, the others 40 % (2.0 times as long)");
}

TEST(who_does_little_harm_or_is_slow_for_a_moment_is_not_named)
{
    static const struct {
        const char *what;
        int own[3]; /* in turn */
    } rows[] = {
        {"all alike", {400, 400, 400}},
        {"a bit slower", {510, 510, 510}},
        {"slower in two of three", {900, 900, 400}},
        {"once", {1000, 400, 400}},
        {"faster", {100, 100, 100}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].what);
        begin(1);
        for (int w = 0; w < 60; w++)
            CHECK_STR(windows(1, rows[i].own[w % 3]), "");
    }
}

TEST(a_large_factor_of_little_time_does_no_harm)
{
    begin(1);
    for (int i = 0; i < 60; i++) {
        window++;
        for (int n = 0; n < NODES; n++) {
            struct dt_own_time t = told_by(n, n == 2 ? 120 : 30);
            tell(n, &t);
        }
        CHECK_STR(lag.sentence, "");
    }
}

TEST(long_steps_take_longer_until_there_are_twenty)
{
    begin(1);
    *said = '\0';
    for (int i = 0; i < 30; i++) {
        window++;
        for (int n = 0; n < NODES; n++) {
            struct dt_own_time t = told_by(n, n == 2 ? 900 : 400);
            t.steps = window; /* one in each */
            tell(n, &t);
        }
        CHECK_EQ(*said != '\0', window >= 20 + 2);
    }
}

/* The first beat after a window says it, the next ones say it again. */
TEST(what_is_told_twice_counts_once)
{
    begin(1);
    window = 1;
    for (int i = 0; i < 40; i++)
        for (int n = 0; n < NODES; n++) {
            struct dt_own_time t = told_by(n, n == 2 ? 900 : 400);
            t.steps = i * 100;
            dt_lag_take(&lag, &nodes[n], "n", &t, i * EVERY);
        }
    CHECK_EQ(lag.state, DT_LAG_NONE);
}

TEST(nobody_is_judged_while_some_are_not_measured_or_in_another_way)
{
    for (int row = 0; row < 2; row++) {
        begin(1);
        *said = '\0';
        for (int i = 0; i < 30; i++) {
            window++;
            for (int n = row == 0; n < NODES; n++) {
                struct dt_own_time t = told_by(n, n == 2 ? 900 : 400);
                t.by = n == 0 ? DT_OWN_BY_STACKS : DT_OWN_BY_PAGES;
                tell(n, &t);
            }
        }
        CHECK_STR(said, "");
    }
}

/* Another rank each time: noise, as in a job of thousands somebody always is the slowest. */
TEST(it_has_to_be_the_same_rank)
{
    begin(8);
    *said = '\0';
    for (int i = 0; i < 60; i++) {
        window++;
        for (int n = 0; n < NODES; n++) {
            struct dt_own_time t = told_by(n, n == 2 ? 900 : 400);
            t.median = 400;
            t.rank += i / 3 % 2;
            tell(n, &t);
        }
    }
    CHECK_STR(said, "");
}

TEST(a_node_whose_ranks_are_all_slow_is_told_as_one)
{
    begin(8);
    CHECK(strstr(windows(7, 800), "rank 16 on node2, like most ranks there, holds the others up"));
}

/* Of two ranks the slower is above the lower median. */
TEST(of_two_ranks_one_is_named)
{
    begin(1);
    dt_lag_begin(&lag, 2);
    *said = '\0';
    for (int i = 0; i < 7; i++) {
        window++;
        for (int n = 1; n < 3; n++) {
            struct dt_own_time t = told_by(n, n == 2 ? 900 : 400);
            tell(n, &t);
        }
    }
    CHECK(strstr(said, "rank 2 on node2 holds the others up") != NULL);
}

TEST(another_one_is_named_when_the_first_is_through)
{
    begin(1);
    windows(7, 900);
    for (int i = 0; i < 12; i++) {
        window++;
        for (int n = 0; n < NODES; n++) {
            struct dt_own_time t = told_by(n, n == 3 ? 900 : 400);
            tell(n, &t);
        }
    }
    CHECK(strstr(said, "rank 3 on node3 holds the others up") != NULL);
}
