/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/http.h"

#include "base/str.h"

#include <string.h>
#include <strings.h>

const struct dt_curl_table *dt_http_open(struct dt_err *err)
{
    const struct dt_curl_table *lib =
        dt_plugin_open("base/transfer/curl", DT_CURL_ABI, sizeof *lib, err);
    if (!lib) {
        dt_err_wrap(err, "object storage takes libcurl");
        return NULL;
    }
    if (lib->start() < 0) {
        dt_err_set(err, DT_E_RUNTIME, "libcurl cannot be used on this host: it does not start");
        return NULL;
    }
    return lib;
}

void dt_http_answer_finish(struct dt_http_answer *a)
{
    dt_buf_finish(&a->headers);
    dt_buf_finish(&a->body);
}

/* The value of LINE if that is the header NAME. */
static struct dt_bytes value_of(struct dt_bytes line, const char *name)
{
    size_t n = strlen(name);
    if (line.len <= n || line.at[n] != ':' || strncasecmp((const char *)line.at, name, n) != 0)
        return (struct dt_bytes){0};
    line.at += n + 1;
    line.len -= n + 1;
    while (line.len && (*line.at == ' ' || *line.at == '\t'))
        line.at++, line.len--;
    while (line.len && strchr(" \t\r", line.at[line.len - 1]))
        line.len--;
    return line;
}

/* A value may go into another request. */
static bool has_control(struct dt_bytes value)
{
    for (size_t i = 0; i < value.len; i++)
        if (value.at[i] < ' ' && value.at[i] != '\t')
            return true;
    return false;
}

const char *dt_http_header(const struct dt_http_answer *a, const char *name, char *out, size_t size)
{
    const uint8_t *at = a->headers.at, *end = at ? at + a->headers.len : NULL;
    out[0] = '\0';
    while (at < end) {
        const uint8_t *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end)
            break;
        struct dt_bytes value = value_of((struct dt_bytes){at, (size_t)(line_end - at)}, name);
        at = line_end + 1;
        if (!value.at || value.len >= size || has_control(value))
            continue;
        dt_bytes_copy(out, value);
        out[value.len] = '\0';
    }
    return out;
}

int64_t dt_http_header_number(const struct dt_http_answer *a, const char *name)
{
    char text[32];
    int64_t n;
    return dt_str_to_int(dt_http_header(a, name, text, sizeof text), 0, INT64_MAX, &n, NULL) < 0
               ? -1
               : n;
}
