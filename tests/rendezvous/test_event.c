/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/events/event.h"
#include "tests/lib/check.h"

#define AT_US (INT64_C(1795417200) * 1000000 + 123456)

static void check_json(const struct dt_event *e, const char *wanted)
{
    struct dt_buf out = {0};
    dt_event_put_json(&out, e);
    CHECK_STR(dt_buf_cstr(&out), wanted);
    dt_buf_finish(&out);
}

TEST(an_event_is_one_object)
{
    const struct dt_event e = {.number = 7,
                               .at_us = AT_US,
                               .kind = DT_EVENT_NODE_LOST,
                               .run = "llama",
                               .round = 3,
                               .node = "node7",
                               .rank = 0,
                               .words = "node7 went offline"};
    check_json(&e, "{\"number\":7,\"time\":\"2026-11-23T07:00:00.123456Z\",\"kind\":\"node_lost\","
                   "\"weight\":\"warning\",\"run\":\"llama\",\"round\":3,\"node\":\"node7\","
                   "\"rank\":0,\"words\":\"node7 went offline\"}");
}

TEST(what_an_event_is_not_of_is_left_out)
{
    const struct dt_event e = {
        .number = 1, .at_us = AT_US, .round = -1, .rank = -1, .node = "", .words = "a \"b\"\n"};
    check_json(&e, "{\"number\":1,\"time\":\"2026-11-23T07:00:00.123456Z\","
                   "\"kind\":\"server_started\",\"weight\":\"info\",\"words\":\"a \\\"b\\\"\\n\"}");
}

TEST(each_kind_has_a_name_of_its_own)
{
    for (int k = 0; k < DT_EVENT_KINDS; k++) {
        CHECK_ROW("kind %d", k);
        CHECK(dt_event_kind_name((enum dt_event_kind)k) != NULL);
        for (int i = 0; i < k; i++)
            CHECK(strcmp(dt_event_kind_name((enum dt_event_kind)i),
                         dt_event_kind_name((enum dt_event_kind)k)) != 0);
    }
}
