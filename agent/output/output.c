/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/output.h"

#include "agent/output/console.h"
#include "agent/output/filter.h"
#include "agent/output/prefix.h"
#include "agent/output/pty.h"
#include "agent/output/stream.h"
#include "agent/output/way.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/ending.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PIPE_SIZE (1 << 20)
#define COLLAPSE_MOMENT 50

_Static_assert(DT_WORKER_STREAM_TAIL == DT_OUTPUT_TAIL, "a stream keeps what is promised");

static const char *const stream_names[2] = {"stdout", "stderr"};
static const unsigned stream_bits[2] = {DT_STDOUT, DT_STDERR};

/* One of a worker's two streams. */
struct place {
    /* NULL: the worker writes into its file or our descriptor, or shares the other stream. */
    struct dt_worker_stream *stream;
    int worker_end; /* -1: the caller has been through with it, or it is the other's */
    int file;       /* of one that has its file itself: for the tail; else -1 */
    off_t began;    /* of that file: what is before is of a worker before this one */
    bool shared;    /* stderr is one stream with stdout */
    int64_t since;  /* see dt_output_log(); 0: it was not opened */
    bool again;     /* it was opened in this attempt before, so its file goes on */
    bool drains;
};

struct dt_output {
    uv_loop_t *loop;
    const struct dt_plan *plan;
    int console_fd[2];
    bool one_console;
    struct dt_console *console[2]; /* opened when first needed; both in [0] if they are one */
    struct dt_filter *filter[2];   /* of this attempt */
    uv_async_t wake;               /* a sink has got on, or a drain begins */
    uv_timer_t timer;              /* for lines that are held */
    char *attempt_dir;
    int first_rank;
    int64_t since;           /* of the place that was opened last */
    struct place *places;    /* two for each local rank */
    struct dt_ending ending; /* of handles and streams */
    bool started, draining;
    bool some_drain;    /* those places that drain are waited for, and others go on */
    bool told_of_pipes; /* that stand for terminals which could not be had */
    void (*on_drained)(void *arg);
    void *drained_arg;
};

static size_t place_count(const struct dt_output *o)
{
    return (size_t)o->plan->nproc * 2;
}

#define each_stream(o, s)                                                                          \
    for (struct place *s = (o)->places; s < (o)->places + place_count(o); s++)                     \
        if (s->stream)

/* -- what moves ------------------------------------------------------------------------------- */

static bool everything_is_out(struct dt_output *o)
{
    bool out = true;
    each_stream(o, p) out &= !p->drains || dt_worker_stream_is_finished(p->stream);
    if (o->some_drain)
        return out;
    for (int i = 0; out && i < 2; i++) {
        if (o->console[i])
            dt_console_show_held(o->console[i], DT_FOREVER);
        out = (!o->console[i] || dt_console_is_empty(o->console[i])) &&
              (!o->filter[i] || dt_filter_is_empty(o->filter[i]));
    }
    return out;
}

static dt_ms sooner(dt_ms a, dt_ms b)
{
    return a < b ? a : b;
}

static void on_timer(uv_timer_t *timer);

static void show_what_is_due(struct dt_output *o)
{
    dt_ms now = (dt_ms)uv_now(o->loop), due = DT_FOREVER;
    if (o->plan->partial_line_after)
        each_stream(o, p) due =
            sooner(due, dt_worker_stream_show_unfinished(p->stream, o->plan->partial_line_after));
    for (int i = 0; i < 2; i++)
        if (o->console[i])
            due = sooner(due, dt_console_show_held(o->console[i], now));
    if (due == DT_FOREVER)
        uv_timer_stop(&o->timer);
    else
        uv_timer_start(&o->timer, on_timer, (uint64_t)(due > now ? due - now : 0), 0);
}

/* The last thing any callback does: our user may begin anew from on_drained. */
static void settle(struct dt_output *o)
{
    if (o->ending.begun)
        return;
    if (o->plan->partial_line_after || o->plan->collapse_lines)
        show_what_is_due(o);
    if (!o->draining || !everything_is_out(o))
        return;
    o->draining = false;
    o->on_drained(o->drained_arg);
}

