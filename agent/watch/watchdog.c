/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watch/watchdog.h"

#include "agent/watch/timers.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/ending.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_BYTES (PIPE_BUF + 1) /* what is written in one piece, and its newline */
#define READ_MAX ((size_t)64 << 10)   /* in one turn of the loop: all a pipe holds */
#define LOOK_AGAIN DT_SECOND          /* the wall clock may be set while we wait */

struct dt_watchdog {
    uv_loop_t *loop;
    bool (*belongs)(void *arg, pid_t pid);
    void (*on_expired)(void *arg, pid_t pid, const char *scope, int signum);
    void *arg;
    char path[PATH_MAX];
    int fd; /* of both ends, so that the last worker's leaving is no end of file */
    uv_poll_t readable;
    uv_check_t polled; /* active from then until all that the same poll found is told */
    uv_timer_t due;
    struct dt_ending ending;
    struct dt_timers timers;
    struct dt_log_limit complaints;
    bool skipping; /* inside a line that is too long */
    size_t held;   /* of a line that has not ended */
    uint8_t in[LINE_MAX_BYTES + READ_MAX];
};

/* -- expiry ----------------------------------------------------------------------------------- */

static void on_due(uv_timer_t *t);

static void arm(struct dt_watchdog *w)
{
    int64_t next = dt_timers_next(&w->timers), now = dt_clock_wall_us();
    if (w->ending.begun || next == INT64_MAX) {
        uv_timer_stop(&w->due);
        return;
    }
    int64_t wait = next <= now ? 0 : (next - now) / 1000 + 1;
    uv_update_time(w->loop);
    uv_timer_start(&w->due, on_due, (uint64_t)(wait < LOOK_AGAIN ? wait : LOOK_AGAIN), 0);
}

static void expire(struct dt_watchdog *w, const struct dt_timer *timer)
{
    if (!w->belongs(w->arg, timer->pid))
        return;
    if (timer->signum <= 0) {
        dt_info("timer \"%.100s\" of pid %d is over and asks for no signal", timer->scope,
                (int)timer->pid);
        return;
    }
    w->on_expired(w->arg, timer->pid, timer->scope, timer->signum);
    if (kill(timer->pid, timer->signum) < 0 && errno != ESRCH)
        dt_warn("cannot send signal %d to pid %d, whose timer \"%.100s\" is over: %s",
                timer->signum, (int)timer->pid, timer->scope, strerror(errno));
}

static void on_due(uv_timer_t *t)
{
    struct dt_watchdog *w = dt_container_of(t, struct dt_watchdog, due);
    struct dt_timer timer;
    int64_t now = dt_clock_wall_us();
    while (!w->ending.begun && dt_timers_take_expired(&w->timers, now, &timer)) {
        expire(w, &timer);
        free(timer.scope);
    }
    arm(w);
}

/* -- requests --------------------------------------------------------------------------------- */

static void complain(struct dt_watchdog *w, const char *why, struct dt_bytes line)
{
    uint64_t held_back;
    char shown[160];
    if (!dt_log_limit_pass(&w->complaints, dt_clock_monotonic(), &held_back))
        return;
    dt_warn("the watchdog skips a line (%s): %s", why, dt_str_printable(line, shown, sizeof shown));
    if (held_back)
        dt_warn("%" PRIu64 " more lines were skipped before that", held_back);
}

struct request {
    int64_t pid, signum;
    const char *scope;
    double expires;
};

static int parse(const struct dt_json *doc, struct request *r, struct dt_err *err)
{
    bool fine = dt_json_int(doc, NULL, "pid", 1, INT32_MAX, &r->pid, err) == 0 &&
                dt_json_string(doc, NULL, "scope_id", &r->scope, err) == 0 &&
                dt_json_number(doc, NULL, "expiration_time", &r->expires, err) == 0 &&
                dt_json_int(doc, NULL, "signal", INT32_MIN, NSIG - 1, &r->signum, err) == 0;
    return fine ? 0 : -1;
}

static int carry_out(struct dt_watchdog *w, const struct request *r, struct dt_err *err)
{
    pid_t pid = (pid_t)r->pid;
    if (r->expires < 0) {
        dt_timers_release(&w->timers, pid, r->scope);
        return 0;
    }
    if (!w->belongs(w->arg, pid))
        return dt_err_set(err, DT_E_PROTOCOL, "pid %d is no worker of ours", (int)pid);
    if (w->timers.count == DT_TIMERS_MAX)
        dt_timers_sweep(&w->timers, w->belongs, w->arg);
    /* 100,000 years and more are forever. */
    int64_t at = r->expires < 3e12 ? (int64_t)(r->expires * 1e6) : INT64_MAX - 1;
    return dt_timers_add(&w->timers, pid, r->scope, at, (int)r->signum, err);
}

static void take_line(struct dt_watchdog *w, struct dt_bytes line)
{
    struct dt_json doc = {0};
    struct request r = {0};
    struct dt_err err;
    if (line.len == 0)
        return;
    int rc = dt_json_parse(&doc, (const char *)line.at, line.len, LINE_MAX_BYTES, &err);
    if (rc == 0)
        rc = parse(&doc, &r, &err);
    if (rc == 0)
        rc = carry_out(w, &r, &err);
    if (rc < 0)
        complain(w, err.text, line);
    dt_json_finish(&doc);
}

