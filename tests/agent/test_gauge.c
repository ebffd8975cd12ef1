/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/lag/gauge.h"
#include "tests/lib/check.h"

#define RANKS 3
#define MS INT64_C(1000000) /* in ns */

static struct dt_gauge *gauge;
static struct dt_gauge_sample samples[RANKS];
static struct dt_own_time told;
static dt_ms now;

static void begin(void)
{
    gauge = dt_gauge_create(RANKS);
    CHECK(gauge != NULL);
    now = 1000;
    memset(&told, 0, sizeof told);
    for (int i = 0; i < RANKS; i++)
        samples[i] = (struct dt_gauge_sample){.step = -1, .ran_ns = 1, .kind = DT_PLACE_OWN};
}

static void end(void)
{
    dt_gauge_destroy(gauge);
}

static bool note(dt_ms after)
{
    now += after;
    return dt_gauge_note(gauge, now, samples, &told);
}

/* -- by pages --------------------------------------------------------------------------------- */

/* A step of 100 ms, of which rank I needs OWN[I] itself. */
static void take_step(const int own[RANKS])
{
    for (int i = 0; i < RANKS; i++) {
        samples[i].step++;
        samples[i].own_ns += own[i] * MS;
        samples[i].data_ns += own[i] * MS / 2;
        samples[i].updated_ns += 100 * MS;
    }
}

/* Samples ten times in a step, until a window ends; 0: none did for a minute. */
static int64_t run_steps(const int own[RANKS])
{
    for (int i = 0; i < 600; i++) {
        take_step(own);
        if (note(100))
            return told.window;
    }
    return 0;
}

TEST(pages_are_believed_over_whole_steps)
{
    begin();
    CHECK_EQ(run_steps((const int[]){40, 80, 50}), 1);
    CHECK_EQ(told.by, DT_OWN_BY_PAGES);
    CHECK_EQ(told.ranks, RANKS);
    CHECK_EQ(told.rank, 1);
    CHECK_EQ(told.own, 800);
    CHECK_EQ(told.median, 500);
    CHECK_EQ(told.steps, 20);
    CHECK_EQ(told.step_us, 100000);
    CHECK_EQ(dt_gauge_part(gauge, 1)->data, 400);
    CHECK_EQ(run_steps((const int[]){90, 80, 50}), 2);
    CHECK_EQ(told.rank, 0);
    CHECK_EQ(told.steps, 40);
    end();
}

TEST(a_window_ends_when_all_have_done_a_step)
{
    begin();
    take_step((const int[]){40, 80, 50});
    for (int i = 0; i < 100; i++)
        CHECK(!note(100));
    take_step((const int[]){40, 80, 50});
    CHECK(note(100));
    CHECK_EQ(told.steps, 1);
    end();
}

TEST(of_two_that_are_slow_alike_it_is_the_same_each_time)
{
    begin();
    for (int i = 0; i < 10; i++) {
        run_steps(i % 2 ? (const int[]){40, 80, 82} : (const int[]){40, 82, 80});
        CHECK_EQ(told.rank, 1);
    }
    run_steps((const int[]){40, 60, 82});
    CHECK_EQ(told.rank, 2);
    end();
}

TEST(a_program_that_begins_anew_is_measured_anew)
{
    begin();
    run_steps((const int[]){40, 80, 50});
    for (int i = 0; i < RANKS; i++)
        samples[i].step = samples[i].own_ns = samples[i].updated_ns = 0;
    CHECK(!note(100));
    CHECK_EQ(run_steps((const int[]){40, 80, 50}), 2);
    CHECK_EQ(told.own, 800);
    end();
}

/* A worker may write anything into its page. */
TEST(a_page_that_lies_spoils_nothing)
{
    begin();
    for (int i = 0; i < 4; i++)
        run_steps((const int[]){40, 80, 50});
    samples[1].own_ns = samples[1].updated_ns = INT64_MAX / 2;
    samples[1].step = INT64_C(1) << 53;
    samples[1].data_ns = -5;
    run_steps((const int[]){40, 0, 50});
    CHECK(told.own >= 0 && told.own <= DT_OWN_WHOLE);
    CHECK(told.steps >= 0 && told.steps <= INT64_C(1) << 53);
    CHECK(told.step_us >= 0 && told.step_us <= INT64_C(1) << 53);
    end();
}

TEST(nothing_is_measured_once_one_has_ended)
{
    begin();
    run_steps((const int[]){40, 80, 50});
    samples[0].over = true;
    CHECK_EQ(run_steps((const int[]){40, 80, 50}), 0);
    end();
}

