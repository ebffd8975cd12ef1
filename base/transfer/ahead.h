/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of an upload, one after the other: the next one is read and hashed in a thread while
 * the one before is sent, as hashing takes about as long as a fast network. */
#ifndef DT_BASE_TRANSFER_AHEAD_H
#define DT_BASE_TRANSFER_AHEAD_H

#include "base/transfer/http.h"
#include "base/transfer/inside.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_ready_part {
    size_t number; /* from 0 */
    uint8_t *at;
    size_t len;
    char sha256[2 * DT_SHA256_SIZE + 1]; /* as hex digits */
    char md5[2 * DT_MD5_SIZE + 1];       /* "" where nobody wants it */
};

struct dt_ahead {
    const struct dt_curl_table *lib;
    const struct dt_source *from;
    uint64_t part_size;
    size_t count;
    bool wants_md5;
    struct dt_ready_part parts[2]; /* one is out, the other is being read */
    struct dt_ready_part *working;
    pthread_t thread;
    bool is_running; /* the thread is, and is to be joined */
    bool is_ready;   /* working holds what it is for, or RC and ERR say why not */
    int rc;
    struct dt_err err;
};

/* COUNT parts of PART_SIZE bytes, the last one smaller. FROM is to stay as it is. -1: no memory for
 * two of them. Finish A in either case. */
int dt_ahead_init(struct dt_ahead *a, const struct dt_curl_table *lib, const struct dt_source *from,
                  uint64_t part_size, bool wants_md5, struct dt_err *err);
void dt_ahead_finish(struct dt_ahead *a);

/* The next part, the first one first; good until the next call. NULL and *err. */
const struct dt_ready_part *dt_ahead_next(struct dt_ahead *a, struct dt_err *err);

#endif
