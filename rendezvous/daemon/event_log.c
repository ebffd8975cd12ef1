/* SPDX-License-Identifier: Apache-2.0 */
/* Lines gather in one buffer while the thread writes another; the two are exchanged when it is
 * done. What is the thread's while it runs is `batch`. */
#include "rendezvous/daemon/event_log.h"

#include "base/auto.h"
#include "base/log.h"
#include "base/loop/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/uio.h>

#define WAITING_MOST ((size_t)1 << 20) /* bytes of lines; what comes beyond is left out */

struct batch {
    int fd;
    bool reopen;
    bool torn; /* the last line lacks its end */
    struct dt_buf lines;
    uint64_t lost;         /* lines that the file did not take ... */
    int errnum;            /* ... and why */
    int no_new_file;       /* why it could not be opened anew, and the old one goes on */
    atomic_size_t settled; /* bytes of LINES that were written, or lost; for the loop too */
};

struct dt_event_log {
    uv_loop_t *loop;
    char *path;
    struct dt_chronicle_follower follower;
    struct dt_buf waiting;
    bool reopen;
    bool failing;  /* the last lines found no room ... */
    uint64_t lost; /* ... and so many so far */
    struct dt_aside aside;
    bool busy; /* BATCH is the thread's */
    struct batch batch;
    bool closing;
    uv_timer_t limit; /* while CLOSING ... */
    bool late;        /* ... and it is over */
    uint64_t newest;  /* event that was to be written */
    void (*on_closed)(void *arg);
    void *arg;
};

/* A FIFO without a reader is an error, ENXIO, and nothing to wait for; writing to one that is full
 * is waited for, in the thread. */
static int open_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
    if (fd >= 0)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

/* -- in the thread ---------------------------------------------------------------------------- */

/* In one piece; of a line that a full disk cut, the next one first ends the rest. */
static int write_line(struct batch *b, const uint8_t *line, size_t len)
{
    char newline = '\n';
    struct iovec parts[2] = {{&newline, b->torn}, {(uint8_t *)(uintptr_t)line, len}};
    ssize_t n, all = (ssize_t)(len + b->torn);
    do
        n = writev(b->fd, parts, 2);
    while (n < 0 && errno == EINTR);
    if (n == all) {
        b->torn = false;
        return 0;
    }
    int why = n < 0 ? errno : ENOSPC;
    b->torn = b->torn || n > 0;
    return why;
}

static void write_lines(struct batch *b)
{
    const uint8_t *at = b->lines.at, *end = b->lines.len ? at + b->lines.len : at;
    while (at < end) {
        const uint8_t *next = (const uint8_t *)memchr(at, '\n', (size_t)(end - at)) + 1;
        if (b->errnum == 0)
            b->errnum = write_line(b, at, (size_t)(next - at));
        b->lost += b->errnum != 0; /* of one batch no more is tried */
        at = next;
        atomic_store(&b->settled, (size_t)(at - b->lines.at));
    }
}

static void reopen(struct batch *b, const char *path)
{
    int fd = open_file(path);
    if (fd < 0) {
        b->no_new_file = errno;
        return;
    }
    close(b->fd);
    b->fd = fd;
    b->torn = false;
}

static void work(struct dt_aside *a)
{
    struct dt_event_log *l = dt_container_of(a, struct dt_event_log, aside);
    if (l->batch.reopen)
        reopen(&l->batch, l->path);
    write_lines(&l->batch);
}

/* -- in the loop ------------------------------------------------------------------------------ */

static uint64_t count_lines(const struct dt_buf *lines)
{
    uint64_t count = 0;
    for (size_t i = 0; i < lines->len; i++)
        count += lines->at[i] == '\n';
    return count;
}

static void log_free(struct dt_event_log *l)
{
    dt_auto_close_fd(&l->batch.fd);
    dt_buf_finish(&l->batch.lines);
    dt_buf_finish(&l->waiting);
    free(l->path);
    free(l); /* the only free of a log */
}

/* Said once, and once more when it is over. */
static void lose(struct dt_event_log *l, uint64_t lines, const char *why)
{
    if (!l->failing)
        dt_warn("--event-log %s: %s; events that find no room there are left out of it", l->path,
                why);
    l->failing = true;
    l->lost += lines;
}

static void recover(struct dt_event_log *l)
{
    dt_info("--event-log %s takes events again; %" PRIu64 " are missing there", l->path, l->lost);
    l->failing = false;
    l->lost = 0;
}

static void end_batch(struct dt_event_log *l)
{
    struct batch *b = &l->batch;
    l->busy = false;
    if (b->no_new_file)
        dt_warn("--event-log %s cannot be opened anew: %s; the old file goes on", l->path,
                strerror(b->no_new_file));
    if (b->errnum)
        lose(l, b->lost, strerror(b->errnum));
    else if (l->failing && b->lines.len > 0)
        recover(l);
    dt_buf_clear(&b->lines);
}

/* -- the end ---------------------------------------------------------------------------------- */

/* As of event.h. */
static uint64_t number_of(const uint8_t *line)
{
    return strtoull((const char *)line + strlen("{\"number\":"), NULL, 10);
}

