/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that leave this machine: a bucket of an S3-compatible store, or a folder, behind one URL.
 *
 * All calls block. A transfer belongs to one thread at a time; several may be open, each with
 * connections of its own. Nothing is loaded for a folder; for S3 the helper library dt_curl.so
 * (libcurl) is, at dt_transfer_open().
 *
 * An object appears whole or not at all, in a folder too: readers never see half of one. Keys stand
 * below the URL's prefix: key "step-8/rank-0" of s3://bucket/runs/a is bucket's
 * "runs/a/step-8/rank-0". An object of the same key is replaced.
 *
 * What may pass (a lost connection, 500, 503, 429, a server that moves nothing) is tried again,
 * with pauses that grow and differ by chance. A clock that is wrong is corrected once, by the
 * server's. Errors name the object, the cause and the attempts. Secrets are in no message. */
#ifndef DT_BASE_TRANSFER_TRANSFER_H
#define DT_BASE_TRANSFER_TRANSFER_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/transfer/url.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_transfer;

enum dt_bucket_style {
    DT_BUCKET_AUTO,    /* in the host's name at Amazon, in the path where an endpoint is given */
    DT_BUCKET_IN_PATH, /* https://endpoint/bucket/key */
    DT_BUCKET_IN_HOST, /* https://bucket.endpoint/key */
};

/* How far one object is. May come from the thread of the call only; must not call the transfer. */
typedef void dt_transfer_progress_fn(void *arg, const char *key, uint64_t done, uint64_t total);
/* WHY, a sentence for the log: what failed, and when it is tried again. */
typedef void dt_transfer_retry_fn(void *arg, const char *why);

/* Zeroed: everything as the environment says. Strings are copied; STOP must outlive the transfer.
 */
struct dt_transfer_options {
    const char *endpoint;       /* NULL: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, then
                                 * Amazon's of the region */
    const char *region;         /* NULL: AWS_REGION, AWS_DEFAULT_REGION, the profile's, us-east-1 */
    const char *profile;        /* of ~/.aws; NULL: AWS_PROFILE, then "default" */
    const char *ca_file;        /* NULL: AWS_CA_BUNDLE, then those that libcurl trusts */
    enum dt_bucket_style style; /* of S3 */
    uint64_t bandwidth;         /* bytes a second at most, each way, of all that goes at once; 0: no
                                 * limit */
    uint64_t part_size;         /* larger objects go up in such parts, DT_TRANSFER_AT_ONCE of which
                                 * are in memory then; 0: 16 MiB */
    int attempts;               /* of each request; 0: 8 */
    dt_ms patience;             /* a connection that moves nothing for so long is lost; 0: 30 s */
    const atomic_bool *stop;    /* another thread sets it to end a call with DT_E_CANCELED within
                                 * about a second; NULL: nobody does */
    dt_transfer_progress_fn *on_progress;
    dt_transfer_retry_fn *on_retry;
    void *arg;
};

/* The default of .part_size. */
#define DT_TRANSFER_PART ((uint64_t)16 << 20)
/* Parts, or small files, that are read, hashed or sent at the same time: 64 MiB at most, by
 * default. */
#define DT_TRANSFER_AT_ONCE 4

/* Opens what URL (dt_url_parse()) names, finds credentials, and sends nothing to the store yet.
 * When a service that hands out credentials does not, requests ask it again, and fail with its
 * words. OPTIONS may be NULL. NULL and *err. */
struct dt_transfer *dt_transfer_open(const char *url, const struct dt_transfer_options *options,
                                     struct dt_err *err);
void dt_transfer_close(struct dt_transfer *t);

/* LEN bytes of FD from FROM on become the object KEY; the descriptor's own position is neither used
 * nor moved. The bytes must stay as they are until the call is over; a file that turns out shorter
 * is an error. More than one part's worth goes up in parts; parts of the same bytes that an earlier
 * call, even of another process, has left behind in the store are not sent again. A call that fails
 * leaves its parts for the next one; a rule of the bucket removes those that nobody comes for. */
int dt_transfer_put_range(struct dt_transfer *t, const char *key, int fd, uint64_t from,
                          uint64_t len, struct dt_err *err);
/* The same of a whole ordinary file. */
int dt_transfer_put_file(struct dt_transfer *t, const char *key, const char *path,
                         struct dt_err *err);
/* The same of several; those of at most a part go up last, several at once. Ends with the first
 * that fails, which *err names. */
struct dt_transfer_file {
    const char *key, *path; /* the caller's */
    bool knows_crc; /* CRC is the CRC-32C that all its bytes have to have: a file with others
                     * is an error, and a large one is read once and not twice */
    uint32_t crc;
    uint64_t size; /* filled by the call */
};
int dt_transfer_put_files(struct dt_transfer *t, struct dt_transfer_file *files, size_t count,
                          struct dt_err *err);
/* The same of memory: a manifest, a word. One request, so at most 64 MiB. */
#define DT_TRANSFER_BYTES_MAX ((size_t)64 << 20)
int dt_transfer_put_bytes(struct dt_transfer *t, const char *key, struct dt_bytes bytes,
                          struct dt_err *err);

/* The whole object becomes the file PATH, whose folder must be there: by way of a temporary file
 * beside it, which is on disk before it gets that name. A connection that breaks is taken up where
 * it broke, unless the object has changed meanwhile. 1: done; 0: there is no such object; -1. */
int dt_transfer_get_file(struct dt_transfer *t, const char *key, const char *path,
                         struct dt_err *err);
/* The object's bytes, appended to OUT. More than MAX are DT_E_LIMIT before they are taken. As
 * above.
 */
int dt_transfer_get_bytes(struct dt_transfer *t, const char *key, size_t max, struct dt_buf *out,
                          struct dt_err *err);
/* LEN bytes from FROM on, into AT: a header, one tensor. An object that has fewer there is an
 * error. As above. */
int dt_transfer_get_range(struct dt_transfer *t, const char *key, uint64_t from, void *at,
                          size_t len, struct dt_err *err);

struct dt_object {
    const char *key; /* below the URL's prefix; valid during the call that hands it out */
    uint64_t size;
    int64_t changed_us; /* since 1970; 0: the store does not say */
    char tag[80];       /* another one when the bytes are others; "" in a folder */
    bool folder;        /* not an object: what many keys begin with, which end in a slash */
};

/* 1: *OBJECT tells, its key is KEY; 0: there is no such object; -1. */
int dt_transfer_head(struct dt_transfer *t, const char *key, struct dt_object *object,
                     struct dt_err *err);

/* -1 ends the listing, which then returns -1; *ERR is EACH's to fill. EACH may not call T. */
typedef int dt_transfer_each_fn(void *arg, const struct dt_object *object, struct dt_err *err);

/* Hands EACH all objects whose keys begin with PREFIX ("" for all), by the order of their bytes.
 * Not DEEP: only up to the next slash; what has more behind it comes once, as a folder. A prefix
 * that nothing begins with is an empty listing. Keys that are no file keys (url.h) are passed over,
 * so whoever makes paths of what is listed cannot be led astray. */
int dt_transfer_list(struct dt_transfer *t, const char *prefix, bool deep,
                     dt_transfer_each_fn *each, void *arg, struct dt_err *err);

/* An object that is not there is fine. */
int dt_transfer_delete(struct dt_transfer *t, const char *key, struct dt_err *err);

#endif
