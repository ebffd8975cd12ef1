/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
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

static const struct dt_event whole = {.number = 7,
                                      .at_us = AT_US,
                                      .kind = DT_EVENT_HANG,
                                      .round = 3,
                                      .rank = -1,
                                      .run = "llama",
                                      .node = "",
                                      .words = "rank 1 waits"};

TEST(what_is_saved_is_there_again)
{
    struct dt_buf saved = {0};
    struct dt_event e;
    dt_event_save(&whole, &saved);
    CHECK(dt_event_restore(&e, (struct dt_bytes){saved.at, saved.len}));
    CHECK_EQ(e.number, 7);
    CHECK_EQ(e.at_us, AT_US);
    CHECK_EQ(e.kind, DT_EVENT_HANG);
    CHECK_EQ(e.round, 3);
    CHECK_EQ(e.rank, -1);
    CHECK_STR(e.run, "llama");
    CHECK_STR(e.node, "");
    CHECK_STR(e.words, "rank 1 waits");
    dt_buf_finish(&saved);
}

TEST(what_was_never_saved_is_refused)
{
    struct dt_buf saved = {0};
    struct dt_event e;
    dt_event_save(&whole, &saved);
    for (size_t cut = 0; cut < saved.len; cut++) {
        CHECK_ROW("cut at %zu", cut);
        CHECK(!dt_event_restore(&e, (struct dt_bytes){saved.at, cut}));
    }
    dt_buf_put_u8(&saved, 'x');
    CHECK(!dt_event_restore(&e, (struct dt_bytes){saved.at, saved.len}));
    saved.len--;
    saved.at[32] = 'H'; /* a kind of a later version */
    CHECK(!dt_event_restore(&e, (struct dt_bytes){saved.at, saved.len}));
    saved.at[32] = 'h';
    saved.at[16] = 0xfe; /* round -2 */
    memset(saved.at + 17, 0xff, 7);
    CHECK(!dt_event_restore(&e, (struct dt_bytes){saved.at, saved.len}));
    dt_buf_finish(&saved);
}

TEST(each_kind_is_in_the_documentation)
{
    struct dt_buf text = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_fs_read(DT_GOLDEN_DIR "/../../docs/events.md", 1 << 20, &text, &err), err);
    for (int k = 0; k < DT_EVENT_KINDS; k++) {
        char word[64];
        snprintf(word, sizeof word, "`%s`", dt_event_kind_name((enum dt_event_kind)k));
        CHECK_ROW("%s", word);
        CHECK(strstr(dt_buf_cstr(&text), word) != NULL);
    }
    dt_buf_finish(&text);
}
