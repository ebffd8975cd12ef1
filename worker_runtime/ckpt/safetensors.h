/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors format, both ways: eight bytes of length, a JSON header, packed data. The header
 * is made before any data, so that every rank can write its own part at its own place. */
#ifndef DT_WORKER_RUNTIME_CKPT_SAFETENSORS_H
#define DT_WORKER_RUNTIME_CKPT_SAFETENSORS_H

#include "base/buf.h"
#include "base/err.h"

#include <dtrun/dtype.h>
#include <stdint.h>

#define DT_ST_DIMS_MAX 8
/* Read as JSON a header takes thirty times its length in each rank. 16 MiB are some 100,000
 * tensors, far more than any model has in one file. */
#define DT_ST_HEADER_MAX ((uint64_t)16 << 20)

struct dt_st_tensor {
    const char *name;   /* in a read file: owned by it */
    enum dt_dtype type; /* DT_DTYPES: one that the format has and we have not */
    int rank;
    uint64_t dims[DT_ST_DIMS_MAX];
    uint64_t begin, end; /* bytes, from the start of the data */
};

/* Tensors one behind the other in the order given, .begin and .end filled in; the data then starts
 * at OUT->len, a multiple of 64. Metadata: "format": "pt", and what METADATA holds as key, value,
 * ..., NULL. */
int dt_st_header(struct dt_st_tensor *tensors, size_t count, const char *const *metadata,
                 struct dt_buf *out, struct dt_err *err);

struct dt_st_file {
    int fd;
    uint64_t data_at, size;       /* of the file */
    struct dt_st_tensor *tensors; /* in the order of their data */
    size_t count;
    const struct dt_st_tensor **by_name;
    void *doc; /* the parsed header */
};

/* Every rule of the format is checked; errors name file and tensor. F needs no dt_st_close() when
 * it fails. */
int dt_st_open(struct dt_st_file *f, const char *path, struct dt_err *err);
void dt_st_close(struct dt_st_file *f);
/* "F32"; NULL: the format has no name for it. */
const char *dt_st_type_name(enum dt_dtype type);
/* What the file's metadata says under NAME, owned by F; NULL: nothing. */
const char *dt_st_metadata(const struct dt_st_file *f, const char *name);
const struct dt_st_tensor *dt_st_find(const struct dt_st_file *f, const char *name);
/* The header alone, of a file of SIZE bytes whose first bytes are HEAD, the header whole: for open,
 * and the fuzzer. */
int dt_st_parse(struct dt_st_file *f, struct dt_bytes head, uint64_t size, struct dt_err *err);

#endif
