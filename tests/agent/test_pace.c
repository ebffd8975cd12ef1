/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watch/pace.h"
#include "tests/lib/check.h"

/* Steps FIRST to LAST, one each EVERY, the first at NOW. Answers when the last was. */
static dt_ms walk(struct dt_pace *p, int64_t first, int64_t last, dt_ms every, dt_ms now)
{
    for (int64_t step = first; step <= last; step++)
        dt_pace_note(p, step, now + (step - first) * every);
    return now + (last - first) * every;
}

TEST(before_the_first_step_nothing_is_known)
{
    struct dt_pace p;
    dt_pace_init(&p);
    dt_pace_note(&p, -1, 5000);
    CHECK_EQ(dt_pace_age(&p, 90000), -1);
    CHECK(!dt_pace_is_overdue(&p, 90000));
}

TEST(the_age_is_that_of_the_last_change)
{
    struct dt_pace p;
    dt_pace_init(&p);
    dt_pace_note(&p, 7, 1000);
    CHECK_EQ(dt_pace_age(&p, 1000), 0);
    dt_pace_note(&p, 7, 2000);
    dt_pace_note(&p, 8, 3000);
    dt_pace_note(&p, 8, 4000);
    CHECK_EQ(dt_pace_age(&p, 15000), 12000);
}

TEST(a_step_is_overdue_after_five_usual_ones_and_two_seconds)
{
    static const struct {
        dt_ms every, age;
        bool overdue;
    } rows[] = {
        {100, 2000, false}, {100, 2001, true},      {1000, 5000, false},
        {1000, 5001, true}, {60000, 300000, false}, {60000, 300001, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_pace p;
        CHECK_ROW("a step each %d ms, %d ms ago", (int)rows[i].every, (int)rows[i].age);
        dt_pace_init(&p);
        dt_ms last = walk(&p, 0, 40, rows[i].every, 10000);
        CHECK_EQ(dt_pace_is_overdue(&p, last + rows[i].age), rows[i].overdue);
    }
}

TEST(one_long_step_does_not_count)
{
    struct dt_pace p;
    dt_pace_init(&p);
    dt_ms last = walk(&p, 0, 10, 1000, 0);
    dt_pace_note(&p, 11, last + 100000);
    CHECK(!dt_pace_is_overdue(&p, last + 105000));
    CHECK(dt_pace_is_overdue(&p, last + 105001));
}

/* They are looked for once a second. */
TEST(several_steps_between_two_samples_share_the_time)
{
    struct dt_pace p;
    dt_pace_init(&p);
    for (int i = 0; i < 20; i++)
        dt_pace_note(&p, 4 * i, 4000 * i);
    CHECK(!dt_pace_is_overdue(&p, 4000 * 19 + 5000));
    CHECK(dt_pace_is_overdue(&p, 4000 * 19 + 5001));
}

TEST(another_try_begins_anew)
{
    struct dt_pace p;
    dt_pace_init(&p);
    dt_ms last = walk(&p, 0, 20, 60000, 0);
    dt_pace_note(&p, 3, last + 1000);
    CHECK_EQ(dt_pace_age(&p, last + 1500), 500);
    CHECK(dt_pace_is_overdue(&p, last + 3001));
    dt_pace_note(&p, -1, last + 4000);
    CHECK_EQ(dt_pace_age(&p, last + 4000), -1);
}
