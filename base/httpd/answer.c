/* SPDX-License-Identifier: Apache-2.0 */
#include "base/httpd/httpd.h"
#include "base/json_write.h"

#include <assert.h>
#include <string.h>

void dt_httpd_answer_header(struct dt_httpd_answer *a, const char *name, const char *value)
{
    assert(a->headers_len < DT_HTTPD_HEADERS);
    a->headers[a->headers_len].name = name;
    a->headers[a->headers_len++].value = value;
}

void dt_httpd_answer_refuse(struct dt_httpd_answer *a, int status, const char *why)
{
    a->status = status;
    a->type = "application/json";
    dt_buf_clear(&a->body);
    struct dt_json_writer w = {.out = &a->body};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "error", why);
    dt_json_put_end(&w);
    dt_buf_put_u8(&a->body, '\n');
}

bool dt_httpd_answer_reads(const struct dt_httpd_request *q, struct dt_httpd_answer *a)
{
    if (strcmp(q->method, "GET") == 0 || strcmp(q->method, "HEAD") == 0)
        return true;
    dt_httpd_answer_header(a, "Allow", "GET, HEAD");
    dt_httpd_answer_refuse(a, 405, "GET it");
    return false;
}
