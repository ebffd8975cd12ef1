/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/stream.h"

#include "agent/output/strip.h"
#include "base/list.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RING DT_WORKER_STREAM_RING
#define SLICE (128u << 10) /* a stream's share of a loop turn, and of the console's queue */
#define LEAST_READ (16u << 10)
/* As much as the largest pipe may hold. Who still writes when all workers are gone is not listened
 * to for ever. */
#define MOST_DRAINED (1u << 20)

_Static_assert(RING >= DT_WORKER_STREAM_TAIL, "the ring has the tail");

struct dt_worker_stream {
    uv_loop_t *loop;
    struct dt_worker_stream_setup is; /* .fd -1: no more comes */
    uv_poll_t poll;
    uv_fs_t write, read;
    bool polling, writing, reading; /* what is under way */
    bool filing;                    /* there is a file, and it takes what it is given */
    bool draining, finished, closing, poll_closed;
    size_t drain_left;
    struct dt_strip strip;
    struct dt_speaker speaker;
    struct dt_lines filter_lines;
    dt_ms unfinished_since; /* of the line that the speaker holds; DT_FOREVER: none */
    uint8_t *slice;         /* read back from the file; NULL until needed */
    uint64_t file_began;    /* with so many bytes, of a worker before this one */
    /* Counted in bytes of the file from there on, or of what would be in it: filed, shown <=
     * received. The ring has those from received - RING on. */
    uint64_t received, filed, shown;
    uint8_t ring[RING];
};

/* -- cursors ---------------------------------------------------------------------------------- */

static size_t least(uint64_t a, uint64_t b)
{
    return (size_t)(a < b ? a : b);
}

/* How much may come. What is in the file may be forgotten, also of one that takes no more. */
static size_t ring_room(const struct dt_worker_stream *s)
{
    uint64_t needed_from = s->filing || s->filed > s->shown ? s->filed : s->shown;
    return RING - (size_t)(s->received - needed_from);
}

/* What came from AT on, in one piece. */
static struct dt_bytes in_ring(const struct dt_worker_stream *s, uint64_t at)
{
    size_t from = at % RING;
    return (struct dt_bytes){s->ring + from, least(s->received - at, RING - from)};
}

static bool ring_has(const struct dt_worker_stream *s, uint64_t at)
{
    return at + RING >= s->received;
}

uint64_t dt_worker_stream_received(const struct dt_worker_stream *s)
{
    return s->received;
}

void dt_worker_stream_copy(const struct dt_worker_stream *s, uint64_t at, size_t most,
                           struct dt_buf *out)
{
    while (at < s->received && most > 0) {
        struct dt_bytes b = in_ring(s, at);
        b.len = least(b.len, most);
        dt_buf_put(out, b.at, b.len);
        at += b.len;
        most -= b.len;
    }
}

void dt_worker_stream_tail(const struct dt_worker_stream *s, struct dt_buf *out)
{
    size_t most = DT_WORKER_STREAM_TAIL;
    dt_worker_stream_copy(s, s->received - least(s->received, most), most, out);
}

/* -- onto the console ------------------------------------------------------------------------- */

static void move(struct dt_worker_stream *s);

static void say(struct dt_worker_stream *s, struct dt_bytes b)
{
    if (!s->is.prefix) {
        dt_console_pass(s->is.console, b);
        return;
    }
    dt_ms now = (dt_ms)uv_now(s->loop);
    dt_console_say(s->is.console, &s->speaker, b, now);
    if (s->speaker.lines.tail.len == 0)
        s->unfinished_since = DT_FOREVER;
    else if (s->unfinished_since == DT_FOREVER)
        s->unfinished_since = now;
}

/* The part that only the file has. Somebody may have cut it meanwhile: then that part is lost. */
static void take_back(struct dt_worker_stream *s, ssize_t n)
{
    uint64_t skipped = s->received - RING;
    if (n > 0) {
        say(s, (struct dt_bytes){s->slice, (size_t)n});
        s->shown += (uint64_t)n;
    } else {
        dt_warn("cannot read %s back: %s; %llu bytes of it are not shown", s->is.file_name,
                n ? uv_strerror((int)n) : "it was cut", (unsigned long long)(skipped - s->shown));
        s->shown = skipped;
    }
}

static void free_if_done(struct dt_worker_stream *s);

static void on_read_back(uv_fs_t *req)
{
    struct dt_worker_stream *s = dt_container_of(req, struct dt_worker_stream, read);
    ssize_t n = req->result;
    uv_fs_req_cleanup(req);
    s->reading = false;
    if (s->closing) {
        free_if_done(s);
        return;
    }
    take_back(s, n);
    move(s);
}