static void on_timer(uv_timer_t *timer)
{
    settle(dt_container_of(timer, struct dt_output, timer));
}

static void on_stream_moved(void *arg)
{
    settle(arg);
}

static void on_wake(uv_async_t *wake)
{
    struct dt_output *o = dt_container_of(wake, struct dt_output, wake);
    if (o->ending.begun)
        return;
    if (o->started)
        each_stream(o, p) dt_worker_stream_pump(p->stream);
    settle(o);
}

/* -- life ------------------------------------------------------------------------------------- */

static void output_free(void *output)
{
    struct dt_output *o = output;
    free(o->attempt_dir);
    free(o->places);
    free(o);
}

static void on_stream_closed(void *arg)
{
    struct dt_output *o = arg;
    dt_ending_step(&o->ending);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_place(struct place *p)
{
    dt_worker_stream_close(p->stream);
    close_fd(&p->worker_end);
    close_fd(&p->file);
    *p = (struct place){.worker_end = -1, .file = -1};
}

static void end_attempt(struct dt_output *o)
{
    for (struct place *p = o->places; p < o->places + place_count(o); p++)
        close_place(p);
    for (int i = 0; i < 2; i++) {
        dt_filter_close(o->filter[i]);
        o->filter[i] = NULL;
    }
    o->started = false;
}

struct dt_output *dt_output_create(uv_loop_t *loop, const struct dt_plan *plan,
                                   const int console[2], struct dt_err *err)
{
    struct dt_output *o = calloc(1, sizeof *o);
    struct place *places = calloc((size_t)plan->nproc * 2, sizeof *places);
    if (!o || !places || uv_async_init(loop, &o->wake, on_wake) < 0) {
        free(o);
        free(places);
        dt_err_set(err, DT_E_RUNTIME, "no memory or descriptors for the output of %d workers",
                   plan->nproc);
        return NULL;
    }
    o->loop = loop;
    o->plan = plan;
    memcpy(o->console_fd, console, sizeof o->console_fd);
    o->one_console = dt_console_same(console[0], console[1]);
    o->places = places;
    for (struct place *p = places; p < places + place_count(o); p++)
        p->worker_end = p->file = -1;
    uv_timer_init(loop, &o->timer);
    return o;
}

void dt_output_close(struct dt_output *o, void (*on_closed)(void *arg), void *arg)
{
    if (!o) {
        if (on_closed)
            on_closed(arg);
        return;
    }
    dt_ending_begin(&o->ending, output_free, o, on_closed, arg);
    dt_ending_close(&o->ending, &o->timer); /* before the streams, which may close at once */
    end_attempt(o);
    dt_console_close(o->console[0]);
    dt_console_close(o->console[1]);
    dt_ending_close(&o->ending, &o->wake);
}

/* -- a new attempt ---------------------------------------------------------------------------- */

static int open_filter(struct dt_output *o, int i, struct dt_err *err)
{
    char *const *texts = dt_way_filters(o->plan, stream_bits[i]);
    if (!o->attempt_dir || !texts)
        return 0;
    struct dt_buf path = {0};
    dt_buf_printf(&path, "%s/filtered_%s.log", o->attempt_dir, stream_names[i]);
    o->filter[i] = dt_filter_open(dt_buf_cstr(&path), texts, &o->wake, err);
    dt_buf_finish(&path);
    return o->filter[i] ? 0 : -1;
}

int dt_output_begin(struct dt_output *o, const char *attempt_dir, int first_rank,
                    struct dt_err *err)
{
    end_attempt(o);
    free(o->attempt_dir);
    o->attempt_dir = attempt_dir ? strdup(attempt_dir) : NULL;
    o->first_rank = first_rank;
    if (attempt_dir && !o->attempt_dir)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the name of %s", attempt_dir);
    return open_filter(o, 0, err) < 0 || open_filter(o, 1, err) < 0 ? -1 : 0;
}

static int no_memory_for_names(struct dt_err *err)
{
    return dt_err_set(err, DT_E_MEMORY, "no memory for names of a worker's output");
}

static int rename_stream(const struct dt_output *o, size_t i, struct dt_err *err)
{
    char *prefix = dt_prefix_one(o->plan, (int)(i / 2), o->first_rank);
    if (!prefix)
        return no_memory_for_names(err);
    dt_worker_stream_rename(o->places[i].stream, prefix);
    return 0;
}

int dt_output_go_on(struct dt_output *o, int first_rank, struct dt_err *err)
{
    o->first_rank = first_rank;
    for (size_t i = 0; i < place_count(o); i++) {
        unsigned stream = stream_bits[i % 2];
        bool teed = dt_way_of(o->plan, o->attempt_dir, (int)(i / 2), stream) == DT_WAY_TEED;
        if (o->places[i].stream && teed && rename_stream(o, i, err) < 0)
            return -1;
    }
    return 0;
}

static char *on_collapse_prefix(void *arg, const int *local_ranks, size_t count)
{
    struct dt_output *o = arg;
    return dt_prefix_many(o->plan, local_ranks, count, o->first_rank);
}

/* NULL and *err on failure. */
static struct dt_console *console_of(struct dt_output *o, int i, struct dt_err *err)
{
    if (o->one_console)
        i = 0;
    struct dt_console_collapse how = {
        .ranks = o->plan->nproc, .moment = COLLAPSE_MOMENT, .prefix = on_collapse_prefix, .arg = o};
    if (!o->plan->collapse_lines)
        how = (struct dt_console_collapse){0};
    if (!o->console[i])
        o->console[i] = dt_console_open(o->console_fd[i], &how, &o->wake, err);
    return o->console[i];
}

/* -- a worker's streams ----------------------------------------------------------------------- */

/* Many workers are more than some hosts let a process open: dtrun has raised its limit as far as
 * it goes, so the hard one is to be named. */
__attribute__((format(printf, 3, 4))) static int no_descriptor(struct dt_err *err, int errnum,
                                                               const char *fmt, ...)
{
    char what[400];
    struct rlimit most;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (errnum != EMFILE || getrlimit(RLIMIT_NOFILE, &most) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errnum, "%s", what);
    return dt_err_set(err, DT_E_RUNTIME,
                      "%s: this process has all %llu files open that it may; raise the hard limit "
                      "of ulimit -n",
                      what, (unsigned long long)most.rlim_cur);
}

/* Truncated as torchrun does; appending, so that processes of one worker do not write over each
 * other, and so that the file may be cut while it is in use. */
static int open_file(const char *path, int flags, struct dt_err *err)
{
    int fd = open(path, flags | O_CLOEXEC, 0666);
    if (fd < 0)
        no_descriptor(err, errno, "cannot open %s for the output of a worker", path);
    return fd;
}

static int begins(const struct place *p)
{
    return p->again ? 0 : O_TRUNC;
}

static char *path_of(const struct dt_output *o, int local_rank, int i)
{
    char *path;
    int n = asprintf(&path, "%s/%d/%s.log", o->attempt_dir, local_rank, stream_names[i]);
    return n < 0 ? NULL : path;
}

static int give_file(struct dt_output *o, int local_rank, int i, struct place *p,
                     struct dt_err *err)
{
    char *path = path_of(o, local_rank, i);
    if (!path)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a file name");
    p->worker_end = open_file(path, O_WRONLY | O_CREAT | O_APPEND | begins(p), err);
    if (p->worker_end >= 0)
        p->file = open_file(path, O_RDONLY, err);
    p->began = lseek(p->file, 0, SEEK_END);
    free(path);
    return p->file < 0 ? -1 : 0;
}

/* As big as the kernel lets it be, so that a worker that prints a lot at once need not wait. */
static int open_pipe(int ends[2], struct dt_err *err)
{
    if (pipe2(ends, O_CLOEXEC) < 0)
        return no_descriptor(err, errno, "cannot make a pipe for the output of a worker");
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[0], F_SETPIPE_SZ, PIPE_SIZE);
    return 0;
}

