/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/fleet/link.h"

#include "base/list.h"
#include "base/loop/ending.h"
#include "base/loop/uvx.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Something that the agent started may keep its pipes after it has exited. */
#define LINGER_MS 2000

struct link_stream {
    uv_pipe_t pipe;
    struct dt_fleet_link *link;
    struct dt_console *console;
    struct dt_speaker speaker;
    struct dt_lines early; /* before hello */
    bool ended, paused;
};

struct dt_fleet_link {
    struct dt_fleet_link_means means;
    size_t index;
    uv_process_t process;
    uv_pipe_t in;
    struct link_stream streams[2];
    uv_timer_t linger;
    bool greeted, exited, told_gone;
    bool over; /* the last byte of standard output, so far, was DT_FLEET_OVER, and is not shown */
    int status;
    char last_line[256];
    char *prefix;
    char room[16384]; /* for one read, which is used up before the next */
    struct dt_ending ending;
};

static void release(void *arg)
{
    struct dt_fleet_link *l = arg;
    for (int i = 0; i < 2; i++) {
        dt_lines_finish(&l->streams[i].early);
        dt_lines_finish(&l->streams[i].speaker.lines);
    }
    free(l->prefix);
    free(l);
}

void dt_fleet_link_close(struct dt_fleet_link *l)
{
    if (!l)
        return;
    dt_ending_begin(&l->ending, release, l, NULL, NULL);
    for (int i = 0; i < 2; i++)
        dt_ending_close(&l->ending, &l->streams[i].pipe);
    dt_ending_close(&l->ending, &l->in);
    dt_ending_close(&l->ending, &l->linger);
    dt_ending_close(&l->ending, &l->process);
}

/* -- its end ---------------------------------------------------------------------------------- */

static void tell_gone(struct dt_fleet_link *l)
{
    if (l->told_gone || !l->exited || !l->streams[0].ended || !l->streams[1].ended)
        return;
    l->told_gone = true;
    uv_timer_stop(&l->linger);
    l->means.events->on_gone(l->means.arg, l->index, l->status, l->over);
}

static void end_stream(struct link_stream *s)
{
    if (s->ended)
        return;
    s->ended = true;
    uv_read_stop((uv_stream_t *)&s->pipe);
    dt_console_end_speech(s->console, &s->speaker);
    tell_gone(s->link);
}

static void on_linger_over(uv_timer_t *t)
{
    struct dt_fleet_link *l = dt_container_of(t, struct dt_fleet_link, linger);
    end_stream(&l->streams[0]);
    end_stream(&l->streams[1]);
}

static void on_process_exit(uv_process_t *process, int64_t status, int signum)
{
    struct dt_fleet_link *l = dt_container_of(process, struct dt_fleet_link, process);
    l->exited = true;
    l->status = signum ? -signum : (int)status;
    uv_timer_start(&l->linger, on_linger_over, LINGER_MS, 0);
    tell_gone(l);
}

/* -- what it prints --------------------------------------------------------------------------- */

static void on_early_line(void *arg, struct dt_bytes line, bool starts, bool ends)
{
    struct link_stream *s = arg;
    struct dt_fleet_link *l = s->link;
    struct dt_fleet_hello hello;
    if (l->greeted || !starts || !ends)
        return;
    if (s == &l->streams[0] && dt_fleet_hello_read(line, &hello)) {
        l->greeted = true;
        l->means.events->on_hello(l->means.arg, l->index, &hello);
        return;
    }
    while (line.len && (line.at[line.len - 1] == '\n' || line.at[line.len - 1] == '\r'))
        line.len--;
    if (s == &l->streams[1] && line.len)
        dt_str_printable(line, l->last_line, sizeof l->last_line);
}

/* Takes DT_FLEET_OVER from the end of BYTES, and shows one that was not the end after all. */
static struct dt_bytes hold_back_over(struct link_stream *s, struct dt_bytes bytes)
{
    static const uint8_t over = DT_FLEET_OVER;
    struct dt_fleet_link *l = s->link;
    if (s != &l->streams[0] || bytes.len == 0)
        return bytes;
    if (l->over)
        dt_console_say(s->console, &s->speaker, (struct dt_bytes){&over, 1}, 0);
    l->over = bytes.at[bytes.len - 1] == DT_FLEET_OVER;
    bytes.len -= l->over;
    return bytes;
}

static void take(struct link_stream *s, struct dt_bytes bytes)
{
    if (s->link->greeted)
        dt_console_say(s->console, &s->speaker, hold_back_over(s, bytes), 0);
    else
        dt_lines_put(&s->early, bytes, on_early_line, s);
}

