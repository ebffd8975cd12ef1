/* SPDX-License-Identifier: Apache-2.0 */
/* The FIFO as workers use it: requests are written by hand, processes are real. */
#include "agent/watch/watchdog.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/list.h"
#include "tests/lib/check.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[64];

static void remove_dir(void)
{
    rmdir(dir); /* nothing is to be left in it */
}

BEFORE_ALL
{
    strcpy(dir, "/tmp/dtrun-test-watchdog.XXXXXX");
    if (!mkdtemp(dir))
        SKIP("no folder can be made in /tmp");
    atexit(remove_dir);
    setenv("TMPDIR", dir, 1);
}

struct world {
    uv_loop_t loop;
    struct dt_watchdog *dog;
    uv_timer_t ceiling; /* only a hang reaches it */
    pid_t ours[4];
    int our_count, expired;
    pid_t expired_pid;
    int expired_signum;
    char expired_scope[64];
    bool closed;
};

static bool is_ours(void *arg, pid_t pid)
{
    struct world *w = arg;
    for (int i = 0; i < w->our_count; i++)
        if (w->ours[i] == pid)
            return true;
    return false;
}

static void on_expired(void *arg, pid_t pid, const char *scope, int signum)
{
    struct world *w = arg;
    w->expired++;
    w->expired_pid = pid;
    w->expired_signum = signum;
    snprintf(w->expired_scope, sizeof w->expired_scope, "%s", scope);
    uv_stop(&w->loop);
}

static void on_ceiling(uv_timer_t *t)
{
    (void)t;
    puts("# nothing happened for 60 s");
    abort();
}

static void open_dog(struct world *w, const char *path)
{
    struct dt_err err = {0};
    *w = (struct world){0};
    uv_loop_init(&w->loop);
    uv_timer_init(&w->loop, &w->ceiling);
    uv_timer_start(&w->ceiling, on_ceiling, 60000, 0);
    w->dog = dt_watchdog_open(&w->loop, path, is_ours, on_expired, w, &err);
    CHECK_OK(w->dog ? 0 : -1, err);
}

static void on_closed(void *arg)
{
    struct world *w = arg;
    w->closed = true;
}

static void close_dog(struct world *w)
{
    char path[PATH_MAX];
    strcpy(path, dt_watchdog_path(w->dog));
    dt_watchdog_close(w->dog, on_closed, w);
    uv_close((uv_handle_t *)&w->ceiling, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    CHECK(w->closed);
    CHECK(!dt_fs_exists(path));
    CHECK_EQ(uv_loop_close(&w->loop), 0);
}

/* As the client of PyTorch does: opens, writes, closes. */
static void tell_bytes(const struct world *w, const void *bytes, size_t len)
{
    int fd = open(dt_watchdog_path(w->dog), O_WRONLY | O_NONBLOCK);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, bytes, len), (ssize_t)len);
    close(fd);
}

static void tell(const struct world *w, pid_t pid, const char *scope, double in_seconds, int signum)
{
    char line[600];
    double at = in_seconds < -1e6 ? -1 : (double)dt_clock_wall_us() / 1e6 + in_seconds;
    snprintf(line, sizeof line,
             "{\"version\": 1, \"pid\": %d, \"scope_id\": \"%s\", \"expiration_time\": %.7f, "
             "\"signal\": %d}\n",
             (int)pid, scope, at, signum);
    tell_bytes(w, line, strlen(line));
}
#define RELEASE (-1e9)

static pid_t start_child(struct world *w)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
    w->ours[w->our_count++] = pid;
    return pid;
}

/* The signal that ended PID. */
static int signal_of(pid_t pid)
{
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGINT);
    CHECK_EQ(signal_of(pid), SIGINT);
}

/* Sets a timer of a further process and runs until it is over: all written before is read, and what
 * was due before has happened. */
static void run_for(struct world *w, double seconds)
{
    pid_t last = start_child(w);
    int before = w->expired;
    tell(w, last, "last", seconds, SIGUSR2);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    CHECK_EQ(w->expired, before + 1);
    CHECK_EQ(w->expired_pid, last);
    w->our_count--;
    CHECK_EQ(signal_of(last), SIGUSR2);
}

static void run_through(struct world *w)
{
    run_for(w, 0);
}

TEST(who_is_over_its_time_gets_its_signal)
{
    struct world w;
    open_dog(&w, NULL);
    pid_t child = start_child(&w);
    tell(&w, child, "forward", 0.05, SIGUSR1);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    CHECK_EQ(w.expired, 1);
    CHECK_EQ(w.expired_pid, child);
    CHECK_EQ(w.expired_signum, SIGUSR1);
    CHECK_STR(w.expired_scope, "forward");
    CHECK_EQ(signal_of(child), SIGUSR1);
    close_dog(&w);
}

TEST(a_released_timer_does_nothing)
{
    struct world w;
    open_dog(&w, NULL);
    pid_t child = start_child(&w);
    tell(&w, child, "forward", 0, SIGKILL);
    tell(&w, child, "forward", RELEASE, 0);
    run_through(&w);
    end_child(child);
    close_dog(&w);
}

