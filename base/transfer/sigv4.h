/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of requests as Amazon's servers, and those that do as they do, want them: Signature
 * Version 4. Pure but for the digests, which come with dt_curl.so. */
#ifndef DT_BASE_TRANSFER_SIGV4_H
#define DT_BASE_TRANSFER_SIGV4_H

#include "base/buf.h"
#include "base/transfer/http.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_keys {
    char id[129], secret[257];
    char token[4097]; /* of keys that pass away; else "" */
    int64_t expires;  /* seconds since 1970; 0: never */
};

struct dt_sigv4_pair {
    const char *name, *value; /* a header's name in small letters */
};

#define DT_SIGV4_PAIRS 16

/* What is signed. All text is plain: it is encoded here. */
struct dt_sigv4_request {
    const char *method, *path;                  /* "/bucket/key" */
    struct dt_sigv4_pair query[DT_SIGV4_PAIRS]; /* in any order; a NULL name ends them */
    /* In any order, "host" and "x-amz-date" among them; a NULL name ends them. */
    struct dt_sigv4_pair headers[DT_SIGV4_PAIRS];
    const char *payload; /* the body's SHA-256 as hex digits */
};

/* Appends TEXT as it stands in a URL, "/" too where SLASHES stay. */
void dt_url_encode(struct dt_buf *out, const char *text, bool slashes);

/* What a URL has behind the host: the path and, behind a "?", the query, encoded as it is signed.
 */
void dt_sigv4_target(const struct dt_sigv4_request *r, struct dt_buf *out);

/* Appends the value of the header Authorization. SECONDS is the time that x-amz-date says. -1: the
 * digests cannot be had, or no memory. */
int dt_sigv4_sign(const struct dt_curl_table *lib, const struct dt_sigv4_request *r,
                  const struct dt_keys *keys, const char *region, const char *service,
                  int64_t seconds, struct dt_buf *out);

#endif
