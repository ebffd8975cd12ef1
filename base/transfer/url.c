/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/url.h"

#include "base/str.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define SHOWN 120 /* of a text that is no URL, in sentences */

bool dt_url_is_one(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+.-");
    return n > 0 && strncmp(text + n, "://", 3) == 0;
}

/* Whether each of the parts between slashes can be the name of a file. */
static bool parts_are_names(const char *path)
{
    for (const char *part = path;; part++) {
        size_t n = strcspn(part, "/");
        if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part += n;
        if (!*part)
            return true;
    }
}

static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return true;
    return false;
}

bool dt_url_is_file_key(const char *key)
{
    return strlen(key) <= DT_KEY_MAX && !has_control(key) && parts_are_names(key);
}

/* As Amazon names buckets, and a little more (capitals and "_"), which other servers and its old
 * buckets have. */
static bool is_bucket(const char *name, size_t len)
{
    if (len < 3 || len > 63 || !isalnum((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("-._", name[i]))
            return false;
    return true;
}

static int refuse(const char *text, const char *why, struct dt_err *err)
{
    char shown[SHOWN];
    return dt_err_set(err, DT_E_USAGE,
                      "\"%s\" is no place for objects: %s; write s3://BUCKET/PREFIX or "
                      "file:///FOLDER",
                      dt_str_printable(dt_bytes_of(text), shown, sizeof shown), why);
}

/* PATH without slashes at its end becomes the URL's. */
static int take_path(struct dt_url *url, const char *path, const char *text, struct dt_err *err)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    if (n > DT_KEY_MAX)
        return refuse(text, "it is too long", err);
    memcpy(url->path, path, n);
    url->path[n] = '\0';
    const char *parts = url->scheme == DT_URL_FILE && n > 0 ? url->path + 1 : url->path;
    if (n > 0 && !parts_are_names(parts))
        return refuse(text, "its path has an empty part, \".\" or \"..\"", err);
    return 0;
}

static int parse_s3(const char *rest, const char *text, struct dt_url *url, struct dt_err *err)
{
    size_t n = strcspn(rest, "/");
    if (!is_bucket(rest, n))
        return refuse(text, "that is no name of a bucket", err);
    url->scheme = DT_URL_S3;
    memcpy(url->bucket, rest, n);
    return take_path(url, rest[n] ? rest + n + 1 : "", text, err);
}

static int parse_file(const char *rest, const char *text, struct dt_url *url, struct dt_err *err)
{
    url->scheme = DT_URL_FILE;
    if (rest[0] != '/')
        return refuse(text, "file:// takes an absolute path", err);
    if (rest[strspn(rest, "/")] == '\0')
        return refuse(text, "that is the root of all files", err);
    return take_path(url, rest, text, err);
}

int dt_url_parse(const char *text, struct dt_url *url, struct dt_err *err)
{
    *url = (struct dt_url){0};
    if (has_control(text))
        return refuse(text, "it has a control character", err);
    if (strpbrk(text, "?#"))
        return refuse(text, "a query or fragment means nothing here", err);
    if (strncmp(text, "s3://", 5) == 0)
        return parse_s3(text + 5, text, url, err);
    if (strncmp(text, "file://", 7) == 0)
        return parse_file(text + 7, text, url, err);
    return refuse(text, dt_url_is_one(text) ? "nothing here speaks that scheme" : "it is no URL",
                  err);
}

const char *dt_url_text(const struct dt_url *url, const char *key, char *out, size_t size)
{
    const char *path = url->path;
    bool is_file = url->scheme == DT_URL_FILE;
    snprintf(out, size, "%s%s%s%s%s%s", is_file ? "file://" : "s3://", url->bucket,
             *path && !is_file ? "/" : "", path, key && *key ? "/" : "", key ? key : "");
    return out;
}

static int refuse_endpoint(const char *text, const char *why, struct dt_err *err)
{
    char shown[SHOWN];
    /* A name and password may stand in front of the "@". */
    if (strchr(text, '@'))
        return dt_err_set(err, DT_E_USAGE, "that is no endpoint: %s; write https://HOST:PORT", why);
    return dt_err_set(err, DT_E_USAGE, "\"%s\" is no endpoint: %s; write https://HOST:PORT",
                      dt_str_printable(dt_bytes_of(text), shown, sizeof shown), why);
}

static bool is_host(const char *host)
{
    if (host[0] == '[')
        return strspn(host + 1, "0123456789abcdefABCDEF:.") == strlen(host) - 2;
    return strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") ==
           strlen(host);
}

/* "HOST" or "HOST:PORT", of LEN characters. */
static const char *take_authority(const char *at, size_t len, struct dt_http_endpoint *e)
{
    const char *bracket = at[0] == '[' ? memchr(at, ']', len) : NULL;
    size_t host = bracket ? (size_t)(bracket - at) + 1 : strcspn(at, ":/");
    if (host == 0 || host > len || host >= sizeof e->host)
        return "its host is missing or too long";
    memcpy(e->host, at, host);
    e->host[host] = '\0';
    if (!is_host(e->host))
        return "that is no name of a host";
    if (host == len)
        return NULL;
    char port[8] = "";
    int64_t n;
    if (at[host] != ':' || len - host - 1 >= sizeof port)
        return "its port is no number";
    memcpy(port, at + host + 1, len - host - 1);
    if (dt_str_to_int(port, 1, 65535, &n, NULL) < 0)
        return "its port is no number from 1 to 65535";
    e->port = (uint16_t)n;
    return NULL;
}

int dt_http_endpoint_parse(const char *text, struct dt_http_endpoint *e, struct dt_err *err)
{
    *e = (struct dt_http_endpoint){0};
    if (has_control(text) || strpbrk(text, "?# \"\\%"))
        return refuse_endpoint(text, "it has a query, a fragment, or what no URL has", err);
    e->tls = strncmp(text, "https://", 8) == 0;
    if (!e->tls && strncmp(text, "http://", 7) != 0)
        return refuse_endpoint(text, "it begins with neither https:// nor http://", err);
    e->port = e->tls ? 443 : 80;
    const char *at = text + (e->tls ? 8 : 7);
    size_t len = strcspn(at, "/");
    if (memchr(at, '@', len))
        return refuse_endpoint(text, "credentials do not belong into it", err);
    const char *why = take_authority(at, len, e);
    if (why)
        return refuse_endpoint(text, why, err);
    const char *path = at + len;
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    if (n >= sizeof e->path)
        return refuse_endpoint(text, "its path is too long", err);
    memcpy(e->path, path, n);
    if (n > 0 && !parts_are_names(e->path + 1))
        return refuse_endpoint(text, "its path has an empty part, \".\" or \"..\"", err);
    return 0;
}

const char *dt_amazon_domain(const char *region)
{
    return strncmp(region, "cn-", 3) == 0 ? "amazonaws.com.cn" : "amazonaws.com";
}
