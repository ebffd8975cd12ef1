/* SPDX-License-Identifier: Apache-2.0 */
/* Saves beside steps that go on: the snapshot's source changes, and done is asked, while threads
 * write. */
#include "tests/runtime/checkpoints.h"

#include <signal.h>

BEFORE_ALL
{
    folder_make();
}

TEST(steps_go_on_while_threads_write)
{
    struct world w;
    struct dt_err err;
    world_open(&w, at("beside"), 3, (struct dt_ckpt_options){.keep_last = 1});
    for (int64_t step = 1; step <= 4; step++) {
        volatile float work = 0;
        int left = 3;
        world_start(&w, step);
        while (left) {
            left = 0;
            for (int r = 0; r < 3; r++)
                left += dt_ckpt_done(w.rank[r], &err) == 0;
            work = work + 1;
        }
        CHECK_OK(world_finish(&w, &err), err);
        CHECK_OK(read_all_ranks(at(step == 4   ? "beside/step-00000004"
                                   : step == 3 ? "beside/step-00000003"
                                   : step == 2 ? "beside/step-00000002"
                                               : "beside/step-00000001"),
                                2, step, &err),
                 err);
    }
    world_close(&w);
}

TEST(steps_go_on_while_a_commit_is_under_way)
{
    struct world w;
    struct dt_err err;
    char path[PATH_MAX];
    world_open(&w, at("commits"), 2, (struct dt_ckpt_options){.keep_last = 2});
    for (int64_t step = 1; step <= 6; step++) {
        int told = 0;
        world_start(&w, step);
        for (int r = 0; r < 2; r++)
            dt_ckpt_wait(w.rank[r]);
        for (int r = 0; r < 2; r++)
            CHECK_OK(dt_ckpt_commit_start(w.rank[r], true, &err), err);
        CHECK_EQ(dt_ckpt_committed(w.rank[1], &err), 1);
        if (step % 2) /* on even steps the next save, or close, waits for it */
            while (told == 0)
                told = dt_ckpt_committed(w.rank[0], &err);
        CHECK(told >= 0);
        if (step < 6)
            for (int r = 0; r < 2; r++)
                dt_ckpt_settle(w.rank[r]);
    }
    world_close(&w);
    CHECK_OK(dt_ckpt_find(at("commits"), path, sizeof path, NULL, &err), err);
    CHECK_STR(strrchr(path, '/'), "/step-00000006");
    CHECK_OK(read_all_ranks(path, 3, 6, &err), err);
    CHECK_EQ(entries(at("commits"), ""), 3);
}

static enum dt_ckpt_leave look_at_signals(void *arg)
{
    sigset_t *blocked = arg;
    pthread_sigmask(SIG_SETMASK, NULL, blocked);
    return DT_CKPT_MAY;
}

TEST(signals_are_left_to_the_threads_of_the_program)
{
    struct world w;
    sigset_t here, there;
    sigemptyset(&there);
    world_open(&w, at("signals"), 1,
               (struct dt_ckpt_options){.may_commit = look_at_signals, .may_commit_arg = &there});
    world_save(&w, 1);
    world_close(&w);
    CHECK_EQ(sigismember(&there, SIGTERM), 1);
    CHECK_EQ(sigismember(&there, SIGUSR1), 1);
    pthread_sigmask(SIG_SETMASK, NULL, &here);
    CHECK_EQ(sigismember(&here, SIGTERM), 0);
}

TEST(a_save_is_given_up_and_closed_while_its_thread_writes)
{
    for (int64_t step = 1; step <= 20; step++) {
        struct world w;
        world_open(&w, at("given up"), 2, (struct dt_ckpt_options){0});
        world_start(&w, step);
        world_close(&w);
    }
    char path[PATH_MAX];
    struct dt_err err;
    CHECK_OK(dt_ckpt_find(at("given up"), path, sizeof path, NULL, &err), err);
    CHECK_STR(path, "");
}
