/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share: a transfer is a place (S3 or a folder), and bytes go to it
 * from a source and come from it into a sink. */
#ifndef DT_BASE_TRANSFER_INSIDE_H
#define DT_BASE_TRANSFER_INSIDE_H

#include "base/transfer/transfer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* LEN bytes of a file, or of memory where FD is below 0. */
struct dt_source {
    int fd;
    uint64_t from, len;
    const uint8_t *memory;
    bool knows_crc; /* CRC is what the CRC-32C of all of them has to be */
    uint32_t crc;
};

/* An ordinary file, and how many bytes it has now. The descriptor, or -1. */
int dt_source_open(const char *path, uint64_t *size, struct dt_err *err);
/* N bytes from AT of the source on. A file that has fewer by now is an error. */
int dt_source_read(const struct dt_source *s, uint64_t at, void *into, size_t n,
                   struct dt_err *err);
/* All of them were read, and their CRC-32C is CRC. An error if another one was known. */
int dt_source_check(const struct dt_source *s, uint32_t crc, struct dt_err *err);

enum dt_sink_kind { DT_SINK_FILE, DT_SINK_BUF, DT_SINK_MEMORY };

/* Where an object's bytes go. Only memory asks for a part of an object; all else takes it whole. */
struct dt_sink {
    enum dt_sink_kind kind;
    int fd;
    struct dt_buf *buf;
    uint8_t *memory;
    uint64_t from, most; /* memory: which part; buf: how many bytes at most */
    uint64_t taken, total;
    uint32_t crc; /* of what was taken */
};

/* The object, or the part of it, has TOTAL bytes. *err: those are too many, or too few. */
int dt_sink_expect(struct dt_sink *s, uint64_t total, struct dt_err *err);
int dt_sink_take(struct dt_sink *s, struct dt_bytes piece, struct dt_err *err);
int dt_sink_restart(struct dt_sink *s, struct dt_err *err);

/* A kind of place. What a transfer promises, less what transfer.c sees to: keys are checked, they
 * are not "". */
struct dt_place {
    int (*put)(struct dt_transfer *t, const char *key, const struct dt_source *from,
               struct dt_err *err);
    /* At most a part's worth each; errors name the file. NULL: it can only do one by one. */
    int (*put_files)(struct dt_transfer *t, const struct dt_transfer_file *at, size_t count,
                     struct dt_err *err);
    int (*get)(struct dt_transfer *t, const char *key, struct dt_sink *to, struct dt_err *err);
    int (*head)(struct dt_transfer *t, const char *key, struct dt_object *o, struct dt_err *err);
    int (*list)(struct dt_transfer *t, const char *prefix, bool deep, dt_transfer_each_fn *each,
                void *arg, struct dt_err *err);
    int (*remove)(struct dt_transfer *t, const char *key, struct dt_err *err);
    void (*close)(struct dt_transfer *t);
};

struct dt_s3;

struct dt_transfer {
    struct dt_url url;
    struct dt_transfer_options set; /* with the defaults; of its strings only place keeps copies */
    const struct dt_place *place;
    struct dt_s3 *s3;
};

extern const struct dt_place dt_place_folder, dt_place_s3;

/* What t->set asks for is given as it was; NULL where nothing was. */
int dt_s3_open(struct dt_transfer *t, struct dt_err *err);

/* "s3://bucket/prefix/key" of this transfer, for sentences. */
struct dt_url_words {
    char text[DT_URL_TEXT + DT_KEY_MAX];
};
const char *dt_transfer_words(const struct dt_transfer *t, const char *key, struct dt_url_words *w);

bool dt_transfer_is_stopped(const struct dt_transfer *t);
void dt_transfer_tell(const struct dt_transfer *t, const char *key, uint64_t done, uint64_t total);

#endif
