/* SPDX-License-Identifier: Apache-2.0 */
/* Every message against what stands on the wire for it, both ways; and what is cut to fit. */
#include "tests/rendezvous/message_rows.h"

/* The text of the one frame in B. */
static const char *text_of(struct dt_buf *b)
{
    struct dt_reader r = dt_reader_over(b->at, b->len);
    uint32_t size = dt_read_u32(&r);
    CHECK_EQ(size, b->len - 4);
    return dt_buf_cstr(b) + 4;
}

TEST(every_message_has_a_row_and_a_name_of_its_own)
{
    for (size_t t = 0; t < DT_MSG_TYPES; t++) {
        size_t there = 0;
        for (size_t i = 0; i < COUNT(rows); i++)
            there += rows[i].m.type == t;
        CHECK_ROW("%s", dt_message_name((enum dt_message_type)t));
        CHECK(there > 0);
        for (size_t other = 0; other < t; other++)
            CHECK(strcmp(dt_message_name((enum dt_message_type)t),
                         dt_message_name((enum dt_message_type)other)) != 0);
    }
}

TEST(messages_are_written_as_the_protocol_says)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("%zu: %s", i, dt_message_name(rows[i].m.type));
        struct dt_buf out = {0};
        dt_message_encode(&out, &rows[i].m);
        CHECK_STR(text_of(&out), rows[i].json);
        dt_buf_finish(&out);
    }
}

/* Since writing is checked above, writing what was read shows what was read. */
TEST(messages_come_byte_by_byte_and_are_read_as_they_were_written)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("%zu: %s", i, dt_message_name(rows[i].m.type));
        struct dt_buf in = {0}, again = {0};
        struct dt_message m;
        struct dt_err err = {0};
        size_t used = 0;
        put_frame(&in, rows[i].json);
        for (size_t len = 0; len < in.len; len++) {
            uint8_t *copy = copy_of(in.at, len);
            CHECK_EQ(dt_message_decode(copy, len, DT_FRAME_MAX, &m, &used, &err), DT_MORE);
            free(copy);
        }
        uint8_t *copy = copy_of(in.at, in.len);
        CHECK_EQ(dt_message_decode(copy, in.len, DT_FRAME_MAX, &m, &used, &err), DT_DONE);
        free(copy);
        CHECK_EQ(used, in.len);
        dt_message_encode(&again, &m);
        CHECK_STR(text_of(&again), rows[i].json);
        dt_message_finish(&m);
        dt_buf_finish(&again);
        dt_buf_finish(&in);
    }
}

static struct dt_message decoded(const char *json)
{
    struct dt_buf in = {0};
    struct dt_message m;
    struct dt_err err = {0};
    size_t used;
    put_frame(&in, json);
    enum dt_decoded got = dt_message_decode(in.at, in.len, DT_FRAME_MAX, &m, &used, &err);
    CHECK_STR(err.text, "");
    CHECK_EQ(got, DT_DONE);
    dt_buf_finish(&in);
    return m;
}

TEST(what_was_left_out_reads_as_nothing_and_never_as_null)
{
    struct dt_message m = decoded("{\"type\":\"drain\"}");
    CHECK_STR(m.run, "");
    CHECK_STR(m.drain.node, "");
    CHECK_STR(m.why, "");
    CHECK(!m.drain.undo && !m.drain.done);
    dt_message_finish(&m);
    m = decoded("{\"type\":\"hello\",\"version\":1,\"program\":\"\",\"host\":null,"
                "\"nonce\":\"00000000000000000000000000000000\"}");
    CHECK_STR(m.hello.host, "");
    CHECK_STR(m.why, "");
    dt_message_finish(&m);
    m = decoded("{\"type\":\"status\"}");
    CHECK(m.status.json == NULL);
    dt_message_finish(&m);
}

TEST(members_of_later_versions_are_passed_over)
{
    struct dt_message m = decoded("{\"hue\":[1,{\"a\":null}],\"type\":\"park\",\"run\":\"r\","
                                  "\"round\":1,\"incarnation\":\"1\",\"till\":7}");
    CHECK_EQ(m.type, DT_MSG_PARK);
    CHECK_STR(m.run, "r");
    dt_message_finish(&m);
}

TEST(a_frame_is_taken_and_what_follows_it_stays)
{
    struct dt_buf in = {0};
    struct dt_message m;
    struct dt_err err = {0};
    size_t used;
    put_frame(&in, "{\"type\":\"drain\",\"node\":\"a\"}");
    put_frame(&in, "{\"type\":\"drain\",\"node\":\"b\"}");
    for (const char *node = "a"; in.len; node = "b") {
        CHECK_EQ(dt_message_decode(in.at, in.len, DT_FRAME_MAX, &m, &used, &err), DT_DONE);
        CHECK_STR(m.drain.node, node);
        dt_message_finish(&m);
        dt_buf_consume(&in, used);
    }
    dt_buf_finish(&in);
}

