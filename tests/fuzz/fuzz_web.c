/* SPDX-License-Identifier: Apache-2.0 */
/* Headers and names as clients send them: nobody comes in but with the token, and metrics stay
 * lines whatever a run is called. */
#include "rendezvous/web/gate.h"
#include "rendezvous/web/metrics.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>
#include <strings.h>

static void check_gate(const char *text)
{
    static const struct dt_token token = {.secret = "secret", .len = 6}, none = {.len = 0};
    size_t len = strlen(text);
    if (dt_web_gate(&token, text, NULL) == DT_WEB_ENTRY_GOOD)
        FUZZ_CHECK(len >= 13 && strcmp(text + len - 7, " secret") == 0);
    if (dt_web_gate(&none, NULL, text) == DT_WEB_ENTRY_GOOD)
        FUZZ_CHECK(strspn(text, "0123456789.:[]abcdefABCDEF") > 0 ||
                   strncasecmp(text, "localhost", 9) == 0);
}

static size_t count_lines(const struct dt_buf *text)
{
    size_t lines = 0;
    for (size_t i = 0; i < text->len; i++)
        lines += text->at[i] == '\n';
    return lines;
}

static void check_metrics(const char *name)
{
    static struct dt_web_facts facts;
    static size_t lines;
    struct dt_buf out = {0};
    facts.version = facts.host = "";
    facts.run_count = facts.node_count = 1;
    facts.run[0].id = facts.node[0].run = facts.node[0].name = lines ? name : "";
    dt_web_metrics_put(&out, &facts, DT_WEB_OPENMETRICS);
    FUZZ_CHECK(!out.bad);
    FUZZ_CHECK(lines == 0 || count_lines(&out) == lines);
    lines = count_lines(&out);
    dt_buf_finish(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    check_gate(text);
    dt_web_format_of(text);
    dt_web_path_of(text);
    check_metrics(text);
    free(text);
    return 0;
}
