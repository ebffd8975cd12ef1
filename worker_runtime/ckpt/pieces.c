/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/inside.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/json.h"

#define PARTS_MAX ((size_t)256 << 20)

static struct dt_ckpt_piece *next_piece(struct dt_ckpt_pieces *p)
{
    if (p->count == p->size) {
        size_t size = p->size ? 2 * p->size : 64;
        struct dt_ckpt_piece *more = reallocarray(p->v, size, sizeof *p->v);
        if (!more)
            return NULL;
        p->v = more;
        p->size = size;
    }
    return &p->v[p->count++];
}

int dt_ckpt_pieces_add(struct dt_ckpt_pieces *p, uint64_t block_bytes, enum dt_ckpt_file file,
                       uint64_t at, struct dt_bytes bytes, struct dt_err *err)
{
    struct dt_ckpt_piece *last = p->count ? &p->v[p->count - 1] : NULL;
    if (last && last->file == file && last->at + last->len == at &&
        last->at / block_bytes == at / block_bytes) {
        last->crc = dt_crc32c(last->crc, bytes);
        last->len += bytes.len;
        return 0;
    }
    struct dt_ckpt_piece *new = next_piece(p);
    if (!new)
        return dt_err_set(err, DT_E_MEMORY, "no memory for checksums");
    *new = (struct dt_ckpt_piece){file, at, bytes.len, dt_crc32c(0, bytes)};
    return 0;
}

static int write_synced(int fd, const struct dt_buf *b)
{
    for (size_t done = 0; done < b->len;) {
        ssize_t n = write(fd, b->at + done, b->len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        done += (size_t)n;
    }
    return fsync(fd);
}

int dt_ckpt_pieces_write(const struct dt_ckpt_pieces *p, const char *path, struct dt_err *err)
{
    struct dt_buf b = {0};
    int rc = 0;
    dt_buf_put_str(&b, "[");
    for (size_t i = 0; i < p->count; i++)
        dt_buf_printf(&b, "%s[%d,%" PRIu64 ",%" PRIu64 ",%" PRIu32 "]", i ? ",\n" : "",
                      (int)p->v[i].file, p->v[i].at, p->v[i].len, p->v[i].crc);
    dt_buf_put_str(&b, "]\n");
    DT_AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (b.bad)
        rc = dt_err_set(err, DT_E_MEMORY, "no memory for checksums");
    else if (fd < 0 || write_synced(fd, &b) < 0)
        rc = dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", path);
    dt_buf_finish(&b);
    return rc;
}

static int read_piece(const struct cJSON *row, struct dt_ckpt_piece *out)
{
    uint64_t v[4];
    int n = 0;
    if (!cJSON_IsArray(row))
        return -1;
    for (const struct cJSON *c = row->child; c; c = c->next) {
        if (n == 4 || !cJSON_IsNumber(c) || !(c->valuedouble >= 0 && c->valuedouble < 0x1p53))
            return -1;
        v[n++] = (uint64_t)c->valuedouble;
    }
    if (n < 4 || v[0] >= DT_CKPT_FILES || v[3] > UINT32_MAX)
        return -1;
    *out = (struct dt_ckpt_piece){(enum dt_ckpt_file)v[0], v[1], v[2], (uint32_t)v[3]};
    return 0;
}

static int read_rows(struct dt_ckpt_pieces *p, const struct dt_json *doc, struct dt_err *err)
{
    for (const struct cJSON *row = dt_json_first(doc->root); row; row = dt_json_next(row)) {
        struct dt_ckpt_piece *new = next_piece(p);
        if (!new)
            return dt_err_set(err, DT_E_MEMORY, "no memory for checksums");
        if (read_piece(row, new) < 0)
            return dt_err_set(err, DT_E_RUNTIME, "it is no list of pieces");
    }
    return 0;
}

int dt_ckpt_pieces_read(struct dt_ckpt_pieces *p, const char *path, struct dt_err *err)
{
    struct dt_buf b = {0};
    struct dt_json doc = {NULL};
    int rc = dt_fs_read(path, PARTS_MAX, &b, err);
    if (rc == 0 && (dt_json_parse(&doc, (const char *)b.at, b.len, PARTS_MAX, err) < 0 ||
                    read_rows(p, &doc, err) < 0))
        rc = dt_err_wrap(err, "%s", path);
    dt_json_finish(&doc);
    dt_buf_finish(&b);
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct dt_ckpt_piece *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The pieces from I on that belong to FILE; gives the first that does not, 0 when one is missing.
 */
static size_t join_file(const struct dt_ckpt_pieces *p, size_t i, enum dt_ckpt_file file,
                        struct dt_manifest *m)
{
    struct dt_ckpt_sums *s = &m->files[file];
    uint64_t at = 0;
    for (; i < p->count && p->v[i].file == file; i++) {
        const struct dt_ckpt_piece *piece = &p->v[i];
        uint64_t block = piece->at / m->block_bytes;
        if (piece->at != at || piece->len == 0 || piece->len > s->bytes - at ||
            (piece->at + piece->len - 1) / m->block_bytes != block)
            return 0;
        s->crc[block] = dt_crc32c_combine(s->crc[block], piece->crc, piece->len);
        at += piece->len;
    }
    return at == s->bytes ? i : 0;
}

int dt_ckpt_pieces_join(struct dt_ckpt_pieces *p, struct dt_manifest *m, struct dt_err *err)
{
    size_t i = 0;
    if (p->count)
        qsort(p->v, p->count, sizeof *p->v, by_place);
    for (int f = 0; f < DT_CKPT_FILES; f++) {
        if (!m->files[f].bytes)
            continue;
        i = join_file(p, i, f, m);
        if (i == 0)
            return dt_err_set(err, DT_E_RUNTIME, "not every byte of %s was written by one rank",
                              dt_manifest_file_name(m, f));
    }
    return 0;
}