/* The oldest event that nobody knows to be written; 0: there is none. */
static uint64_t oldest_unwritten(struct dt_event_log *l)
{
    size_t settled = atomic_load(&l->batch.settled);
    if (settled < l->batch.lines.len)
        return number_of(l->batch.lines.at + settled);
    return l->waiting.len > 0 ? number_of(l->waiting.at) : 0;
}

static void say_missing(struct dt_event_log *l)
{
    uint64_t oldest = oldest_unwritten(l);
    if (oldest)
        dt_warn("--event-log %s: the disk hangs, or nobody reads there, and the end waits no "
                "longer: events %" PRIu64 " to %" PRIu64 " may be missing",
                l->path, oldest, l->newest);
}

static void on_limit_closed(uv_handle_t *h)
{
    struct dt_event_log *l = dt_container_of((uv_timer_t *)h, struct dt_event_log, limit);
    void (*on_closed)(void *arg) = l->on_closed;
    void *arg = l->arg;
    if (!l->busy) /* else it is the thread's, which hangs, until the process ends */
        log_free(l);
    if (on_closed)
        on_closed(arg);
}

static void finish(struct dt_event_log *l)
{
    say_missing(l);
    uv_close((uv_handle_t *)&l->limit, on_limit_closed);
}

static void on_limit(uv_timer_t *t)
{
    struct dt_event_log *l = dt_container_of(t, struct dt_event_log, limit);
    l->late = true;
    if (dt_aside_disown(&l->aside))
        finish(l);
}

/* -- batches ---------------------------------------------------------------------------------- */

static void start(struct dt_event_log *l);

static void on_written(struct dt_aside *a)
{
    struct dt_event_log *l = dt_container_of(a, struct dt_event_log, aside);
    if (a->status < 0) { /* no thread could be had */
        l->batch.errnum = EAGAIN;
        l->batch.lost = count_lines(&l->batch.lines);
    }
    end_batch(l);
    start(l);
}

/* Hands what waits to the thread, unless that is busy; a log that closes ends when nothing waits.
 */
static void start(struct dt_event_log *l)
{
    struct batch *b = &l->batch;
    if (l->busy)
        return;
    if (l->late || (l->waiting.len == 0 && !l->reopen)) {
        if (l->closing)
            finish(l);
        return;
    }
    struct dt_buf lines = b->lines;
    b->lines = l->waiting;
    l->waiting = lines;
    b->reopen = l->reopen;
    b->errnum = b->no_new_file = 0;
    b->lost = 0;
    atomic_store(&b->settled, 0);
    l->reopen = false;
    l->busy = true;
    int rc = dt_aside_run(&l->aside, l->loop, work, on_written);
    if (rc == 0)
        return;
    b->errnum = -rc; /* as libuv has it here */
    b->lost = count_lines(&b->lines);
    end_batch(l);
    start(l);
}

static void take(struct dt_event_log *l, const struct dt_event *e)
{
    if (l->waiting.len >= WAITING_MOST) {
        lose(l, 1, "the disk takes longer than all that may wait for it");
        return;
    }
    dt_event_put_json(&l->waiting, e);
    dt_buf_put_u8(&l->waiting, '\n');
    l->newest = e->number;
    if (l->waiting.bad) {
        dt_buf_finish(&l->waiting);
        lose(l, 1, "no memory");
    }
}

static void on_event(struct dt_chronicle_follower *f, const struct dt_event *e)
{
    struct dt_event_log *l = dt_container_of(f, struct dt_event_log, follower);
    take(l, e);
    start(l);
}

/* From the last start of the server on: it has told that before anybody could follow. */
static void catch_up(struct dt_event_log *l, const struct dt_chronicle *c)
{
    const struct dt_event *e;
    for (uint64_t at = dt_chronicle_before_start(c); (e = dt_chronicle_after(c, at));
         at = e->number)
        take(l, e);
    start(l);
}

struct dt_event_log *dt_event_log_open(uv_loop_t *loop, struct dt_chronicle *c, const char *path,
                                       struct dt_err *err)
{
    struct dt_event_log *l = calloc(1, sizeof *l);
    char *copy = strdup(path);
    if (!l || !copy) {
        free(l);
        free(copy);
        dt_err_set(err, DT_E_MEMORY, "no memory for a log of events");
        return NULL;
    }
    *l = (struct dt_event_log){.loop = loop, .path = copy, .batch.fd = open_file(path)};
    if (l->batch.fd < 0) {
        dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open %s%s", path,
                     errno == ENXIO ? ", a FIFO that nobody reads" : "");
        log_free(l);
        return NULL;
    }
    uv_timer_init(loop, &l->limit);
    l->follower.on_event = on_event;
    dt_chronicle_follow(c, &l->follower);
    catch_up(l, c);
    return l;
}

void dt_event_log_reopen(struct dt_event_log *l)
{
    if (!l || l->closing)
        return;
    l->reopen = true;
    start(l);
}

void dt_event_log_close(struct dt_event_log *l, dt_ms patience, void (*on_closed)(void *arg),
                        void *arg)
{
    if (!l) {
        if (on_closed)
            on_closed(arg);
        return;
    }
    if (uv_is_closing((uv_handle_t *)&l->limit))
        return;
    uv_timer_start(&l->limit, on_limit, (uint64_t)patience, 0);
    if (l->closing)
        return;
    dt_chronicle_unfollow(&l->follower);
    l->closing = true;
    l->on_closed = on_closed;
    l->arg = arg;
    start(l);
}
