/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens go through a buffer of fixed size; the header gets its count when all is written, and the
 * name comes last. What a file says of its documents stands behind all tokens, so it is kept until
 * then: a bit for each token and 8 bytes for each document. */
#include "worker_runtime/data/token_writer.h"

#include "base/auto.h"
#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHUNK ((size_t)32 << 10) /* tokens */

struct dt_token_writer {
    char *out;
    char temp[PATH_MAX];
    int fd; /* -1: none */
    struct dt_token_kind kind;
    size_t width; /* bytes of a token */
    uint64_t tokens, documents, trained;
    struct dt_buf bits, begins;
    size_t held; /* bytes of WIDE that are not written yet */
    uint8_t wide[CHUNK * 4];
};

static int write_all(struct dt_token_writer *w, const uint8_t *bytes, size_t len,
                     struct dt_err *err)
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

static int flush(struct dt_token_writer *w, struct dt_err *err)
{
    size_t held = w->held;
    w->held = 0;
    return write_all(w, w->wide, held, err);
}

int dt_token_writer_put(struct dt_token_writer *w, const uint32_t *ids, size_t count,
                        struct dt_err *err)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < w->width; k++)
            w->wide[w->held++] = (uint8_t)(ids[i] >> 8 * k);
        if (w->held == CHUNK * w->width && flush(w, err) < 0)
            return -1;
    }
    w->tokens += count;
    return 0;
}

/* The bit of token number AT; those before it have theirs. */
static void put_bit(struct dt_token_writer *w, uint64_t at, bool trained)
{
    if (at % 8 == 0)
        dt_buf_put_u8(&w->bits, 0);
    if (trained && !w->bits.bad)
        w->bits.at[at / 8] |= (uint8_t)(1u << at % 8);
    w->trained += trained;
}

int dt_token_writer_document(struct dt_token_writer *w, const uint32_t *ids, const bool *trained,
                             size_t count, struct dt_err *err)
{
    dt_buf_put_u64(&w->begins, w->tokens);
    w->documents++;
    for (size_t i = 0; i < count; i++)
        put_bit(w, w->tokens + i, i > 0 && trained[i]);
    if (w->bits.bad || w->begins.bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the marks of %llu tokens",
                          (unsigned long long)(w->tokens + count));
    return dt_token_writer_put(w, ids, count, err);
}

uint64_t dt_token_writer_trained(const struct dt_token_writer *w)
{
    return w->trained;
}

uint64_t dt_token_writer_count(const struct dt_token_writer *w)
{
    return w->tokens;
}

static int put_header(struct dt_token_writer *w, struct dt_err *err)
{
    struct dt_buf head = {0};
    dt_buf_put_str(&head, "DTRTOKEN");
    dt_buf_put_u32(&head, w->kind.documents ? 2 : 1);
    dt_buf_put_u32(&head, (uint32_t)w->width);
    dt_buf_put_u32(&head, w->kind.tokenizer);
    dt_buf_put_u32(&head, w->kind.vocabulary);
    dt_buf_put_u64(&head, w->tokens);
    if (w->kind.documents) {
        dt_buf_put_u64(&head, w->documents);
        dt_buf_put_u64(&head, w->trained);
    }
    int rc = head.bad ? dt_err_set(err, DT_E_MEMORY, "no memory to write %s", w->out)
                      : write_all(w, head.at, head.len, err);
    dt_buf_finish(&head);
    return rc;
}

/* A device or a pipe under that name would be replaced by a file: nobody wants that. */
static int begin(struct dt_token_writer *w, struct dt_err *err)
{
    struct stat st;
    const char *out = w->out;
    if (stat(out, &st) == 0 && !S_ISREG(st.st_mode))
        return dt_err_set(err, DT_E_USAGE, "%s is there and is no ordinary file", out);
    if ((size_t)snprintf(w->temp, sizeof w->temp, "%s.XXXXXX", out) >= sizeof w->temp)
        return dt_err_set(err, DT_E_USAGE, "the path %.60s... is too long", out);
    w->fd = mkostemp(w->temp, O_CLOEXEC);
    if (w->fd < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot make a file beside %s", out);
    return put_header(w, err);
}

struct dt_token_writer *dt_token_writer_open(const char *out, const struct dt_token_kind *kind,
                                             struct dt_err *err)
{
    struct dt_token_writer *w = calloc(1, sizeof *w);
    if (w)
        w->out = strdup(out);
    if (!w || !w->out) {
        free(w);
        dt_err_set(err, DT_E_MEMORY, "no memory to write %s", out);
        return NULL;
    }
    w->fd = -1;
    w->kind = *kind;
    w->width = kind->vocabulary <= 0x10000 ? 2 : 4;
    if (begin(w, err) == 0)
        return w;
    dt_token_writer_close(w);
    return NULL;
}

void dt_token_writer_close(struct dt_token_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0) {
        close(w->fd);
        if (w->temp[0]) /* after the rename there is nothing under that name */
            unlink(w->temp);
    }
    dt_buf_finish(&w->bits);
    dt_buf_finish(&w->begins);
    free(w->out);
    free(w);
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

int dt_token_writer_commit(struct dt_token_writer *w, struct dt_err *err)
{
    if (flush(w, err) < 0 || write_all(w, w->bits.at, w->bits.len, err) < 0 ||
        write_all(w, w->begins.at, w->begins.len, err) < 0)
        return -1;
    if (lseek(w->fd, 0, SEEK_SET) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", w->out);
    if (put_header(w, err) < 0)
        return -1;
    if (fchmod(w->fd, usual_mode()) < 0 || fsync(w->fd) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", w->out);
    if (rename(w->temp, w->out) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot replace %s", w->out);
    w->temp[0] = '\0';
    if (sync_folder(w->out) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot sync the folder of %s", w->out);
    return 0;
}
