/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/nearby.h"

#include "base/fs.h"
#include "base/json.h"
#include "base/transfer/answers.h"
#include "base/transfer/date.h"
#include "base/transfer/pause.h"
#include "base/transfer/retry.h"
#include "base/transfer/url.h"

#include <stdio.h>
#include <string.h>

#define ATTEMPTS 3
#define CONNECT_PATIENCE (2 * DT_SECOND)
#define PATIENCE (5 * DT_SECOND)
#define ANSWER_MAX ((size_t)16 << 10)
#define TOKEN_MAX ((size_t)16 << 10)

/* One conversation: questions one after the other on one connection. */
struct talk {
    const struct dt_curl_table *lib;
    void *connection;
    struct dt_http_request r;
    struct dt_http_answer a;
    struct dt_buf url, header, body;
    const char *headers[2];
};

static int begin(struct talk *t, const struct dt_curl_table *lib, const atomic_bool *stop,
                 struct dt_err *err)
{
    *t = (struct talk){.lib = lib, .connection = lib->open()};
    t->r = (struct dt_http_request){
        .method = "GET",
        .headers = t->headers,
        .body_max = ANSWER_MAX,
        .connect_patience = CONNECT_PATIENCE,
        .patience = PATIENCE,
        .no_proxy = true,
        .stop = stop,
    };
    return t->connection ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for a connection");
}

static void wipe(struct dt_buf *b)
{
    if (b->base)
        explicit_bzero(b->base, b->size);
    dt_buf_finish(b);
}

static void end(struct talk *t)
{
    if (t->connection)
        t->lib->close(t->connection);
    wipe(&t->a.body);
    wipe(&t->header);
    wipe(&t->body);
    dt_buf_finish(&t->url);
    dt_http_answer_finish(&t->a);
}

static int say(const struct talk *t, enum dt_http_end ended, const char *code, struct dt_err *err)
{
    if (ended == DT_HTTP_STOPPED)
        return dt_err_set(err, DT_E_CANCELED, "it was stopped");
    if (ended != DT_HTTP_ANSWERED)
        return dt_err_set(err, DT_E_RUNTIME, "%s", t->a.why);
    return dt_err_set(err, DT_E_RUNTIME, "it answers %d%s%s", t->a.status, *code ? " " : "", code);
}

