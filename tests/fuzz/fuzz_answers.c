/* SPDX-License-Identifier: Apache-2.0 */
/* What a store of objects answers, of any bytes: taken or refused with a sentence; what is taken
 * keeps its bounds. The first byte says which answer was asked for. */
#include "base/transfer/answers.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void check_page(struct dt_bytes document)
{
    struct dt_page page;
    struct dt_err err = {0};
    int rc = dt_answer_page(document, &page, &err);
    FUZZ_CHECK(rc == 0 || strlen(err.text) > 0);
    FUZZ_CHECK(page.len <= DT_ANSWER_ROWS);
    for (size_t i = 0; i < page.len && rc == 0; i++) {
        size_t len = strlen(page.at[i].key);
        FUZZ_CHECK(len > 0 && len <= DT_KEY_MAX);
        FUZZ_CHECK(i == 0 || strcmp(page.at[i - 1].key, page.at[i].key) < 0);
        FUZZ_CHECK(!page.at[i].is_group || page.at[i].key[len - 1] == '/');
    }
    FUZZ_CHECK(rc < 0 || !page.is_cut || *page.next);
    dt_page_finish(&page);
}

static void check_parts(struct dt_bytes document)
{
    struct dt_part parts[4] = {0};
    int next = 0;
    if (dt_answer_parts(document, parts, 4, &next, NULL) == 0)
        FUZZ_CHECK(next >= 0 && next <= DT_PARTS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char upload[DT_TOKEN_TEXT];
    struct dt_answer_error e;
    struct dt_keys keys;
    if (size == 0)
        return 0;
    struct dt_bytes document = {data + 1, size - 1};
    switch (data[0]) {
    case 'p':
        check_parts(document);
        break;
    case 'u':
        FUZZ_CHECK(dt_answer_upload(document, upload, NULL) < 0 || *upload);
        dt_answer_upload_of(document, "a/b", upload, NULL);
        break;
    case 'k':
        FUZZ_CHECK(dt_answer_keys(document, &keys, NULL) < 0 || (*keys.id && *keys.secret));
        break;
    case 'e':
        dt_answer_error(document, &e);
        break;
    default:
        check_page(document);
    }
    return 0;
}
