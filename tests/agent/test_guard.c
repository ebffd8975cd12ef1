/* SPDX-License-Identifier: Apache-2.0 */
/* The guard with real workers: what they get, what is told of them, and that nothing of them is
 * left whoever is killed. */
#include "agent/process/guard.h"
#include "agent/process/reap.h"
#include "base/auto.h"
#include "tests/lib/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MISBEHAVE getenv("DT_MISBEHAVE")
#define MOST 8

BEFORE_ALL
{
    if (!MISBEHAVE)
        SKIP("DT_MISBEHAVE names no program: meson test sets it");
    signal(SIGINT, SIG_DFL); /* which a shell's background has ignored */
    signal(SIGQUIT, SIG_DFL);
}

/* What a test hears of an attempt. */
struct seen {
    uv_loop_t loop;
    struct dt_guard *guard;
    pid_t pids[MOST];
    int status[MOST];
    int exited, refused, refused_errno, forgotten;
    enum dt_spawn_step refused_step;
    bool over;
    int out; /* what the workers print */
};

static void on_started(void *arg, int i, pid_t pid, int64_t at_ns)
{
    (void)at_ns;
    ((struct seen *)arg)->pids[i] = pid;
}

static void on_refused(void *arg, int i, enum dt_spawn_step step, int errnum)
{
    (void)i;
    struct seen *s = arg;
    s->refused++;
    s->refused_step = step;
    s->refused_errno = errnum;
}

static void on_exited(void *arg, int i, int status, int64_t at_ns)
{
    (void)at_ns;
    struct seen *s = arg;
    s->status[i] = status;
    s->exited++;
}

/* A loop that is run once goes through its timers, and then waits for what else may come: after a
 * last event that a timer has told nothing does. */
static void on_over(void *arg)
{
    struct seen *s = arg;
    s->over = true;
    uv_stop(&s->loop);
}

static void on_forgotten(void *arg, int i)
{
    (void)i;
    ((struct seen *)arg)->forgotten++;
}

static const struct dt_guard_events events = {on_started, on_refused, on_forgotten, on_exited,
                                              on_over};

static const int *keeps; /* a descriptor for each worker; NULL: none */

/* One worker for each list of actions, all in that place. */
static void start_in(struct seen *s, const char *path, int count, const char *const (*actions)[4],
                     struct dt_spawn_place place)
{
    struct dt_spawn spawns[MOST];
    char *argv[MOST][6], *env[] = {NULL};
    struct dt_spawn_inherited inherited;
    struct dt_err err;
    int out[2];
    *s = (struct seen){0};
    CHECK(pipe2(out, O_CLOEXEC) == 0);
    sigprocmask(SIG_SETMASK, NULL, &inherited.mask);
    getrlimit(RLIMIT_NOFILE, &inherited.files);
    for (int i = 0; i < count; i++) {
        argv[i][0] = (char *)(uintptr_t)path;
        for (int k = 0; k < 4; k++)
            argv[i][k + 1] = (char *)(uintptr_t)actions[i][k];
        argv[i][5] = NULL;
        spawns[i] = (struct dt_spawn){
            .path = path, .argv = argv[i], .env = env, .out = out[1], .err = -1, .place = place};
        spawns[i].keep[0] = keeps ? keeps[i] : 0;
    }
    dt_reap_adopt();
    uv_loop_init(&s->loop);
    s->guard = dt_guard_start(&s->loop, spawns, count, &inherited, &events, s, &err);
    CHECK_STR(s->guard ? "" : err.text, "");
    close(out[1]);
    s->out = out[0];
}

static void start(struct seen *s, const char *path, int count, const char *const (*actions)[4])
{
    start_in(s, path, count, actions, (struct dt_spawn_place){0});
}

/* Runs the loop until COND holds: every event that a test waits for is one of the loop's. */
#define RUN_UNTIL(s, cond)                                                                         \
    while (!(cond))                                                                                \
    CHECK(uv_run(&(s)->loop, UV_RUN_ONCE) != 0 || (cond))

static void finish(struct seen *s)
{
    RUN_UNTIL(s, s->over);
    dt_guard_close(s->guard, NULL, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&s->loop), 0);
    close(s->out);
    CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
    CHECK_EQ(errno, ECHILD);
}

/* One line of what the workers print; they are many writers, but lines are short. */
static const char *line(struct seen *s, char out[256])
{
    size_t n = 0;
    while (n < 255 && read(s->out, &out[n], 1) == 1 && out[n] != '\n')
        n++;
    out[n] = '\0';
    return out;
}

static pid_t read_pid(struct seen *s)
{
    char text[256];
    pid_t pid = atoi(line(s, text));
    CHECK(pid > 1);
    return pid;
}

