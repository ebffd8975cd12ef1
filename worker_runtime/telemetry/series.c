/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/telemetry/series.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"

#define HEAD_MOST 40 /* of a line, enough for its number */

static ssize_t read_at(int fd, void *to, size_t n, off_t at)
{
    ssize_t got;
    do
        got = pread(fd, to, n, at);
    while (got < 0 && errno == EINTR);
    return got;
}

static int cannot(const struct dt_series *s, const char *what, struct dt_err *err)
{
    return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot %s %s", what, s->path);
}

static int check_opening(struct dt_series *s, const char *opening, struct dt_err *err)
{
    char head[HEAD_MOST];
    size_t n = strlen(opening);
    ssize_t got = read_at(s->fd, head, n < sizeof head ? n : sizeof head, 0);
    if (got < 0)
        return cannot(s, "read", err);
    if (memcmp(head, opening, (size_t)got) == 0)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME,
                      "%s holds something else than metrics, and is left alone; give another path",
                      s->path);
}

int dt_series_open(struct dt_series *s, const char *path, const char *opening, struct dt_err *err)
{
    struct stat st;
    *s = (struct dt_series){.path = strdup(path), .fd = -1};
    if (!s->path)
        return dt_err_set(err, DT_E_MEMORY, "no memory to write %s", path);
    s->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    int rc = s->fd < 0 || fstat(s->fd, &st) < 0 ? cannot(s, "open", err) : 0;
    if (rc == 0) {
        s->end = S_ISREG(st.st_mode) ? st.st_size : -1;
        rc = s->end > 0 ? check_opening(s, opening, err) : 0;
    }
    if (rc < 0)
        dt_series_close(s);
    return rc;
}

void dt_series_close(struct dt_series *s)
{
    if (s->path && s->fd >= 0)
        close(s->fd);
    free(s->path);
    *s = (struct dt_series){0};
}

bool dt_series_is_empty(const struct dt_series *s)
{
    return s->path && s->end == 0;
}

struct scan {
    dt_series_key_fn *key;
    int64_t first;
    char head[HEAD_MOST];
    size_t n;
    off_t line; /* where the current one begins */
};

/* Whether the line to be cut from begins at sc->line. */
static bool scan_block(struct scan *sc, const char *block, size_t len, off_t at)
{
    for (size_t i = 0; i < len; i++) {
        if (block[i] != '\n') {
            if (sc->n < sizeof sc->head)
                sc->head[sc->n++] = block[i];
            continue;
        }
        if (sc->key(sc->head, sc->n) >= sc->first)
            return true;
        sc->n = 0;
        sc->line = at + (off_t)i + 1;
    }
    return false;
}

/* Where the first line begins that is FIRST or more, else a last one without its newline, else the
 * end. */
static int find_cut(const struct dt_series *s, dt_series_key_fn *key, int64_t first, off_t *at,
                    struct dt_err *err)
{
    char block[16384];
    struct scan sc = {.key = key, .first = first};
    ssize_t got;
    for (off_t from = 0; (got = read_at(s->fd, block, sizeof block, from)) > 0; from += got)
        if (scan_block(&sc, block, (size_t)got, from))
            break;
    *at = sc.line;
    return got < 0 ? cannot(s, "read", err) : 0;
}

/* Its last line gets a newline, whole or not. */
static int copy_rest(const struct dt_series *s, off_t from, int to)
{
    char block[16384];
    ssize_t got = 0, put;
    while (from < s->end && (got = read_at(s->fd, block, sizeof block - 1, from)) > 0) {
        from += got;
        if (from >= s->end && block[got - 1] != '\n')
            block[got++] = '\n';
        errno = ENOSPC; /* where it writes less */
        do
            put = write(to, block, (size_t)got);
        while (put < 0 && errno == EINTR);
        if (put < got)
            return -1;
    }
    return got < 0 ? -1 : 0;
}

int dt_series_keep(const struct dt_series *s, dt_series_key_fn *key, int64_t first,
                   const char *path, struct dt_err *err)
{
    off_t at;
    if (!s->path || s->end <= 0)
        return 0;
    if (find_cut(s, key, first, &at, err) < 0)
        return -1;
    if (at == s->end)
        return 0;
    DT_AUTO_FD to = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
    if (to < 0 || copy_rest(s, at, to) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot keep redone steps in %s", path);
    return 0;
}

int dt_series_cut(struct dt_series *s, dt_series_key_fn *key, int64_t first, struct dt_err *err)
{
    off_t at;
    if (!s->path || s->end <= 0)
        return 0;
    if (find_cut(s, key, first, &at, err) < 0)
        return -1;
    if (ftruncate(s->fd, at) < 0)
        return cannot(s, "shorten", err);
    s->end = at;
    return 0;
}

static ssize_t write_some(struct dt_series *s, const uint8_t *from, size_t n, size_t done)
{
    ssize_t put;
    do
        put = s->end < 0 ? write(s->fd, from, n) : pwrite(s->fd, from, n, s->end + (off_t)done);
    while (put < 0 && errno == EINTR);
    return put;
}

static int write_all(struct dt_series *s, struct dt_bytes line)
{
    for (size_t done = 0; done < line.len;) {
        ssize_t put = write_some(s, line.at + done, line.len - done, done);
        if (put < 0)
            return -1;
        done += (size_t)put;
    }
    return 0;
}

int dt_series_put(struct dt_series *s, struct dt_bytes line, struct dt_err *err)
{
    if (!s->path)
        return 0;
    if (write_all(s, line) == 0) {
        if (s->end >= 0)
            s->end += (off_t)line.len;
        return 0;
    }
    int why = errno;
    if (s->end >= 0 && ftruncate(s->fd, s->end) < 0)
        why = errno; /* half a line stays; the next one is written over it */
    if (s->failed)   /* said once, however often room comes and goes */
        return 0;
    s->failed = true;
    return dt_err_errno(err, DT_E_RUNTIME, why, "cannot write %s", s->path);
}