/* One question, with a few attempts. The answer is one of 2xx. */
static int ask(struct talk *t, struct dt_err *err)
{
    struct dt_retry retry;
    t->r.url = dt_buf_cstr(&t->url);
    t->headers[0] = t->header.len ? dt_buf_cstr(&t->header) : NULL;
    t->r.body = (struct dt_bytes){t->body.at, t->body.len};
    if (t->url.bad || t->header.bad || t->body.bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a request");
    dt_retry_init(&retry, ATTEMPTS, (uint64_t)dt_clock_monotonic_ns());
    for (;;) {
        dt_ms pause;
        struct dt_answer_error e = {0};
        struct dt_retry_facts f = {.code = e.code};
        f.end = t->lib->exchange(t->connection, &t->r, &t->a);
        f.status = t->a.status;
        bool is_well = f.status >= 200 && f.status < 300;
        if (f.end == DT_HTTP_ANSWERED && !is_well)
            dt_answer_error((struct dt_bytes){t->a.body.at, t->a.body.len}, &e);
        enum dt_retry_move move = dt_retry_decide(&retry, &f, &pause);
        if (move == DT_RETRY_DONE)
            return 0;
        if (move != DT_RETRY_AGAIN)
            return say(t, f.end, e.code, err);
        if (dt_pause(pause, t->r.stop) < 0)
            return say(t, DT_HTTP_STOPPED, "", err);
    }
}

static bool is_one_line(struct dt_buf *text)
{
    return text->len > 0 && !strpbrk(dt_buf_cstr(text), "\r\n");
}

/* Appends the token that a file holds, without the newline at its end. */
static int put_token(struct dt_buf *out, const char *path, struct dt_err *err)
{
    struct dt_buf text = {0};
    int rc = dt_fs_read(path, TOKEN_MAX, &text, err);
    while (rc == 0 && text.len && strchr(" \r\n", text.at[text.len - 1]))
        text.len--;
    if (rc == 0 && (!is_one_line(&text) || strlen(dt_buf_cstr(&text)) != text.len))
        rc = dt_err_set(err, DT_E_USAGE, "%.300s holds no token", path);
    if (rc == 0)
        dt_buf_put(out, text.at, text.len);
    wipe(&text);
    return rc;
}

static int keep(char *to, size_t size, const struct dt_json *doc, const char *name,
                struct dt_err *err)
{
    const char *text;
    /* What is said of a document shows parts of it, so nothing of that is passed on. */
    if (dt_json_string(doc, NULL, name, &text, NULL) < 0 || strlen(text) >= size ||
        strpbrk(text, "\r\n"))
        return dt_err_set(err, DT_E_PROTOCOL, "its answer has no %s that could be one", name);
    strcpy(to, text);
    return 0;
}

static int take_json(struct dt_keys *keys, const struct dt_buf *text, struct dt_err *err)
{
    struct dt_json doc;
    char expires[40];
    if (dt_json_parse(&doc, text->len ? (const char *)text->at : "", text->len, ANSWER_MAX, NULL) <
        0)
        return dt_err_set(err, DT_E_PROTOCOL, "it answers what is no JSON");
    int rc = 0;
    if (keep(keys->id, sizeof keys->id, &doc, "AccessKeyId", err) < 0 ||
        keep(keys->secret, sizeof keys->secret, &doc, "SecretAccessKey", err) < 0 ||
        keep(keys->token, sizeof keys->token, &doc, "Token", err) < 0 ||
        keep(expires, sizeof expires, &doc, "Expiration", err) < 0)
        rc = -1;
    else if (!dt_date_of_iso(expires, &keys->expires))
        rc = dt_err_set(err, DT_E_PROTOCOL, "its answer has no Expiration that could be one");
    dt_json_finish(&doc);
    return rc;
}

/* -- the machine ------------------------------------------------------------------------------ */

/* The name of the role that the machine has: the first line of the answer. */
static int put_role(struct talk *t, struct dt_err *err)
{
    char role[256];
    const char *text = dt_buf_cstr(&t->a.body);
    size_t n = strcspn(text, "\r\n");
    if (n == 0 || n >= sizeof role)
        return dt_err_set(err, DT_E_RUNTIME, "the machine has no role");
    memcpy(role, text, n);
    role[n] = '\0';
    dt_url_encode(&t->url, role, false);
    return 0;
}

static int ask_machine(struct talk *t, const char *base, struct dt_keys *keys, struct dt_err *err)
{
    t->r.method = "PUT";
    dt_buf_put_str(&t->header, "X-aws-ec2-metadata-token-ttl-seconds: 21600");
    dt_buf_printf(&t->url, "%s/latest/api/token", base);
    if (ask(t, err) < 0)
        return -1;
    if (!is_one_line(&t->a.body))
        return dt_err_set(err, DT_E_PROTOCOL, "it answers without a token");
    t->r.method = "GET";
    dt_buf_clear(&t->header);
    dt_buf_printf(&t->header, "X-aws-ec2-metadata-token: %s", dt_buf_cstr(&t->a.body));
    dt_buf_clear(&t->url);
    dt_buf_printf(&t->url, "%s/latest/meta-data/iam/security-credentials/", base);
    if (ask(t, err) < 0 || put_role(t, err) < 0 || ask(t, err) < 0)
        return -1;
    return take_json(keys, &t->a.body, err);
}

int dt_nearby_machine(const struct dt_curl_table *lib, const char *endpoint,
                      const atomic_bool *stop, struct dt_keys *keys, struct dt_err *err)
{
    struct dt_http_endpoint e;
    struct talk t;
    char base[sizeof e.host + sizeof e.path + 20];
    if (dt_http_endpoint_parse(endpoint ? endpoint : "http://169.254.169.254", &e, err) < 0)
        return dt_err_wrap(err, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    snprintf(base, sizeof base, "http%s://%s:%u%s", e.tls ? "s" : "", e.host, e.port, e.path);
    int rc = begin(&t, lib, stop, err);
    if (rc == 0)
        rc = ask_machine(&t, base, keys, err);
    end(&t);
    return rc;
}

/* -- a container ------------------------------------------------------------------------------ */

static bool is_near(const struct dt_http_endpoint *e)
{
    static const char *const hosts[] = {"localhost",     "127.0.0.1",      "[::1]",
                                        "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (strcmp(e->host, hosts[i]) == 0)
            return true;
    return false;
}

/* The path may have a query, which an endpoint of ours has not. */
static int put_container_url(struct talk *t, const struct dt_container_endpoint *where,
                             struct dt_err *err)
{
    struct dt_http_endpoint e;
    const char *url = where->url;
    for (const char *c = where->path ? where->path : url; *c; c++)
        if ((unsigned char)*c <= ' ')
            return dt_err_set(err, DT_E_USAGE, "AWS_CONTAINER_CREDENTIALS_..._URI has a blank");
    if (where->path) {
        dt_buf_printf(&t->url, "http://169.254.170.2%s", where->path);
        return where->path[0] == '/' ? 0
                                     : dt_err_set(err, DT_E_USAGE,
                                                  "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not "
                                                  "begin with a slash");
    }
    char host[300];
    const char *authority = strstr(url, "://");
    size_t n = authority ? (size_t)(authority + 3 - url) : 0;
    n += strcspn(url + n, "/?#");
    if (n >= sizeof host)
        n = sizeof host - 1;
    memcpy(host, url, n);
    host[n] = '\0';
    if (dt_http_endpoint_parse(host, &e, err) < 0)
        return dt_err_wrap(err, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (!e.tls && !is_near(&e))
        return dt_err_set(err, DT_E_USAGE,
                          "AWS_CONTAINER_CREDENTIALS_FULL_URI leads to another host without TLS");
    dt_buf_put_str(&t->url, url);
    return 0;
}

static int put_authorization(struct talk *t, const struct dt_container_endpoint *where,
                             struct dt_err *err)
{
    if (!where->token && !where->token_file)
        return 0;
    dt_buf_put_str(&t->header, "Authorization: ");
    if (where->token_file)
        return put_token(&t->header, where->token_file, err);
    dt_buf_put_str(&t->header, where->token);
    return is_one_line(&t->header)
               ? 0
               : dt_err_set(err, DT_E_USAGE,
                            "AWS_CONTAINER_AUTHORIZATION_TOKEN is more than a line");
}

int dt_nearby_container(const struct dt_curl_table *lib, const struct dt_container_endpoint *where,
                        const atomic_bool *stop, struct dt_keys *keys, struct dt_err *err)
{
    struct talk t;
    int rc = begin(&t, lib, stop, err);
    if (rc == 0 && (put_container_url(&t, where, err) < 0 ||
                    put_authorization(&t, where, err) < 0 || ask(&t, err) < 0))
        rc = -1;
    if (rc == 0)
        rc = take_json(keys, &t.a.body, err);
    end(&t);
    return rc;
}

/* -- a web identity --------------------------------------------------------------------------- */

static int put_form(struct talk *t, const struct dt_web_identity *who, struct dt_err *err)
{
    struct dt_buf token = {0};
    int rc = put_token(&token, who->token_file, err);
    dt_buf_put_str(&t->body, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=");
    dt_url_encode(&t->body, who->role, false);
    dt_buf_put_str(&t->body, "&RoleSessionName=");
    dt_url_encode(&t->body, who->session ? who->session : "dtrun", false);
    dt_buf_put_str(&t->body, "&WebIdentityToken=");
    if (rc == 0)
        dt_url_encode(&t->body, dt_buf_cstr(&token), false);
    wipe(&token);
    return rc;
}

int dt_nearby_web_identity(const struct dt_curl_table *lib, const struct dt_web_identity *who,
                           const atomic_bool *stop, struct dt_keys *keys, struct dt_err *err)
{
    struct talk t;
    struct dt_http_endpoint e;
    if (who->endpoint && dt_http_endpoint_parse(who->endpoint, &e, err) < 0)
        return dt_err_wrap(err, "AWS_ENDPOINT_URL_STS");
    int rc = begin(&t, lib, stop, err);
    t.r.method = "POST";
    t.r.no_proxy = false;
    t.r.ca_file = who->ca_file;
    if (who->endpoint)
        dt_buf_put_str(&t.url, who->endpoint);
    else
        dt_buf_printf(&t.url, "https://sts.%s.%s/", who->region, dt_amazon_domain(who->region));
    dt_buf_put_str(&t.header, "Content-Type: application/x-www-form-urlencoded");
    if (rc == 0 && (put_form(&t, who, err) < 0 || ask(&t, err) < 0))
        rc = -1;
    if (rc == 0)
        rc = dt_answer_keys((struct dt_bytes){t.a.body.at, t.a.body.len}, keys, err);
    end(&t);
    return rc;
}
