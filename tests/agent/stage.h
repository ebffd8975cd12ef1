/* SPDX-License-Identifier: Apache-2.0 */
/* A node for stories about output: a console that the test reads when it wants to, and forked
 * children as workers. A story that waits for what never comes hangs, and fails by meson's limit.
 */
#ifndef DT_TESTS_AGENT_STAGE_H
#define DT_TESTS_AGENT_STAGE_H

#include "agent/output/output.h"
#include "base/fs.h"
#include "base/list.h"
#include "tests/lib/check.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_WORKERS 8

struct stage {
    uv_loop_t loop;
    uv_signal_t child_signal;
    uv_poll_t poll; /* of the console */
    struct dt_plan plan;
    struct dt_plan_streams streams[MOST_WORKERS];
    struct dt_output *output;
    char dir[64];
    int console[2]; /* what stands for descriptors 1 and 2 of dtrun */
    int screen;     /* its other end */
    size_t at_most; /* to be read in a loop turn */
    struct dt_buf seen;
    pid_t pids[MOST_WORKERS];
    int fds[MOST_WORKERS][2];
    int live, failed;
    int go[MOST_WORKERS][2]; /* a word from the test to a worker, its stdin */
    bool drained, closed;
};

typedef void worker_fn(struct stage *s, int rank);

/* -- the stage -------------------------------------------------------------------------------- */

static inline void on_child_signal(uv_signal_t *h, int number)
{
    struct stage *s = dt_container_of(h, struct stage, child_signal);
    (void)number;
    for (int i = 0; i < s->plan.nproc; i++) {
        int status;
        if (s->pids[i] > 0 && waitpid(s->pids[i], &status, WNOHANG) == s->pids[i]) {
            s->pids[i] = 0;
            s->live--;
            s->failed += status != 0;
        }
    }
}

static inline void on_screen(uv_poll_t *h, int status, int events)
{
    struct stage *s = dt_container_of(h, struct stage, poll);
    (void)status;
    (void)events;
    uint8_t *to = dt_buf_room(&s->seen, s->at_most);
    CHECK(to != NULL);
    ssize_t n = read(s->screen, to, s->at_most);
    if (n > 0)
        dt_buf_grew(&s->seen, (size_t)n);
}

static inline void look(struct stage *s, size_t at_most)
{
    s->at_most = at_most;
    CHECK_EQ(uv_poll_start(&s->poll, UV_READABLE, on_screen), 0);
}

static inline void look_away(struct stage *s)
{
    CHECK_EQ(uv_poll_stop(&s->poll), 0);
}

static inline void turn(struct stage *s)
{
    uv_run(&s->loop, UV_RUN_ONCE);
}

/* SCREEN: our end of a pipe or pty whose other end is what dtrun has as OUT and ERR. */
static inline struct stage *stage_on(int workers, int screen, int out, int err_fd)
{
    struct stage *s = calloc(1, sizeof *s);
    CHECK(s != NULL);
    s->screen = screen;
    s->console[0] = out;
    s->console[1] = err_fd;
    s->plan = (struct dt_plan){.nproc = workers, .role = (char *)"default", .streams = s->streams};
    snprintf(s->dir, sizeof s->dir, "/tmp/dt-output-XXXXXX");
    CHECK(mkdtemp(s->dir) != NULL);
    for (int i = 0; i < workers; i++) {
        char path[100];
        snprintf(path, sizeof path, "%s/%d", s->dir, i);
        CHECK_EQ(mkdir(path, 0700), 0);
        CHECK_EQ(pipe2(s->go[i], O_CLOEXEC), 0);
    }
    fcntl(screen, F_SETFL, O_NONBLOCK);
    uv_loop_init(&s->loop);
    uv_signal_init(&s->loop, &s->child_signal);
    uv_signal_start(&s->child_signal, on_child_signal, SIGCHLD);
    uv_poll_init(&s->loop, &s->poll, screen);
    return s;
}

