/* SPDX-License-Identifier: Apache-2.0 */
/* dt_curl.so: what we want of libcurl, and of the library of digests behind it. */
#include "base/transfer/http.h"

#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

struct exchange {
    const struct dt_http_request *r;
    struct dt_http_answer *a;
    bool refused, out_of_memory, flooded;
};

static int start(void)
{
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0 : -1;
}

static void *open_connection(void)
{
    return curl_easy_init();
}

static void close_connection(void *connection)
{
    curl_easy_cleanup(connection);
}

/* "HTTP/1.1 200 OK", which begins each answer, also the one behind "100 Continue"; then headers. */
static size_t on_header(char *line, size_t one, size_t n, void *arg)
{
    struct exchange *x = arg;
    struct dt_http_answer *a = x->a;
    int status;
    (void)one;
    if (n >= 12 && sscanf(line, "HTTP/%*3[0-9.] %3d", &status) == 1) {
        a->status = status;
        dt_buf_clear(&a->headers);
        return n;
    }
    if (n > DT_HTTP_HEADERS - a->headers.len) {
        x->flooded = true;
        return 0;
    }
    dt_buf_put(&a->headers, line, n);
    x->out_of_memory = a->headers.bad;
    return x->out_of_memory ? 0 : n;
}

static size_t keep(struct exchange *x, const void *bytes, size_t n)
{
    dt_buf_put(&x->a->body, bytes, n);
    x->out_of_memory = x->a->body.bad;
    return x->out_of_memory ? 0 : n;
}

static size_t on_body(char *bytes, size_t one, size_t n, void *arg)
{
    struct exchange *x = arg;
    struct dt_http_answer *a = x->a;
    (void)one;
    if (a->status < 200 || a->status > 299) {
        size_t room = DT_HTTP_COMPLAINT - a->body.len;
        return keep(x, bytes, n < room ? n : room) || room == 0 ? n : 0;
    }
    if (x->r->take) {
        x->refused = x->r->take(x->r->arg, a, (struct dt_bytes){(const uint8_t *)bytes, n}) != 0;
        return x->refused ? 0 : n;
    }
    if (n > x->r->body_max - a->body.len) {
        x->flooded = true;
        return 0;
    }
    return keep(x, bytes, n);
}

/* Comes about once a second while nothing moves, and more often else. */
static int on_moved(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                    curl_off_t up)
{
    struct exchange *x = arg;
    (void)down_total, (void)down, (void)up_total;
    if (x->r->on_sent)
        x->r->on_sent(x->r->arg, (uint64_t)up);
    return x->r->stop && atomic_load(x->r->stop);
}

static void set_method(CURL *c, const struct dt_http_request *r)
{
    if (strcmp(r->method, "HEAD") == 0) {
        curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    } else if (strcmp(r->method, "PUT") == 0 || strcmp(r->method, "POST") == 0) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, r->body.len ? (const char *)r->body.at : "");
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.len);
        curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, r->method);
    } else {
        curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, r->method);
    }
}

static void set_limits(CURL *c, const struct dt_http_request *r)
{
    curl_easy_setopt(c, CURLOPT_MAX_SEND_SPEED_LARGE, (curl_off_t)r->bandwidth);
    curl_easy_setopt(c, CURLOPT_MAX_RECV_SPEED_LARGE, (curl_off_t)r->bandwidth);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)((r->patience + 999) / 1000));
    if (r->connect_patience)
        curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)r->connect_patience);
    curl_easy_setopt(c, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 512L << 10);
}

/* The environment's proxies and, without .ca_file, the system's certificates are libcurl's to find.
 * Redirects are not followed: a request is signed for one host. */
static void set_up(CURL *c, struct exchange *x)
{
    const struct dt_http_request *r = x->r;
    curl_easy_reset(c);
    curl_easy_setopt(c, CURLOPT_URL, r->url);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "dtrun/" DT_VERSION);
    curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, x->a->why);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_moved);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, x);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    if (r->no_proxy)
        curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    if (r->ca_file)
        curl_easy_setopt(c, CURLOPT_CAINFO, r->ca_file);
    set_limits(c, r);
    set_method(c, r);
}

static enum dt_http_end end_of(CURLcode code, const struct exchange *x)
{
    switch (code) {
    case CURLE_OK:
        return DT_HTTP_ANSWERED;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
        return DT_HTTP_UNREACHED;
    case CURLE_ABORTED_BY_CALLBACK:
        return DT_HTTP_STOPPED;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CERTPROBLEM:
        return DT_HTTP_UNTRUSTED;
    case CURLE_OUT_OF_MEMORY:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_BAD_FUNCTION_ARGUMENT:
        return DT_HTTP_LOCAL;
    case CURLE_WRITE_ERROR:
        return x->out_of_memory           ? DT_HTTP_LOCAL
               : x->refused || x->flooded ? DT_HTTP_REFUSED
                                          : DT_HTTP_LOST;
    default:
        return DT_HTTP_LOST;
    }
}

static void say(CURLcode code, const struct exchange *x)
{
    char *why = x->a->why;
    size_t size = sizeof x->a->why;
    if (x->flooded)
        snprintf(why, size, "the answer is larger than any that makes sense");
    else if (x->out_of_memory)
        snprintf(why, size, "no memory for the answer");
    else if (!*why)
        snprintf(why, size, "%s", curl_easy_strerror(code));
}

_Static_assert(sizeof(((struct dt_http_answer *)0)->why) >= CURL_ERROR_SIZE, "libcurl writes it");

static enum dt_http_end exchange(void *connection, const struct dt_http_request *r,
                                 struct dt_http_answer *a)
{
    CURL *c = connection;
    struct exchange x = {.r = r, .a = a};
    struct curl_slist *headers = NULL;
    a->status = 0;
    a->why[0] = '\0';
    dt_buf_clear(&a->headers);
    dt_buf_clear(&a->body);
    set_up(c, &x);
    for (const char *const *h = r->headers; h && *h; h++) {
        struct curl_slist *longer = curl_slist_append(headers, *h);
        x.out_of_memory = x.out_of_memory || !longer;
        headers = longer ? longer : headers;
    }
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    CURLcode code = x.out_of_memory ? CURLE_OUT_OF_MEMORY : curl_easy_perform(c);
    curl_slist_free_all(headers);
    if (code != CURLE_OK)
        say(code, &x);
    curl_easy_reset(c); /* nothing of the caller's is kept */
    return end_of(code, &x);
}

static int digest(enum dt_digest kind, struct dt_bytes text, uint8_t *out)
{
    const EVP_MD *md = kind == DT_MD5 ? EVP_md5() : EVP_sha256();
    return EVP_Digest(text.len ? text.at : (const uint8_t *)"", text.len, out, NULL, md, NULL) == 1
               ? 0
               : -1;
}

static int hmac_sha256(struct dt_bytes key, struct dt_bytes text, uint8_t out[DT_SHA256_SIZE])
{
    unsigned int len = DT_SHA256_SIZE;
    return HMAC(EVP_sha256(), key.at, (int)key.len, text.at, text.len, out, &len) ? 0 : -1;
}

extern const struct dt_curl_table dt_plugin;
DT_PLUGIN_EXPORT const struct dt_curl_table dt_plugin = {
    .head = {.abi = DT_CURL_ABI, .size = sizeof(struct dt_curl_table)},
    .start = start,
    .open = open_connection,
    .close = close_connection,
    .exchange = exchange,
    .digest = digest,
    .hmac_sha256 = hmac_sha256,
};
