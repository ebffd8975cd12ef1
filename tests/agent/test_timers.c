/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watch/timers.h"
#include "tests/lib/check.h"

static void add(struct dt_timers *t, pid_t pid, const char *scope, int64_t expires, int signum)
{
    struct dt_err err = {0};
    CHECK_OK(dt_timers_add(t, pid, scope, expires, signum, &err), err);
}

/* "PID SCOPE SIGNAL", or "" when nothing is due. */
static const char *take(struct dt_timers *t, int64_t now)
{
    static char text[100];
    struct dt_timer out;
    if (!dt_timers_take_expired(t, now, &out))
        return "";
    snprintf(text, sizeof text, "%d %s %d", (int)out.pid, out.scope, out.signum);
    free(out.scope);
    return text;
}

TEST(what_is_due_is_taken_and_no_more)
{
    struct dt_timers t = {0};
    add(&t, 10, "step", 500, 9);
    add(&t, 11, "step", 300, 15);
    CHECK_EQ(dt_timers_next(&t), 300);
    CHECK_STR(take(&t, 299), "");
    CHECK_STR(take(&t, 300), "11 step 15");
    CHECK_STR(take(&t, 300), "");
    CHECK_EQ(dt_timers_next(&t), 500);
    CHECK_STR(take(&t, 9999), "10 step 9");
    CHECK_EQ(dt_timers_next(&t), INT64_MAX);
    dt_timers_finish(&t);
}

TEST(a_release_and_a_new_time_undo_the_old_one)
{
    struct dt_timers t = {0};
    add(&t, 10, "a", 100, 9);
    add(&t, 10, "b", 100, 9);
    dt_timers_release(&t, 10, "a");
    dt_timers_release(&t, 10, "a");
    dt_timers_release(&t, 11, "b");
    add(&t, 10, "b", 700, 15);
    CHECK_EQ(t.count, 1);
    CHECK_STR(take(&t, 699), "");
    CHECK_STR(take(&t, 700), "10 b 15");
    dt_timers_finish(&t);
}

TEST(a_delay_moves_all_of_them_and_none_beyond_the_end_of_time)
{
    struct dt_timers t = {0};
    add(&t, 10, "a", 100, 9);
    add(&t, 11, "b", INT64_MAX - 1, 9);
    dt_timers_delay(&t, 1000);
    CHECK_STR(take(&t, 1099), "");
    CHECK_STR(take(&t, 1100), "10 a 9");
    CHECK_EQ(dt_timers_next(&t), INT64_MAX - 1);
    dt_timers_finish(&t);
}

TEST(a_process_that_gets_its_signal_has_no_timers_left)
{
    struct dt_timers t = {0};
    add(&t, 10, "late", 900, 9);
    add(&t, 10, "told", 100, 0);
    add(&t, 10, "second", 300, 15);
    add(&t, 10, "first", 200, 9);
    add(&t, 11, "other", 350, 9);
    CHECK_STR(take(&t, 400), "10 first 9");
    CHECK_EQ(t.count, 1);
    CHECK_STR(take(&t, 400), "11 other 9");
    CHECK_STR(take(&t, 400), "");
    dt_timers_finish(&t);
}

TEST(timers_without_a_signal_are_told_one_by_one)
{
    struct dt_timers t = {0};
    add(&t, 10, "b", 200, -1);
    add(&t, 10, "a", 100, 0);
    add(&t, 10, "later", 900, 9);
    CHECK_STR(take(&t, 400), "10 a 0");
    CHECK_STR(take(&t, 400), "10 b -1");
    CHECK_STR(take(&t, 400), "");
    CHECK_EQ(t.count, 1);
    dt_timers_finish(&t);
}

static bool is_even(void *arg, pid_t pid)
{
    ++*(int *)arg;
    return pid % 2 == 0;
}

TEST(there_are_only_so_many_and_those_of_the_dead_can_go)
{
    struct dt_timers t = {0};
    struct dt_err err = {0};
    int asked = 0;
    for (int i = 0; i < DT_TIMERS_MAX; i++)
        add(&t, 1 + i, "s", i, 9);
    CHECK_FAIL(dt_timers_add(&t, 1, "one more", 5, 9, &err), err, "4096 timers are running");
    CHECK_EQ(err.code, DT_E_LIMIT);
    add(&t, 1, "s", 7, 9); /* a known name is no further timer */
    dt_timers_sweep(&t, is_even, &asked);
    CHECK_EQ(asked, DT_TIMERS_MAX);
    CHECK_EQ(t.count, DT_TIMERS_MAX / 2);
    CHECK_EQ(dt_timers_next(&t), 1);
    add(&t, 1, "one more", 0, 9);
    CHECK_EQ(dt_timers_next(&t), 0);
    dt_timers_finish(&t);
}
