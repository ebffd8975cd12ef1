/* SPDX-License-Identifier: Apache-2.0 */
/* What workers print, on its way to a terminal far away. The first byte says what the others are: a
 * page as a node may send it, or bytes of a worker, which an agent cuts into pieces of so many
 * bytes. Either way the terminal gets lines and nothing that steers it, a program gets objects of
 * JSON, and of a worker's bytes every one is told. */
#include "agent/output/portion.h"
#include "base/utf8.h"
#include "ctl/logbook.h"
#include "tests/fuzz/fuzz.h"

#include <inttypes.h>
#include <string.h>

static void check_harmless(const struct dt_buf *out)
{
    for (size_t i = 0; i < out->len;) {
        size_t n = dt_utf8_len(out->at + i, out->len - i);
        FUZZ_CHECK(n > 0);
        FUZZ_CHECK(out->at[i] == '\n' || out->at[i] == '\t' || !dt_utf8_steers(out->at + i, n));
        i += n;
    }
    FUZZ_CHECK(out->len == 0 || out->at[out->len - 1] == '\n');
}

static bool take(struct dt_logbook *b, const char *page, size_t len, struct dt_buf *out)
{
    struct dt_buf notes = {0};
    struct dt_json doc;
    struct dt_err err = {0};
    if (dt_json_parse(&doc, page, len, len, &err) < 0)
        return false;
    bool taken = dt_logbook_take(b, &doc, doc.root, out, &notes, &err) == 0;
    FUZZ_CHECK(taken || *err.text);
    dt_json_finish(&doc);
    dt_buf_finish(&notes);
    return taken;
}

/* Twice, as what was told before may come again. */
static void read_page(const uint8_t *data, size_t size, bool sort)
{
    struct dt_logbook book = {.prefix = true, .sort = sort};
    struct dt_buf out = {0};
    take(&book, (const char *)data, size, &out);
    take(&book, (const char *)data, size, &out);
    dt_logbook_end(&book, &out);
    check_harmless(&out);
    dt_logbook_finish(&book);
    dt_buf_finish(&out);
}

static void check_objects(const struct dt_buf *out)
{
    struct dt_json doc;
    for (size_t i = 0, end; i < out->len; i = end + 1) {
        end = i + strcspn((const char *)out->at + i, "\n");
        FUZZ_CHECK(end < out->len);
        FUZZ_CHECK(dt_json_parse(&doc, (const char *)out->at + i, end - i, end - i, NULL) == 0);
        dt_json_finish(&doc);
    }
}

static void read_page_for_programs(const uint8_t *data, size_t size)
{
    struct dt_logbook book = {.json = true};
    struct dt_buf out = {0};
    take(&book, (const char *)data, size, &out);
    dt_logbook_end(&book, &out);
    dt_buf_cstr(&out);
    check_objects(&out);
    dt_logbook_finish(&book);
    dt_buf_finish(&out);
}

static void tell_piece(struct dt_logbook *b, struct dt_bytes text, size_t at, struct dt_buf *out)
{
    struct dt_buf page = {0};
    dt_buf_printf(&page,
                  "{\"node\":\"n\",\"told\":{\"role\":\"r\",\"round\":0,\"pieces\":[{\"rank\":0,"
                  "\"since\":1,\"at\":%zu,\"next\":%zu,\"text\":",
                  at, at + text.len);
    dt_portion_quote(&page, text);
    dt_buf_put_str(&page, "}]}}");
    FUZZ_CHECK(take(b, (const char *)page.at, page.len, out));
    dt_buf_finish(&page);
}

static void read_worker(const uint8_t *data, size_t size, size_t most)
{
    struct dt_logbook book = {0};
    struct dt_buf out = {0};
    size_t at = 0;
    while (at < size) {
        struct dt_bytes rest = {data + at, size - at};
        size_t n = dt_portion_cut(rest, most, true);
        FUZZ_CHECK(n > 0 && n <= most);
        tell_piece(&book, (struct dt_bytes){rest.at, n}, at, &out);
        at += n;
    }
    dt_logbook_end(&book, &out);
    check_harmless(&out);
    dt_logbook_finish(&book);
    dt_buf_finish(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] < 2) {
        read_page(data + 1, size - 1, data[0]);
        read_page_for_programs(data + 1, size - 1);
    } else {
        read_worker(data + 1, size - 1, data[0]);
    }
    return 0;
}
