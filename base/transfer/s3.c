/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/s3.h"

#include "base/transfer/date.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- opening ---------------------------------------------------------------------------------- */

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Amazon's endpoint of a region. */
void dt_s3_set_amazon(struct dt_s3 *s)
{
    const char *region = s->ring.region;
    s->is_amazon = true;
    s->endpoint = (struct dt_http_endpoint){.tls = true, .port = 443};
    snprintf(s->endpoint.host, sizeof s->endpoint.host, "s3.%s.%s", region,
             dt_amazon_domain(region));
}

static int set_endpoint(struct dt_transfer *t, struct dt_s3 *s, struct dt_err *err)
{
    const char *given = t->set.endpoint ? t->set.endpoint : env("AWS_ENDPOINT_URL_S3");
    given = given ? given : env("AWS_ENDPOINT_URL");
    given = given ? given : *s->ring.profile.endpoint ? s->ring.profile.endpoint : NULL;
    if (!*s->ring.region)
        strcpy(s->ring.region, "us-east-1");
    if (!given)
        dt_s3_set_amazon(s);
    else if (dt_http_endpoint_parse(given, &s->endpoint, err) < 0)
        return -1;
    s->is_in_host = t->set.style == DT_BUCKET_IN_HOST || (t->set.style == DT_BUCKET_AUTO && !given);
    /* A certificate for all buckets, *.s3.amazonaws.com, does not cover a name with dots. */
    if (s->is_in_host && t->set.style == DT_BUCKET_AUTO && strchr(t->url.bucket, '.'))
        s->is_in_host = false;
    return 0;
}

static int copy_text(char **to, const char *text, struct dt_err *err)
{
    *to = text ? strdup(text) : NULL;
    return text && !*to ? dt_err_set(err, DT_E_MEMORY, "no memory for a transfer") : 0;
}

/* Whoever hands out keys may be away, and back when a request is made, which asks again. What a
 * person has set up wrongly stays wrong. */
static int fetch_first_keys(struct dt_s3 *s, struct dt_err *err)
{
    struct dt_err why = {0};
    if (dt_keyring_fetch(&s->ring, &why) == 0 || why.code != DT_E_USAGE)
        return 0;
    if (err)
        *err = why;
    return -1;
}

int dt_s3_open(struct dt_transfer *t, struct dt_err *err)
{
    struct dt_s3 *s = t->s3 = calloc(1, sizeof *s);
    if (!s)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a transfer");
    s->lib = dt_http_open(err);
    if (!s->lib || copy_text(&s->profile, t->set.profile, err) < 0 ||
        dt_keyring_init(&s->ring, s->lib, s->profile, t->set.region, t->set.stop, err) < 0)
        return -1;
    const char *ca_file = t->set.ca_file ? t->set.ca_file : env("AWS_CA_BUNDLE");
    if (!ca_file && *s->ring.profile.ca_file)
        ca_file = s->ring.profile.ca_file;
    if (copy_text(&s->ca_file, ca_file, err) < 0 || set_endpoint(t, s, err) < 0 ||
        fetch_first_keys(s, err) < 0)
        return -1;
    t->set.endpoint = t->set.region = t->set.profile = t->set.ca_file = NULL; /* the caller's */
    s->seed = (uint64_t)dt_clock_monotonic_ns() ^ (uint64_t)getpid() << 40;
    dt_list_init(&s->running);
    s->connections = s->lib->open();
    return s->connections ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for a connection");
}

static void close_s3(struct dt_transfer *t)
{
    struct dt_s3 *s = t->s3;
    if (!s)
        return;
    if (s->connections)
        s->lib->close(s->connections);
    dt_keyring_finish(&s->ring);
    dt_http_answer_finish(&s->answer);
    free(s->profile);
    free(s->ca_file);
    free(s->part);
    free(s);
}

uint8_t *dt_s3_part(struct dt_s3 *s, size_t size, struct dt_err *err)
{
    if (s->part_size < size) {
        free(s->part);
        s->part = malloc(size);
        s->part_size = s->part ? size : 0;
    }
    if (!s->part)
        dt_err_set(err, DT_E_MEMORY, "no memory for %zu bytes under way", size);
    return s->part;
}

/* Both have been checked together. */
const char *dt_s3_key(const struct dt_transfer *t, const char *key, char out[DT_KEY_MAX + 1])
{
    size_t root = strlen(t->url.path), n = strlen(key);
    assert(root + 1 + n <= DT_KEY_MAX);
    memcpy(out, t->url.path, root);
    if (root)
        out[root++] = '/';
    memcpy(out + root, key, n + 1);
    return out;
}

/* -- small ones ------------------------------------------------------------------------------- */

/* To HEAD a server answers 404 for an object and for its bucket alike. */
static int check_bucket(struct dt_transfer *t, struct dt_err *err)
{
    struct dt_s3_call c = {.what = "looking for the bucket", .method = "HEAD", .key = ""};
    int rc = dt_s3_do(t, &c, err);
    if (rc == 0)
        return dt_err_set(err, DT_E_RUNTIME, "there is no bucket %s; make it first", t->url.bucket);
    /* Who may read objects need not see the bucket. */
    return rc < 0 && t->s3->answer.status == 403 ? 0 : rc < 0 ? -1 : 0;
}

int dt_s3_head(struct dt_transfer *t, const char *key, struct dt_object *o,
               char crc[DT_S3_CRC_TEXT], struct dt_err *err)
{
    char whole[DT_KEY_MAX + 1], date[64];
    int64_t seconds;
    struct dt_err unseen = {0};
    struct dt_s3_call c = {
        .what = "looking for it", .method = "HEAD", .key = dt_s3_key(t, key, whole)};
    int rc = dt_s3_do(t, &c, err);
    if (rc < 0)
        return -1;
    if (rc == 0) {
        rc = check_bucket(t, &unseen);
        if (rc < 0 && err)
            *err = unseen;
        return rc;
    }
    const struct dt_http_answer *a = &t->s3->answer;
    int64_t size = dt_http_header_number(a, "content-length");
    if (size < 0)
        return dt_err_set(err, DT_E_PROTOCOL, "looking for it: the store does not say its size");
    o->size = (uint64_t)size;
    dt_http_header(a, "etag", o->tag, sizeof o->tag);
    dt_http_header(a, DT_S3_CRC, crc, DT_S3_CRC_TEXT);
    if (dt_date_of_http(dt_http_header(a, "last-modified", date, sizeof date), &seconds))
        o->changed_us = seconds * 1000000;
    return 1;
}

static int head(struct dt_transfer *t, const char *key, struct dt_object *o, struct dt_err *err)
{
    char crc[DT_S3_CRC_TEXT];
    return dt_s3_head(t, key, o, crc, err);
}

static int delete_object(struct dt_transfer *t, const char *key, struct dt_err *err)
{
    char whole[DT_KEY_MAX + 1];
    struct dt_s3_call c = {
        .what = "removing it", .method = "DELETE", .key = dt_s3_key(t, key, whole)};
    return dt_s3_do(t, &c, err) < 0 ? -1 : 0;
}

const struct dt_place dt_place_s3 = {
    .put = dt_s3_put,
    .put_files = dt_s3_put_files,
    .get = dt_s3_get,
    .head = head,
    .list = dt_s3_list,
    .remove = delete_object,
    .close = close_s3,
};
