/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's saver, driven by steps as the loop does: what fails on one rank is given up on all,
 * and the steps go on. */
#include "tests/runtime/actor.h"

#include <sys/resource.h>

BEFORE_ALL
{
    folder_make();
}

static void room_for(rlim_t bytes)
{
    struct rlimit l = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &l), 0);
}

/* Steps, as far as the saver sees them, until the save is at its end: how many. */
static int steps(struct actor *a)
{
    int n = 0;
    while (a->t.saving.phase != DT_SAVING_NONE) {
        step_actor(a);
        n++;
    }
    return n;
}

static void one_cannot_write(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    open_actor(&a, me);
    a.t.state.step = 10;
    if (me->rank == *(int *)me->arg)
        room_for(64);
    CHECK_OK(dt_saver_begin(&a.t, &err), err);
    CHECK(steps(&a) >= 1);
    CHECK_EQ(a.t.saving.saved, -1);
    room_for(RLIM_INFINITY);
    if (me->rank == 0) {
        char who[64];
        const char *said = warnings_of(&a);
        snprintf(who, sizeof who, "p: step 10 is not saved: rank %d: ", *(int *)me->arg);
        CHECK(strstr(said, who));
        CHECK(strstr(said, "; training goes on\n"));
    }
    int64_t step = a.t.state.step;
    CHECK(step > 10);
    CHECK_OK(dt_saver_begin(&a.t, &err), err); /* the next one, beside steps to its end */
    CHECK(steps(&a) >= 2);
    CHECK_EQ(a.t.saving.saved, step);
    step = a.t.state.step;
    CHECK_OK(dt_saver_begin(&a.t, &err), err);
    CHECK_OK(dt_saver_finish(&a.t, &err), err); /* and one at the end of a run */
    CHECK_EQ(a.t.saving.saved, step);
    close_actor(&a);
}

TEST(a_rank_that_cannot_write_costs_the_checkpoint_and_nothing_else)
{
    for (int who = 0; who < 3; who++) {
        CHECK_ROW("rank %d", who);
        ranks_run(3, one_cannot_write, &who);
        CHECK(access(at("saves/step-00000010"), F_OK) < 0);
    }
}