/* -- by stacks -------------------------------------------------------------------------------- */

struct doing {
    enum dt_place_kind kind;
    char state;
    int ran; /* of 250 ms */
};

static const struct doing computes = {DT_PLACE_LIBRARY, 'R', 250}, waits = {DT_PLACE_WAIT, 'S', 0},
                          loads = {DT_PLACE_OWN, 'S', 0}, is_stopped = {DT_PLACE_WAIT, 'T', 0};

/* One sample in which rank I does DOING[I], until a window ends. */
static bool sample(const struct doing *const doing[RANKS])
{
    for (int i = 0; i < RANKS; i++) {
        samples[i].kind = doing[i]->kind;
        samples[i].state = doing[i]->state;
        samples[i].ran_ns += doing[i]->ran * MS;
    }
    return note(250);
}

/* Rank 1 does SLOW while the others wait for it, then all compute, again and again. */
static int64_t run_turns(const struct doing *slow)
{
    for (int i = 0; i < 400; i++)
        if (sample(i % 4 < 2 ? (const struct doing *const[]){&waits, slow, &waits}
                             : (const struct doing *const[]){&computes, &computes, &computes}))
            return told.window;
    return 0;
}

TEST(time_asleep_in_a_collective_is_not_its_own_and_asleep_elsewhere_is)
{
    static const struct {
        const struct doing *slow;
        int asleep, stopped;
    } rows[] = {{&computes, 0, 0}, {&loads, 500, 0}, {&is_stopped, 500, 10}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin();
        CHECK_EQ(run_turns(rows[i].slow), 1);
        CHECK_EQ(told.by, DT_OWN_BY_STACKS);
        CHECK_EQ(told.rank, 1);
        CHECK(told.own >= 990);
        CHECK(told.median >= 400 && told.median <= 600);
        CHECK_EQ(told.step_us, 0);
        CHECK(told.steps >= DT_GAUGE_WAITS);
        CHECK(abs(dt_gauge_part(gauge, 1)->asleep - rows[i].asleep) < 60);
        CHECK_EQ(dt_gauge_part(gauge, 1)->stopped > 0, rows[i].stopped > 0);
        end();
    }
}

/* Its main thread slept for half of the time, and that each sample found it elsewhere is chance:
 * the processor time knows better. */
TEST(one_that_computes_needs_no_luck_with_its_samples)
{
    begin();
    for (int i = 0; i < 200 && told.window == 0; i++) {
        const struct doing *other = i % 4 < 2 ? &waits : &computes;
        samples[1].ran_ns -= 125 * MS; /* it computed for half of these 250 ms */
        sample((const struct doing *const[]){other, &computes, other});
    }
    CHECK_EQ(told.window, 1);
    CHECK(dt_gauge_part(gauge, 1)->own >= 450 && dt_gauge_part(gauge, 1)->own <= 550);
    end();
}

TEST(a_part_of_a_step_is_no_window)
{
    const struct doing *const all[] = {&computes, &computes, &computes};
    begin();
    for (dt_ms t = 0; t < DT_GAUGE_MOST; t += 250)
        CHECK(!sample(all));
    CHECK(sample(all)); /* others, elsewhere, may wait for them */
    CHECK_EQ(told.own, DT_OWN_WHOLE);
    end();
}

TEST(a_worker_that_saves_compiles_or_is_unknown_spoils_the_window)
{
    static const enum dt_place_kind kinds[] = {DT_PLACE_SLOW, DT_PLACE_IMPORT, DT_PLACE_UNKNOWN};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const struct doing other = {kinds[k], 'R', 250};
        begin();
        for (int i = 0; i < 200; i++)
            CHECK(!sample(i % 10 == 0 ? (const struct doing *const[]){&waits, &other, &waits}
                                      : (const struct doing *const[]){&waits, &computes, &waits}));
        end();
    }
}

/* A page of a program that tells steps and no own time still counts the steps. */
TEST(steps_come_from_a_page_where_one_tells_them)
{
    begin();
    for (int i = 0; i < 100 && told.window == 0; i++) {
        for (int k = 0; k < RANKS; k++)
            samples[k].step = i * 10;
        sample(i % 4 < 2 ? (const struct doing *const[]){&waits, &computes, &waits}
                         : (const struct doing *const[]){&computes, &computes, &computes});
    }
    CHECK_EQ(told.window, 1);
    CHECK(told.steps >= 200);
    CHECK_EQ(told.step_us, 25000);
    end();
}