static void on_alloc(uv_handle_t *h, size_t wished, uv_buf_t *buf)
{
    struct link_stream *s = dt_container_of((uv_pipe_t *)h, struct link_stream, pipe);
    (void)wished;
    *buf = uv_buf_init(s->link->room, sizeof s->link->room);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct link_stream *s = dt_container_of((uv_pipe_t *)stream, struct link_stream, pipe);
    if (n < 0) {
        end_stream(s);
        return;
    }
    take(s, (struct dt_bytes){(const uint8_t *)buf->base, (size_t)n});
    s->paused = !dt_console_is_silent(s->console) && !dt_console_has_room(s->console);
    if (s->paused)
        uv_read_stop(stream);
}

void dt_fleet_link_resume(struct dt_fleet_link *l)
{
    for (int i = 0; i < 2; i++) {
        struct link_stream *s = &l->streams[i];
        bool room = dt_console_is_silent(s->console) || dt_console_has_room(s->console);
        if (!s->paused || s->ended || !room)
            continue;
        s->paused = false;
        uv_read_start((uv_stream_t *)&s->pipe, on_alloc, on_read);
    }
}

const char *dt_fleet_link_last_line(const struct dt_fleet_link *l)
{
    return l->last_line;
}

/* -- what it is told -------------------------------------------------------------------------- */

struct link_write {
    uv_write_t request;
    size_t len;
    char bytes[];
};

/* It wipes what it had: a token may have been among it. */
static void on_written(uv_write_t *request, int status)
{
    struct link_write *w = dt_container_of(request, struct link_write, request);
    (void)status;
    explicit_bzero(w->bytes, w->len);
    free(w);
}

void dt_fleet_link_send(struct dt_fleet_link *l, const void *bytes, size_t len)
{
    struct link_write *w = malloc(sizeof *w + len);
    if (!w)
        return;
    w->len = len;
    memcpy(w->bytes, bytes, len);
    uv_buf_t buf = uv_buf_init(w->bytes, (unsigned)len);
    if (uv_write(&w->request, (uv_stream_t *)&l->in, &buf, 1, on_written) < 0)
        on_written(&w->request, UV_EPIPE);
}

void dt_fleet_link_signal(struct dt_fleet_link *l, int signum)
{
    if (!l->exited)
        uv_process_kill(&l->process, signum);
}

/* -- its beginning ---------------------------------------------------------------------------- */

static void init(struct dt_fleet_link *l)
{
    uv_loop_t *loop = l->means.loop;
    uv_timer_init(loop, &l->linger);
    uv_pipe_init(loop, &l->in, 0);
    for (int i = 0; i < 2; i++) {
        struct link_stream *s = &l->streams[i];
        s->link = l;
        s->console = l->means.console[i];
        s->speaker.prefix = l->prefix;
        uv_pipe_init(loop, &s->pipe, 0);
    }
}

/* In a session of its own: a Ctrl-C on our terminal is ours, and we pass it on in order. */
static int spawn(struct dt_fleet_link *l, char *const *call)
{
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&l->in},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE,
         .data.stream = (uv_stream_t *)&l->streams[0].pipe},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE,
         .data.stream = (uv_stream_t *)&l->streams[1].pipe},
    };
    uv_process_options_t options = {
        .exit_cb = on_process_exit,
        .file = call[0],
        .args = (char **)call,
        .flags = UV_PROCESS_DETACHED,
        .stdio_count = 3,
        .stdio = stdio,
    };
    int rc = uv_spawn(l->means.loop, &l->process, &options);
    for (int i = 0; i < 2 && rc == 0; i++)
        uv_read_start((uv_stream_t *)&l->streams[i].pipe, on_alloc, on_read);
    return rc;
}

struct dt_fleet_link *dt_fleet_link_start(const struct dt_fleet_link_means *means, size_t i,
                                          const char *label, char *const *call, struct dt_err *err)
{
    struct dt_fleet_link *l = calloc(1, sizeof *l);
    if (!l || asprintf(&l->prefix, "[%s] ", label) < 0) {
        free(l);
        dt_err_set(err, DT_E_MEMORY, "no memory for host %s", label);
        return NULL;
    }
    l->means = *means;
    l->index = i;
    init(l);
    int rc = spawn(l, call);
    if (rc == 0)
        return l;
    dt_uvx_err(err, rc, "%s: %s cannot be executed here", label, call[0]);
    l->told_gone = true;
    dt_fleet_link_close(l);
    return NULL;
}
