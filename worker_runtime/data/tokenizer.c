/* SPDX-License-Identifier: Apache-2.0 */
/* Texts go through a buffer of fixed size into a temporary file beside OUT; the header gets its
 * count when all is written, and the name comes last. Whatever fails on the way leaves nothing. */
#include "worker_runtime/data/tokenizer.h"

#include "base/auto.h"
#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHUNK ((size_t)64 << 10)
#define WIDTH 2

struct writer {
    const char *out;
    char temp[PATH_MAX];
    int fd; /* -1: none */
    uint64_t tokens;
    uint8_t text[CHUNK], wide[CHUNK * WIDTH];
};

static int write_all(struct writer *w, const uint8_t *bytes, size_t len, struct dt_err *err)
{
    while (len) {
        ssize_t n = write(w->fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", w->out);
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

static int put_tokens(struct writer *w, const uint8_t *text, size_t len, struct dt_err *err)
{
    for (size_t i = 0; i < len; i++) {
        w->wide[i * WIDTH] = text[i];
        w->wide[i * WIDTH + 1] = 0;
    }
    w->tokens += len;
    return write_all(w, w->wide, len * WIDTH, err);
}

static int put_end(struct writer *w, struct dt_err *err)
{
    static const uint8_t end[WIDTH] = {DT_BYTE_END & 0xff, DT_BYTE_END >> 8};
    w->tokens++;
    return write_all(w, end, sizeof end, err);
}

static int put_stream(struct writer *w, int fd, const char *name, struct dt_err *err)
{
    for (;;) {
        ssize_t n = read(fd, w->text, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read %s", name);
        if (n == 0)
            return put_end(w, err);
        if (put_tokens(w, w->text, (size_t)n, err) < 0)
            return -1;
    }
}

static int put_file(struct writer *w, const char *path, struct dt_err *err)
{
    if (strcmp(path, "-") == 0)
        return put_stream(w, STDIN_FILENO, "standard input", err);
    struct stat in, out;
    DT_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &in) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open %s", path);
    if (stat(w->out, &out) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        return dt_err_set(err, DT_E_USAGE,
                          "%s is a text to read and the file to write; name another file to write",
                          path);
    return put_stream(w, fd, path, err);
}

static int put_header(struct writer *w, struct dt_err *err)
{
    struct dt_buf head = {0};
    dt_buf_put_str(&head, "DTRTOKEN");
    dt_buf_put_u32(&head, 1);
    dt_buf_put_u32(&head, WIDTH);
    dt_buf_put_u32(&head, 1);
    dt_buf_put_u32(&head, DT_BYTE_VOCABULARY);
    dt_buf_put_u64(&head, w->tokens);
    int rc = head.bad ? dt_err_set(err, DT_E_MEMORY, "no memory to write %s", w->out)
                      : write_all(w, head.at, head.len, err);
    dt_buf_finish(&head);
    return rc;
}

/* A device or a pipe under that name would be replaced by a file: nobody wants that. */
static int begin(struct writer *w, const char *out, struct dt_err *err)
{
    struct stat st;
    w->out = out;
    w->tokens = 0;
    w->fd = -1;
    if (stat(out, &st) == 0 && !S_ISREG(st.st_mode))
        return dt_err_set(err, DT_E_USAGE, "%s is there and is no ordinary file", out);
    if ((size_t)snprintf(w->temp, sizeof w->temp, "%s.XXXXXX", out) >= sizeof w->temp)
        return dt_err_set(err, DT_E_USAGE, "the path %.60s... is too long", out);
    w->fd = mkostemp(w->temp, O_CLOEXEC);
    if (w->fd < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot make a file beside %s", out);
    return put_header(w, err);
}

/* A rename is on disk when its folder is. */
static int sync_folder(const char *path)
{
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    DT_AUTO_FD fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -1 : fsync(fd);
}

/* mkostemp() makes files for their owner alone; others may read what anybody could have made. */
static mode_t usual_mode(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static int commit(struct writer *w, struct dt_err *err)
{
    if (lseek(w->fd, 0, SEEK_SET) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", w->out);
    if (put_header(w, err) < 0)
        return -1;
    if (fchmod(w->fd, usual_mode()) < 0 || fsync(w->fd) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", w->out);
    if (rename(w->temp, w->out) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot replace %s", w->out);
    if (sync_folder(w->out) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot sync the folder of %s", w->out);
    return 0;
}

static int write_them(struct writer *w, const char *const *files, int count, struct dt_err *err)
{
    for (int i = 0; i < count; i++)
        if (put_file(w, files[i], err) < 0)
            return -1;
    return commit(w, err);
}

int dt_tokenize_files(const char *const *files, int count, const char *out, uint64_t *tokens,
                      struct dt_err *err)
{
    DT_AUTO_FREE void *memory = malloc(sizeof(struct writer));
    struct writer *w = memory;
    if (!w)
        return dt_err_set(err, DT_E_MEMORY, "no memory to write %s", out);
    int rc = begin(w, out, err);
    if (rc == 0)
        rc = write_them(w, files, count, err);
    if (w->fd >= 0) {
        close(w->fd);
        if (rc < 0)
            unlink(w->temp); /* after the rename there is nothing under that name */
    }
    if (rc == 0 && tokens)
        *tokens = w->tokens;
    return rc;
}