static void read_back(struct dt_worker_stream *s)
{
    if (!s->slice && !(s->slice = malloc(SLICE))) {
        take_back(s, UV_ENOMEM);
        return;
    }
    uv_buf_t buf = uv_buf_init((char *)s->slice, (unsigned)least(SLICE, s->filed - s->shown));
    int64_t at = (int64_t)(s->file_began + s->shown);
    int rc = uv_fs_read(s->loop, &s->read, s->is.file, &buf, 1, at, on_read_back);
    s->reading = rc == 0;
    if (rc < 0)
        take_back(s, rc);
}

static void show(struct dt_worker_stream *s)
{
    if (!s->reading && (!s->is.console || dt_console_is_silent(s->is.console)))
        s->shown = s->received;
    while (s->shown < s->received && !s->reading && dt_console_has_room(s->is.console)) {
        if (!ring_has(s, s->shown)) {
            read_back(s);
            continue;
        }
        struct dt_bytes b = in_ring(s, s->shown);
        b.len = least(b.len, SLICE);
        say(s, b);
        s->shown += b.len;
    }
}

dt_ms dt_worker_stream_show_unfinished(struct dt_worker_stream *s, dt_ms age)
{
    dt_ms due = dt_clock_after(s->unfinished_since, age);
    if (due > (dt_ms)uv_now(s->loop))
        return due;
    dt_console_say_unfinished(s->is.console, &s->speaker);
    s->unfinished_since = DT_FOREVER;
    return DT_FOREVER;
}

/* -- into the file ---------------------------------------------------------------------------- */

static void note_filed(struct dt_worker_stream *s, ssize_t n)
{
    if (n == UV_EAGAIN || n == UV_EINTR)
        return;
    s->filing = n > 0;
    if (n > 0)
        s->filed += (uint64_t)n;
    else
        dt_warn("cannot write %s: %s; it gets no more of what its worker prints", s->is.file_name,
                uv_strerror(n ? (int)n : UV_ENOSPC));
}

static void on_filed(uv_fs_t *req)
{
    struct dt_worker_stream *s = dt_container_of(req, struct dt_worker_stream, write);
    ssize_t n = req->result;
    uv_fs_req_cleanup(req);
    s->writing = false;
    if (s->closing) {
        free_if_done(s);
        return;
    }
    note_filed(s, n);
    move(s);
}

static void file(struct dt_worker_stream *s)
{
    if (!s->filing || s->writing || s->filed == s->received)
        return;
    struct dt_bytes b = in_ring(s, s->filed);
    uv_buf_t buf = uv_buf_init((char *)b.at, (unsigned)b.len);
    int rc = uv_fs_write(s->loop, &s->write, s->is.file, &buf, 1, -1, on_filed);
    s->writing = rc == 0;
    if (rc < 0)
        note_filed(s, rc);
}

/* -- from the worker -------------------------------------------------------------------------- */

static bool can_take(const struct dt_worker_stream *s)
{
    return s->is.fd >= 0 && ring_room(s) >= LEAST_READ &&
           (!s->is.filter || dt_filter_has_room(s->is.filter));
}

static void stop_polling(struct dt_worker_stream *s)
{
    if (s->polling)
        uv_poll_stop(&s->poll);
    s->polling = false;
}

static void on_poll_closed(uv_handle_t *h)
{
    struct dt_worker_stream *s = dt_container_of((uv_poll_t *)h, struct dt_worker_stream, poll);
    s->poll_closed = true;
    if (s->closing)
        free_if_done(s);
}

/* The handle goes before its descriptor does: closed later it would make deaf whoever has that
 * number then. */
static void end_input(struct dt_worker_stream *s)
{
    if (s->is.fd < 0)
        return;
    s->polling = false;
    uv_close((uv_handle_t *)&s->poll, on_poll_closed);
    close(s->is.fd);
    s->is.fd = -1;
}

/* While the console is not behind it gets what comes at once, terminal codes and all. */
static void arrived(struct dt_worker_stream *s, uint8_t *at, size_t len)
{
    struct dt_bytes b = {at, len};
    bool at_once = s->is.console && s->shown == s->received && dt_console_has_room(s->is.console);
    if (s->is.filter)
        dt_filter_put(s->is.filter, &s->filter_lines, s->is.prefix, b);
    if (at_once)
        say(s, b);
    s->received += s->is.strip ? dt_strip(&s->strip, at, len) : len;
    if (at_once)
        s->shown = s->received;
}

static void take(struct dt_worker_stream *s)
{
    size_t to = s->received % RING;
    size_t room = least(least(ring_room(s), RING - to), SLICE);
    if (s->draining)
        room = least(room, s->drain_left);
    ssize_t n = room ? read(s->is.fd, s->ring + to, room) : 0;
    if (n > 0) {
        s->drain_left -= s->draining ? (size_t)n : 0;
        arrived(s, s->ring + to, (size_t)n);
    } else if (n == 0 || s->draining || (errno != EAGAIN && errno != EINTR)) {
        end_input(s); /* a pty says EIO when all have closed it */
    }
}

