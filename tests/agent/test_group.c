/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of an attempt whose guard does not live to tell, and of workers that are held for a
 * next round. Whole jobs have the rest. */
#include "agent/process/group.h"
#include "agent/process/reap.h"
#include "tests/lib/check.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#define WORKERS 4
#define TRIES 20 /* the guard is killed in a moment of the kernel's choice */

static void on_worker_started(void *arg, int local_rank, pid_t pid)
{
    (void)arg, (void)local_rank, (void)pid;
}

struct tried {
    struct dt_plan plan;
    char *argv[4], *env[1];
    struct dt_group *group;
    struct dt_spawn_inherited inherited;
    struct dt_spawn spawns[WORKERS];
    bool holds; /* the first that ends makes the group hold */
    int exited;
    bool over;
};

static void on_worker_exited(void *arg, int local_rank)
{
    struct tried *t = arg;
    (void)local_rank;
    t->exited++;
    if (t->holds)
        dt_group_hold(t->group);
}

static void on_over(void *arg)
{
    ((struct tried *)arg)->over = true;
}

static const struct dt_group_events events = {on_worker_started, on_worker_exited, on_over};

/* FIRST, THEN: what each worker does. */
static void start_two(struct tried *t, uv_loop_t *loop, const char *first, const char *then)
{
    char *path = getenv("DT_MISBEHAVE");
    struct dt_err err;
    *t = (struct tried){.argv = {path, (char *)first, (char *)then, NULL}};
    t->plan =
        (struct dt_plan){.argv = t->argv, .nproc = WORKERS, .shutdown_timeout = 60 * DT_SECOND};
    sigprocmask(SIG_SETMASK, NULL, &t->inherited.mask);
    getrlimit(RLIMIT_NOFILE, &t->inherited.files);
    int out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (int i = 0; i < WORKERS; i++)
        t->spawns[i] =
            (struct dt_spawn){.path = path, .argv = t->argv, .env = t->env, .out = out, .err = -1};
    t->group = dt_group_start(loop, &t->plan, t->spawns, &t->inherited, &events, t, &err);
    CHECK_STR(t->group ? "" : err.text, "");
}

