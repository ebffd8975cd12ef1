/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/filter.h"

#include "agent/output/sink.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dt_filter {
    int fd;
    char *path;
    char *const *texts;
    struct dt_sink *sink;
    bool complained;
};

struct speech {
    const struct dt_filter *filter;
    const char *prefix;
    struct dt_buf *to;
};

struct dt_filter *dt_filter_open(const char *path, char *const *texts, uv_async_t *tell,
                                 struct dt_err *err)
{
    struct dt_filter *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(path))) {
        dt_err_set(err, DT_E_MEMORY, "no memory for %s", path);
        free(f);
        return NULL;
    }
    f->texts = texts;
    f->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (f->fd < 0)
        dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write filtered lines to %s", path);
    else if ((f->sink = dt_sink_open(f->fd, tell, err)))
        return f;
    dt_filter_close(f);
    return NULL;
}

static bool wanted(const struct dt_filter *f, struct dt_bytes line)
{
    for (char *const *t = f->texts; *t; t++)
        if (memmem(line.at, line.len, *t, strlen(*t)))
            return true;
    return false;
}

/* A line of the file ends in \n whatever the worker's ended in, and each piece of one that is too
 * long to hold is a line. */
static void on_lines_piece(void *arg, struct dt_bytes piece, bool starts, bool ends)
{
    const struct speech *s = arg;
    (void)starts;
    (void)ends;
    while (piece.len && (piece.at[piece.len - 1] == '\n' || piece.at[piece.len - 1] == '\r'))
        piece.len--;
    if (piece.len == 0 || !wanted(s->filter, piece))
        return;
    dt_buf_put_str(s->to, s->prefix);
    dt_buf_put(s->to, piece.at, piece.len);
    dt_buf_put_u8(s->to, '\n');
}

void dt_filter_put(struct dt_filter *f, struct dt_lines *lines, const char *prefix,
                   struct dt_bytes in)
{
    struct speech s = {f, prefix, dt_sink_begin(f->sink)};
    dt_lines_put(lines, in, on_lines_piece, &s);
    dt_sink_end(f->sink);
}

void dt_filter_end(struct dt_filter *f, struct dt_lines *lines, const char *prefix)
{
    struct speech s = {f, prefix, dt_sink_begin(f->sink)};
    dt_lines_end(lines, on_lines_piece, &s);
    dt_sink_end(f->sink);
}

bool dt_filter_has_room(struct dt_filter *f)
{
    return dt_sink_has_room(f->sink);
}

bool dt_filter_is_empty(struct dt_filter *f)
{
    int broken = dt_sink_broken(f->sink);
    if (broken && !f->complained)
        dt_warn("cannot write filtered lines to %s: %s; it gets no more of them", f->path,
                strerror(broken));
    f->complained = broken;
    return dt_sink_is_empty(f->sink);
}

void dt_filter_close(struct dt_filter *f)
{
    if (!f)
        return;
    dt_sink_close(f->sink);
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    free(f);
}
