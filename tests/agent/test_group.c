/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of an attempt whose guard does not live to tell. Whole jobs have the rest. */
#include "agent/process/group.h"
#include "agent/process/reap.h"
#include "tests/lib/check.h"

#include <signal.h>
#include <sys/wait.h>

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

struct tried {
    struct dt_plan plan;
    char *argv[3];
    struct dt_group *group;
    bool over;
};

static void start(struct tried *t, uv_loop_t *loop, const char *what)
{
    char *path = getenv("DT_MISBEHAVE"), *env[] = {NULL};
    struct dt_spawn_inherited inherited;
    struct dt_spawn spawns[WORKERS];
    struct dt_err err;
    *t = (struct tried){.argv = {path, (char *)what, NULL}};
    t->plan =
        (struct dt_plan){.argv = t->argv, .nproc = WORKERS, .shutdown_timeout = 60 * DT_SECOND};
    sigprocmask(SIG_SETMASK, NULL, &inherited.mask);
    getrlimit(RLIMIT_NOFILE, &inherited.files);
    for (int i = 0; i < WORKERS; i++)
        spawns[i] =
            (struct dt_spawn){.path = path, .argv = t->argv, .env = env, .out = -1, .err = -1};
    t->group = dt_group_start(loop, &t->plan, spawns, &inherited, &events, &t->over, &err);
    CHECK_STR(t->group ? "" : err.text, "");
}

static pid_t find_guard(void)
{
    size_t count;
    pid_t *children = dt_reap_children(&count);
    CHECK_EQ(count, 1);
    pid_t guard = children[0];
    free(children);
    return guard;
}

static void run_until_over(struct tried *t, uv_loop_t *loop)
{
    while (!t->over)
        CHECK(uv_run(loop, UV_RUN_ONCE) != 0 || t->over);
}

static void finish(struct tried *t, uv_loop_t *loop)
{
    dt_group_close(t->group, NULL, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
}

static enum dt_group_outcome kill_at_once(uv_loop_t *loop, struct dt_err *refusal)
{
    struct tried t;
    start(&t, loop, "hang");
    kill(find_guard(), SIGKILL);
    run_until_over(&t, loop);
    enum dt_group_outcome outcome = dt_group_outcome(t.group);
    *refusal = *dt_group_refusal(t.group);
    finish(&t, loop);
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

TEST(a_worker_that_is_gone_before_its_start_was_heard_of_did_not_run_backwards)
{
    uv_loop_t loop;
    struct tried t;
    siginfo_t gone;
    dt_reap_adopt();
    uv_loop_init(&loop);
    start(&t, &loop, "exit:0");
    /* The guard, our one child, is gone when they are. */
    CHECK_EQ(waitid(P_ALL, 0, &gone, WEXITED | WNOWAIT), 0);
    run_until_over(&t, &loop);
    for (int i = 0; i < WORKERS; i++) {
        const struct dt_worker *w = dt_group_worker(t.group, i);
        CHECK_ROW("worker %d", i);
        CHECK(w->started_ns > 0 && w->started_ns <= w->exited_ns);
    }
    finish(&t, &loop);
    CHECK_EQ(uv_loop_close(&loop), 0);
}
