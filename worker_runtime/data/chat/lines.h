/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a file, one at a time, so that it may be larger than the memory; each is bounded. Of
 * a file that begins with [, which is one array in JSON, its elements come in their place. */
#ifndef DT_DATA_CHAT_LINES_H
#define DT_DATA_CHAT_LINES_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

#define DT_LINE_MAX ((size_t)64 << 20)

struct dt_lines {
    int fd;
    const char *name; /* for people; the caller's */
    size_t number;    /* of the line, or the element, that came last, from 1 on */
    struct dt_buf held;
    size_t line, seen; /* bytes of HELD that are the last line, and that hold no newline */
    bool over;
    bool begun, array; /* it is known what the file is, and it is an array */
    bool closed;       /* the array has ended */
};

/* "-": standard input. End it with dt_lines_close(), also after a failure. */
int dt_lines_open(struct dt_lines *l, const char *path, struct dt_err *err);
void dt_lines_close(struct dt_lines *l);

/* 1: *LINE, without its newline, until the next call; 0: there is no more; -1. An element is as
 * long as its brackets say, and otherwise unread. */
int dt_lines_next(struct dt_lines *l, struct dt_bytes *line, struct dt_err *err);

/* "FILE:12", or "FILE, element 12": which came last. */
const char *dt_lines_where(const struct dt_lines *l, char *out, size_t size);

#endif