static void finish_if_done(struct dt_worker_stream *s)
{
    if (s->finished || s->is.fd >= 0 || s->writing || s->reading || s->shown < s->received ||
        (s->filing && s->filed < s->received))
        return;
    s->finished = true;
    s->unfinished_since = DT_FOREVER;
    if (s->is.console && s->is.prefix)
        dt_console_end_speech(s->is.console, &s->speaker);
    if (s->is.filter)
        dt_filter_end(s->is.filter, &s->filter_lines, s->is.prefix);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct dt_worker_stream *s = dt_container_of(poll, struct dt_worker_stream, poll);
    (void)events;
    if (status < 0)
        end_input(s);
    else
        take(s);
    move(s);
}

static void poll_as_needed(struct dt_worker_stream *s)
{
    bool wanted = !s->draining && can_take(s);
    if (!wanted)
        stop_polling(s);
    else if (!s->polling)
        s->polling = uv_poll_start(&s->poll, UV_READABLE, on_readable) == 0;
}

/* A worker whose output goes nowhere but to a pipe that its reader has closed is to hear of that as
 * if it had inherited the pipe, by SIGPIPE or EPIPE. Most end then. */
static void pass_loss_on(struct dt_worker_stream *s)
{
    if (s->is.file < 0 && s->is.console && dt_console_is_lost(s->is.console))
        end_input(s);
}

void dt_worker_stream_pump(struct dt_worker_stream *s)
{
    do {
        if (s->draining && can_take(s))
            take(s);
        file(s);
        show(s);
    } while (s->draining && can_take(s));
    pass_loss_on(s);
    poll_as_needed(s);
    finish_if_done(s);
}

/* After an event of our own. */
static void move(struct dt_worker_stream *s)
{
    dt_worker_stream_pump(s);
    s->is.on_moved(s->is.arg);
}

/* -- life ------------------------------------------------------------------------------------- */

struct dt_worker_stream *dt_worker_stream_open(uv_loop_t *loop,
                                               const struct dt_worker_stream_setup *setup,
                                               struct dt_err *err)
{
    struct dt_worker_stream *s = calloc(1, sizeof *s);
    if (!s) {
        dt_err_set(err, DT_E_MEMORY, "no memory for the output of a worker");
        return NULL;
    }
    int rc = uv_poll_init(loop, &s->poll, setup->fd);
    if (rc < 0) {
        dt_err_set(err, DT_E_RUNTIME, "cannot watch the output of a worker: %s", uv_strerror(rc));
        free(s);
        return NULL;
    }
    s->loop = loop;
    s->is = *setup;
    s->filing = setup->file >= 0;
    off_t end = s->filing ? lseek(setup->file, 0, SEEK_END) : 0;
    s->file_began = end > 0 ? (uint64_t)end : 0;
    s->drain_left = MOST_DRAINED;
    s->unfinished_since = DT_FOREVER;
    s->speaker = (struct dt_speaker){.prefix = s->is.prefix, .local_rank = s->is.local_rank};
    return s;
}

void dt_worker_stream_rename(struct dt_worker_stream *s, char *prefix)
{
    free(s->is.prefix);
    s->is.prefix = prefix;
    s->speaker.prefix = prefix;
}

void dt_worker_stream_drain(struct dt_worker_stream *s)
{
    s->draining = true;
}

bool dt_worker_stream_is_finished(const struct dt_worker_stream *s)
{
    return s->finished;
}

int dt_worker_stream_fd(const struct dt_worker_stream *s)
{
    return s->is.fd;
}

static void free_if_done(struct dt_worker_stream *s)
{
    if (!s->poll_closed || s->writing || s->reading)
        return;
    if (s->is.file >= 0)
        close(s->is.file);
    dt_lines_finish(&s->speaker.lines);
    dt_lines_finish(&s->filter_lines);
    void (*on_closed)(void *) = s->is.on_closed;
    void *arg = s->is.arg;
    free(s->is.file_name);
    free(s->is.prefix);
    free(s->slice);
    free(s); /* the only free of a stream that was opened */
    on_closed(arg);
}

void dt_worker_stream_close(struct dt_worker_stream *s)
{
    if (!s || s->closing)
        return;
    s->closing = true;
    end_input(s);
    if (s->writing)
        uv_cancel((uv_req_t *)&s->write);
    if (s->reading)
        uv_cancel((uv_req_t *)&s->read);
    free_if_done(s);
}