TEST(strangers_are_never_signalled)
{
    struct world w;
    open_dog(&w, NULL);
    pid_t child = start_child(&w), stranger = start_child(&w);
    w.our_count = 1;
    tell(&w, stranger, "x", 0, SIGKILL);
    tell(&w, 1, "x", 0, SIGKILL);
    tell(&w, getpid(), "x", 0, SIGKILL);
    tell(&w, child, "soon", 2, SIGKILL);
    run_through(&w);
    w.our_count = 0; /* between its request and its time the worker was reaped */
    run_for(&w, 2);
    end_child(stranger);
    end_child(child);
    close_dog(&w);
}

TEST(garbage_is_skipped_and_what_follows_it_is_read)
{
    static const char *const lines[] = {
        "\n",
        "{}\n",
        "null\n",
        "[1]\n",
        "no json\n",
        "\xff\xfe\x01\n",
        "{\"pid\":\n",
        "{\"pid\": 0, \"scope_id\": \"s\", \"expiration_time\": 1, \"signal\": 9}\n",
        "{\"pid\": -1, \"scope_id\": \"s\", \"expiration_time\": 1, \"signal\": 9}\n",
        "{\"pid\": 1e99, \"scope_id\": \"s\", \"expiration_time\": 1, \"signal\": 9}\n",
        "{\"pid\": 1, \"scope_id\": 7, \"expiration_time\": 1, \"signal\": 9}\n",
        "{\"pid\": 1, \"scope_id\": \"s\", \"expiration_time\": 1e999, \"signal\": 9}\n",
        "{\"pid\": 1, \"scope_id\": \"s\", \"expiration_time\": 1, \"signal\": 900}\n",
        "{\"pid\": 1, \"scope_id\": \"s\", \"expiration_time\": 1}\n",
    };
    struct world w;
    open_dog(&w, NULL);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        CHECK_ROW("%s", lines[i]);
        tell_bytes(&w, lines[i], strlen(lines[i]));
        run_through(&w);
    }
    close_dog(&w);
}

TEST(a_line_without_end_is_thrown_away_up_to_its_end)
{
    struct world w;
    static char much[60000];
    open_dog(&w, NULL);
    memset(much, 'x', sizeof much);
    for (int i = 0; i < 4; i++) {
        tell_bytes(&w, much, sizeof much);
        uv_run(&w.loop, UV_RUN_ONCE);
    }
    tell_bytes(&w, "{}\n", 3);
    run_through(&w);
    close_dog(&w);
}

TEST(a_line_may_come_in_pieces_and_be_as_long_as_a_pipe_takes)
{
    struct world w;
    char line[PIPE_BUF + 2];
    open_dog(&w, NULL);
    pid_t child = start_child(&w);
    int n = snprintf(line, sizeof line,
                     "{\"pid\": %d, \"expiration_time\": 1.5, \"signal\": 10, \"scope_id\": \"",
                     (int)child);
    memset(line + n, 's', (size_t)(PIPE_BUF - n));
    memcpy(line + PIPE_BUF - 2, "\"}\n", 3); /* and a newline more than PIPE_BUF */
    tell_bytes(&w, line, 100);
    uv_run(&w.loop, UV_RUN_ONCE);
    CHECK_EQ(w.expired, 0);
    tell_bytes(&w, line + 100, PIPE_BUF + 1 - 100);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    CHECK_EQ(w.expired_pid, child);
    CHECK_EQ(signal_of(child), SIGUSR1);
    close_dog(&w);
}

TEST(far_times_and_missing_signals_are_fine)
{
    struct world w;
    open_dog(&w, NULL);
    pid_t child = start_child(&w);
    tell(&w, child, "told", 0, 0);
    tell(&w, child, "told too", 0, -3);
    tell(&w, child, "far", 1e13, SIGKILL);
    tell(&w, child, "farther", 1e300, SIGKILL);
    run_through(&w);
    end_child(child);
    close_dog(&w);
}

TEST(a_given_path_is_taken_over)
{
    struct world w;
    struct stat st;
    struct dt_err err = {0};
    char path[128];
    snprintf(path, sizeof path, "%s/timers", dir);
    CHECK_OK(dt_fs_replace(path, "old", 3, 0600, &err), err);
    open_dog(&w, path);
    CHECK_STR(dt_watchdog_path(w.dog), path);
    CHECK_EQ(stat(path, &st), 0);
    CHECK(S_ISFIFO(st.st_mode));
    run_through(&w);
    close_dog(&w);
}

TEST(a_path_that_cannot_be_is_named)
{
    struct dt_err err = {0};
    uv_loop_t loop;
    uv_loop_init(&loop);
    CHECK_FAIL(dt_watchdog_open(&loop, "/nonexistent/t", is_ours, on_expired, NULL, &err) ? 0 : -1,
               err, "cannot make the FIFO of file timers /nonexistent/t");
    CHECK_FAIL(dt_watchdog_open(&loop, dir, is_ours, on_expired, NULL, &err) ? 0 : -1, err,
               "cannot remove the old /tmp/dtrun-test-watchdog.");
    CHECK_EQ(uv_loop_close(&loop), 0);
}
