/* SPDX-License-Identifier: Apache-2.0 */
/* Objects on their way up: in one request, or in parts that outlive a failure. What is sent is in
 * memory while it is hashed and sent, so that all attempts send the same bytes. Several parts go
 * at once (flight.h).
 *
 * Parts that an earlier try has left are found by asking the store, so nothing has to be kept here;
 * those with the right MD5, which is a part's tag at nearly all stores, stay. The whole object's
 * checksum was said as those parts began: it tells in the end whether all of them were of these
 * bytes. */
#include "base/crc32c.h"
#include "base/transfer/flight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

struct upload {
    struct dt_transfer *t;
    const char *key;
    char whole[DT_KEY_MAX + 1]; /* the bucket's key */
    const struct dt_source *from;
    uint32_t crc; /* of it all */
    char crc_text[DT_S3_CRC_TEXT];
    char id[DT_TOKEN_TEXT];
    uint64_t part_size;
    size_t count;
    struct dt_part *parts; /* with a tag: there already, or believed to be */
    uint32_t *crcs;        /* of the parts, as they were read */
    uint64_t done;         /* bytes in the store */
    bool is_resumed;
};

static void on_sent(void *arg, uint64_t sent)
{
    const struct upload *u = arg;
    dt_transfer_tell(u->t, u->key, u->done + sent, u->from->len);
}

/* The bytes from AT on, in memory. */
static int load(struct upload *u, uint64_t at, uint64_t n, struct dt_bytes *bytes,
                struct dt_err *err)
{
    if (u->from->fd < 0) {
        *bytes = (struct dt_bytes){u->from->memory + at, (size_t)n};
        return 0;
    }
    uint8_t *part = dt_s3_part(u->t->s3, (size_t)n + 1, err); /* no part is NULL */
    if (!part || dt_source_read(u->from, at, part, (size_t)n, err) < 0)
        return -1;
    *bytes = (struct dt_bytes){part, (size_t)n};
    return 0;
}

static void set_crc(struct upload *u, uint32_t crc)
{
    u->crc = crc;
    snprintf(u->crc_text, sizeof u->crc_text, "%08x", crc);
}

static int put_whole(struct upload *u, struct dt_err *err)
{
    struct dt_s3_call c = {
        .what = "putting it", .method = "PUT", .key = u->whole, .on_sent = on_sent, .arg = u};
    if (load(u, 0, u->from->len, &c.body, err) < 0)
        return -1;
    set_crc(u, dt_crc32c(0, c.body));
    if (dt_source_check(u->from, u->crc, err) < 0)
        return -1;
    c.headers[0] = (struct dt_sigv4_pair){DT_S3_CRC, u->crc_text};
    int rc = dt_s3_do(u->t, &c, err);
    if (rc == 1)
        dt_transfer_tell(u->t, u->key, u->from->len, u->from->len);
    return rc == 0 ? dt_err_set(err, DT_E_RUNTIME, "putting it: the store answers 404") : rc;
}

/* -- parts that are there --------------------------------------------------------------------- */

/* Leave to list may be missing where leave to put is not: then nothing is resumed. 1: the answer is
 * there. */
static int ask(struct upload *u, struct dt_s3_call *c, struct dt_err *err)
{
    struct dt_err why = {0};
    int rc = dt_s3_do(u->t, c, &why);
    int status = u->t->s3->answer.status;
    if (rc < 0 && why.code == DT_E_RUNTIME && (status == 403 || status == 405 || status == 501))
        return 0;
    if (rc < 0 && err)
        *err = why;
    return rc;
}

static struct dt_bytes body_of(const struct upload *u)
{
    const struct dt_buf *b = &u->t->s3->answer.body;
    return (struct dt_bytes){b->at, b->len};
}

/* 1: u->id is an upload of this object that was begun and not ended. */
static int find_upload(struct upload *u, struct dt_err *err)
{
    struct dt_s3_call c = {
        .what = "looking for parts that are there",
        .method = "GET",
        .key = "",
        .query = {{"uploads", ""}, {"prefix", u->whole}, {NULL, NULL}},
    };
    int rc = ask(u, &c, err);
    if (rc == 1 && dt_answer_upload_of(body_of(u), u->whole, u->id, err) < 0)
        return dt_err_wrap(err, "%s", c.what);
    return rc == 1 ? *u->id != '\0' : rc;
}

