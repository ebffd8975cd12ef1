/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of an attempt whose guard does not live to tell. Whole jobs have the rest. */
#include "agent/process/group.h"
#include "agent/process/reap.h"
#include "tests/lib/check.h"

#include <signal.h>

#define WORKERS 4
#define TRIES 20 /* the guard is killed in a moment of the kernel's choice */

static void on_worker_started(void *arg, int local_rank, pid_t pid)
{
    (void)arg, (void)local_rank, (void)pid;
}

static void on_worker_exited(void *arg, int local_rank)
{
    (void)arg, (void)local_rank;
}

static void on_over(void *arg)
{
    *(bool *)arg = true;
}

static const struct dt_group_events events = {on_worker_started, on_worker_exited, on_over};

static enum dt_group_outcome kill_at_once(uv_loop_t *loop, struct dt_err *refusal)
{
    char *path = getenv("DT_MISBEHAVE"), *argv[] = {path, (char *)"hang", NULL}, *env[] = {NULL};
    struct dt_plan plan = {.argv = argv, .nproc = WORKERS, .shutdown_timeout = 60 * DT_SECOND};
    struct dt_spawn_inherited inherited;
    struct dt_spawn spawns[WORKERS];
    struct dt_err err;
    bool over = false;
    size_t count;
    sigprocmask(SIG_SETMASK, NULL, &inherited.mask);
    getrlimit(RLIMIT_NOFILE, &inherited.files);
    for (int i = 0; i < WORKERS; i++)
        spawns[i] = (struct dt_spawn){.path = path, .argv = argv, .env = env, .out = -1, .err = -1};
    struct dt_group *g = dt_group_start(loop, &plan, spawns, &inherited, &events, &over, &err);
    CHECK_STR(g ? "" : err.text, "");
    pid_t *guard = dt_reap_children(&count);
    CHECK_EQ(count, 1);
    kill(guard[0], SIGKILL);
    free(guard);
    while (!over)
        CHECK(uv_run(loop, UV_RUN_ONCE) != 0 || over);
    enum dt_group_outcome outcome = dt_group_outcome(g);
    *refusal = *dt_group_refusal(g);
    dt_group_close(g, NULL, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    return outcome;
}

TEST(an_attempt_whose_guard_is_killed_before_all_are_started_is_no_success)
{
    uv_loop_t loop;
    struct dt_err refusal;
    dt_reap_adopt();
    uv_loop_init(&loop);
    for (int i = 0; i < TRIES; i++) {
        CHECK_ROW("try %d", i);
        enum dt_group_outcome outcome = kill_at_once(&loop, &refusal);
        CHECK(outcome == DT_GROUP_REFUSED || outcome == DT_GROUP_FAILED);
        CHECK(outcome == DT_GROUP_FAILED || strstr(refusal.text, "never started"));
    }
    CHECK_EQ(uv_loop_close(&loop), 0);
}