/* LIKE: the terminal it is to resemble, if it is one; -1: a pipe will do. Containers often have no
 * terminals to give, and all workers of a job fare alike, so that is said once. */
static int open_ends(struct dt_output *o, int like, int ends[2], struct dt_err *err)
{
    struct dt_err why;
    if (like >= 0 && isatty(like)) {
        if (dt_pty_open(like, ends, &why) == 0)
            return 0;
        if (!o->told_of_pipes)
            dt_info("workers see a pipe instead of a terminal: %s (is /dev/pts mounted?)",
                    why.text);
        o->told_of_pipes = true;
    }
    return open_pipe(ends, err);
}

/* SETUP owns what it has so far, also on failure. A stream with a prefix, be it an empty one, is
 * shown in lines. */
static int fill_setup(struct dt_output *o, int local_rank, int i, const struct place *p,
                      struct dt_worker_stream_setup *setup, struct dt_err *err)
{
    const struct dt_plan *plan = o->plan;
    if (!plan->streams[local_rank].hidden && !(setup->console = console_of(o, i, err)))
        return -1;
    if (dt_way_of(plan, o->attempt_dir, local_rank, stream_bits[i]) == DT_WAY_RELAYED)
        return plan->whole_lines && !(setup->prefix = strdup("")) ? no_memory_for_names(err) : 0;
    setup->filter = o->filter[i];
    setup->strip = plan->strip_codes;
    setup->prefix = dt_prefix_one(plan, local_rank, o->first_rank);
    setup->file_name = path_of(o, local_rank, i);
    if (!setup->prefix || !setup->file_name)
        return no_memory_for_names(err);
    setup->file = open_file(setup->file_name, O_RDWR | O_CREAT | O_APPEND | begins(p), err);
    return setup->file < 0 ? -1 : 0;
}

