/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"
#include "base/transfer/s3.h"

#include <stdio.h>
#include <string.h>

#define CHANGES_MAX 3 /* of the object while it is read */

/* An object on its way into a sink. A connection that broke is taken up behind what came. */
struct fetch {
    struct dt_s3_call call;
    struct dt_transfer *t;
    const char *key;
    struct dt_sink *to;
    char range[64], tag[DT_TAG_MAX], crc[DT_S3_CRC_TEXT];
    uint64_t begun; /* taken as the attempt began */
    bool is_part, has_head;
};

static bool before(struct dt_s3_call *c)
{
    struct fetch *f = dt_container_of(c, struct fetch, call);
    struct dt_sink *to = f->to;
    struct dt_sigv4_pair *h = c->headers;
    bool has_more = to->taken > f->begun;
    f->begun = to->taken;
    f->has_head = false;
    memset(c->headers, 0, sizeof c->headers);
    if (f->is_part)
        snprintf(f->range, sizeof f->range, "bytes=%llu-%llu",
                 (unsigned long long)(to->from + to->taken),
                 (unsigned long long)(to->from + to->most - 1));
    else
        snprintf(f->range, sizeof f->range, "bytes=%llu-", (unsigned long long)to->taken);
    if (f->is_part || to->taken)
        *h++ = (struct dt_sigv4_pair){"range", f->range};
    if (to->taken && *f->tag)
        *h++ = (struct dt_sigv4_pair){"if-match", f->tag};
    return has_more;
}

/* "bytes 5-9/10": from where the bytes are. */
static bool range_of(const struct dt_http_answer *a, uint64_t *from)
{
    char text[80];
    unsigned long long first;
    if (sscanf(dt_http_header(a, "content-range", text, sizeof text), "bytes %20llu-", &first) != 1)
        return false;
    *from = first;
    return true;
}

/* The head of an answer: does it bring the bytes that were asked for? */
static int check_head(struct fetch *f, const struct dt_http_answer *a)
{
    struct dt_sink *to = f->to;
    struct dt_err *why = &f->call.refusal;
    uint64_t wanted = to->from + to->taken, first = 0;
    int64_t len = dt_http_header_number(a, "content-length");
    if (len < 0)
        return dt_err_set(why, DT_E_PROTOCOL, "the store does not say how many bytes come");
    if (a->status == 206 && (!range_of(a, &first) || first != wanted))
        return dt_err_set(why, DT_E_PROTOCOL, "the store sends another range than was asked for");
    if (a->status != 206 && f->is_part)
        return dt_err_set(why, DT_E_PROTOCOL, "the store sends no ranges");
    if (a->status != 206 && dt_sink_restart(to, why) < 0)
        return -1;
    if (to->taken == 0) {
        dt_http_header(a, "etag", f->tag, sizeof f->tag);
        dt_http_header(a, DT_S3_CRC, f->crc, sizeof f->crc);
        return dt_sink_expect(to, (uint64_t)len, why);
    }
    return (uint64_t)len == to->total - to->taken
               ? 0
               : dt_err_set(why, DT_E_PROTOCOL, "the object has another size than before");
}

static int take(void *arg, const struct dt_http_answer *a, struct dt_bytes piece)
{
    struct fetch *f = arg;
    if (!f->has_head && check_head(f, a) < 0)
        return -1;
    f->has_head = true;
    if (dt_sink_take(f->to, piece, &f->call.refusal) < 0)
        return -1;
    dt_transfer_tell(f->t, f->key, f->to->taken, f->to->total);
    return 0;
}

/* An answer without a byte never came to take(). */
static int check_end(struct fetch *f, struct dt_err *err)
{
    struct dt_sink *to = f->to;
    char crc[DT_S3_CRC_TEXT];
    if (!f->has_head && check_head(f, &f->t->s3->answer) < 0) {
        if (err)
            *err = f->call.refusal;
        return -1;
    }
    if (to->taken != to->total)
        return dt_err_set(err, DT_E_PROTOCOL, "%llu of %llu bytes came",
                          (unsigned long long)to->taken, (unsigned long long)to->total);
    snprintf(crc, sizeof crc, "%08x", to->crc);
    if (!f->is_part && *f->crc && strcmp(crc, f->crc) != 0)
        return dt_err_set(
            err, DT_E_PROTOCOL,
            "its bytes are not those that were put there: their CRC-32C is %s, and it "
            "was %s",
            crc, f->crc);
    return 1;
}

int dt_s3_get(struct dt_transfer *t, const char *key, struct dt_sink *to, struct dt_err *err)
{
    char whole[DT_KEY_MAX + 1];
    struct fetch f = {.t = t, .key = key, .to = to, .is_part = to->kind == DT_SINK_MEMORY};
    f.call = (struct dt_s3_call){
        .what = "getting it",
        .method = "GET",
        .key = dt_s3_key(t, key, whole),
        .before = before,
        .take = take,
        .arg = &f,
    };
    for (int i = 0; i < CHANGES_MAX; i++) {
        int rc = dt_s3_do(t, &f.call, err);
        if (rc == 1)
            return check_end(&f, err);
        /* 412: another object has its name by now. */
        if (rc == 0 || t->s3->answer.status != 412 || f.call.refusal.code)
            return rc;
        if (dt_sink_restart(to, err) < 0)
            return -1;
        f.tag[0] = f.crc[0] = '\0';
    }
    return dt_err_set(err, DT_E_RUNTIME, "getting it: it changes again and again");
}
