/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/chat/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define CHUNK ((size_t)64 << 10)

int dt_lines_open(struct dt_lines *l, const char *path, struct dt_err *err)
{
    bool standard = strcmp(path, "-") == 0;
    *l = (struct dt_lines){.name = standard ? "standard input" : path,
                           .fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)};
    return l->fd < 0 ? dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open %s", path) : 0;
}

void dt_lines_close(struct dt_lines *l)
{
    if (l->fd > STDIN_FILENO)
        close(l->fd);
    dt_buf_finish(&l->held);
    l->fd = -1;
}

static int read_more(struct dt_lines *l, struct dt_err *err)
{
    if (l->held.len > DT_LINE_MAX)
        return dt_err_set(err, DT_E_LIMIT,
                          "%s:%zu: a line of more than %zu MiB; is this JSON Lines, one object a "
                          "line?",
                          l->name, l->number + 1, DT_LINE_MAX >> 20);
    uint8_t *room = dt_buf_room(&l->held, CHUNK);
    if (!room)
        return dt_err_set(err, DT_E_MEMORY, "no memory for line %zu of %s", l->number + 1, l->name);
    ssize_t n;
    do
        n = read(l->fd, room, CHUNK);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read %s", l->name);
    l->over = n == 0;
    dt_buf_grew(&l->held, (size_t)n);
    return 0;
}

int dt_lines_next(struct dt_lines *l, struct dt_bytes *line, struct dt_err *err)
{
    dt_buf_consume(&l->held, l->line);
    l->line = l->seen = 0;
    for (;;) {
        struct dt_buf *b = &l->held;
        const uint8_t *end =
            b->len > l->seen ? memchr(b->at + l->seen, '\n', b->len - l->seen) : NULL;
        if (end || (l->over && b->len)) {
            size_t len = end ? (size_t)(end - b->at) : b->len;
            *line = (struct dt_bytes){b->at, len};
            l->line = len + (end != NULL);
            l->number++;
            return 1;
        }
        if (l->over)
            return 0;
        l->seen = b->len;
        if (read_more(l, err) < 0)
            return -1;
    }
}
