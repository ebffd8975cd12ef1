/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/witness.h"
#include "tests/lib/check.h"

#define SECONDS 40 /* that a row may last */

/* A worker that does nothing: it waits in a collective, at line 11. */
static const struct dt_sample waiting = {
    .step = -1,
    .state = 'S',
    .place = {.kind = DT_PLACE_WAIT, .function = 1, .line = 11},
    .mark = {-1}};

/* For how long two workers stand still after T seconds; the second one does what ROW tells, each
 * second anew. */
typedef void row_fn(struct dt_sample *s, int second);

static dt_ms still_after(int seconds, row_fn *row, struct dt_witness *w)
{
    for (int t = 0; t <= seconds; t++) {
        struct dt_sample two[] = {waiting, waiting};
        row(&two[1], t);
        dt_witness_note(w, t * DT_SECOND, two);
    }
    return dt_witness_still(w);
}

/* clang-format off */
static void sleeps(struct dt_sample *s, int t) { (void)t; s->place = (struct dt_place){DT_PLACE_OWN, 2, 5, false}; }
static void spins(struct dt_sample *s, int t) { s->place = (struct dt_place){DT_PLACE_OWN, 2, 5 + t % 2, false}; s->state = 'R'; s->cpu_ms = 1000 * (uint64_t)t; }
static void has_stopped(struct dt_sample *s, int t) { (void)t; s->state = 'T'; s->place = (struct dt_place){DT_PLACE_LIBRARY, 2, 5, false}; }
static void polls(struct dt_sample *s, int t) { s->place = (struct dt_place){DT_PLACE_LIBRARY, 2, 5, false}; s->cpu_ms = (uint64_t)t; s->sleeps = 10 * (uint64_t)t; }
static void spins_in_collective(struct dt_sample *s, int t) { s->cpu_ms = 1000 * (uint64_t)t; s->state = 'R'; }
static void has_left(struct dt_sample *s, int t) { s->over = t > 3; s->place.line = t; }
static void asks_the_store(struct dt_sample *s, int t) { s->place.polls = true; s->sleeps = 10 * (uint64_t)t; }
static void waits_anew(struct dt_sample *s, int t) { s->sleeps = (uint64_t)t / 3; }

static void steps_with_spins(struct dt_sample *s, int t) { spins_in_collective(s, t); s->sleeps = 3 * (uint64_t)t; }
static void loops(struct dt_sample *s, int t) { spins(s, 0); s->cpu_ms = 1000 * (uint64_t)t; s->place.line = 5 + t % 3; }
static void sleeps_in_turn(struct dt_sample *s, int t) { sleeps(s, t); s->place.line = 5 + t % 2; }
static void descends(struct dt_sample *s, int t) { sleeps(s, t); s->place.line = 5 + t; }
static void computes_in_library(struct dt_sample *s, int t) { s->place = (struct dt_place){DT_PLACE_LIBRARY, 2, 5, false}; s->cpu_ms = 200 * (uint64_t)t; }
static void loads(struct dt_sample *s, int t) { sleeps(s, t); s->faults = 100 * (uint64_t)t; }
static void imports(struct dt_sample *s, int t) { (void)t; s->place.kind = DT_PLACE_IMPORT; }
static void compiles(struct dt_sample *s, int t) { (void)t; s->place.kind = DT_PLACE_SLOW; }
static void calls_others(struct dt_sample *s, int t) { s->place = (struct dt_place){DT_PLACE_OWN, 2 + (uint64_t)t % 2, 5, false}; }
static void computes_unseen(struct dt_sample *s, int t) { s->place.kind = DT_PLACE_UNKNOWN; s->cpu_ms = 500 * (uint64_t)t; }
static void sleeps_unseen(struct dt_sample *s, int t) { s->place.kind = DT_PLACE_UNKNOWN; s->sleeps = 3 * (uint64_t)t; }
static void is_let_go(struct dt_sample *s, int t) { s->state = t == 15 ? 'T' : 'S'; }
static void tells(struct dt_sample *s, int t) { s->told = true; s->step = s->mark[0] = t; }
static void is_stopped_in_a_save(struct dt_sample *s, int t) { (void)t; s->told = s->slow = true; s->step = 4; s->state = 'T'; }
static void validates(struct dt_sample *s, int t) { (void)t; s->told = s->slow = true; s->step = 4; }
/* clang-format on */

