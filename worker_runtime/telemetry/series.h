/* SPDX-License-Identifier: Apache-2.0 */
/* A file of lines that each begin with a growing number. It is continued where it was left: what a
 * crash tore off, and lines that are to come again, are cut. Lines go to the kernel one by one. */
#ifndef DT_WORKER_RUNTIME_TELEMETRY_SERIES_H
#define DT_WORKER_RUNTIME_TELEMETRY_SERIES_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct dt_series {
    char *path; /* NULL: not open, and puts do nothing */
    int fd;
    off_t end; /* behind the last whole line; -1: a pipe or device, that nothing can be cut from */
    bool failed; /* and it was said */
};

/* The number that a line, of which the first LEN bytes are given, begins with; -1: none, it stays.
 */
typedef int64_t dt_series_key_fn(const char *line, size_t len);

/* A file that has lines must begin with OPENING, or it is somebody else's and refused. */
int dt_series_open(struct dt_series *s, const char *path, const char *opening, struct dt_err *err);
void dt_series_close(struct dt_series *s);
bool dt_series_is_empty(const struct dt_series *s);
/* Appends what dt_series_cut() would cut to the file PATH, for who wants to know what it was.
 * Nothing is made where nothing would be cut. */
int dt_series_keep(const struct dt_series *s, dt_series_key_fn *key, int64_t first,
                   const char *path, struct dt_err *err);
/* Cuts from the first line on whose number is FIRST or more, and a last one without its newline. */
int dt_series_cut(struct dt_series *s, dt_series_key_fn *key, int64_t first, struct dt_err *err);
/* A whole line with its newline: all of it, or nothing. -1 at the first failure of a row of them;
 * those behind it that find no room either are lost silently. */
int dt_series_put(struct dt_series *s, struct dt_bytes line, struct dt_err *err);

#endif