static void start(struct tried *t, uv_loop_t *loop, const char *what)
{
    start_two(t, loop, what, NULL);
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
    close(t->spawns[0].out);
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

/* -- workers that are held -------------------------------------------------------------------- */

static pid_t parent_of(pid_t pid)
{
    char path[64], text[512] = "";
    pid_t parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    CHECK(f != NULL && fgets(text, sizeof text, f));
    fclose(f);
    sscanf(strrchr(text, ')') + 1, " %*c %d", &parent);
    return parent;
}

static bool has_child(pid_t pid)
{
    char out[64];
    return dt_reap_describe(pid, out, sizeof out) != NULL;
}

#define RUN_UNTIL(loop, cond)                                                                      \
    while (!(cond))                                                                                \
    CHECK(uv_run(loop, UV_RUN_ONCE) != 0 || (cond))

static enum dt_worker_end end_of(const struct tried *t, int i)
{
    return dt_group_worker(t->group, i)->end;
}

static bool all_run(const struct tried *t)
{
    int running = 0;
    for (int i = 0; i < WORKERS; i++)
        running += end_of(t, i) == DT_WORKER_RUNS;
    return running == WORKERS;
}

/* Four that live; then worker VICTIM is killed, and the others are held. */
static void hold_without(struct tried *t, uv_loop_t *loop, int victim)
{
    RUN_UNTIL(loop, all_run(t));
    int before = t->exited;
    t->holds = true;
    kill(dt_group_worker(t->group, victim)->pid, SIGKILL);
    RUN_UNTIL(loop, t->exited > before);
    CHECK(dt_group_holds(t->group));
    CHECK_EQ(end_of(t, victim), DT_WORKER_FAILED);
    CHECK_EQ(dt_group_outcome(t->group), DT_GROUP_FAILED);
}

/* A new one for VICTIM. */
static void go_on(struct tried *t, int victim)
{
    struct dt_spawn spawns[WORKERS] = {0};
    struct dt_err err;
    t->holds = false;
    spawns[victim] = t->spawns[victim];
    CHECK_OK(dt_group_go_on(t->group, spawns, &t->inherited, &err), err);
}

TEST(a_worker_is_started_anew_beside_others_that_live)
{
    uv_loop_t loop;
    struct tried t;
    pid_t pids[WORKERS];
    static const int victims[] = {2, 0, 2, 3}; /* one twice, one of each guard */
    dt_reap_adopt();
    uv_loop_init(&loop);
    start(&t, &loop, "hang");
    RUN_UNTIL(&loop, all_run(&t));
    for (int i = 0; i < WORKERS; i++)
        pids[i] = dt_group_worker(t.group, i)->pid;
    for (size_t v = 0; v < sizeof victims / sizeof *victims; v++) {
        CHECK_ROW("victim %zu", v);
        hold_without(&t, &loop, victims[v]);
        go_on(&t, victims[v]);
        RUN_UNTIL(&loop, all_run(&t));
        CHECK(dt_group_worker(t.group, victims[v])->pid != pids[victims[v]]);
        pids[victims[v]] = dt_group_worker(t.group, victims[v])->pid;
        for (int i = 0; i < WORKERS; i++)
            CHECK_EQ(dt_group_worker(t.group, i)->pid, pids[i]);
        CHECK_EQ(dt_group_outcome(t.group), DT_GROUP_SUCCEEDED);
    }
    dt_group_stop(t.group, SIGTERM);
    run_until_over(&t, &loop);
    CHECK_EQ(dt_group_outcome(t.group), DT_GROUP_STOPPED);
    for (int i = 0; i < WORKERS; i++)
        CHECK_EQ(end_of(&t, i), DT_WORKER_TERMINATED);
    finish(&t, &loop);
    CHECK_EQ(uv_loop_close(&loop), 0);
}

TEST(when_the_last_worker_that_is_held_ends_the_group_is_over)
{
    uv_loop_t loop;
    struct tried t;
    dt_reap_adopt();
    uv_loop_init(&loop);
    start(&t, &loop, "hang");
    hold_without(&t, &loop, 1);
    for (int i = 0; i < WORKERS; i++)
        if (i != 1)
            kill(dt_group_worker(t.group, i)->pid, SIGKILL);
    run_until_over(&t, &loop);
    CHECK_EQ(dt_group_outcome(t.group), DT_GROUP_FAILED);
    for (int i = 0; i < WORKERS; i++)
        CHECK_EQ(end_of(&t, i), i == 1 ? DT_WORKER_FAILED : DT_WORKER_TERMINATED);
    finish(&t, &loop);
    CHECK_EQ(uv_loop_close(&loop), 0);
}

TEST(workers_that_are_held_can_be_stopped_and_killed)
{
    for (int hard = 0; hard < 2; hard++) {
        uv_loop_t loop;
        struct tried t;
        CHECK_ROW("hard %d", hard);
        dt_reap_adopt();
        uv_loop_init(&loop);
        start_two(&t, &loop, hard ? "ignore:15" : "hang", "hang");
        hold_without(&t, &loop, 3);
        if (hard)
            dt_group_kill(t.group);
        else
            dt_group_stop(t.group, SIGTERM);
        run_until_over(&t, &loop);
        CHECK_EQ(dt_group_outcome(t.group), DT_GROUP_FAILED);
        CHECK(WIFSIGNALED(dt_group_worker(t.group, 0)->status));
        CHECK_EQ(end_of(&t, 0), DT_WORKER_TERMINATED);
        finish(&t, &loop);
        CHECK_EQ(uv_loop_close(&loop), 0);
    }
}

/* What the dead one had started is in its session, and ends with it; its peers' children live. */
TEST(what_a_dead_worker_left_does_not_outlive_its_round)
{
    uv_loop_t loop;
    struct tried t;
    dt_reap_adopt();
    uv_loop_init(&loop);
    start_two(&t, &loop, "child", "hang");
    RUN_UNTIL(&loop, all_run(&t));
    pid_t session = dt_group_worker(t.group, 1)->pid, other = dt_group_worker(t.group, 2)->pid;
    while (!has_child(session) || !has_child(other))
        sched_yield();
    hold_without(&t, &loop, 1);
    go_on(&t, 1);
    while (dt_reap_has_session(0, session))
        sched_yield();
    CHECK(has_child(other));
    dt_group_kill(t.group);
    run_until_over(&t, &loop);
    finish(&t, &loop);
    CHECK_EQ(uv_loop_close(&loop), 0);
}

/* The first guard is killed while a worker is below the second: that one ends too, as it failed
 * with the others, and nothing is left. */
TEST(a_guard_that_is_killed_takes_only_its_own_workers_and_the_group_with_them)
{
    for (int first = 0; first < 2; first++) {
        uv_loop_t loop;
        struct tried t;
        CHECK_ROW("first %d", first);
        dt_reap_adopt();
        uv_loop_init(&loop);
        start(&t, &loop, "hang");
        hold_without(&t, &loop, 0);
        go_on(&t, 0);
        RUN_UNTIL(&loop, all_run(&t));
        kill(parent_of(dt_group_worker(t.group, first)->pid), SIGKILL);
        run_until_over(&t, &loop);
        CHECK_EQ(dt_group_outcome(t.group), DT_GROUP_FAILED);
        int failed = 0;
        for (int i = 0; i < WORKERS; i++)
            failed += end_of(&t, i) == DT_WORKER_FAILED;
        CHECK(failed > 0);
        CHECK_EQ(end_of(&t, !first), DT_WORKER_TERMINATED);
        CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
        finish(&t, &loop);
        CHECK_EQ(uv_loop_close(&loop), 0);
    }
}