static int give_pipe(struct dt_output *o, int local_rank, int i, struct place *p,
                     struct dt_err *err)
{
    struct dt_worker_stream_setup setup = {.fd = -1,
                                           .file = -1,
                                           .local_rank = local_rank,
                                           .on_moved = on_stream_moved,
                                           .on_closed = on_stream_closed,
                                           .arg = o};
    int ends[2] = {-1, -1};
    if (fill_setup(o, local_rank, i, p, &setup, err) == 0 &&
        open_ends(o, setup.file < 0 && setup.console ? o->console_fd[i] : -1, ends, err) == 0) {
        setup.fd = ends[0];
        p->worker_end = ends[1];
        if ((p->stream = dt_worker_stream_open(o->loop, &setup, err))) {
            dt_ending_add(&o->ending);
            return 0;
        }
    }
    close_fd(&setup.fd);
    close_fd(&setup.file);
    free(setup.file_name);
    free(setup.prefix);
    return -1;
}

/* Of no two streams it is the same, also where one was opened by a dtrun before this one. */
static int64_t next_since(struct dt_output *o)
{
    int64_t now = dt_clock_wall_us();
    o->since = now > o->since ? now : o->since + 1;
    return o->since;
}

int dt_output_open(struct dt_output *o, int local_rank, int fds[2], struct dt_err *err)
{
    struct place *places = &o->places[2 * local_rank];
    fds[0] = fds[1] = -1;
    for (int i = 0; i < 2; i++) {
        bool again = places[i].again;
        close_place(&places[i]);
        places[i].again = again;
    }
    places[1].shared = dt_way_shared(o->plan, o->attempt_dir, local_rank, o->one_console);
    for (int i = 0; i < 2; i++) {
        enum dt_way way = dt_way_of(o->plan, o->attempt_dir, local_rank, stream_bits[i]);
        places[i].since = next_since(o);
        if (way == DT_WAY_INHERITED || places[i].shared)
            continue;
        int rc = (way == DT_WAY_FILE ? give_file : give_pipe)(o, local_rank, i, &places[i], err);
        if (rc < 0)
            return dt_err_wrap(err, "%s", stream_names[i]);
        places[i].again = true;
    }
    fds[0] = places[0].worker_end;
    fds[1] = places[1].shared ? fds[0] : places[1].worker_end;
    return 0;
}

