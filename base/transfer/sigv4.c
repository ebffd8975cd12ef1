/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/sigv4.h"

#include "base/hex.h"
#include "base/transfer/date.h"

#include <stdlib.h>
#include <string.h>

#define DAY 8 /* characters of a stamp */

/* Whatever the locale. */
static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void dt_url_encode(struct dt_buf *out, const char *text, bool slashes)
{
    for (; *text; text++)
        if (is_unreserved(*text) || (slashes && *text == '/'))
            dt_buf_put_u8(out, (uint8_t)*text);
        else
            dt_buf_printf(out, "%%%02X", (unsigned char)*text);
}

/* Names come once in our requests, so values have no say in the order. */
static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct dt_sigv4_pair *)a)->name, ((const struct dt_sigv4_pair *)b)->name);
}

static size_t sorted(const struct dt_sigv4_pair *pairs, struct dt_sigv4_pair out[DT_SIGV4_PAIRS])
{
    size_t n = 0;
    while (n < DT_SIGV4_PAIRS && pairs[n].name) {
        out[n] = pairs[n];
        n++;
    }
    qsort(out, n, sizeof *out, by_name);
    return n;
}

static void put_query(const struct dt_sigv4_request *r, struct dt_buf *out)
{
    struct dt_sigv4_pair pairs[DT_SIGV4_PAIRS];
    size_t n = sorted(r->query, pairs);
    for (size_t i = 0; i < n; i++) {
        if (i)
            dt_buf_put_u8(out, '&');
        dt_url_encode(out, pairs[i].name, false);
        dt_buf_put_u8(out, '=');
        dt_url_encode(out, pairs[i].value, false);
    }
}

void dt_sigv4_target(const struct dt_sigv4_request *r, struct dt_buf *out)
{
    dt_url_encode(out, r->path, true);
    if (r->query[0].name) {
        dt_buf_put_u8(out, '?');
        put_query(r, out);
    }
}

static void put_names(const struct dt_sigv4_pair *pairs, size_t n, struct dt_buf *out)
{
    for (size_t i = 0; i < n; i++)
        dt_buf_printf(out, "%s%s", i ? ";" : "", pairs[i].name);
}

static void put_canonical(const struct dt_sigv4_request *r, const struct dt_sigv4_pair *headers,
                          size_t n, struct dt_buf *out)
{
    dt_buf_printf(out, "%s\n", r->method);
    dt_url_encode(out, r->path, true);
    dt_buf_put_u8(out, '\n');
    put_query(r, out);
    dt_buf_put_u8(out, '\n');
    for (size_t i = 0; i < n; i++)
        dt_buf_printf(out, "%s:%s\n", headers[i].name, headers[i].value);
    dt_buf_put_u8(out, '\n');
    put_names(headers, n, out);
    dt_buf_printf(out, "\n%s", r->payload);
}

/* The key of a day, a region and a service: each in turn signed with what came before. */
static int derive(const struct dt_curl_table *lib, const char *secret, struct dt_bytes day,
                  const char *region, const char *service, uint8_t key[DT_SHA256_SIZE])
{
    struct dt_buf first = {0};
    dt_buf_printf(&first, "AWS4%s", secret);
    int rc = first.bad ? -1 : lib->hmac_sha256((struct dt_bytes){first.at, first.len}, day, key);
    if (first.base)
        explicit_bzero(first.base, first.size);
    dt_buf_finish(&first);
    const char *const texts[] = {region, service, "aws4_request"};
    for (size_t i = 0; i < 3 && rc == 0; i++) {
        uint8_t with[DT_SHA256_SIZE];
        memcpy(with, key, sizeof with);
        rc = lib->hmac_sha256((struct dt_bytes){with, sizeof with}, dt_bytes_of(texts[i]), key);
        explicit_bzero(with, sizeof with);
    }
    return rc;
}

int dt_sigv4_sign(const struct dt_curl_table *lib, const struct dt_sigv4_request *r,
                  const struct dt_keys *keys, const char *region, const char *service,
                  int64_t seconds, struct dt_buf *out)
{
    char stamp[DT_DATE_STAMP], hex[2 * DT_SHA256_SIZE + 1];
    uint8_t sum[DT_SHA256_SIZE], key[DT_SHA256_SIZE];
    struct dt_sigv4_pair headers[DT_SIGV4_PAIRS];
    size_t n = sorted(r->headers, headers);
    struct dt_buf text = {0};
    dt_date_stamp(seconds, stamp);
    put_canonical(r, headers, n, &text);
    if (text.bad || lib->digest(DT_SHA256, (struct dt_bytes){text.at, text.len}, sum) < 0)
        goto fail;
    dt_hex(sum, sizeof sum, hex);
    dt_buf_clear(&text);
    dt_buf_printf(&text, "AWS4-HMAC-SHA256\n%s\n%.*s/%s/%s/aws4_request\n%s", stamp, DAY, stamp,
                  region, service, hex);
    if (text.bad ||
        derive(lib, keys->secret, (struct dt_bytes){(uint8_t *)stamp, DAY}, region, service, key) <
            0 ||
        lib->hmac_sha256((struct dt_bytes){key, sizeof key}, (struct dt_bytes){text.at, text.len},
                         sum) < 0)
        goto fail;
    explicit_bzero(key, sizeof key);
    dt_hex(sum, sizeof sum, hex);
    dt_buf_printf(out,
                  "AWS4-HMAC-SHA256 Credential=%s/%.*s/%s/%s/aws4_request,SignedHeaders=", keys->id,
                  DAY, stamp, region, service);
    put_names(headers, n, out);
    dt_buf_printf(out, ",Signature=%s", hex);
    dt_buf_finish(&text);
    return out->bad ? -1 : 0;

fail:
    dt_buf_finish(&text);
    return -1;
}
