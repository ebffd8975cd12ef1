/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to an S3-compatible server: signed, tried again, and told in sentences. For the files of
 * this folder. */
#ifndef DT_BASE_TRANSFER_S3_H
#define DT_BASE_TRANSFER_S3_H

#include "base/list.h"
#include "base/transfer/answers.h"
#include "base/transfer/http.h"
#include "base/transfer/inside.h"
#include "base/transfer/keyring.h"
#include "base/transfer/retry.h"
#include "base/transfer/sigv4.h"

#include <stdbool.h>
#include <stdint.h>

struct dt_s3 {
    const struct dt_curl_table *lib;
    void *connections;
    struct dt_list running; /* calls; s3_call.c */
    struct dt_keyring ring;
    struct dt_http_endpoint endpoint;
    bool is_in_host, is_amazon; /* where the bucket is said; that the endpoint follows the region */
    char *profile, *ca_file;
    int64_t clock_off; /* seconds that the server's clock is ahead of ours, once it was off */
    uint64_t seed;
    uint8_t *part; /* for bytes of a file under way */
    size_t part_size;
    struct dt_http_answer answer; /* of the request that ended last */
    struct dt_answer_error error; /* what it says if it is one */
};

struct dt_s3_run;

/* One request, with all its attempts. It stays where it is until it is over. */
struct dt_s3_call {
    const char *what; /* of the sentence "putting part 3: ..." */
    const char *method;
    const char *key; /* whole; "" for the bucket itself */
    struct dt_sigv4_pair query[DT_SIGV4_PAIRS], headers[DT_SIGV4_PAIRS / 2];
    struct dt_bytes body;
    const char *payload; /* the body's SHA-256 as hex digits; NULL: it is computed */
    bool hides_errors;   /* an answer of 200 may be an error all the same */
    /* Called before each attempt; may change .headers. True: more has been achieved since the one
     * before, so that attempts count anew. NULL: nothing is to be done. */
    bool (*before)(struct dt_s3_call *c);
    int (*take)(void *arg, const struct dt_http_answer *a, struct dt_bytes piece);
    void (*on_sent)(void *arg, uint64_t sent);
    void *arg;
    struct dt_err refusal; /* of .take(), why */
};

/* 1: the answer is one of 2xx; 0: it is 404, but not for want of the bucket; -1. No other call is
 * under way. */
int dt_s3_do(struct dt_transfer *t, struct dt_s3_call *c, struct dt_err *err);

/* Several at once. -1: no memory. */
int dt_s3_begin(struct dt_transfer *t, struct dt_s3_call *c, struct dt_err *err);
/* Waits until a call is over: *OVER is which, and the rest is as with dt_s3_do(). *OVER is NULL and
 * the result 0 where none is yet: something has moved, or somebody called dt_s3_wake(). */
int dt_s3_wait(struct dt_transfer *t, struct dt_s3_call **over, struct dt_err *err);
/* From any thread. */
void dt_s3_wake(struct dt_transfer *t);
/* Those that are under way end without a word. */
void dt_s3_call_off(struct dt_transfer *t);

/* The endpoint is Amazon's of the ring's region. */
void dt_s3_set_amazon(struct dt_s3 *s);

/* The key of the bucket that KEY of the transfer is. */
const char *dt_s3_key(const struct dt_transfer *t, const char *key, char out[DT_KEY_MAX + 1]);

/* A checksum that goes with an object, whoever's server it is: CRC-32C of all its bytes, as eight
 * hex digits. */
#define DT_S3_CRC "x-amz-meta-dtrun-crc32c"
#define DT_S3_CRC_TEXT 9

/* Memory for SIZE bytes under way, or NULL and *err. */
uint8_t *dt_s3_part(struct dt_s3 *s, size_t size, struct dt_err *err);

/* What HEAD tells, and the checksum, "" where the object has none. */
int dt_s3_head(struct dt_transfer *t, const char *key, struct dt_object *o,
               char crc[DT_S3_CRC_TEXT], struct dt_err *err);

/* s3_put.c, s3_files.c, s3_get.c, s3_list.c */
int dt_s3_put(struct dt_transfer *t, const char *key, const struct dt_source *from,
              struct dt_err *err);
int dt_s3_put_files(struct dt_transfer *t, const struct dt_transfer_file *at, size_t count,
                    struct dt_err *err);
int dt_s3_get(struct dt_transfer *t, const char *key, struct dt_sink *to, struct dt_err *err);
int dt_s3_list(struct dt_transfer *t, const char *prefix, bool deep, dt_transfer_each_fn *each,
               void *arg, struct dt_err *err);

#endif
