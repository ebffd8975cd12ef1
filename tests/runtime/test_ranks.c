/* SPDX-License-Identifier: Apache-2.0 */
/* What the other tests of several ranks stand on. */
#include "tests/runtime/ranks.h"

static void meet_all(struct rank_self *me)
{
    struct dt_meeting *m = &me->meeting->table;
    struct dt_err err;
    char key[32];
    snprintf(key, sizeof key, "rank/%d", me->rank);
    CHECK_OK(m->set(m, key, &me->rank, sizeof me->rank, &err), err);
    for (int i = 0, got = -1; i < me->size; i++) {
        snprintf(key, sizeof key, "rank/%d", i);
        CHECK_OK(m->get(m, key, &got, sizeof got, 60 * DT_SECOND, &err), err);
        CHECK_EQ(got, i);
    }
}

TEST(ranks_meet_in_memory)
{
    ranks_run(5, meet_all, NULL);
}

TEST(a_get_of_what_nobody_sets_ends)
{
    struct meeting *m = meeting_create();
    struct dt_err err;
    int value;
    CHECK_FAIL(m->table.get(&m->table, "nothing", &value, sizeof value, 1, &err), err,
               "nobody set nothing");
    meeting_destroy(m);
}

static void wait_for_nothing(struct rank_self *me)
{
    (void)me;
    for (;;)
        pause();
}

TEST(a_killed_rank_ends_as_wanted)
{
    struct ranks *r = ranks_start(2, wait_for_nothing, NULL);
    ranks_kill(r, 0, SIGKILL);
    ranks_kill(r, 1, SIGKILL);
    ranks_end(r);
}
