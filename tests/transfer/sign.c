/* SPDX-License-Identifier: Apache-2.0 */
/* sign: reads requests, a line each, fields between tabs: METHOD, HOST, PATH, STAMP as seconds, the
 * body's SHA-256, and NAME=VALUE of the query. Prints the header Authorization of each. */
#include "base/transfer/date.h"
#include "base/transfer/sigv4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int sign(const struct dt_curl_table *lib, char *line, struct dt_buf *out)
{
    const struct dt_keys keys = {.id = "AKIAIOSFODNN7EXAMPLE",
                                 .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
    char stamp[DT_DATE_STAMP], *save = NULL;
    struct dt_sigv4_request r = {.method = strtok_r(line, "\t", &save)};
    const char *host = strtok_r(NULL, "\t", &save);
    r.path = strtok_r(NULL, "\t", &save);
    int64_t seconds = atoll(strtok_r(NULL, "\t", &save));
    r.payload = strtok_r(NULL, "\t", &save);
    for (size_t i = 0; i < DT_SIGV4_PAIRS; i++) {
        char *pair = strtok_r(NULL, "\t", &save), *value = pair ? strchr(pair, '=') : NULL;
        if (!value)
            break;
        *value = '\0';
        r.query[i] = (struct dt_sigv4_pair){pair, value + 1};
    }
    dt_date_stamp(seconds, stamp);
    r.headers[0] = (struct dt_sigv4_pair){"host", host};
    r.headers[1] = (struct dt_sigv4_pair){"x-amz-date", stamp};
    r.headers[2] = (struct dt_sigv4_pair){"x-amz-content-sha256", r.payload};
    return dt_sigv4_sign(lib, &r, &keys, "eu-central-1", "s3", seconds, out);
}

int main(void)
{
    char line[8192];
    struct dt_err err;
    const struct dt_curl_table *lib = dt_http_open(&err);
    if (!lib) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        struct dt_buf out = {0};
        line[strcspn(line, "\n")] = '\0';
        if (sign(lib, line, &out) < 0)
            return 1;
        printf("%s\n", dt_buf_cstr(&out));
        dt_buf_finish(&out);
    }
    return 0;
}
