/* SPDX-License-Identifier: Apache-2.0 */
/* dt_curl.so: what we want of libcurl, and of the library of digests behind it. */
#include "base/list.h"
#include "base/transfer/http.h"
#include "base/transfer/pace.h"

#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(((struct dt_http_answer *)0)->why) >= CURL_ERROR_SIZE, "libcurl writes it");

#define LOOK_EVERY ((dt_ms)100) /* at the flag that stops a request */
/* Larger bodies wait for "100 Continue", as a refusal may come instead. */
#define WAITS_FOR_LEAVE ((size_t)1 << 20)

/* What open() gives. */
struct connections {
    CURLM *multi;
    struct dt_pace pace;
    struct dt_list queue; /* of those that wait until the pace lets them send; the first is next */
};

struct exchange {
    struct connections *all;
    struct dt_http_exchange *x;
    CURL *easy;
    struct curl_slist *headers;
    struct dt_node in_queue;
    size_t sent;  /* bytes of the body that libcurl has taken */
    bool is_next; /* it has left the queue and has not sent since */
    bool refused, out_of_memory, flooded;
};

static int start(void)
{
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0 : -1;
}

static void *open_connections(void)
{
    struct connections *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    dt_list_init(&all->queue);
    all->multi = curl_multi_init();
    if (all->multi)
        return all;
    free(all);
    return NULL;
}

static void close_connections(void *connections)
{
    struct connections *all = connections;
    curl_multi_cleanup(all->multi);
    free(all);
}

/* -- what libcurl calls ----------------------------------------------------------------------- */

/* "HTTP/1.1 200 OK", which begins each answer, also the one behind "100 Continue"; then headers. */
static size_t on_header(char *line, size_t one, size_t n, void *arg)
{
    struct exchange *x = arg;
    struct dt_http_answer *a = &x->x->answer;
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
    dt_buf_put(&x->x->answer.body, bytes, n);
    x->out_of_memory = x->x->answer.body.bad;
    return x->out_of_memory ? 0 : n;
}

static size_t on_body(char *bytes, size_t one, size_t n, void *arg)
{
    struct exchange *x = arg;
    const struct dt_http_request *r = &x->x->request;
    struct dt_http_answer *a = &x->x->answer;
    (void)one;
    if (a->status < 200 || a->status > 299) {
        size_t room = DT_HTTP_COMPLAINT - a->body.len;
        return keep(x, bytes, n < room ? n : room) || room == 0 ? n : 0;
    }
    if (r->take) {
        x->refused = r->take(r->arg, a, (struct dt_bytes){(const uint8_t *)bytes, n}) != 0;
        return x->refused ? 0 : n;
    }
    if (n > r->body_max - a->body.len) {
        x->flooded = true;
        return 0;
    }
    return keep(x, bytes, n);
}

/* Comes about once a second while nothing moves, and more often else. */
static int on_moved(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                    curl_off_t up)
{
    const struct exchange *x = arg;
    const struct dt_http_request *r = &x->x->request;
    (void)down_total, (void)down, (void)up_total;
    if (r->on_sent)
        r->on_sent(r->arg, (uint64_t)up);
    return r->stop && atomic_load(r->stop);
}

/* How many of N bytes may go; 0: none now, and it has a place in the queue. Who was not called out
 * of the queue does not overtake it. */
static size_t take_turn(struct exchange *x, size_t n)
{
    struct connections *all = x->all;
    uint64_t rate = x->x->request.bandwidth;
    bool may = x->is_next || dt_list_empty(&all->queue);
    x->is_next = false;
    n = may ? dt_pace_take(&all->pace, rate, n, dt_clock_monotonic_ns()) : 0;
    dt_list_remove(&x->in_queue);
    if (n == 0)
        dt_list_append(&all->queue, &x->in_queue);
    return n;
}

static size_t on_send(char *to, size_t one, size_t room, void *arg)
{
    struct exchange *x = arg;
    const struct dt_http_request *r = &x->x->request;
    size_t left = r->body.len - x->sent, n = room * one < left ? room * one : left;
    if (n && r->bandwidth && (n = take_turn(x, n)) == 0)
        return CURL_READFUNC_PAUSE;
    dt_bytes_copy(to, (struct dt_bytes){r->body.at + x->sent, n});
    x->sent += n;
    return n;
}

/* libcurl found out too late that a connection was dead, and takes another one. */
static int on_rewind(void *arg, curl_off_t to, int origin)
{
    struct exchange *x = arg;
    if (origin != SEEK_SET || to < 0 || (uint64_t)to > x->x->request.body.len)
        return CURL_SEEKFUNC_FAIL;
    x->sent = (size_t)to;
    return CURL_SEEKFUNC_OK;
}

/* -- beginning one ---------------------------------------------------------------------------- */

static void set_put(struct exchange *x)
{
    CURL *c = x->easy;
    curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)x->x->request.body.len);
    curl_easy_setopt(c, CURLOPT_READFUNCTION, on_send);
    curl_easy_setopt(c, CURLOPT_READDATA, x);
    curl_easy_setopt(c, CURLOPT_SEEKFUNCTION, on_rewind);
    curl_easy_setopt(c, CURLOPT_SEEKDATA, x);
}

static void set_method(struct exchange *x)
{
    CURL *c = x->easy;
    const struct dt_http_request *r = &x->x->request;
    if (strcmp(r->method, "HEAD") == 0) {
        curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    } else if (strcmp(r->method, "PUT") == 0) {
        set_put(x);
    } else if (strcmp(r->method, "POST") == 0) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, r->body.len ? (const char *)r->body.at : "");
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.len);
    } else {
        curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, r->method);
    }
}

