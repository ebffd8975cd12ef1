/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/console.h"

#include "agent/output/collapse.h"
#include "agent/output/sink.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct dt_console {
    int fd;
    struct dt_sink *sink;
    const struct dt_speaker *open_by; /* whose line is not ended by a \n yet */
    struct dt_console_collapse how;
    struct dt_collapse *collapse; /* NULL: does not */
    bool silent, lost;
};

/* Says something while the sink's buffer is ours. */
struct saying {
    struct dt_console *console;
    struct dt_speaker *who;
    struct dt_buf *to;
    dt_ms now;
};

struct dt_console *dt_console_open(int fd, const struct dt_console_collapse *how, uv_async_t *tell,
                                   struct dt_err *err)
{
    struct dt_console *c = calloc(1, sizeof *c);
    if (!c) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a console");
        return NULL;
    }
    c->fd = fd;
    c->how = *how;
    if (how->ranks && !(c->collapse = dt_collapse_create(how->ranks, how->moment)))
        dt_err_set(err, DT_E_MEMORY, "no memory to collapse lines of %d ranks", how->ranks);
    else
        c->sink = dt_sink_open(fd, tell, err);
    if (!c->sink) {
        dt_console_close(c);
        return NULL;
    }
    if (dt_console_same(fd, STDERR_FILENO))
        dt_sink_shares_log(c->sink);
    return c;
}

void dt_console_close(struct dt_console *c)
{
    if (!c)
        return;
    dt_sink_close(c->sink);
    dt_collapse_destroy(c->collapse);
    free(c);
}

static void end_line_of_another(struct saying *s)
{
    if (s->console->open_by && s->console->open_by != s->who) {
        dt_buf_put_u8(s->to, '\n');
        s->console->open_by = NULL;
    }
}

static void say_piece(struct saying *s, struct dt_bytes piece, bool starts)
{
    struct dt_console *c = s->console;
    end_line_of_another(s);
    if (!starts && c->open_by != s->who && piece.len == 1 && piece.at[0] == '\n')
        return; /* another speaker has ended that line */
    if (starts || c->open_by != s->who)
        dt_buf_put_str(s->to, s->who->prefix);
    dt_buf_put(s->to, piece.at, piece.len);
    /* After a \r the next line would be written over this one. */
    c->open_by = piece.at[piece.len - 1] == '\n' ? NULL : s->who;
}

static void on_collapse_line(void *arg, struct dt_bytes line, const int *ranks, size_t count)
{
    struct saying *s = arg;
    const struct dt_console_collapse *how = &s->console->how;
    char *prefix = how->prefix(how->arg, ranks, count);
    struct dt_speaker together = {.prefix = prefix ? prefix : ""};
    struct saying by_all = {.console = s->console, .who = &together, .to = s->to};
    say_piece(&by_all, line, true);
    if (s->console->open_by == &together) { /* it ended in \r; nobody can go on with it */
        dt_buf_put_u8(s->to, '\n');
        s->console->open_by = NULL;
    }
    free(prefix);
}

static void on_lines_piece(void *arg, struct dt_bytes piece, bool starts, bool ends)
{
    struct saying *s = arg;
    struct dt_collapse *collapse = s->console->collapse;
    if (collapse && starts && ends) {
        dt_collapse_put(collapse, s->who->local_rank, piece, s->now, on_collapse_line, s);
        return;
    }
    if (collapse)
        dt_collapse_pass_all(collapse, on_collapse_line, s);
    say_piece(s, piece, starts);
}

static struct saying begin(struct dt_console *c, struct dt_speaker *who, dt_ms now)
{
    return (struct saying){.console = c, .who = who, .to = dt_sink_begin(c->sink), .now = now};
}

void dt_console_pass(struct dt_console *c, struct dt_bytes bytes)
{
    struct dt_buf *to = dt_sink_begin(c->sink);
    dt_buf_put(to, bytes.at, bytes.len);
    dt_sink_end(c->sink);
}

void dt_console_say(struct dt_console *c, struct dt_speaker *who, struct dt_bytes bytes, dt_ms now)
{
    struct saying s = begin(c, who, now);
    dt_lines_put(&who->lines, bytes, on_lines_piece, &s);
    dt_sink_end(c->sink);
}

void dt_console_say_unfinished(struct dt_console *c, struct dt_speaker *who)
{
    struct saying s = begin(c, who, 0);
    dt_lines_show(&who->lines, on_lines_piece, &s);
    dt_sink_end(c->sink);
}

void dt_console_end_speech(struct dt_console *c, struct dt_speaker *who)
{
    struct saying s = begin(c, who, 0);
    dt_lines_end(&who->lines, on_lines_piece, &s);
    if (c->open_by == who) { /* it ended in \r */
        dt_buf_put_u8(s.to, '\n');
        c->open_by = NULL;
    }
    dt_sink_end(c->sink);
}

dt_ms dt_console_show_held(struct dt_console *c, dt_ms now)
{
    if (!c->collapse)
        return DT_FOREVER;
    struct saying s = begin(c, NULL, now);
    dt_collapse_pass_due(c->collapse, now, on_collapse_line, &s);
    dt_sink_end(c->sink);
    return dt_collapse_due(c->collapse);
}

static const char *stream_name(const struct dt_console *c)
{
    return c->fd == STDOUT_FILENO ? "standard output" : "standard error";
}

/* Said once, and on standard error, which may be what nobody reads. */
static void notice_silence(struct dt_console *c)
{
    int broken = c->silent ? 0 : dt_sink_broken(c->sink);
    if (!broken)
        return;
    c->silent = true;
    c->lost = broken == EPIPE;
    if (c->lost)
        dt_warn("the reader of %s has gone: teed output goes on into its files only, and a worker "
                "that prints there without a file gets a broken pipe",
                stream_name(c));
    else
        dt_warn("cannot write to %s: %s; what workers print is not shown there any more",
                stream_name(c), strerror(broken));
}

void dt_console_give_up(struct dt_console *c)
{
    if (!dt_sink_is_empty(c->sink))
        dt_warn("nobody has read %s for too long: the rest of what workers printed is not "
                "shown there",
                stream_name(c));
    c->silent = true;
}

bool dt_console_is_silent(struct dt_console *c)
{
    notice_silence(c);
    return c->silent;
}

bool dt_console_is_lost(struct dt_console *c)
{
    notice_silence(c);
    return c->lost;
}

bool dt_console_has_room(struct dt_console *c)
{
    return !c->silent && dt_sink_has_room(c->sink);
}

bool dt_console_is_empty(struct dt_console *c)
{
    notice_silence(c);
    return c->silent || dt_sink_is_empty(c->sink);
}

bool dt_console_same(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
           x.st_rdev == y.st_rdev;
}
