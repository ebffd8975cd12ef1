/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/budget.h"
#include "tests/lib/check.h"

#define PROGRAM DT_EVIDENCE_PROGRAM
#define CRASH DT_EVIDENCE_CRASH
#define OFFLINE DT_EVIDENCE_OFFLINE
#define PREEMPTED DT_EVIDENCE_PREEMPTED
#define HARDWARE DT_EVIDENCE_HARDWARE

static struct dt_budget begun(void)
{
    struct dt_budget b;
    dt_budget_init(&b);
    dt_budget_round_began(&b, 0);
    return b;
}

TEST(each_evidence_has_its_purse)
{
    static const struct {
        enum dt_evidence evidence;
        int restarts, losses;
    } rows[] = {
        {PROGRAM, 1, 0}, {CRASH, 1, 0}, {OFFLINE, 0, 1}, {PREEMPTED, 0, 1}, {HARDWARE, 0, 1},
    };
    CHECK_EQ(sizeof rows / sizeof *rows, DT_EVIDENCES);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("evidence %d", rows[i].evidence);
        struct dt_run_spec spec = {.max_restarts = 5, .max_node_losses = -1};
        struct dt_budget b = begun();
        CHECK_EQ(dt_budget_charge(&b, &spec, rows[i].evidence, 0), DT_BUDGET_GO_ON);
        CHECK_EQ(b.restarts, rows[i].restarts);
        CHECK_EQ(b.spent, rows[i].restarts);
        CHECK_EQ(b.losses, rows[i].losses);
        CHECK_EQ(b.healthy_since, DT_FOREVER);
    }
}

TEST(rounds_that_fail_at_once_again_and_again_are_spaced_out)
{
    static const struct {
        dt_ms lasted, pause;
    } rows[] = {{0, 0},       {20, 1000},      {20, 2000},     {9999, 4000}, {20, 8000},
                {20, 16000},  {20, 30000},     {20, 30000},    {10000, 0},   {20, 0},
                {9999, 1000}, {3600000000, 0}, {3600000000, 0}};
    struct dt_budget b = begun();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        CHECK_EQ(dt_budget_pause(&b, rows[i].lasted), rows[i].pause);
    }
    b.hasty = 1 << 30;
    CHECK_EQ(dt_budget_pause(&b, 0), 30000);
}

