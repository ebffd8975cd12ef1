/* SPDX-License-Identifier: Apache-2.0 */
/* What the keys of a store tell of checkpoints: a line for each key, the first one is `latest`. */
#include "tests/fuzz/fuzz.h"
#include "worker_runtime/ckpt/upload/shelf.h"

#include <stdlib.h>
#include <string.h>

static void add_keys(struct dt_depot_list *files, const char *text, size_t len)
{
    for (const char *end = text + len; text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t n = newline ? (size_t)(newline - text) : (size_t)(end - text);
        char *key = strndup(text, n);
        FUZZ_CHECK(key && dt_depot_list_add(files, key, n, NULL) == 0);
        free(key);
        text += n + 1;
    }
}

/* Each whole one comes once in the order in which they are tried, and the newest stays. */
static void check(const struct dt_shelf *s)
{
    size_t whole = 0, tried = 0;
    for (size_t i = 0; i < s->count; i++) {
        FUZZ_CHECK(s->at[i].step >= 0 && s->at[i].files > 0);
        FUZZ_CHECK(i == 0 || s->at[i].step < s->at[i - 1].step);
        FUZZ_CHECK(s->at[i].step != s->at[0].step ||
                   !dt_shelf_is_outdated(s, &s->at[i], s->at[0].step, 1));
        whole += s->at[i].whole;
    }
    for (int64_t step = -1; (step = dt_shelf_next(s, step)) >= 0;)
        FUZZ_CHECK(++tried <= whole);
    FUZZ_CHECK(tried == whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct dt_depot_list files = {0};
    struct dt_shelf s;
    const char *text = (const char *)bytes;
    const char *newline = len ? memchr(text, '\n', len) : NULL;
    size_t first = newline ? (size_t)(newline - text) + 1 : len;
    add_keys(&files, text + first, len - first);
    FUZZ_CHECK(dt_shelf_read(&s, &files, (struct dt_bytes){bytes, first}, NULL) == 0);
    check(&s);
    dt_shelf_finish(&s);
    dt_depot_list_finish(&files);
    return 0;
}