static int find_parts(struct upload *u, struct dt_err *err)
{
    char marker[16];
    int next = 0;
    for (int last = -1, rc; next > last;) {
        struct dt_s3_call c = {
            .what = "looking for parts that are there",
            .method = "GET",
            .key = u->whole,
            .query = {{"uploadId", u->id}, {"part-number-marker", marker}, {NULL, NULL}},
        };
        snprintf(marker, sizeof marker, "%d", next);
        last = next;
        if ((rc = ask(u, &c, err)) <= 0)
            return rc;
        if (dt_answer_parts(body_of(u), u->parts, u->count, &next, err) < 0)
            return dt_err_wrap(err, "%s", c.what);
    }
    return 1;
}

static int begin(struct upload *u, struct dt_err *err)
{
    struct dt_s3_call c = {
        .what = "beginning an upload",
        .method = "POST",
        .key = u->whole,
        .query = {{"uploads", ""}, {NULL, NULL}},
        .headers = {{DT_S3_CRC, u->crc_text}, {NULL, NULL}},
    };
    int rc = dt_s3_do(u->t, &c, err);
    if (rc == 0)
        return dt_err_set(err, DT_E_RUNTIME, "%s: the store answers 404", c.what);
    if (rc == 1 && dt_answer_upload(body_of(u), u->id, err) < 0)
        return dt_err_wrap(err, "%s", c.what);
    memset(u->parts, 0, u->count * sizeof *u->parts);
    u->is_resumed = false;
    return rc;
}

static int begin_or_resume(struct upload *u, bool resume, struct dt_err *err)
{
    int rc = resume ? find_upload(u, err) : 0;
    if (rc == 1)
        rc = find_parts(u, err);
    if (rc < 0)
        return -1;
    u->is_resumed = rc == 1;
    return u->is_resumed ? 1 : begin(u, err);
}

/* -- parts ------------------------------------------------------------------------------------ */

/* A tag goes into the XML that ends the upload, so it may be nothing else there. */
static bool is_tag(const char *tag)
{
    return *tag && !tag[strspn(tag, "\"-_0123456789abcdefABCDEFghijklmnopqrstuvwxyz"
                                    "GHIJKLMNOPQRSTUVWXYZ")];
}

/* Whether the store has part P with these bytes. */
static bool is_there(const struct dt_part *p, const struct dt_piece *piece)
{
    size_t len = strlen(piece->md5);
    const char *tag = p->tag + (p->tag[0] == '"');
    return len > 0 && p->size == piece->len && strncmp(tag, piece->md5, len) == 0 &&
           tag[len + strspn(tag + len, "\"")] == '\0';
}

static int read_part(void *arg, size_t number, uint8_t *into, size_t *len, struct dt_err *err)
{
    const struct upload *u = arg;
    uint64_t begin = number * u->part_size, left = u->from->len - begin;
    *len = (size_t)(left < u->part_size ? left : u->part_size);
    return dt_source_read(u->from, begin, into, *len, err);
}

static int board_part(void *arg, struct dt_aboard *b)
{
    struct upload *u = arg;
    if (is_there(&u->parts[b->piece->number], b->piece))
        return 0;
    snprintf(b->what, sizeof b->what, "putting part %zu of %zu", b->piece->number + 1, u->count);
    snprintf(b->number, sizeof b->number, "%zu", b->piece->number + 1);
    b->call = (struct dt_s3_call){
        .what = b->what,
        .method = "PUT",
        .key = u->whole,
        .query = {{"partNumber", b->number}, {"uploadId", u->id}, {NULL, NULL}},
    };
    return 1;
}

/* 0: the store has forgotten the upload. */
static int land_part(void *arg, struct dt_aboard *b, int rc, struct dt_err *err)
{
    struct upload *u = arg;
    struct dt_part *p = &u->parts[b->piece->number];
    char tag[DT_TAG_MAX];
    if (rc != 1)
        return rc;
    if (b->call.what) {
        if (!is_tag(dt_http_header(&u->t->s3->answer, "etag", tag, sizeof tag)))
            return dt_err_set(err, DT_E_PROTOCOL, "%s: the store gives no tag for it", b->what);
        p->size = b->piece->len;
        strcpy(p->tag, tag);
    }
    u->crcs[b->piece->number] = b->piece->crc;
    u->done += b->piece->len;
    return 1;
}

/* What was said of all bytes must hold of those that were sent. */
static int check_crcs(const struct upload *u, struct dt_err *err)
{
    struct dt_source said = *u->from;
    uint32_t crc = 0;
    for (size_t i = 0; i < u->count; i++)
        crc = dt_crc32c_combine(crc, u->crcs[i], u->parts[i].size);
    said.knows_crc = true;
    said.crc = u->crc;
    return dt_source_check(&said, crc, err);
}