void dt_output_started(struct dt_output *o)
{
    for (struct place *p = o->places; p < o->places + place_count(o); p++)
        close_fd(&p->worker_end);
    o->started = true;
    uv_async_send(&o->wake);
}

void dt_output_resize(struct dt_output *o)
{
    for (size_t i = 0; i < place_count(o); i++)
        if (o->places[i].stream)
            dt_pty_resize(dt_worker_stream_fd(o->places[i].stream), o->console_fd[i % 2]);
}

static void drain(struct place *p)
{
    p->drains = true;
    dt_worker_stream_drain(p->stream);
}

void dt_output_drain(struct dt_output *o, void (*on_drained)(void *arg), void *arg)
{
    o->on_drained = on_drained;
    o->drained_arg = arg;
    o->draining = true;
    o->some_drain = false;
    each_stream(o, p) drain(p);
    dt_output_started(o);
}

void dt_output_drain_one(struct dt_output *o, int local_rank, void (*on_drained)(void *arg),
                         void *arg)
{
    o->on_drained = on_drained;
    o->drained_arg = arg;
    o->draining = o->some_drain = true;
    for (int i = 0; i < 2; i++)
        if (o->places[2 * local_rank + i].stream)
            drain(&o->places[2 * local_rank + i]);
    uv_async_send(&o->wake);
}

void dt_output_give_up(struct dt_output *o)
{
    for (int i = 0; i < 2; i++)
        if (o->console[i])
            dt_console_give_up(o->console[i]);
    uv_async_send(&o->wake);
}

/* -- tails ------------------------------------------------------------------------------------ */

static void tail_of_file(int fd, off_t began, struct dt_buf *out)
{
    off_t end = lseek(fd, 0, SEEK_END);
    off_t at = end - began > (off_t)DT_OUTPUT_TAIL ? end - (off_t)DT_OUTPUT_TAIL : began;
    while (at < end) {
        uint8_t *to = dt_buf_room(out, (size_t)(end - at));
        ssize_t n = to ? pread(fd, to, (size_t)(end - at), at) : 0;
        if (n <= 0)
            return;
        dt_buf_grew(out, (size_t)n);
        at += n;
    }
}

void dt_output_tail(const struct dt_output *o, int local_rank, unsigned stream, struct dt_buf *out)
{
    const struct place *p = &o->places[2 * local_rank + (stream == DT_STDERR)];
    if (p->shared)
        p--;
    if (p->stream)
        dt_worker_stream_tail(p->stream, out);
    else if (p->file >= 0)
        tail_of_file(p->file, p->began, out);
}

/* -- for who reads along ---------------------------------------------------------------------- */

static const struct place *place_of(const struct dt_output *o, int local_rank, unsigned stream)
{
    return &o->places[2 * local_rank + (stream == DT_STDERR)];
}

bool dt_output_log(const struct dt_output *o, int local_rank, unsigned stream,
                   struct dt_output_log *out)
{
    const struct place *p = place_of(o, local_rank, stream);
    if (p->shared || p->since == 0)
        return false;
    *out = (struct dt_output_log){.rank = o->first_rank + local_rank,
                                  .since = p->since,
                                  .inherited = -1,
                                  .file = p->file,
                                  .began = p->began,
                                  .kept = DT_WORKER_STREAM_RING};
    if (p->stream)
        out->end = dt_worker_stream_received(p->stream);
    else if (p->file < 0)
        out->inherited = o->console_fd[stream == DT_STDERR];
    return true;
}

void dt_output_copy(const struct dt_output *o, int local_rank, unsigned stream, uint64_t from,
                    size_t most, struct dt_buf *out)
{
    dt_worker_stream_copy(place_of(o, local_rank, stream)->stream, from, most, out);
}
