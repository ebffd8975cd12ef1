/* SPDX-License-Identifier: Apache-2.0 */
/* What a run left, from any bytes, becomes a page that a browser can only show. Each line of the
 * input is a file or a line of one, by its first letter: r round, h standstill, t train.json,
 * x a step that was done again, or else a step. */
#include "ctl/report/metrics.h"
#include "ctl/report/notes.h"
#include "ctl/report/page.h"
#include "tests/fuzz/fuzz.h"

static void take_line(struct dt_report *r, const uint8_t *line, size_t len)
{
    struct dt_err err;
    struct dt_report_places places = {0};
    uint8_t kind = len ? line[0] : '\n';
    struct dt_bytes rest = {line + (len > 0), len ? len - 1 : 0};
    int rc = 0;
    if (kind == 'r')
        rc = dt_report_note_round(r, len > 1 ? line[1] % 4 : 0, rest, &err);
    else if (kind == 'h')
        rc = dt_report_note_hang(r, rest, &err);
    else if (kind == 't')
        dt_report_note_facts(r, rest, &places);
    else if (kind == 'x')
        rc = dt_report_metrics_line(r, (const char *)rest.at, rest.len, true, &err);
    else
        rc = dt_report_metrics_line(r, (const char *)line, len, false, &err);
    FUZZ_CHECK(rc == 0);
    if (kind == 't') {
        free(r->save_dir);
        r->save_dir = places.save_dir;
        places.save_dir = NULL;
    }
    dt_report_places_finish(&places);
}

/* Tags are ours: each opens with a letter or a slash, or is the one of the document's type. */
static void check_page(const struct dt_buf *page)
{
    for (size_t i = 0; i < page->len; i++) {
        uint8_t c = page->at[i], next = i + 1 < page->len ? page->at[i + 1] : 0;
        FUZZ_CHECK(c == '\n' || c >= 0x20);
        FUZZ_CHECK(c != '<' || next == '/' || next == '!' || (next >= 'a' && next <= 'z'));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_report r = {0};
    struct dt_buf page = {0};
    struct dt_err err;
    for (size_t from = 0, to; from < size; from = to + 1) {
        for (to = from; to < size && data[to] != '\n'; to++)
            ;
        take_line(&r, data + from, to - from);
    }
    dt_report_settle(&r);
    FUZZ_CHECK(dt_report_page_put(&r, &page, &err) == 0);
    check_page(&page);
    dt_buf_finish(&page);
    dt_report_finish(&r);
    return 0;
}