TEST(a_time_without_end_stays_so)
{
    size_t i = 0;
    while (rows[i].m.type != DT_MSG_JOIN)
        i++;
    struct dt_message m = decoded(rows[i].json);
    CHECK_EQ(m.join.spec.join_timeout, DT_FOREVER);
    CHECK_EQ(m.join.spec.last_call, 30000);
    dt_message_finish(&m);
}

TEST(too_long_a_string_is_cut_between_characters)
{
    char name[600];
    memset(name, 'x', sizeof name);
    memcpy(name + DT_NODE_NAME_MAX - 2, "\xe2\x82\xac", 3);
    name[sizeof name - 1] = '\0';
    struct dt_buf out = {0};
    struct dt_message in = {.type = DT_MSG_DRAIN, .drain = {.node = name}}, m;
    struct dt_err err = {0};
    size_t used;
    dt_message_encode(&out, &in);
    CHECK_EQ(dt_message_decode(out.at, out.len, DT_FRAME_MAX, &m, &used, &err), DT_DONE);
    CHECK_EQ(strlen(m.drain.node), DT_NODE_NAME_MAX - 2);
    dt_message_finish(&m);
    dt_buf_finish(&out);
}

TEST(what_is_no_utf8_is_cut_so_that_it_still_fits_with_its_stand_ins)
{
    char why[600];
    memset(why, '\xff', sizeof why);
    why[sizeof why - 1] = '\0';
    struct dt_buf out = {0};
    struct dt_message in = {.type = DT_MSG_REFUSED, .why = why}, m;
    struct dt_err err = {0};
    size_t used;
    dt_message_encode(&out, &in);
    CHECK_EQ(dt_message_decode(out.at, out.len, DT_FRAME_MAX, &m, &used, &err), DT_DONE);
    CHECK_EQ(strlen(m.why), (DT_WHY_MAX - 1) / 3 * 3);
    dt_message_finish(&m);
    dt_buf_finish(&out);
}

/* Each with texts as long as they may be; rank I alone is in number I. */
static void fill_groups(struct dt_stances *s, int count)
{
    struct dt_stance stance = {.doing = DT_DOING_SLEEP, .sequence = -1, .step = -1};
    memset(stance.where, '"', sizeof stance.where - 1); /* two bytes each in JSON */
    memset(stance.object, '\\', sizeof stance.object - 1);
    memset(stance.detail, 'x', sizeof stance.detail - 1);
    for (int i = 0; i < count; i++) {
        struct dt_rank_range range = {i, i};
        snprintf(stance.function, sizeof stance.function, "f%d", i);
        struct dt_stance_group one = {stance, &range, 1, 1};
        CHECK_EQ(dt_stances_merge(s, &(struct dt_stances){&one, 1}, NULL), 0);
    }
}

TEST(stances_beyond_a_frame_are_left_out_but_never_those_that_matter)
{
    struct dt_stances all = {0};
    struct dt_buf out = {0};
    struct dt_message read,
        m = {.type = DT_MSG_FINDING,
             .run = "r",
             .round = 1,
             .incarnation = 1,
             .finding = {.class = "outside", .culprit = 299, .waiting = 298, .sentence = "s"}};
    struct dt_err err = {0};
    size_t used;
    char sentence[DT_FINDING_TEXT_MAX];
    memset(sentence, '\1', sizeof sentence - 1); /* six bytes each */
    sentence[sizeof sentence - 1] = '\0';
    fill_groups(&all, 300);
    m.finding.stances = all;
    m.finding.sentence = m.finding.advice = sentence;
    dt_message_encode(&out, &m);
    CHECK_EQ(dt_message_decode(out.at, out.len, DT_FRAME_MAX, &read, &used, &err), DT_DONE);
    CHECK_STR(err.text, "");
    const struct dt_stances *got = &read.finding.stances;
    CHECK(got->len > 20 && got->len <= DT_STANCES_MAX);
    CHECK_EQ(got->at[0].ranges[0].first, 0);
    CHECK_EQ(got->at[got->len - 1].ranges[0].first, 299);
    CHECK_EQ(got->at[got->len - 2].ranges[0].first, 298);
    CHECK_EQ(got->at[got->len - 3].ranges[0].first, (int)got->len - 3);
    dt_message_finish(&read);
    dt_stances_finish(&all);
    dt_buf_finish(&out);
}