TEST(who_does_not_get_on_stands_still_and_who_does_moves)
{
    static const struct {
        const char *what;
        row_fn *row;
        bool moves;
    } rows[] = {
        {"it sleeps in its own code", sleeps, false},
        {"it spins in its own code", spins, false},
        {"it is stopped", has_stopped, false},
        {"it is stopped while it saves", is_stopped_in_a_save, false},
        {"it sleeps and wakes at one line", polls, false},
        {"it spins in a collective", spins_in_collective, false},
        {"it has left", has_left, false},
        {"it asks the store whether all have come", asks_the_store, false},
        {"each few samples it is in another collective", waits_anew, true},
        {"each step it spins in a collective", steps_with_spins, true},
        {"it goes round a loop", loops, true},
        {"it sleeps here and there", sleeps_in_turn, true},
        {"a library computes for it", computes_in_library, true},
        {"it gets memory", loads, true},
        {"it imports", imports, true},
        {"it compiles", compiles, true},
        {"it calls one function after the other", calls_others, true},
        {"it computes, and is no Python", computes_unseen, true},
        {"it sleeps and wakes, and is no Python", sleeps_unseen, true},
        {"it was stopped, and goes on", is_let_go, true},
        {"it tells steps", tells, true},
        {"it validates", validates, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].what);
        struct dt_witness *w = dt_witness_create(2, DT_HANG_AUTO);
        dt_ms still = still_after(20, rows[i].row, w);
        if (rows[i].moves)
            CHECK(still < DT_WITNESS_STACKS);
        else
            CHECK_EQ(still, 20 * DT_SECOND);
        CHECK_EQ(dt_witness_still_of(w, 0), 20 * DT_SECOND);
        dt_witness_destroy(w);
    }
}

/* As where the file system does not answer that the module is on. */
TEST(who_imports_stands_still_after_a_minute_without_doing_anything)
{
    struct dt_witness *w = dt_witness_create(2, DT_HANG_AUTO);
    CHECK(still_after(59, imports, w) < DT_WITNESS_STACKS);
    dt_witness_destroy(w);
    w = dt_witness_create(2, DT_HANG_AUTO);
    CHECK_EQ(still_after(90, imports, w), 31 * DT_SECOND);
    dt_witness_destroy(w);
}

/* A loop over many lines, and work that takes long: nothing tells them apart, but that nobody else
 * gets on. */
TEST(who_stays_in_one_function_for_long_counts_where_all_others_stand_still)
{
    static const struct {
        const char *what;
        row_fn *row;
        int first, last; /* 0: it moves */
    } rows[] = {
        {"it goes round a loop", loops, 5, 7},
        {"it sleeps here and there in a loop", sleeps_in_turn, 5, 6},
        {"a library computes for it", computes_in_library, 5, 5},
        {"it gets memory at one line", loads, 5, 5},
        {"it gets on in one function", descends, 5 + 21, 5 + 21},
        {"it calls one function after the other", calls_others, 0, 0},
        {"it imports", imports, 0, 0},
        {"it compiles", compiles, 0, 0},
        {"it tells steps", tells, 0, 0},
        {"it validates", validates, 0, 0},
        {"it computes, and is no Python", computes_unseen, 0, 0},
        {"each few samples it is in another collective", waits_anew, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].what);
        struct dt_witness *w = dt_witness_create(2, 4 * DT_SECOND);
        CHECK(still_after(19, rows[i].row, w) < 4 * DT_SECOND);
        dt_witness_destroy(w);
        w = dt_witness_create(2, 4 * DT_SECOND);
        dt_ms still = still_after(21, rows[i].row, w);
        CHECK_EQ(still >= 20 * DT_SECOND, rows[i].first > 0);
        struct dt_witness_round r = dt_witness_round_of(w, 1);
        CHECK_EQ(r.first, rows[i].first);
        CHECK_EQ(r.last, rows[i].last);
        CHECK_EQ(dt_witness_round_of(w, 0).last, 0);
        dt_witness_destroy(w);
    }
}