static void take_lines(struct dt_watchdog *w)
{
    uint8_t *at = w->in, *end;
    while (w->held && (end = memchr(at, '\n', w->held))) {
        struct dt_bytes line = {at, (size_t)(end - at)};
        if (!w->skipping)
            take_line(w, line);
        w->skipping = false;
        at = end + 1;
        w->held -= line.len + 1;
    }
    memmove(w->in, at, w->held);
    if (w->held < LINE_MAX_BYTES)
        return;
    if (!w->skipping)
        complain(w, "longer than what a pipe takes in one piece",
                 (struct dt_bytes){w->in, w->held});
    w->skipping = true;
    w->held = 0;
}

static void take_requests(struct dt_watchdog *w)
{
    ssize_t n = read(w->fd, w->in + w->held, READ_MAX);
    if (n <= 0)
        return;
    w->held += (size_t)n;
    take_lines(w);
    arm(w);
}

static void on_polled(uv_check_t *c)
{
    uv_check_stop(c);
    take_requests(dt_container_of(c, struct dt_watchdog, polled));
}

/* A worker's first request and the guard's word that the worker has been started may be found at
 * once: in whichever order, the request is looked at behind the other. */
static void on_readable(uv_poll_t *p, int status, int events)
{
    struct dt_watchdog *w = dt_container_of(p, struct dt_watchdog, readable);
    (void)events;
    if (status == 0)
        uv_check_start(&w->polled, on_polled);
}

/* Requests of before are still in the FIFO. */
void dt_watchdog_delay(struct dt_watchdog *w, dt_ms delay)
{
    take_requests(w);
    dt_timers_delay(&w->timers, delay * 1000);
    arm(w);
}

/* -- beginning and end ------------------------------------------------------------------------ */

static int name_fifo(struct dt_watchdog *w, const char *path, struct dt_err *err)
{
    DT_AUTO_FREE char *tmp = path ? NULL : dt_fs_temp_folder(err);
    if (!path && !tmp)
        return dt_err_wrap(err, "no place for the FIFO of file timers");
    int n = path ? snprintf(w->path, sizeof w->path, "%s", path)
                 : snprintf(w->path, sizeof w->path, "%s/dtrun_watchdog_%d_%08x", tmp,
                            (int)getpid(), (unsigned)(uv_hrtime() * 2654435761u >> 16));
    if (n < 0 || (size_t)n >= sizeof w->path)
        return dt_err_set(err, DT_E_RUNTIME, "the watchdog's path %.60s... is too long", w->path);
    return 0;
}

/* Between making and opening somebody may have put another thing there. */
static int make_fifo(struct dt_watchdog *w, struct dt_err *err)
{
    struct stat st;
    if (unlink(w->path) < 0 && errno != ENOENT)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot remove the old %s", w->path);
    if (mkfifo(w->path, 0600) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno,
                            "cannot make the FIFO of file timers %s (TORCHELASTIC_TIMER_FILE)",
                            w->path);
    w->fd = open(w->path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (w->fd < 0 || fstat(w->fd, &st) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open the watchdog's FIFO %s",
                            w->path);
    if (!S_ISFIFO(st.st_mode))
        return dt_err_set(err, DT_E_RUNTIME, "%s was replaced by something that is no FIFO",
                          w->path);
    return 0;
}

static void watchdog_free(void *watchdog)
{
    struct dt_watchdog *w = watchdog;
    close(w->fd);
    dt_timers_finish(&w->timers);
    free(w); /* the only free of one that was served */
}

static int serve(struct dt_watchdog *w, struct dt_err *err)
{
    int rc = uv_poll_init(w->loop, &w->readable, w->fd);
    if (rc < 0)
        return dt_err_set(err, DT_E_RUNTIME, "cannot watch %s: %s", w->path, uv_strerror(rc));
    uv_timer_init(w->loop, &w->due);
    uv_check_init(w->loop, &w->polled);
    w->readable.data = w->polled.data = w->due.data = w;
    uv_poll_start(&w->readable, UV_READABLE, on_readable);
    return 0;
}

struct dt_watchdog *
dt_watchdog_open(uv_loop_t *loop, const char *path, bool (*belongs)(void *arg, pid_t pid),
                 void (*on_expired)(void *arg, pid_t pid, const char *scope, int signum), void *arg,
                 struct dt_err *err)
{
    struct dt_watchdog *w = calloc(1, sizeof *w);
    if (!w) {
        dt_err_set(err, DT_E_MEMORY, "no memory for the watchdog");
        return NULL;
    }
    w->loop = loop;
    w->belongs = belongs;
    w->on_expired = on_expired;
    w->arg = arg;
    w->fd = -1;
    w->complaints = (struct dt_log_limit){.burst = 1, .every = 60 * DT_SECOND};
    if (name_fifo(w, path, err) == 0 && make_fifo(w, err) == 0 && serve(w, err) == 0)
        return w;
    if (w->fd >= 0) {
        close(w->fd);
        unlink(w->path);
    }
    free(w);
    return NULL;
}

const char *dt_watchdog_path(const struct dt_watchdog *w)
{
    return w->path;
}

void dt_watchdog_close(struct dt_watchdog *w, void (*on_closed)(void *arg), void *arg)
{
    if (w->ending.begun)
        return;
    dt_ending_begin(&w->ending, watchdog_free, w, on_closed, arg);
    unlink(w->path);
    dt_ending_close(&w->ending, &w->readable);
    dt_ending_close(&w->ending, &w->polled);
    dt_ending_close(&w->ending, &w->due);
}
