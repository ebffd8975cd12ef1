/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/chat/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define CHUNK ((size_t)64 << 10)
#define WHERE 32 /* what stands behind a name */

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
    if (l->held.len > DT_LINE_MAX && l->array)
        return dt_err_set(err, DT_E_LIMIT, "%s: element %zu is longer than %zu MiB", l->name,
                          l->number + 1, DT_LINE_MAX >> 20);
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

static int next_line(struct dt_lines *l, struct dt_bytes *line, struct dt_err *err)
{
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

/* -- elements of an array --------------------------------------------------------------------- */

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* White space in front of what is held goes. 1: something follows; 0: the file is over. */
static int skip_space(struct dt_lines *l, struct dt_err *err)
{
    for (;;) {
        size_t n = 0;
        while (n < l->held.len && is_space(l->held.at[n]))
            n++;
        dt_buf_consume(&l->held, n);
        if (l->held.len > 0)
            return 1;
        if (l->over)
            return 0;
        if (read_more(l, err) < 0)
            return -1;
    }
}

static int broken(const struct dt_lines *l, const char *what, struct dt_err *err)
{
    return dt_err_set(err, DT_E_USAGE, "%s: %s element %zu of its array", l->name, what, l->number);
}

/* How far an element goes, as its brackets and quotes say. */
struct extent {
    size_t len;
    int depth;
    bool in_string, escaped;
};

/* Whether the element has ended in front of C, which is no part of it then. */
static bool ends_before(const struct extent *e, uint8_t c)
{
    return e->depth == 0 && !e->in_string && (c == ',' || c == ']' || is_space(c));
}

static void pass(struct extent *e, uint8_t c)
{
    e->len++;
    if (e->escaped) {
        e->escaped = false;
    } else if (e->in_string) {
        e->escaped = c == '\\';
        e->in_string = c != '"';
    } else {
        e->in_string = c == '"';
        e->depth += c == '{' || c == '[';
        e->depth -= c == '}' || c == ']';
    }
}

static int measure(struct dt_lines *l, struct extent *e, struct dt_err *err)
{
    for (;;) {
        for (; e->len < l->held.len; pass(e, l->held.at[e->len])) {
            if (ends_before(e, l->held.at[e->len]))
                return 0;
            if (e->len > DT_LINE_MAX)
                break;
        }
        if (l->over && e->len > 0 && e->depth == 0 && !e->in_string)
            return 0;
        if (l->over)
            return broken(l, "it ends within", err);
        if (read_more(l, err) < 0)
            return -1;
    }
}

/* The bracket is gone, and nothing follows it. */
static int close_array(struct dt_lines *l, struct dt_err *err)
{
    dt_buf_consume(&l->held, 1);
    l->closed = true;
    int rc = skip_space(l, err);
    return rc > 0 ? broken(l, "something follows the bracket behind", err) : rc;
}

static int next_element(struct dt_lines *l, struct dt_bytes *element, struct dt_err *err)
{
    struct extent e = {0};
    if (l->closed)
        return 0;
    int rc = skip_space(l, err);
    if (rc > 0 && l->number > 0 && *l->held.at == ',') {
        dt_buf_consume(&l->held, 1);
        rc = skip_space(l, err);
        if (rc > 0 && *l->held.at == ']')
            return broken(l, "a comma and nothing follow", err);
    } else if (rc > 0 && *l->held.at == ']') {
        return close_array(l, err);
    } else if (rc > 0 && l->number > 0) {
        return broken(l, "neither a comma nor a bracket follows", err);
    }
    if (rc <= 0)
        return rc < 0 ? -1 : broken(l, "it ends behind", err);
    l->number++;
    if (measure(l, &e, err) < 0)
        return -1;
    if (e.len == 0)
        return broken(l, "nothing is", err);
    *element = (struct dt_bytes){l->held.at, e.len};
    l->line = e.len;
    return 1;
}

/* -- either ----------------------------------------------------------------------------------- */

/* Looks how the file begins, behind the mark that some programs put in front of UTF-8. Lines keep
 * their blanks, and their numbers. */
static int begin(struct dt_lines *l, struct dt_err *err)
{
    size_t at = 0;
    l->begun = true;
    while (!l->over && l->held.len < 3)
        if (read_more(l, err) < 0)
            return -1;
    if (l->held.len >= 3 && memcmp(l->held.at, "\xef\xbb\xbf", 3) == 0)
        dt_buf_consume(&l->held, 3);
    for (;; at++) {
        while (at == l->held.len && !l->over)
            if (read_more(l, err) < 0)
                return -1;
        if (at == l->held.len || !is_space(l->held.at[at]))
            break;
    }
    l->array = at < l->held.len && l->held.at[at] == '[';
    if (l->array)
        dt_buf_consume(&l->held, at + 1);
    return 0;
}

int dt_lines_next(struct dt_lines *l, struct dt_bytes *line, struct dt_err *err)
{
    dt_buf_consume(&l->held, l->line);
    l->line = l->seen = 0;
    if (!l->begun && begin(l, err) < 0)
        return -1;
    return l->array ? next_element(l, line, err) : next_line(l, line, err);
}

const char *dt_lines_where(const struct dt_lines *l, char *out, size_t size)
{
    int name = size > WHERE ? (int)(size - WHERE) : 0;
    if (name > PATH_MAX)
        name = PATH_MAX;
    snprintf(out, size, l->array ? "%.*s, element %zu" : "%.*s:%zu", name, l->name, l->number);
    return out;
}
