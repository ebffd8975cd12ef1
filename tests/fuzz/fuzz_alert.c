/* SPDX-License-Identifier: Apache-2.0 */
/* The record of an open alert, whatever a journal may hold: it is refused, or it is an alert that
 * is written again as it was, and told as JSON. */
#include "base/json.h"
#include "rendezvous/alerts/body.h"
#include "rendezvous/alerts/saved.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

#define NOW ((dt_ms)1000000)
#define WALL INT64_C(1790000000000000)

static void check_json(const struct dt_alert *a)
{
    struct dt_buf text = {0};
    struct dt_json doc;
    struct dt_notice n = {.rule = a->rule->name,
                          .advice = a->rule->advice,
                          .scope = a->rule->scope,
                          .weight = a->rule->weight,
                          .run = a->run,
                          .node = a->node,
                          .round = a->round,
                          .rank = a->rank,
                          .words = a->words,
                          .times = a->times,
                          .raised_us = a->raised_us};
    dt_alert_body(&text, DT_ALERT_JSON, &n, "server", NULL);
    FUZZ_CHECK(dt_json_parse(&doc, (const char *)text.at, text.len, text.len, NULL) == 0);
    dt_json_finish(&doc);
    dt_buf_finish(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_alert a, b;
    struct dt_buf again = {0};
    if (!dt_alert_restore(&a, (struct dt_bytes){data, size}, NOW, WALL))
        return 0;
    FUZZ_CHECK(a.opened >= 0 && a.opened <= NOW && a.told_at >= -1 && a.told_at <= NOW);
    dt_alert_save(&a, NOW, WALL, &again);
    FUZZ_CHECK(dt_alert_restore(&b, (struct dt_bytes){again.at, again.len}, NOW, WALL));
    FUZZ_CHECK(b.rule == a.rule && b.told == a.told && b.times == a.times);
    FUZZ_CHECK(b.opened == a.opened && b.told_at == a.told_at && b.raised_us == a.raised_us);
    FUZZ_CHECK(b.round == a.round && b.rank == a.rank);
    FUZZ_CHECK(!strcmp(b.run, a.run) && !strcmp(b.node, a.node) && !strcmp(b.words, a.words));
    check_json(&a);
    dt_buf_finish(&again);
    return 0;
}