static inline struct stage *stage(int workers)
{
    int ends[2];
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    return stage_on(workers, ends[0], ends[1], dup(ends[1]));
}

static inline void all_streams(struct stage *s, unsigned redirect, unsigned tee)
{
    for (int i = 0; i < s->plan.nproc; i++)
        s->streams[i] = (struct dt_plan_streams){.redirect = redirect, .tee = tee};
}

static inline void begin(struct stage *s, const char *dir)
{
    struct dt_err err;
    if (!s->output)
        s->output = dt_output_create(&s->loop, &s->plan, s->console, &err);
    CHECK(s->output != NULL);
    CHECK_OK(dt_output_begin(s->output, dir, 0, &err), err);
    for (int i = 0; i < s->plan.nproc; i++)
        CHECK_OK(dt_output_open(s->output, i, s->fds[i], &err), err);
}

static inline void be_worker(struct stage *s, int rank, worker_fn *work)
{
    dup2(s->go[rank][0], 0);
    for (int i = 0; i < 2; i++)
        dup2(s->fds[rank][i] < 0 ? s->console[i] : s->fds[rank][i], 1 + i);
    close_range(3, ~0u, 0);
    work(s, rank);
    _exit(0);
}

static inline void start(struct stage *s, worker_fn *work)
{
    s->drained = false;
    for (int i = 0; i < s->plan.nproc; i++) {
        s->pids[i] = fork();
        CHECK(s->pids[i] >= 0);
        if (s->pids[i] == 0)
            be_worker(s, i, work);
        s->live++;
    }
    dt_output_started(s->output);
}

static inline void on_drained(void *arg)
{
    struct stage *s = arg;
    s->drained = true;
}

static inline void on_closed(void *arg)
{
    struct stage *s = arg;
    s->closed = true;
}

static inline void wait_for_workers(struct stage *s)
{
    while (s->live)
        turn(s);
    CHECK_EQ(s->failed, 0);
}

static inline void drain(struct stage *s)
{
    dt_output_drain(s->output, on_drained, s);
    while (!s->drained)
        turn(s);
}

/* What dtrun wrote is in the console's pipe by now, if not on the screen. */
static inline void look_at_rest(struct stage *s)
{
    s->at_most = 1 << 16;
    for (size_t before = s->seen.len + 1; before != s->seen.len;) {
        before = s->seen.len;
        on_screen(&s->poll, 0, 0);
    }
}

static inline void play(struct stage *s, const char *dir, worker_fn *work)
{
    begin(s, dir);
    look(s, 1 << 16);
    start(s, work);
    wait_for_workers(s);
    drain(s);
    look_away(s);
    look_at_rest(s);
}

