/* SPDX-License-Identifier: Apache-2.0 */
/* What an S3-compatible server writes into the bodies of its answers, taken apart. Everything is
 * bounded: names and tokens by the fields below, the number of rows by what one answer may have,
 * the bytes by whoever receives them. Pure. */
#ifndef DT_BASE_TRANSFER_ANSWERS_H
#define DT_BASE_TRANSFER_ANSWERS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/transfer/sigv4.h"
#include "base/transfer/url.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT_ANSWER_MAX ((size_t)4 << 20) /* bytes of a body; 1000 keys of 1 KiB, escaped */
#define DT_ANSWER_ROWS 1000             /* of one answer */
#define DT_PARTS_MAX 10000              /* of one object */
#define DT_TAG_MAX 80
#define DT_TOKEN_TEXT 2048 /* of a place in a listing, or of the name of an upload */

/* <Error>: what went wrong by the server's own word. "" where it says nothing. */
struct dt_answer_error {
    char code[64]; /* "SlowDown" */
    char message[200];
    char region[32]; /* where the bucket is; of some answers */
};

/* Whether DOCUMENT is such an error; then it is filled. What is no XML is none. */
bool dt_answer_error(struct dt_bytes document, struct dt_answer_error *e);

struct dt_listed {
    char *key; /* decoded; of a group it ends in a slash */
    uint64_t size;
    int64_t changed; /* seconds since 1970 */
    char tag[DT_TAG_MAX];
    bool is_group; /* what keys begin with */
};

/* <ListBucketResult>: one page of the objects of a bucket. */
struct dt_page {
    struct dt_listed *at; /* by the order of their bytes, each once */
    size_t len;
    bool is_cut;              /* more pages follow, */
    char next[DT_TOKEN_TEXT]; /* from here on */
};

/* Finish PAGE in either case. */
int dt_answer_page(struct dt_bytes document, struct dt_page *page, struct dt_err *err);
void dt_page_finish(struct dt_page *page);

/* <ListMultipartUploads>: finds the youngest upload of exactly KEY, which comes first of those that
 * begin with it. UPLOAD is "" if the page has none. */
int dt_answer_upload_of(struct dt_bytes document, const char *key, char upload[DT_TOKEN_TEXT],
                        struct dt_err *err);

struct dt_part {
    uint64_t size; /* 0: not there */
    char tag[DT_TAG_MAX];
};

/* <ListPartsResult>: puts the parts of one page into PARTS, number 1 at 0, and passes over those
 * from COUNT on. *NEXT is the number behind which the next page begins; 0: there is none. */
int dt_answer_parts(struct dt_bytes document, struct dt_part *parts, size_t count, int *next,
                    struct dt_err *err);

/* <InitiateMultipartUploadResult> */
int dt_answer_upload(struct dt_bytes document, char upload[DT_TOKEN_TEXT], struct dt_err *err);

/* <AssumeRoleWithWebIdentityResponse> */
int dt_answer_keys(struct dt_bytes document, struct dt_keys *keys, struct dt_err *err);

#endif
