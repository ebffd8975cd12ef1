/* SPDX-License-Identifier: Apache-2.0 */
/* Where objects are kept, as people write it: s3://BUCKET/PREFIX or file:///FOLDER. And where a
 * server of objects listens: https://HOST:PORT/PATH. Pure. */
#ifndef DT_BASE_TRANSFER_URL_H
#define DT_BASE_TRANSFER_URL_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT_KEY_MAX 1024 /* bytes of an object's whole key, as S3 limits it */
#define DT_URL_TEXT (DT_KEY_MAX + 80)

enum dt_url_scheme { DT_URL_S3, DT_URL_FILE };

struct dt_url {
    enum dt_url_scheme scheme;
    char bucket[64];           /* "" for a folder */
    char path[DT_KEY_MAX + 1]; /* the prefix, without slashes at its ends, maybe ""; of a folder its
                                * absolute path */
};

/* Whether TEXT is a URL, and no path: one that begins with a scheme and "://". Any scheme: what
 * dt_url_parse() does not know it refuses with a reason. */
bool dt_url_is_one(const char *text);

/* "s3://bucket", "s3://bucket/a/b/", "file:///a/b". Empty parts, "." and ".." are refused, so that
 * a prefix means the same in a store and in a folder. DT_E_USAGE and a sentence that shows what
 * would do. */
int dt_url_parse(const char *text, struct dt_url *url, struct dt_err *err);

/* URL with "/KEY" behind it, for sentences; without a key (NULL) it can be parsed again. Cut to
 * SIZE. */
const char *dt_url_text(const struct dt_url *url, const char *key, char *out, size_t size);

/* Whether KEY can be the path of a file below a folder: no empty part, ".", "..", control character
 * or slash at an end. A key that a listing tells may be anything: ask before you make a path of it.
 */
bool dt_url_is_file_key(const char *key);

struct dt_http_endpoint {
    bool tls;
    char host[256]; /* an IPv6 address in its brackets */
    uint16_t port;
    char path[128]; /* "" or "/PATH", without a slash at its end */
};

/* "https://host", "http://127.0.0.1:9000", "http://[::1]:9000/base". A query, a fragment, or a name
 * and password are refused. */
int dt_http_endpoint_parse(const char *text, struct dt_http_endpoint *endpoint, struct dt_err *err);

/* What the hosts of Amazon's services in REGION end in. */
const char *dt_amazon_domain(const char *region);

#endif