static int open_pid(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static bool ends(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return poll(&p, 1, 60000) == 1;
}

/* In the place of the loop's epoll is what cannot watch anything. */
TEST(a_loop_that_watches_nothing_more_is_an_error)
{
    char *argv[] = {(char *)(uintptr_t) "/bin/true", NULL}, *env[] = {NULL};
    struct dt_spawn spawn = {.path = argv[0], .argv = argv, .env = env, .out = -1, .err = -1};
    struct dt_spawn_inherited inherited = {0};
    struct dt_err err;
    uv_loop_t loop;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(null >= 0 && uv_loop_init(&loop) == 0);
    int epoll = fcntl(uv_backend_fd(&loop), F_DUPFD_CLOEXEC, 0);
    CHECK(epoll >= 0 && dup2(null, uv_backend_fd(&loop)) >= 0);
    CHECK(dt_guard_start(&loop, &spawn, 1, &inherited, &events, NULL, &err) == NULL);
    CHECK(strncmp(err.text, "cannot watch the guard process: ", 32) == 0);
    CHECK(dup2(epoll, uv_backend_fd(&loop)) >= 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&loop), 0);
    close(epoll);
    close(null);
}

TEST(exit_statuses_and_signals_are_told_and_then_it_is_over)
{
    struct seen s;
    static const char *const actions[3][4] = {{"exit:0"}, {"exit:7"}, {"kill:9"}};
    start(&s, MISBEHAVE, 3, actions);
    finish(&s);
    CHECK_EQ(s.exited, 3);
    CHECK(WIFEXITED(s.status[0]) && WEXITSTATUS(s.status[0]) == 0);
    CHECK(WIFEXITED(s.status[1]) && WEXITSTATUS(s.status[1]) == 7);
    CHECK(WIFSIGNALED(s.status[2]) && WTERMSIG(s.status[2]) == SIGKILL);
    CHECK_EQ(s.refused, 0);
}

TEST(a_program_that_cannot_be_executed_is_refused_with_the_reason)
{
    struct seen s;
    static const char *const actions[1][4] = {{NULL}};
    start(&s, "/nonexistent/program", 1, actions);
    finish(&s);
    CHECK_EQ(s.refused, 1);
    CHECK_EQ(s.refused_step, DT_SPAWN_EXEC);
    CHECK_EQ(s.refused_errno, ENOENT);
    CHECK_EQ(s.exited, 1);
}

/* Each of the two has one to keep, and none of the other's. */
TEST(a_worker_keeps_a_descriptor_that_no_other_has)
{
    struct seen s;
    char text[256], wanted[2][16];
    int fds[2];
    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
    keeps = fds;
    for (int i = 0; i < 2; i++) {
        static const char *const actions[2][2][4] = {{{"fds"}, {"exit:0"}}, {{"exit:0"}, {"fds"}}};
        snprintf(wanted[i], sizeof wanted[i], "fd %d", fds[i]);
        start(&s, MISBEHAVE, 2, actions[i]);
        CHECK_STR(line(&s, text), "fd 0");
        CHECK_STR(line(&s, text), "fd 1");
        CHECK_STR(line(&s, text), "fd 2");
        CHECK_STR(line(&s, text), wanted[i]);
        CHECK_STR(line(&s, text), "");
        finish(&s);
    }
    keeps = NULL;
    close(fds[0]);
    close(fds[1]);
}