TEST(a_purse_gives_what_is_in_it_and_no_more)
{
    static const struct {
        int max_restarts, max_losses;
        enum dt_evidence evidence;
        int go_on; /* so often; -1: for ever */
    } rows[] = {
        {0, -1, PROGRAM, 0}, {3, -1, PROGRAM, 3}, {1, -1, CRASH, 1},    {0, -1, OFFLINE, -1},
        {0, 0, OFFLINE, 0},  {9, 2, HARDWARE, 2}, {9, 1, PREEMPTED, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        struct dt_run_spec spec = {.max_restarts = rows[i].max_restarts,
                                   .max_node_losses = rows[i].max_losses};
        struct dt_budget b = begun();
        int most = rows[i].go_on < 0 ? 1000 : rows[i].go_on;
        for (int n = 0; n < most; n++)
            CHECK_EQ(dt_budget_charge(&b, &spec, rows[i].evidence, 0), DT_BUDGET_GO_ON);
        if (rows[i].go_on >= 0) {
            CHECK_EQ(dt_budget_charge(&b, &spec, rows[i].evidence, 0), DT_BUDGET_SPENT);
            CHECK_EQ(b.restarts + b.losses, most); /* what could not be paid is not charged */
        }
    }
}

TEST(an_empty_purse_does_not_empty_the_other)
{
    struct dt_run_spec spec = {.max_restarts = 1, .max_node_losses = 1};
    struct dt_budget b = begun();
    CHECK_EQ(dt_budget_charge(&b, &spec, CRASH, 0), DT_BUDGET_GO_ON);
    CHECK_EQ(dt_budget_charge(&b, &spec, CRASH, 0), DT_BUDGET_SPENT);
    CHECK_EQ(dt_budget_charge(&b, &spec, OFFLINE, 0), DT_BUDGET_GO_ON);
    CHECK_EQ(dt_budget_charge(&b, &spec, OFFLINE, 0), DT_BUDGET_SPENT);
}

TEST(a_healthy_while_fills_the_purse_but_not_the_count)
{
    struct dt_run_spec spec = {.max_restarts = 2, .max_node_losses = 5, .restart_reset = 1000};
    struct dt_budget b = begun();
    dt_budget_charge(&b, &spec, CRASH, 10);
    dt_budget_charge(&b, &spec, OFFLINE, 10);
    CHECK(!dt_budget_tick(&b, &spec, 9000)); /* nothing has run since */
    dt_budget_round_began(&b, 9000);
    CHECK(!dt_budget_tick(&b, &spec, 9999));
    CHECK(dt_budget_tick(&b, &spec, 10000));
    CHECK(!dt_budget_tick(&b, &spec, 30000)); /* full already */
    CHECK_EQ(b.spent, 0);
    CHECK_EQ(b.healthy_since, 10000);
    CHECK_EQ(b.restarts, 1);
    CHECK_EQ(b.losses, 1);
    CHECK_EQ(dt_budget_charge(&b, &spec, CRASH, 30001), DT_BUDGET_GO_ON);
    CHECK_EQ(dt_budget_charge(&b, &spec, CRASH, 30002), DT_BUDGET_GO_ON);
    CHECK_EQ(dt_budget_charge(&b, &spec, CRASH, 30003), DT_BUDGET_SPENT);
    CHECK_EQ(b.restarts, 3);
}

TEST(a_failure_finds_the_purse_filled_though_nobody_looked_meanwhile)
{
    struct dt_run_spec spec = {.max_restarts = 1, .restart_reset = 1000};
    struct dt_budget b = begun();
    CHECK_EQ(dt_budget_charge(&b, &spec, CRASH, 0), DT_BUDGET_GO_ON);
    dt_budget_round_began(&b, 0);
    CHECK_EQ(dt_budget_charge(&b, &spec, CRASH, 1000), DT_BUDGET_GO_ON);
    dt_budget_round_began(&b, 1000);
    CHECK_EQ(dt_budget_charge(&b, &spec, CRASH, 1999), DT_BUDGET_SPENT);
}

TEST(without_restart_reset_nothing_fills_the_purse)
{
    struct dt_run_spec spec = {.max_restarts = 1};
    struct dt_budget b = begun();
    dt_budget_charge(&b, &spec, CRASH, 0);
    dt_budget_round_began(&b, 0);
    CHECK(!dt_budget_tick(&b, &spec, 1000000000));
    dt_budget_heard_step(&b, &spec, 7);
    CHECK_EQ(dt_budget_charge(&b, &spec, CRASH, 1000000000), DT_BUDGET_SPENT);
}

TEST(a_new_step_fills_the_purse_and_an_old_one_does_not)
{
    static const struct {
        int64_t step;
        int spent;
    } rows[] = {{9, 2}, {10, 2}, {11, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("step %d", (int)rows[i].step);
        struct dt_run_spec spec = {.max_restarts = 5, .restart_reset = 1000};
        struct dt_budget b = begun();
        dt_budget_heard_step(&b, &spec, 10);
        dt_budget_charge(&b, &spec, CRASH, 1);
        dt_budget_charge(&b, &spec, CRASH, 2);
        dt_budget_heard_step(&b, &spec, rows[i].step);
        CHECK_EQ(b.spent, rows[i].spent);
        CHECK_EQ(b.restarts, 2);
    }
}

/* A story in letters: s: a new step, o: the old step again, f: the program fails, l: a node is
 * lost. */
static enum dt_budget_answer tell(const char *story, int no_progress, int *told)
{
    struct dt_run_spec spec = {
        .max_restarts = 100, .max_node_losses = -1, .no_progress = no_progress};
    struct dt_budget b = begun();
    int64_t step = 0;
    enum dt_budget_answer answer = DT_BUDGET_GO_ON;
    for (*told = 0; story[*told] && answer == DT_BUDGET_GO_ON; ++*told) {
        switch (story[*told]) {
        case 's':
            step++; /* and it is heard */
            __attribute__((fallthrough));
        case 'o':
            dt_budget_heard_step(&b, &spec, step);
            break;
        case 'f':
            answer = dt_budget_charge(&b, &spec, CRASH, 0);
            break;
        case 'l':
            answer = dt_budget_charge(&b, &spec, OFFLINE, 0);
            break;
        }
    }
    return answer;
}

TEST(failing_again_and_again_without_a_step_ends_the_job)
{
    static const struct {
        const char *story;
        int no_progress;
        int ends; /* after so many letters; 0: not */
    } rows[] = {
        {"ffff", 3, 0},        /* a program that tells no steps may have made some */
        {"offff", 3, 5},       /* at one step for ever */
        {"sffff", 3, 5},       /* the first failure had one */
        {"fffffffff", 0, 0},   /* nobody asked */
        {"ffsffsffsff", 3, 0}, /* slow, but it moves */
        {"sfofofof", 3, 8},    /* the same step from the checkpoint is no progress */
        {"sflflllff", 3, 9},   /* losses neither count ... */
        {"lllll", 3, 0},       /* ... */
        {"ffsllf", 3, 0},      /* ... nor does a step before one get lost */
        {"off", 1, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].story);
        int told;
        enum dt_budget_answer answer = tell(rows[i].story, rows[i].no_progress, &told);
        CHECK_EQ(answer, rows[i].ends ? DT_BUDGET_NO_PROGRESS : DT_BUDGET_GO_ON);
        CHECK_EQ(told, rows[i].ends ? rows[i].ends : (int)strlen(rows[i].story));
    }
}

TEST(being_stuck_is_said_before_being_out_of_restarts)
{
    struct dt_run_spec spec = {.max_restarts = 2, .no_progress = 3};
    struct dt_budget b = begun();
    b.step = b.step_at_failure = 7;
    dt_budget_charge(&b, &spec, CRASH, 0);
    dt_budget_charge(&b, &spec, CRASH, 0);
    CHECK_EQ(dt_budget_charge(&b, &spec, CRASH, 0), DT_BUDGET_NO_PROGRESS);
    CHECK_EQ(b.restarts, 2);
}
