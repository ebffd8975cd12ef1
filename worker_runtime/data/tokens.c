/* SPDX-License-Identifier: Apache-2.0 */
/* The file is mapped and read in place. Everything the header says is compared with the size of the
 * file before a token is looked at; tokens are looked at one by one as they are used, as going
 * through a file of many gigabytes at the start would take minutes. */
#include "worker_runtime/data/tokens.h"

#include "base/auto.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define HEADER_SIZE 32
#define MAGIC "DTRTOKEN"
#define MAGIC_SIZE 8
#define TOKENIZERS 2
#define BYTE_TOKENIZER 1

/* Where the tokens are, and what may stand there. */
struct view {
    const uint8_t *at;
    size_t count, width;
    uint64_t limit; /* tokens are below it */
    bool bytes;     /* of our byte tokenizer */
};

struct dt_tokens {
    void *map;
    size_t map_size;
    struct view view;
    char path[];
};

static int read_header(struct view *v, struct dt_bytes file, struct dt_err *err)
{
    struct dt_reader r = dt_reader_over(file.at, file.len);
    dt_read_bytes(&r, MAGIC_SIZE);
    uint32_t version = dt_read_u32(&r), width = dt_read_u32(&r);
    uint32_t tokenizer = dt_read_u32(&r), vocabulary = dt_read_u32(&r);
    uint64_t count = dt_read_u64(&r);
    if (r.bad)
        return dt_err_set(err, DT_E_RUNTIME, "its header is cut short: %zu bytes of %d", file.len,
                          HEADER_SIZE);
    if (version != 1)
        return dt_err_set(err, DT_E_RUNTIME, "its version is %u; this program reads version 1",
                          version);
    if (width != 2 && width != 4)
        return dt_err_set(err, DT_E_RUNTIME, "its header says %u bytes a token; 2 and 4 are known",
                          width);
    if (tokenizer >= TOKENIZERS)
        return dt_err_set(err, DT_E_RUNTIME, "its header names tokenizer %u; 0 and 1 are known",
                          tokenizer);
    size_t there = dt_reader_left(&r);
    if (count > there / width || (size_t)count * width != there)
        return dt_err_set(
            err, DT_E_RUNTIME,
            "its header says %llu tokens of %u bytes, and %zu bytes are there: it was "
            "cut short, or added to",
            (unsigned long long)count, width, there);
    *v = (struct view){.at = r.at,
                       .count = (size_t)count,
                       .width = width,
                       .limit = vocabulary ? vocabulary : (uint64_t)INT32_MAX,
                       .bytes = tokenizer == BYTE_TOKENIZER};
    return 0;
}

static int read_raw(struct view *v, struct dt_bytes file, int raw_width, struct dt_err *err)
{
    if (raw_width != 2 && raw_width != 4)
        return dt_err_set(err, DT_E_USAGE,
                          "it has no header of ours; if it is raw little-endian tokens, say how "
                          "wide they are with data.raw_width, 2 or 4");
    size_t width = (size_t)raw_width;
    if (file.len % width)
        return dt_err_set(err, DT_E_RUNTIME,
                          "%zu bytes are no whole number of tokens of %zu bytes (data.raw_width)",
                          file.len, width);
    *v = (struct view){
        .at = file.at, .count = file.len / width, .width = width, .limit = (uint64_t)INT32_MAX};
    return 0;
}

static int view_init(struct view *v, struct dt_bytes file, int raw_width, struct dt_err *err)
{
    if (file.len == 0)
        return dt_err_set(err, DT_E_RUNTIME, "it is empty");
    if (file.len >= MAGIC_SIZE && memcmp(file.at, MAGIC, MAGIC_SIZE) == 0)
        return read_header(v, file, err);
    return read_raw(v, file, raw_width, err);
}

static uint32_t token_at(const struct view *v, size_t i)
{
    const uint8_t *p = v->at + i * v->width;
    uint32_t low = p[0] | (uint32_t)p[1] << 8;
    return v->width == 2 ? low : low | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int take(const struct view *v, size_t i, int32_t *out, struct dt_err *err)
{
    uint32_t token = token_at(v, i);
    if (token >= v->limit)
        return dt_err_set(err, DT_E_RUNTIME,
                          "token %zu is %u, and the vocabulary ends at %llu: the file was made for "
                          "another vocabulary, or with another width",
                          i, token, (unsigned long long)v->limit - 1);
    *out = (int32_t)token;
    return 0;
}

static int map_file(struct dt_tokens *t, struct dt_err *err)
{
    struct stat st;
    DT_AUTO_FD fd = open(t->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open");
    if (!S_ISREG(st.st_mode))
        return dt_err_set(err, DT_E_RUNTIME, "it is no ordinary file");
    if (st.st_size == 0)
        return 0; /* mmap() takes no empty ones; view_init() says it */
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot map its %lld bytes",
                            (long long)st.st_size);
    t->map = map;
    t->map_size = (size_t)st.st_size;
    return 0;
}

struct dt_tokens *dt_tokens_open(const char *path, int raw_width, size_t vocabulary,
                                 struct dt_err *err)
{
    size_t path_size = strlen(path) + 1;
    struct dt_tokens *t = calloc(1, sizeof *t + path_size);
    if (!t) {
        dt_err_set(err, DT_E_MEMORY, "no memory to open %s", path);
        return NULL;
    }
    memcpy(t->path, path, path_size);
    if (map_file(t, err) < 0 ||
        view_init(&t->view, (struct dt_bytes){t->map, t->map_size}, raw_width, err) < 0) {
        dt_err_wrap(err, "%s", path);
        dt_tokens_close(t);
        return NULL;
    }
    if (vocabulary && vocabulary < t->view.limit)
        t->view.limit = vocabulary;
    return t;
}

void dt_tokens_close(struct dt_tokens *t)
{
    if (!t)
        return;
    if (t->map)
        munmap(t->map, t->map_size);
    free(t);
}

size_t dt_tokens_count(const struct dt_tokens *t)
{
    return t->view.count;
}

bool dt_tokens_are_bytes(const struct dt_tokens *t)
{
    return t->view.bytes;
}

size_t dt_tokens_samples(const struct dt_tokens *t, size_t positions)
{
    return t->view.count && positions ? (t->view.count - 1) / positions : 0;
}

int dt_tokens_sample(const struct dt_tokens *t, size_t i, size_t positions, int32_t *ids,
                     int32_t *targets, struct dt_err *err)
{
    size_t samples = dt_tokens_samples(t, positions);
    if (samples == 0)
        return dt_err_set(err, DT_E_RUNTIME,
                          "%s holds %zu tokens, too few for one sample of sequence length %zu and "
                          "the token behind it; give a longer file or a smaller "
                          "data.sequence_length",
                          t->path, t->view.count, positions);
    if (i >= samples)
        return dt_err_set(err, DT_E_RUNTIME, "%s: there is no sample %zu; there are %zu", t->path,
                          i, samples);
    size_t first = i * positions;
    int32_t next = 0;
    for (size_t k = 0; k <= positions; k++) {
        if (take(&t->view, first + k, &next, err) < 0)
            return dt_err_wrap(err, "%s", t->path);
        if (k > 0)
            targets[k - 1] = next;
        if (k < positions)
            ids[k] = next;
    }
    return 0;
}

int dt_tokens_check(struct dt_bytes file, int raw_width, struct dt_err *err)
{
    struct view v;
    int32_t token;
    if (view_init(&v, file, raw_width, err) < 0)
        return -1;
    for (size_t i = 0; i < v.count; i++)
        if (take(&v, i, &token, err) < 0)
            return -1;
    return 0;
}