static void set_limits(CURL *c, const struct dt_http_request *r)
{
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
static void set_up(struct exchange *x)
{
    CURL *c = x->easy;
    const struct dt_http_request *r = &x->x->request;
    curl_easy_setopt(c, CURLOPT_URL, r->url);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, x->headers);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "dtrun/" DT_VERSION);
    curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, x->x->answer.why);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_moved);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, x);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_PRIVATE, x);
    if (r->no_proxy)
        curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    if (r->ca_file)
        curl_easy_setopt(c, CURLOPT_CAINFO, r->ca_file);
    set_limits(c, r);
    set_method(x);
}

static int put_header(struct exchange *x, const char *line)
{
    struct curl_slist *longer = curl_slist_append(x->headers, line);
    x->headers = longer ? longer : x->headers;
    return longer ? 0 : -1;
}

static int put_headers(struct exchange *x)
{
    const struct dt_http_request *r = &x->x->request;
    for (const char *const *h = r->headers; h && *h; h++)
        if (put_header(x, *h) < 0)
            return -1;
    return r->body.len > WAITS_FOR_LEAVE ? 0 : put_header(x, "Expect:");
}

static void drop(struct exchange *x)
{
    if (x->easy) {
        curl_multi_remove_handle(x->all->multi, x->easy);
        curl_easy_cleanup(x->easy);
    }
    curl_slist_free_all(x->headers);
    dt_list_remove(&x->in_queue);
    x->x->inner = NULL;
    free(x);
}

static int begin(void *connections, struct dt_http_exchange *under_way)
{
    struct exchange *x = calloc(1, sizeof *x);
    struct dt_http_answer *a = &under_way->answer;
    if (!x)
        return -1;
    x->all = connections;
    x->x = under_way;
    dt_node_init(&x->in_queue);
    under_way->inner = x;
    a->status = 0;
    a->why[0] = '\0';
    dt_buf_clear(&a->headers);
    dt_buf_clear(&a->body);
    x->easy = curl_easy_init();
    if (x->easy && put_headers(x) == 0) {
        set_up(x);
        if (curl_multi_add_handle(x->all->multi, x->easy) == CURLM_OK)
            return 0;
    }
    drop(x);
    return -1;
}

/* -- ending one ------------------------------------------------------------------------------- */

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
    char *why = x->x->answer.why;
    size_t size = sizeof x->x->answer.why;
    if (x->flooded)
        snprintf(why, size, "the answer is larger than any that makes sense");
    else if (x->out_of_memory)
        snprintf(why, size, "no memory for the answer");
    else if (!*why)
        snprintf(why, size, "%s", curl_easy_strerror(code));
}

static struct dt_http_exchange *end_one(CURLMsg *m)
{
    char *private = NULL;
    CURLcode code = m->data.result;
    curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &private);
    struct exchange *x = (struct exchange *)private;
    struct dt_http_exchange *over = x->x;
    if (code != CURLE_OK)
        say(code, x);
    over->end = end_of(code, x);
    drop(x);
    return over;
}

static void call_off(void *connections, struct dt_http_exchange *x)
{
    (void)connections;
    if (x->inner)
        drop(x->inner);
}

/* -- waiting ---------------------------------------------------------------------------------- */

/* Lets the first of the queue send, if its time has come. How long until then; DT_FOREVER where
 * nobody waits. */
static dt_ms call_next(struct connections *all)
{
    struct dt_node *first = dt_list_first(&all->queue);
    int64_t left = all->pace.paid_until - dt_clock_monotonic_ns();
    if (!first)
        return DT_FOREVER;
    if (left > 0)
        return (left + 999999) / 1000000;
    struct exchange *x = dt_container_of(first, struct exchange, in_queue);
    dt_list_remove(first);
    x->is_next = true;
    curl_easy_pause(x->easy, CURLPAUSE_CONT);
    return 0;
}

static struct dt_http_exchange *wait_for_one(void *connections, dt_ms timeout)
{
    struct connections *all = connections;
    int running, left;
    dt_ms until_next = call_next(all);
    curl_multi_perform(all->multi, &running);
    CURLMsg *m = curl_multi_info_read(all->multi, &left);
    if (m)
        return end_one(m);
    timeout = until_next < timeout ? until_next : timeout;
    curl_multi_poll(all->multi, NULL, 0, (int)timeout, NULL);
    return NULL;
}

static void wake(void *connections)
{
    struct connections *all = connections;
    curl_multi_wakeup(all->multi);
}

static enum dt_http_end exchange(void *connections, const struct dt_http_request *r,
                                 struct dt_http_answer *a)
{
    struct dt_http_exchange x = {.request = *r, .answer = *a, .end = DT_HTTP_LOCAL};
    if (begin(connections, &x) == 0)
        while (!wait_for_one(connections, LOOK_EVERY))
            ;
    else
        snprintf(x.answer.why, sizeof x.answer.why, "no memory for a request");
    *a = x.answer;
    return x.end;
}

/* -- digests ---------------------------------------------------------------------------------- */

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
    .open = open_connections,
    .close = close_connections,
    .exchange = exchange,
    .begin = begin,
    .wait = wait_for_one,
    .wake = wake,
    .call_off = call_off,
    .digest = digest,
    .hmac_sha256 = hmac_sha256,
};
