/* SPDX-License-Identifier: Apache-2.0 */
/* Texts go through a buffer of fixed size, so that one may be larger than the memory. */
#include "worker_runtime/data/tokenize.h"

#include "base/auto.h"
#include "worker_runtime/data/token_writer.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"
#include "worker_runtime/data/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>

#define CHUNK ((size_t)64 << 10)

struct tokenizing {
    const char *out;
    struct dt_token_writer *writer;
    const struct dt_tokenizer *tokenizer; /* NULL: a byte is a token */
    struct dt_encoder *encoder;
    uint8_t text[CHUNK];
    uint32_t ids[CHUNK];
};

static int put_text(struct tokenizing *z, size_t len, struct dt_err *err)
{
    if (z->encoder)
        return dt_encoder_put(z->encoder, (struct dt_bytes){z->text, len}, err);
    for (size_t i = 0; i < len; i++)
        z->ids[i] = z->text[i];
    return dt_token_writer_put(z->writer, z->ids, len, err);
}

static int put_end(struct tokenizing *z, struct dt_err *err)
{
    if (z->encoder)
        return dt_encoder_end(z->encoder, dt_tokenizer_end(z->tokenizer), err);
    return dt_token_writer_put(z->writer, &(uint32_t){DT_BYTE_END}, 1, err);
}

static int put_stream(struct tokenizing *z, int fd, const char *name, struct dt_err *err)
{
    for (;;) {
        ssize_t n = read(fd, z->text, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read %s", name);
        if (n == 0)
            return put_end(z, err);
        if (put_text(z, (size_t)n, err) < 0)
            return -1;
    }
}

static int put_file(struct tokenizing *z, const char *path, struct dt_err *err)
{
    if (strcmp(path, "-") == 0)
        return put_stream(z, STDIN_FILENO, "standard input", err);
    struct stat in, out;
    DT_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &in) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open %s", path);
    if (stat(z->out, &out) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        return dt_err_set(err, DT_E_USAGE,
                          "%s is a text to read and the file to write; name another file to write",
                          path);
    return put_stream(z, fd, path, err);
}

static int take_ids(void *arg, const uint32_t *ids, size_t count, struct dt_err *err)
{
    return dt_token_writer_put(arg, ids, count, err);
}

/* Processors that this process may use, beside the one that reads and cuts. */
static int other_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) - 1 : 0;
}

static int begin(struct tokenizing *z, struct dt_err *err)
{
    const struct dt_token_kind bytes = {.tokenizer = 1, .vocabulary = DT_BYTE_VOCABULARY};
    const struct dt_tokenizer *t = z->tokenizer;
    struct dt_token_kind kind = bytes;
    if (t)
        kind = (struct dt_token_kind){.vocabulary = dt_tokenizer_vocabulary(t)};
    z->writer = dt_token_writer_open(z->out, &kind, err);
    if (!z->writer)
        return -1;
    if (t)
        z->encoder = dt_encoder_create(t, other_processors(), take_ids, z->writer, err);
    return t && !z->encoder ? -1 : 0;
}

static int write_them(struct tokenizing *z, const char *const *files, int count, struct dt_err *err)
{
    for (int i = 0; i < count; i++)
        if (put_file(z, files[i], err) < 0)
            return -1;
    if (z->encoder && dt_encoder_drain(z->encoder, err) < 0)
        return -1;
    return dt_token_writer_commit(z->writer, err);
}

int dt_tokenize_files(const struct dt_tokenizer *t, const char *const *files, int count,
                      const char *out, uint64_t *tokens, struct dt_err *err)
{
    DT_AUTO_FREE void *memory = calloc(1, sizeof(struct tokenizing));
    struct tokenizing *z = memory;
    if (!z)
        return dt_err_set(err, DT_E_MEMORY, "no memory to write %s", out);
    z->out = out;
    z->tokenizer = t;
    int rc = begin(z, err);
    if (rc == 0)
        rc = write_them(z, files, count, err);
    if (rc == 0 && tokens)
        *tokens = dt_token_writer_count(z->writer);
    dt_encoder_destroy(z->encoder);
    dt_token_writer_close(z->writer);
    return rc;
}

/* By the file's header, as far as it tells. */
static int check_kind(const struct dt_tokenizer *t, const struct dt_tokens *tokens,
                      const char *path, struct dt_err *err)
{
    bool bytes = dt_tokens_are_bytes(tokens);
    if (bytes && t)
        return dt_err_set(err, DT_E_USAGE, "%s: its tokens are bytes; leave --tokenizer out", path);
    if (!bytes && !t)
        return dt_err_set(err, DT_E_USAGE,
                          "%s: its tokens are of a tokenizer; name its folder by --tokenizer",
                          path);
    return 0;
}

/* By what the header says of tokens; a file that says nothing is looked at token by token. */
static int check_vocabulary(const struct dt_tokens *tokens, uint64_t vocabulary, const char *path,
                            struct dt_err *err)
{
    uint64_t made_for = dt_tokens_vocabulary(tokens);
    if (made_for <= vocabulary)
        return 0;
    return dt_err_set(err, DT_E_USAGE,
                      "%s: it was made for a vocabulary of %llu, and that of --tokenizer is %llu; "
                      "name the folder of the tokenizer that made it",
                      path, (unsigned long long)made_for, (unsigned long long)vocabulary);
}

struct dt_tokens *dt_tokenized_open(const struct dt_tokenizer *t, const char *path,
                                    struct dt_err *err)
{
    uint64_t vocabulary = t ? dt_tokenizer_vocabulary(t) : DT_BYTE_VOCABULARY;
    struct dt_tokens *tokens = dt_tokens_open(path, 0, 0, err);
    if (tokens && check_kind(t, tokens, path, err) == 0 &&
        check_vocabulary(tokens, vocabulary, path, err) == 0) {
        dt_tokens_narrow(tokens, vocabulary);
        return tokens;
    }
    dt_tokens_close(tokens);
    return NULL;
}
