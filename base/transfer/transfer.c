/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/transfer.h"

#include "base/auto.h"
#include "base/crc32c.h"
#include "base/transfer/inside.h"
#include "base/transfer/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ATTEMPTS 8
#define PATIENCE (30 * DT_SECOND)
#define PART_LEAST ((uint64_t)5 << 20) /* S3 takes no smaller ones, but for the last */
#define PART_MOST ((uint64_t)1 << 30)  /* a part is in memory while it is sent */

/* -- sources and sinks ------------------------------------------------------------------------ */

int dt_source_open(const char *path, uint64_t *size, struct dt_err *err)
{
    struct stat st;
    DT_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open %s", path);
    if (!S_ISREG(st.st_mode))
        return dt_err_set(err, DT_E_USAGE, "%s is no ordinary file", path);
    *size = (uint64_t)st.st_size;
    int kept = fd;
    fd = -1;
    return kept;
}

int dt_source_read(const struct dt_source *s, uint64_t at, void *into, size_t n, struct dt_err *err)
{
    uint8_t *to = into;
    if (s->fd < 0) {
        dt_bytes_copy(into, (struct dt_bytes){s->memory + at, n});
        return 0;
    }
    while (n) {
        ssize_t got = pread(s->fd, to, n, (off_t)(s->from + at));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read the file");
        if (got == 0)
            return dt_err_set(err, DT_E_RUNTIME,
                              "the file has become shorter than %llu bytes while it was read",
                              (unsigned long long)(s->from + s->len));
        to += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return 0;
}

int dt_source_check(const struct dt_source *s, uint32_t crc, struct dt_err *err)
{
    if (!s->knows_crc || s->crc == crc)
        return 0;
    return dt_err_set(
        err, DT_E_RUNTIME,
        "its bytes are not those that were written: their CRC-32C is %08x, and it was "
        "%08x; the file has been changed or damaged",
        crc, s->crc);
}

int dt_sink_expect(struct dt_sink *s, uint64_t total, struct dt_err *err)
{
    s->total = total;
    if (s->kind == DT_SINK_BUF && total > s->most)
        return dt_err_set(err, DT_E_LIMIT, "it has %llu bytes, and at most %llu were expected",
                          (unsigned long long)total, (unsigned long long)s->most);
    if (s->kind == DT_SINK_MEMORY && total != s->most)
        return dt_err_set(err, DT_E_RUNTIME, "it ends within the bytes %llu to %llu",
                          (unsigned long long)s->from, (unsigned long long)(s->from + s->most));
    return 0;
}

static int write_piece(int fd, struct dt_bytes piece, struct dt_err *err)
{
    while (piece.len) {
        ssize_t n = write(fd, piece.at, piece.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write the file");
        piece.at += n;
        piece.len -= (size_t)n;
    }
    return 0;
}

int dt_sink_take(struct dt_sink *s, struct dt_bytes piece, struct dt_err *err)
{
    if (piece.len > s->total - s->taken)
        return dt_err_set(err, DT_E_PROTOCOL, "more bytes came than were announced");
    switch (s->kind) {
    case DT_SINK_FILE:
        if (write_piece(s->fd, piece, err) < 0)
            return -1;
        break;
    case DT_SINK_BUF:
        dt_buf_put(s->buf, piece.at, piece.len);
        if (s->buf->bad)
            return dt_err_set(err, DT_E_MEMORY, "no memory for %llu bytes",
                              (unsigned long long)s->total);
        break;
    case DT_SINK_MEMORY:
        dt_bytes_copy(s->memory + s->taken, piece);
        break;
    }
    s->crc = dt_crc32c(s->crc, piece);
    s->taken += piece.len;
    return 0;
}

int dt_sink_restart(struct dt_sink *s, struct dt_err *err)
{
    if (s->kind == DT_SINK_FILE && (lseek(s->fd, 0, SEEK_SET) < 0 || ftruncate(s->fd, 0) < 0))
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write the file");
    if (s->kind == DT_SINK_BUF)
        s->buf->len -= s->taken;
    s->taken = 0;
    s->crc = 0;
    return 0;
}

/* -- a transfer ------------------------------------------------------------------------------- */

const char *dt_transfer_words(const struct dt_transfer *t, const char *key, struct dt_url_words *w)
{
    return dt_url_text(&t->url, key, w->text, sizeof w->text);
}

bool dt_transfer_is_stopped(const struct dt_transfer *t)
{
    return t->set.stop && atomic_load(t->set.stop);
}

void dt_transfer_tell(const struct dt_transfer *t, const char *key, uint64_t done, uint64_t total)
{
    if (t->set.on_progress)
        t->set.on_progress(t->set.arg, key, done, total);
}

static int settle(struct dt_transfer_options *o, struct dt_err *err)
{
    o->attempts = o->attempts ? o->attempts : ATTEMPTS;
    o->patience = o->patience ? o->patience : PATIENCE;
    o->part_size = o->part_size ? o->part_size : DT_TRANSFER_PART;
    if (o->part_size < PART_LEAST || o->part_size > PART_MOST)
        return dt_err_set(err, DT_E_USAGE, "parts of %llu bytes are not from 5 MiB to 1 GiB",
                          (unsigned long long)o->part_size);
    return 0;
}

struct dt_transfer *dt_transfer_open(const char *url, const struct dt_transfer_options *options,
                                     struct dt_err *err)
{
    struct dt_transfer *t = calloc(1, sizeof *t);
    if (!t) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a transfer");
        return NULL;
    }
    if (options)
        t->set = *options;
    if (dt_url_parse(url, &t->url, err) < 0 || settle(&t->set, err) < 0)
        goto fail;
    t->place = t->url.scheme == DT_URL_FILE ? &dt_place_folder : &dt_place_s3;
    if (t->url.scheme == DT_URL_S3 && dt_s3_open(t, err) < 0) {
        dt_err_wrap(err, "s3://%s", t->url.bucket);
        goto fail;
    }
    return t;

fail:
    dt_transfer_close(t);
    return NULL;
}

void dt_transfer_close(struct dt_transfer *t)
{
    if (!t)
        return;
    if (t->place)
        t->place->close(t);
    free(t);
}

static int check_key(const struct dt_transfer *t, const char *key, struct dt_err *err)
{
    struct dt_url_words w;
    if (dt_url_is_file_key(key) && strlen(t->url.path) + 1 + strlen(key) <= DT_KEY_MAX)
        return 0;
    return dt_err_set(
        err, DT_E_USAGE,
        "\"%.200s\" is no key below %.200s: it is longer than %d bytes in all, or has "
        "an empty part, \".\", \"..\" or a control character",
        key, dt_transfer_words(t, NULL, &w), DT_KEY_MAX);
}

/* Everything that fails names the object. */
static int named(const struct dt_transfer *t, const char *key, int rc, struct dt_err *err)
{
    struct dt_url_words w;
    return rc < 0 ? dt_err_wrap(err, "%.300s", dt_transfer_words(t, key, &w)) : rc;
}

static int put(struct dt_transfer *t, const char *key, const struct dt_source *from,
               struct dt_err *err)
{
    if (check_key(t, key, err) < 0)
        return -1;
    return named(t, key, t->place->put(t, key, from, err), err);
}

int dt_transfer_put_range(struct dt_transfer *t, const char *key, int fd, uint64_t from,
                          uint64_t len, struct dt_err *err)
{
    return put(t, key, &(struct dt_source){.fd = fd, .from = from, .len = len}, err);
}

static int put_one(struct dt_transfer *t, const struct dt_transfer_file *file, struct dt_err *err)
{
    struct dt_source from = {.knows_crc = file->knows_crc, .crc = file->crc};
    DT_AUTO_FD fd = from.fd = dt_source_open(file->path, &from.len, err);
    if (fd < 0)
        return -1;
    return put(t, file->key, &from, err) < 0 ? dt_err_wrap(err, "%.200s", file->path) : 0;
}

int dt_transfer_put_file(struct dt_transfer *t, const char *key, const char *path,
                         struct dt_err *err)
{
    return put_one(t, &(struct dt_transfer_file){.key = key, .path = path}, err);
}

static void swap_files(struct dt_transfer_file *a, struct dt_transfer_file *b)
{
    struct dt_transfer_file before = *a;
    *a = *b;
    *b = before;
}

/* Fills the size of each, puts those that are not small, and moves the others to the front. */
static int put_large(struct dt_transfer *t, struct dt_transfer_file *files, size_t count,
                     size_t *small, struct dt_err *err)
{
    *small = 0;
    for (size_t i = 0; i < count; i++) {
        struct dt_transfer_file *file = &files[i];
        DT_AUTO_FD fd = dt_source_open(file->path, &file->size, err);
        if (fd < 0 || check_key(t, file->key, err) < 0)
            return -1;
        if (t->place->put_files && file->size <= t->set.part_size)
            swap_files(file, &files[(*small)++]);
        else if (put_one(t, file, err) < 0)
            return -1;
    }
    return 0;
}

int dt_transfer_put_files(struct dt_transfer *t, struct dt_transfer_file *files, size_t count,
                          struct dt_err *err)
{
    size_t small;
    if (put_large(t, files, count, &small, err) < 0)
        return -1;
    return small ? t->place->put_files(t, files, small, err) : 0;
}

int dt_transfer_put_bytes(struct dt_transfer *t, const char *key, struct dt_bytes bytes,
                          struct dt_err *err)
{
    if (bytes.len > DT_TRANSFER_BYTES_MAX)
        return dt_err_set(err, DT_E_LIMIT, "%zu bytes are too many for one request", bytes.len);
    return put(t, key, &(struct dt_source){.fd = -1, .memory = bytes.at, .len = bytes.len}, err);
}

static int get(struct dt_transfer *t, const char *key, struct dt_sink *to, struct dt_err *err)
{
    if (check_key(t, key, err) < 0)
        return -1;
    return named(t, key, t->place->get(t, key, to, err), err);
}

int dt_transfer_get_file(struct dt_transfer *t, const char *key, const char *path,
                         struct dt_err *err)
{
    struct dt_whole_file file;
    if (dt_whole_file_begin(&file, path, err) < 0)
        return -1;
    struct dt_sink to = {.kind = DT_SINK_FILE, .fd = file.fd};
    int rc = get(t, key, &to, err);
    if (rc == 1 && dt_whole_file_commit(&file, err) < 0)
        rc = -1;
    dt_whole_file_finish(&file);
    return rc < 0 ? dt_err_wrap(err, "%.200s", path) : rc;
}

int dt_transfer_get_bytes(struct dt_transfer *t, const char *key, size_t max, struct dt_buf *out,
                          struct dt_err *err)
{
    size_t before = out->len;
    struct dt_sink to = {.kind = DT_SINK_BUF, .buf = out, .most = max};
    int rc = get(t, key, &to, err);
    if (rc != 1 && !out->bad)
        out->len = before;
    return rc;
}

int dt_transfer_get_range(struct dt_transfer *t, const char *key, uint64_t from, void *at,
                          size_t len, struct dt_err *err)
{
    struct dt_sink to = {.kind = DT_SINK_MEMORY, .memory = at, .from = from, .most = len};
    struct dt_object o;
    if (len == 0)
        return dt_transfer_head(t, key, &o, err);
    return get(t, key, &to, err);
}

int dt_transfer_head(struct dt_transfer *t, const char *key, struct dt_object *object,
                     struct dt_err *err)
{
    *object = (struct dt_object){.key = key};
    if (check_key(t, key, err) < 0)
        return -1;
    return named(t, key, t->place->head(t, key, object, err), err);
}

int dt_transfer_list(struct dt_transfer *t, const char *prefix, bool deep,
                     dt_transfer_each_fn *each, void *arg, struct dt_err *err)
{
    if (strlen(t->url.path) + 1 + strlen(prefix) > DT_KEY_MAX)
        return dt_err_set(err, DT_E_USAGE, "the prefix %.60s... is too long", prefix);
    return named(t, prefix, t->place->list(t, prefix, deep, each, arg, err), err);
}

int dt_transfer_delete(struct dt_transfer *t, const char *key, struct dt_err *err)
{
    if (check_key(t, key, err) < 0)
        return -1;
    return named(t, key, t->place->remove(t, key, err), err);
}