static int put_each_part(struct upload *u, struct dt_err *err)
{
    struct dt_flight_job job = {.count = u->count,
                                .most = (size_t)u->part_size,
                                .wants_md5 = u->is_resumed,
                                .read = read_part,
                                .board = board_part,
                                .land = land_part,
                                .moved = on_sent,
                                .arg = u};
    u->done = 0;
    int rc = dt_flight_run(u->t, &job, err);
    return rc == 1 && check_crcs(u, err) < 0 ? -1 : rc;
}

/* Whether the object that is there now is the one that was put together. A lost answer leaves us
 * without a word of the store, and a resumed upload may have been begun for other bytes. 1: it is;
 * 0: it is not. */
static int check_object(struct upload *u, struct dt_err *err)
{
    struct dt_object o;
    char crc[DT_S3_CRC_TEXT] = "";
    int rc = dt_s3_head(u->t, u->key, &o, crc, err);
    return rc == 1 ? o.size == u->from->len && strcmp(crc, u->crc_text) == 0 : rc;
}

static int complete(struct upload *u, struct dt_err *err)
{
    struct dt_buf body = {0};
    struct dt_s3_call c = {
        .what = "putting its parts together",
        .method = "POST",
        .key = u->whole,
        .query = {{"uploadId", u->id}, {NULL, NULL}},
        .hides_errors = true,
    };
    dt_buf_put_str(&body, "<CompleteMultipartUpload>");
    for (size_t i = 0; i < u->count; i++)
        dt_buf_printf(&body, "<Part><PartNumber>%zu</PartNumber><ETag>%s</ETag></Part>", i + 1,
                      u->parts[i].tag);
    dt_buf_put_str(&body, "</CompleteMultipartUpload>");
    c.body = (struct dt_bytes){body.at, body.len};
    int rc = body.bad ? dt_err_set(err, DT_E_MEMORY, "no memory for a request")
                      : dt_s3_do(u->t, &c, err);
    dt_buf_finish(&body);
    return rc == 1 && !u->is_resumed ? 1 : rc < 0 ? -1 : check_object(u, err);
}

/* 1: the object is there; 0: what was resumed was not the beginning of it, or has gone. */
static int put_parts(struct upload *u, bool resume, struct dt_err *err)
{
    int rc = begin_or_resume(u, resume, err);
    if (rc == 1)
        rc = put_each_part(u, err);
    return rc == 1 ? complete(u, err) : rc;
}

/* The checksum of it all, which is said before the first part is sent. */
static int checksum(struct upload *u, struct dt_err *err)
{
    uint32_t crc = 0;
    if (u->from->knows_crc) {
        set_crc(u, u->from->crc);
        return 0;
    }
    for (uint64_t at = 0, n; at < u->from->len; at += n) {
        struct dt_bytes bytes;
        n = u->from->len - at < MIB ? u->from->len - at : MIB;
        if (load(u, at, n, &bytes, err) < 0)
            return -1;
        if (dt_transfer_is_stopped(u->t))
            return dt_err_set(err, DT_E_CANCELED, "it was stopped");
        crc = dt_crc32c(crc, bytes);
    }
    set_crc(u, crc);
    return 0;
}

/* A store takes so many parts and no more. */
static uint64_t part_size_for(uint64_t len, uint64_t asked)
{
    uint64_t least = (len / DT_PARTS_MAX / MIB + 1) * MIB;
    return len / asked < DT_PARTS_MAX ? asked : least;
}

int dt_s3_put(struct dt_transfer *t, const char *key, const struct dt_source *from,
              struct dt_err *err)
{
    struct upload *u = calloc(1, sizeof *u);
    if (!u)
        return dt_err_set(err, DT_E_MEMORY, "no memory for an upload");
    u->t = t;
    u->key = key;
    u->from = from;
    dt_s3_key(t, key, u->whole);
    u->part_size = part_size_for(from->len, t->set.part_size);
    u->count = (size_t)((from->len + u->part_size - 1) / u->part_size);
    int rc = -1;
    if (u->count <= 1 || from->fd < 0)
        rc = put_whole(u, err);
    else if (!(u->parts = calloc(u->count, sizeof *u->parts)) ||
             !(u->crcs = calloc(u->count, sizeof *u->crcs)))
        dt_err_set(err, DT_E_MEMORY, "no memory for an upload");
    else if (checksum(u, err) == 0 && (rc = put_parts(u, true, err)) == 0 &&
             (rc = put_parts(u, false, err)) == 0)
        rc = dt_err_set(err, DT_E_RUNTIME,
                        "the store has lost the upload, or the object that came of it");
    free(u->parts);
    free(u->crcs);
    free(u);
    return rc < 0 ? -1 : 0;
}
