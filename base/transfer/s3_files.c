/* SPDX-License-Identifier: Apache-2.0 */
/* Small files on their way up, several at once: each in one request, as what waits for an answer is
 * most of the time that such a file takes. */
#include "base/auto.h"
#include "base/crc32c.h"
#include "base/transfer/flight.h"

#include <stdio.h>

struct files {
    struct dt_transfer *t;
    const struct dt_transfer_file *at;
};

/* By the thread that reads ahead. A file may wait long for its turn. */
static int read_file(void *arg, size_t number, uint8_t *into, size_t *len, struct dt_err *err)
{
    const struct dt_transfer_file *file = &((const struct files *)arg)->at[number];
    struct dt_source from = {.knows_crc = file->knows_crc, .crc = file->crc};
    DT_AUTO_FD fd = from.fd = dt_source_open(file->path, &from.len, err);
    if (fd < 0)
        return -1;
    *len = (size_t)file->size;
    int rc = from.len == file->size
                 ? dt_source_read(&from, 0, into, *len, err)
                 : dt_err_set(err, DT_E_RUNTIME, "it has changed since the upload began");
    if (rc == 0 && file->knows_crc)
        rc = dt_source_check(&from, dt_crc32c(0, (struct dt_bytes){into, *len}), err);
    return rc < 0 ? dt_err_wrap(err, "%.200s", file->path) : 0;
}

static int board_file(void *arg, struct dt_aboard *b)
{
    const struct files *f = arg;
    snprintf(b->crc, sizeof b->crc, "%08x", b->piece->crc);
    b->call = (struct dt_s3_call){
        .what = "putting it",
        .method = "PUT",
        .key = dt_s3_key(f->t, f->at[b->piece->number].key, b->key),
        .headers = {{DT_S3_CRC, b->crc}, {NULL, NULL}},
    };
    return 1;
}

static int land_file(void *arg, struct dt_aboard *b, int rc, struct dt_err *err)
{
    const struct files *f = arg;
    const struct dt_transfer_file *file = &f->at[b->piece->number];
    struct dt_url_words w;
    if (rc == 1) {
        dt_transfer_tell(f->t, file->key, file->size, file->size);
        return 1;
    }
    if (rc == 0)
        dt_err_set(err, DT_E_RUNTIME, "putting it: the store answers 404");
    dt_err_wrap(err, "%.300s", dt_transfer_words(f->t, file->key, &w));
    return dt_err_wrap(err, "%.200s", file->path);
}

int dt_s3_put_files(struct dt_transfer *t, const struct dt_transfer_file *at, size_t count,
                    struct dt_err *err)
{
    struct files f = {t, at};
    struct dt_flight_job job = {
        .count = count, .read = read_file, .board = board_file, .land = land_file, .arg = &f};
    for (size_t i = 0; i < count; i++)
        job.most = at[i].size > job.most ? (size_t)at[i].size : job.most;
    return dt_flight_run(t, &job, err) == 1 ? 0 : -1;
}