static inline int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static inline void end(struct stage *s)
{
    dt_output_close(s->output, on_closed, s);
    uv_close((uv_handle_t *)&s->child_signal, NULL);
    uv_close((uv_handle_t *)&s->poll, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    CHECK(s->closed);
    CHECK_EQ(uv_loop_close(&s->loop), 0);
    nftw(s->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    close(s->screen);
    close(s->console[0]);
    close(s->console[1]);
    for (int i = 0; i < s->plan.nproc; i++) {
        close(s->go[i][0]);
        close(s->go[i][1]);
    }
    dt_buf_finish(&s->seen);
    free(s);
}

/* -- looking ---------------------------------------------------------------------------------- */

static inline void check_file(struct stage *s, const char *name, const char *wanted)
{
    struct dt_buf text = {0};
    struct dt_err err;
    char path[200];
    snprintf(path, sizeof path, "%s/%s", s->dir, name);
    CHECK_OK(dt_fs_read(path, 1 << 20, &text, &err), err);
    CHECK_STR(dt_buf_cstr(&text), wanted);
    dt_buf_finish(&text);
}

static inline void check_seen(struct stage *s, const char *wanted)
{
    CHECK_STR(dt_buf_cstr(&s->seen), wanted);
}

static inline void check_tail(struct stage *s, int rank, unsigned stream, const char *wanted)
{
    struct dt_buf tail = {0};
    dt_output_tail(s->output, rank, stream, &tail);
    CHECK_STR(dt_buf_cstr(&tail), wanted);
    dt_buf_finish(&tail);
}

static inline void say(int fd, const char *text)
{
    size_t len = strlen(text);
    if (write(fd, text, len) != (ssize_t)len)
        _exit(3);
}

/* Where a worker waits for the test. */
static inline void await_go(void)
{
    char c;
    if (read(0, &c, 1) != 1)
        _exit(4);
}

static inline void go(struct stage *s, int rank)
{
    CHECK_EQ(write(s->go[rank][1], ".", 1), 1);
}

static inline void wait_until_seen(struct stage *s, const char *wanted)
{
    while (strcmp(dt_buf_cstr(&s->seen), wanted) != 0)
        turn(s);
}

/* -- floods: numbered lines of all ranks ------------------------------------------------------ */

#define FLOOD_LINES 20000
#define FLOOD_LINE 100 /* with its \n, without a prefix: 16 MB by eight workers */

static inline void make_flood_line(char line[FLOOD_LINE + 1], int rank, int number)
{
    int n = snprintf(line, FLOOD_LINE, "%d %06d ", rank, number);
    memset(line + n, 'a' + number % 26, (size_t)(FLOOD_LINE - n - 1));
    memcpy(line + FLOOD_LINE - 1, "\n", 2);
}

/* In pieces of 4 KiB, which end within lines. */
static inline void flood(struct stage *s, int rank)
{
    char block[4096];
    size_t have = 0;
    (void)s;
    for (int i = 0; i < FLOOD_LINES; i++) {
        char line[FLOOD_LINE + 1];
        make_flood_line(line, rank, i);
        for (int k = 0; k < FLOOD_LINE; k++) {
            block[have++] = line[k];
            if (have == sizeof block && write(1, block, have) != (ssize_t)have)
                _exit(3);
            have %= sizeof block;
        }
    }
    if (write(1, block, have) != (ssize_t)have)
        _exit(3);
}

/* Each rank's lines whole and in order, nothing else. */
static inline void check_flood_seen(struct stage *s)
{
    static const char prefix[] = "[default0]:";
    int next[MOST_WORKERS] = {0};
    size_t size = strlen(prefix) + FLOOD_LINE;
    CHECK_EQ(s->seen.len, size * FLOOD_LINES * (size_t)s->plan.nproc);
    for (size_t at = 0; at < s->seen.len; at += size) {
        char wanted[200], line[FLOOD_LINE + 1];
        int rank = s->seen.at[at + 8] - '0';
        CHECK(rank >= 0 && rank < s->plan.nproc);
        make_flood_line(line, rank, next[rank]++);
        snprintf(wanted, sizeof wanted, "[default%d]:%s", rank, line);
        CHECK_BYTES(s->seen.at + at, size, wanted, size);
    }
}

static inline void check_flood_files(struct stage *s)
{
    for (int rank = 0; rank < s->plan.nproc; rank++) {
        CHECK_ROW("rank %d", rank);
        struct dt_buf text = {0};
        struct dt_err err;
        char path[100], line[FLOOD_LINE + 1];
        snprintf(path, sizeof path, "%s/%d/stdout.log", s->dir, rank);
        CHECK_OK(dt_fs_read(path, 1 << 30, &text, &err), err);
        CHECK_EQ(text.len, FLOOD_LINE * FLOOD_LINES);
        for (int i = 0; i < FLOOD_LINES; i++) {
            make_flood_line(line, rank, i);
            CHECK_BYTES(text.at + i * FLOOD_LINE, FLOOD_LINE, line, FLOOD_LINE);
        }
        dt_buf_finish(&text);
    }
}

#endif