/* As while all train in one function. */
TEST(who_stays_in_one_function_moves_where_nobody_waits_for_it)
{
    static const struct {
        const char *what;
        row_fn *first;
    } rows[] = {
        {"the other does the same", loops},
        {"the other sleeps outside of a collective", sleeps},
        {"the other is in one collective after the other", waits_anew},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].what);
        struct dt_witness *w = dt_witness_create(2, 2 * DT_SECOND);
        for (int t = 0; t <= SECONDS; t++) {
            struct dt_sample two[] = {waiting, waiting};
            rows[i].first(&two[0], t);
            loops(&two[1], t);
            dt_witness_note(w, t * DT_SECOND, two);
            CHECK(dt_witness_still(w) < 2 * DT_SECOND);
        }
        CHECK_EQ(dt_witness_round_of(w, 1).last, 0);
        dt_witness_destroy(w);
    }
}

TEST(without_a_time_of_a_persons_a_round_counts_after_a_minute)
{
    struct dt_witness *w = dt_witness_create(2, DT_HANG_AUTO);
    CHECK(still_after(59, loops, w) < DT_WITNESS_STACKS);
    dt_witness_destroy(w);
    w = dt_witness_create(2, DT_HANG_AUTO);
    CHECK_EQ(still_after(61, loops, w), 61 * DT_SECOND);
    dt_witness_destroy(w);
}

TEST(how_long_is_too_long_follows_from_steps_or_stacks_or_a_person)
{
    static const struct {
        const char *what;
        dt_ms after;
        int every;   /* seconds to a step; 0: none is told */
        bool unseen; /* no Python */
        bool computes;
        dt_ms limit;
        bool sure;
    } rows[] = {
        {"stacks alone", DT_HANG_AUTO, 0, false, false, 10 * DT_SECOND, false},
        {"nothing is known", DT_HANG_AUTO, 0, true, false, DT_FOREVER, false},
        {"steps", DT_HANG_AUTO, 1, true, false, 5 * DT_SECOND, true},
        {"long steps", DT_HANG_AUTO, 4, true, false, 20 * DT_SECOND, true},
        {"steps of who computes", DT_HANG_AUTO, 1, true, true, 10 * DT_SECOND, true},
        {"a person, of steps", 3 * DT_SECOND, 1, true, true, 3 * DT_SECOND, true},
        {"a person, of what is not seen", 3 * DT_SECOND, 0, true, false, 3 * DT_SECOND, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].what);
        struct dt_witness *w = dt_witness_create(1, rows[i].after);
        for (int t = 0; t <= SECONDS; t++) {
            struct dt_sample s = waiting;
            s.told = rows[i].every > 0;
            s.step = s.mark[0] = s.told ? t / rows[i].every : -1;
            if (rows[i].unseen)
                s.place.kind = DT_PLACE_UNKNOWN;
            s.cpu_ms = rows[i].computes ? 900 * (uint64_t)t : 0;
            dt_witness_note(w, t * DT_SECOND, &s);
        }
        CHECK_EQ(dt_witness_limit(w), rows[i].limit);
        CHECK_EQ(dt_witness_is_sure(w), rows[i].sure);
        dt_witness_destroy(w);
    }
}

TEST(short_steps_leave_two_seconds)
{
    struct dt_witness *w = dt_witness_create(1, DT_HANG_AUTO);
    for (int t = 0; t <= SECONDS; t++) {
        struct dt_sample s = waiting;
        s.told = true;
        s.step = s.mark[0] = 20 * t;
        dt_witness_note(w, t * DT_SECOND, &s);
    }
    CHECK_EQ(dt_witness_limit(w), 2 * DT_SECOND);
    dt_witness_destroy(w);
}

TEST(while_we_were_stopped_nobody_stood_still)
{
    struct dt_witness *w = dt_witness_create(1, DT_HANG_AUTO);
    dt_witness_note(w, 1000, &waiting);
    dt_witness_note(w, 3000, &waiting);
    CHECK_EQ(dt_witness_still(w), 2000);
    dt_witness_note(w, 6000, &waiting);
    CHECK_EQ(dt_witness_still(w), 0);
    dt_witness_destroy(w);
}

TEST(when_all_have_left_nobody_stands_still)
{
    struct dt_sample gone = {.over = true, .step = -1};
    struct dt_witness *w = dt_witness_create(1, DT_HANG_AUTO);
    dt_witness_note(w, 0, &gone);
    dt_witness_note(w, 5000, &gone);
    CHECK_EQ(dt_witness_still(w), 0);
    dt_witness_destroy(w);
}