TEST(a_worker_gets_three_descriptors_a_session_and_the_signals_we_were_given)
{
    struct seen s;
    char text[256];
    static const char *const actions[1][4] = {{"fds", "mask", "hang"}};
    sigset_t usr2;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    sigprocmask(SIG_BLOCK, &usr2, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    int extra = open("/dev/null", O_RDONLY); /* not close-on-exec */
    start(&s, MISBEHAVE, 1, actions);
    CHECK_STR(line(&s, text), "fd 0");
    CHECK_STR(line(&s, text), "fd 1");
    CHECK_STR(line(&s, text), "fd 2");
    do
        line(&s, text);
    while (strncmp(text, "SigBlk", 6) != 0);
    CHECK_EQ(strtoull(text + 7, NULL, 16), UINT64_C(1) << (SIGUSR2 - 1));
    CHECK_EQ(strtoull(line(&s, text) + 7, NULL, 16), UINT64_C(1) << (SIGHUP - 1)); /* SigIgn */
    RUN_UNTIL(&s, s.pids[0]);
    CHECK_EQ(getsid(s.pids[0]), s.pids[0]);
    dt_guard_signal(s.guard, 0, SIGTERM, false);
    finish(&s);
    close(extra);
    signal(SIGHUP, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &usr2, NULL);
}

TEST(a_worker_runs_where_it_is_put)
{
    struct seen s;
    char text[256], wanted[64];
    cpu_set_t ours, one;
    int cpu = 0;
    static const char *const actions[1][4] = {{"mask", "exit:0"}};
    CHECK_EQ(sched_getaffinity(0, sizeof ours, &ours), 0);
    while (!CPU_ISSET(cpu, &ours))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    start_in(&s, MISBEHAVE, 1, actions,
             (struct dt_spawn_place){.cpus = &one, .cpus_size = sizeof one});
    do
        line(&s, text);
    while (*text && strncmp(text, "Cpus_allowed_list", 17) != 0);
    snprintf(wanted, sizeof wanted, "Cpus_allowed_list:\t%d", cpu);
    CHECK_STR(text, wanted);
    finish(&s);
}

/* The kernel takes what is not there out of a set without a word. */
TEST(a_place_that_the_kernel_cuts_is_refused)
{
    struct seen s;
    cpu_set_t set;
    static const char *const actions[1][4] = {{"exit:0"}};
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    CPU_SET(CPU_SETSIZE - 1, &set);
    start_in(&s, MISBEHAVE, 1, actions,
             (struct dt_spawn_place){.cpus = &set, .cpus_size = sizeof set});
    finish(&s);
    CHECK_EQ(s.refused_step, DT_SPAWN_PLACE);
    CHECK_EQ(s.refused_errno, EBUSY);
}

TEST(a_signal_reaches_the_group_also_a_stopped_one)
{
    struct seen s;
    static const char *const actions[1][4] = {{"child", "stop"}};
    start(&s, MISBEHAVE, 1, actions);
    int child = open_pid(read_pid(&s));
    RUN_UNTIL(&s, s.pids[0]);
    dt_guard_signal(s.guard, 0, SIGTERM, false);
    finish(&s);
    CHECK(WIFSIGNALED(s.status[0]) && WTERMSIG(s.status[0]) == SIGTERM);
    CHECK(ends(child));
    close(child);
}

TEST(a_signal_to_the_leader_leaves_its_children_alone)
{
    struct seen s;
    static const char *const actions[1][4] = {{"child", "hang"}};
    start(&s, MISBEHAVE, 1, actions);
    pid_t child = read_pid(&s);
    RUN_UNTIL(&s, s.pids[0]);
    dt_guard_signal(s.guard, -1, SIGTERM, true);
    RUN_UNTIL(&s, s.exited == 1);
    CHECK_EQ(kill(child, 0), 0);
    CHECK(!s.over);
    dt_guard_signal(s.guard, 0, SIGTERM, false); /* what is left of its group */
    finish(&s);
}

TEST(it_is_not_over_before_daemons_of_a_worker_are_gone)
{
    struct seen s;
    char text[256];
    static const char *const actions[1][4] = {{"daemon", "exit:0"}};
    start(&s, MISBEHAVE, 1, actions);
    pid_t left = read_pid(&s);
    RUN_UNTIL(&s, s.exited == 1);
    CHECK(!s.over);
    CHECK_EQ(kill(left, 0), 0);
    snprintf(text, sizeof text, "%d (misbehave)", left);
    CHECK(strstr(dt_guard_describe(s.guard, (char[256]){0}, 256), text) != NULL);
    CHECK(dt_reap_describe(left, (char[256]){0}, 256) == NULL);
    dt_guard_signal_all(s.guard, SIGTERM);
    finish(&s);
}

TEST(ending_kills_what_ignores_everything_in_whatever_session)
{
    struct seen s;
    static const char *const actions[2][4] = {{"ignore:15", "daemon", "orphan", "hang"},
                                              {"ignore:15", "child", "hang"}};
    start(&s, MISBEHAVE, 2, actions);
    for (int i = 0; i < 3; i++)
        read_pid(&s);
    dt_guard_signal(s.guard, -1, SIGTERM, false);
    dt_guard_end(s.guard);
    finish(&s);
    CHECK_EQ(s.exited, 2);
    CHECK_EQ(WTERMSIG(s.status[0]), SIGKILL);
}

TEST(when_the_guard_is_killed_everything_below_it_ends_and_is_told)
{
    struct seen s;
    static const char *const actions[2][4] = {{"ignore:15", "daemon", "hang"}, {"hang"}};
    start(&s, MISBEHAVE, 2, actions);
    int left = open_pid(read_pid(&s));
    RUN_UNTIL(&s, s.pids[0] && s.pids[1]);
    kill(dt_guard_pid(s.guard, 0), SIGKILL);
    finish(&s);
    CHECK_EQ(s.exited, 2);
    CHECK_EQ(WTERMSIG(s.status[1]), SIGKILL);
    CHECK(ends(left));
    close(left);
}

/* Orders may come before a worker has its process group: without care the last ones miss them. */
TEST(a_signal_reaches_workers_that_were_forked_just_now)
{
    struct seen s;
    static const char *const actions[MOST][4] = {{"hang"}, {"hang"}, {"hang"}, {"hang"},
                                                 {"hang"}, {"hang"}, {"hang"}, {"hang"}};
    start(&s, MISBEHAVE, MOST, actions);
    dt_guard_signal(s.guard, -1, SIGTERM, false);
    finish(&s);
    for (int i = 0; i < MOST; i++) {
        CHECK_ROW("worker %d", i);
        CHECK_EQ(s.status[i], SIGTERM);
    }
}

TEST(a_guard_that_is_busy_holds_up_nobody_and_hears_the_last_order_too)
{
    struct seen s;
    static const char *const actions[1][4] = {{"hang"}};
    start(&s, MISBEHAVE, 1, actions);
    RUN_UNTIL(&s, s.pids[0]);
    kill(dt_guard_pid(s.guard, 0), SIGSTOP);
    for (int i = 0; i < 2000; i++)
        dt_guard_signal(s.guard, -1, SIGWINCH, false);
    dt_guard_signal(s.guard, -1, SIGTERM, false);
    kill(dt_guard_pid(s.guard, 0), SIGCONT);
    finish(&s);
    CHECK_EQ(s.status[0], SIGTERM);
}

TEST(a_sigterm_for_every_process_of_a_job_leaves_the_workers_their_time)
{
    struct seen s;
    char text[256];
    static const char *const actions[2][4] = {{"trap:15", "line:up", "hang"}, {"hang"}};
    start(&s, MISBEHAVE, 2, actions);
    CHECK_STR(line(&s, text), "up");
    RUN_UNTIL(&s, s.pids[1]);
    kill(dt_guard_pid(s.guard, 0), SIGTERM);
    dt_guard_signal(s.guard, 1, SIGTERM, false);
    RUN_UNTIL(&s, s.exited == 1); /* the guard has seen both */
    dt_guard_signal(s.guard, 0, SIGTERM, false);
    finish(&s);
    CHECK(WIFEXITED(s.status[0]) && WEXITSTATUS(s.status[0]) == 3);
}

/* "helper & exec dtrun": the shell's child is ours then. */
static void run_beside_a_stranger(bool kill_guard)
{
    struct seen s;
    static const char *const actions[1][4] = {{"child", "hang"}};
    pid_t stranger = fork();
    if (stranger == 0)
        for (;;)
            pause();
    start(&s, MISBEHAVE, 1, actions);
    int child = open_pid(read_pid(&s));
    RUN_UNTIL(&s, s.pids[0]);
    if (kill_guard)
        kill(dt_guard_pid(s.guard, 0), SIGKILL);
    else
        dt_guard_end(s.guard);
    RUN_UNTIL(&s, s.over);
    CHECK_EQ(s.exited, 1);
    CHECK(ends(child));
    CHECK_EQ(waitpid(stranger, NULL, WNOHANG), 0);
    kill(stranger, SIGKILL);
    CHECK_EQ(waitpid(stranger, NULL, 0), stranger);
    close(child);
    finish(&s);
}

TEST(children_that_were_there_before_are_left_alone)
{
    run_beside_a_stranger(false);
}

TEST(children_that_were_there_before_are_left_alone_also_when_the_guard_is_killed)
{
    run_beside_a_stranger(true);
}

/* In a process of its own: it is going to be killed. Prints what the workers print. */
static void be_dtrun(int out)
{
    struct seen s;
    char text[256];
    static const char *const actions[2][4] = {{"ignore:15", "pid", "daemon", "hang"},
                                              {"orphan", "child", "hang"}};
    start(&s, MISBEHAVE, 2, actions);
    dprintf(out, "%d\n", dt_guard_pid(s.guard, 0));
    for (int i = 0; i < 4; i++)
        dprintf(out, "%s\n", line(&s, text));
    uv_run(&s.loop, UV_RUN_DEFAULT);
    _exit(0);
}

TEST(when_dtrun_is_killed_nothing_is_left)
{
    int pipe_fds[2], pidfds[5];
    CHECK(pipe2(pipe_fds, O_CLOEXEC) == 0);
    pid_t dtrun = fork();
    if (dtrun == 0)
        be_dtrun(pipe_fds[1]);
    close(pipe_fds[1]);
    struct seen s = {.out = pipe_fds[0]};
    for (int i = 0; i < 5; i++)
        CHECK((pidfds[i] = open_pid(read_pid(&s))) >= 0);
    kill(dtrun, SIGKILL);
    waitpid(dtrun, NULL, 0);
    for (int i = 0; i < 5; i++) {
        CHECK_ROW("process %d of guard, worker, daemon, orphan, child", i);
        CHECK(ends(pidfds[i]));
        close(pidfds[i]);
    }
    close(pipe_fds[0]);
}
