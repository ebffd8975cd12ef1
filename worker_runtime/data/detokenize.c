/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/detokenize.h"

#include "base/buf.h"
#include "worker_runtime/data/tokenize.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"
#include "worker_runtime/data/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK ((size_t)8 << 10)    /* tokens */
#define OUT_MUCH ((size_t)1 << 20) /* bytes that do not wait for more */

struct detokenizing {
    const struct dt_tokenizer *tokenizer; /* NULL: a byte is a token */
    struct dt_decoder *decoder;
    const struct dt_tokens *tokens;
    size_t front; /* tokens in front of this document that have come so far */
    bool in_front;
    int fd;
    const char *name;
    struct dt_buf out;
    int32_t ids[CHUNK];
};

static int write_out(struct detokenizing *z, struct dt_err *err)
{
    if (z->out.bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a text");
    while (z->out.len) {
        ssize_t n = write(z->fd, z->out.at, z->out.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", z->name);
        dt_buf_consume(&z->out, (size_t)n);
    }
    return 0;
}

static void put_byte(struct detokenizing *z, uint32_t id)
{
    if (id < DT_BYTE_END)
        dt_buf_put_u8(&z->out, (uint8_t)id);
}

/* Whether ID is the next of those that stand in front of each document. */
static bool is_front(struct detokenizing *z, uint32_t id)
{
    size_t n;
    const uint32_t *front = dt_tokenizer_front(z->tokenizer, &n);
    z->in_front = z->in_front && z->front < n && front[z->front] == id;
    z->front += z->in_front;
    return z->in_front;
}

static void put_token(struct detokenizing *z, uint32_t id)
{
    if (id == dt_tokenizer_end(z->tokenizer)) {
        dt_decoder_end(z->decoder, &z->out);
        z->front = 0;
        z->in_front = true;
    } else if (!is_front(z, id)) {
        dt_decoder_put(z->decoder, id, &z->out);
    }
}

static int put_all(struct detokenizing *z, struct dt_err *err)
{
    size_t count = dt_tokens_count(z->tokens);
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < CHUNK ? count - i : CHUNK;
        if (dt_tokens_read(z->tokens, i, n, z->ids, err) < 0)
            return -1;
        for (size_t k = 0; k < n; k++) {
            if (z->tokenizer)
                put_token(z, (uint32_t)z->ids[k]);
            else
                put_byte(z, (uint32_t)z->ids[k]);
            if (z->out.len >= OUT_MUCH && write_out(z, err) < 0)
                return -1;
        }
        if (write_out(z, err) < 0)
            return -1;
    }
    if (z->tokenizer)
        dt_decoder_end(z->decoder, &z->out);
    return write_out(z, err);
}

static int open_out(struct detokenizing *z, const char *path, const char *out, struct dt_err *err)
{
    struct stat to, from;
    z->fd = out ? open(out, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : STDOUT_FILENO;
    z->name = out ? out : "standard output";
    if (z->fd < 0 || fstat(z->fd, &to) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", z->name);
    if (stat(path, &from) == 0 && from.st_dev == to.st_dev && from.st_ino == to.st_ino)
        return dt_err_set(err, DT_E_USAGE,
                          "%s is the file of tokens and the file to write; name another file to "
                          "write",
                          path);
    if (out && S_ISREG(to.st_mode) && ftruncate(z->fd, 0) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", z->name);
    return 0;
}

static int detokenize(struct detokenizing *z, const char *path, const char *out, struct dt_err *err)
{
    if (open_out(z, path, out, err) < 0)
        return -1;
    if (z->tokenizer && !(z->decoder = dt_decoder_create(z->tokenizer, err)))
        return -1;
    return put_all(z, err);
}

int dt_detokenize_file(const struct dt_tokenizer *t, const char *path, const char *out,
                       struct dt_err *err)
{
    struct detokenizing *z = calloc(1, sizeof *z);
    if (!z)
        return dt_err_set(err, DT_E_MEMORY, "no memory to read %s", path);
    struct dt_tokens *tokens = dt_tokenized_open(t, path, err);
    z->tokenizer = t;
    z->tokens = tokens;
    z->in_front = true;
    z->fd = -1;
    int rc = tokens ? detokenize(z, path, out, err) : -1;
    if (out && z->fd >= 0)
        close(z->fd);
    dt_decoder_destroy(z->decoder);
    dt_tokens_close(tokens);
    dt_buf_finish(&z->out);
    free(z);
    return rc;
}
