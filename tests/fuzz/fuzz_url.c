/* SPDX-License-Identifier: Apache-2.0 */
/* Places, endpoints and profiles as people and files write them, of any text: what is taken is
 * taken alike when it is written again. */
#include "base/transfer/profile.h"
#include "base/transfer/url.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void check_url(const char *text)
{
    struct dt_url url, again;
    char written[DT_URL_TEXT];
    if (dt_url_parse(text, &url, NULL) < 0)
        return;
    dt_url_text(&url, NULL, written, sizeof written);
    FUZZ_CHECK(dt_url_is_one(text));
    FUZZ_CHECK(dt_url_parse(written, &again, NULL) == 0);
    FUZZ_CHECK(url.scheme == again.scheme && strcmp(url.bucket, again.bucket) == 0);
    FUZZ_CHECK(strcmp(url.path, again.path) == 0);
    FUZZ_CHECK(url.scheme == DT_URL_FILE || !*url.path || dt_url_is_file_key(url.path));
}

static void check_endpoint(const char *text)
{
    struct dt_http_endpoint e;
    if (dt_http_endpoint_parse(text, &e, NULL) < 0)
        return;
    FUZZ_CHECK(*e.host && e.port > 0 && !strpbrk(e.host, "/@?#% "));
    FUZZ_CHECK(!*e.path || e.path[0] == '/');
}

static void check_profile(struct dt_bytes text, enum dt_profile_file file)
{
    struct dt_profile p = {0};
    dt_profile_read(&p, text, file, "default", NULL);
    FUZZ_CHECK(p.found || !*p.keys.id);
    FUZZ_CHECK(!strchr(p.keys.secret, '\n'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text);
    dt_bytes_copy(text, (struct dt_bytes){data, size});
    text[size] = '\0';
    check_url(text);
    check_endpoint(text);
    dt_url_is_file_key(text);
    check_profile((struct dt_bytes){data, size}, DT_PROFILE_CONFIG);
    check_profile((struct dt_bytes){data, size}, DT_PROFILE_CREDENTIALS);
    free(text);
    return 0;
}
