/* SPDX-License-Identifier: Apache-2.0 */
/* What messages do not make use of, but a table may say. */
#include "base/clock.h"
#include "rendezvous/protocol/fields.h"
#include "tests/lib/check.h"

struct things {
    int count;
    int64_t whole;
    dt_ms time;
    bool truth;
    uint64_t hash;
    const char *words;
    unsigned colour;
};

static const char *colour_name(int c)
{
    static const char *const names[] = {"red", "green"};
    return names[c];
}

#define AT(member) .at = offsetof(struct things, member), .optional = true

/* clang-format off */
static const struct dt_field optional[] = {
    {.name = "count",  .kind = DT_FIELD_INT,    AT(count), .min = -5, .max = 5},
    {.name = "whole",  .kind = DT_FIELD_INT64,  AT(whole), .min = -5, .max = DT_FIELD_WHOLE_MAX},
    {.name = "time",   .kind = DT_FIELD_TIME,   AT(time), .max = DT_FIELD_FOREVER},
    {.name = "truth",  .kind = DT_FIELD_BOOL,   AT(truth)},
    {.name = "hash",   .kind = DT_FIELD_HEX64,  AT(hash)},
    {.name = "words",  .kind = DT_FIELD_STRING, AT(words), .max = 4},
    {.name = "colour", .kind = DT_FIELD_ENUM,   AT(colour), .max = 2, .value_name = colour_name},
    {0},
};
/* clang-format on */

static struct things read_things(const char *json)
{
    struct things t;
    struct dt_json doc;
    struct dt_err err = {0};
    memset(&t, 0xff, sizeof t);
    CHECK_OK(dt_json_parse(&doc, json, strlen(json), 1000, &err), err);
    CHECK_OK(dt_fields_get(&doc, NULL, optional, &t, &err), err);
    dt_json_finish(&doc);
    return t;
}

static void check_written(const struct things *t, const char *wanted)
{
    struct dt_buf out = {0};
    dt_buf_put_u8(&out, '{');
    dt_fields_put(&out, t, optional);
    dt_buf_put_u8(&out, '}');
    CHECK_STR(dt_buf_cstr(&out), wanted);
    dt_buf_finish(&out);
}

TEST(what_is_optional_and_nothing_is_neither_written_nor_left_as_it_was)
{
    struct things t = read_things("{}");
    CHECK_EQ(t.count, 0);
    CHECK_EQ(t.whole, 0);
    CHECK_EQ(t.time, 0);
    CHECK(!t.truth);
    CHECK_EQ(t.hash, 0);
    CHECK_STR(t.words, "");
    CHECK_EQ(t.colour, 0);
    check_written(&t, "{}");
    t.words = NULL;
    check_written(&t, "{}");
}

TEST(what_is_optional_and_something_is_written)
{
    struct things t = {-1, 1, DT_FOREVER, true, UINT64_MAX, "\"five\"", 1};
    check_written(&t, "{\"count\":-1,\"whole\":1,\"time\":4503599627370496,\"truth\":true,"
                      "\"hash\":\"ffffffffffffffff\",\"words\":\"\\\"fiv\",\"colour\":\"green\"}");
}

TEST(rows_may_follow_what_somebody_else_wrote)
{
    struct things t = {.count = 2};
    struct dt_buf out = {0};
    dt_buf_put_str(&out, "{\"a\":{}");
    dt_fields_put(&out, &t, optional);
    CHECK_STR(dt_buf_cstr(&out), "{\"a\":{},\"count\":2");
    dt_buf_finish(&out);
}

TEST(an_error_names_the_path_through_arrays_and_objects)
{
    static const char json[] = "{\"rows\":[{},{\"inner\":{\"words\":\"longer\"}}]}";
    struct things t;
    struct dt_json doc;
    struct dt_err err = {0};
    const struct cJSON *rows, *inner;
    CHECK_OK(dt_json_parse(&doc, json, strlen(json), 1000, &err), err);
    CHECK_OK(dt_json_array(&doc, NULL, "rows", &rows, &err), err);
    const struct cJSON *second = dt_json_next(dt_json_first(rows));
    CHECK(dt_json_next(second) == NULL);
    CHECK_OK(dt_json_object(&doc, second, "inner", &inner, &err), err);
    CHECK_FAIL(dt_fields_get(&doc, inner, optional, &t, &err), err,
               "rows[1].inner.words: 6 bytes; at most 4 are taken");
    dt_json_finish(&doc);
}

/* -- as bytes --------------------------------------------------------------------------------- */

struct packed {
    int count;
    dt_ms time;
    bool truth;
    uint64_t hash;
    char text[5];
    unsigned colour;
    int later;
};

/* clang-format off */
#define IN_PACKED(member_) .name = #member_, .at = offsetof(struct packed, member_)

static const struct dt_field packed[] = {
    {IN_PACKED(count),  .kind = DT_FIELD_INT, .min = -5, .max = 5},
    {IN_PACKED(time),   .kind = DT_FIELD_TIME, .max = DT_FIELD_FOREVER},
    {IN_PACKED(truth),  .kind = DT_FIELD_BOOL},
    {IN_PACKED(hash),   .kind = DT_FIELD_HEX64},
    {IN_PACKED(text),   .kind = DT_FIELD_TEXT, .max = 4},
    {IN_PACKED(colour), .kind = DT_FIELD_ENUM, .max = 2, .value_name = colour_name},
    {IN_PACKED(later),  .kind = DT_FIELD_INT, .optional = true, .max = 9},
    {0},
};
/* clang-format on */

#define COUNT_AT 0
#define TIME_AT 8
#define TRUTH_AT 16
#define COLOUR_AT (32 + 4 + 4)
#define LATER_AT (COLOUR_AT + 8)

static struct dt_buf pack(void)
{
    struct dt_buf out = {0};
    struct packed p = {-5, DT_FOREVER, true, UINT64_MAX, "four", 1, 9};
    dt_fields_pack(&out, &p, packed);
    CHECK_EQ(out.len, LATER_AT + 8);
    return out;
}

/* False: they are bad. */
static bool unpack(const struct dt_buf *b, size_t len, size_t count, struct packed *p)
{
    struct dt_reader in = dt_reader_over(b->at, len);
    memset(p, 0xff, sizeof *p);
    dt_fields_unpack(&in, p, packed, count);
    return !in.bad;
}

TEST(what_is_packed_is_unpacked)
{
    struct dt_buf b = pack();
    struct packed p;
    CHECK(unpack(&b, b.len, SIZE_MAX, &p));
    CHECK_EQ(p.count, -5);
    CHECK_EQ(p.time, DT_FOREVER);
    CHECK(p.truth);
    CHECK_EQ(p.hash, UINT64_MAX);
    CHECK_STR(p.text, "four");
    CHECK_EQ(p.colour, 1);
    CHECK_EQ(p.later, 9);
    dt_buf_finish(&b);
}

TEST(rows_that_are_not_there_are_nothing_if_they_may_be_absent)
{
    struct dt_buf b = pack();
    struct packed p;
    for (size_t len = 0; len < b.len; len++) {
        CHECK_ROW("%zu", len);
        CHECK_EQ(unpack(&b, len, SIZE_MAX, &p), len == LATER_AT);
    }
    CHECK(unpack(&b, LATER_AT, SIZE_MAX, &p));
    CHECK_EQ(p.colour, 1);
    CHECK_EQ(p.later, 0);
    CHECK(unpack(&b, TRUTH_AT, 2, &p));
    CHECK_EQ(p.time, DT_FOREVER);
    CHECK(!p.truth);
    CHECK_STR(p.text, "");
    dt_buf_finish(&b);
}

TEST(packed_values_beyond_their_limits_are_bad)
{
    static const struct {
        size_t at;
        uint8_t byte;
    } rows[] = {
        {COUNT_AT, 0xfa}, {COUNT_AT + 4, 0}, {TIME_AT, 0xfe},
        {TRUTH_AT, 2},    {COLOUR_AT, 2},    {LATER_AT, 10},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_buf b = pack();
        struct packed p;
        CHECK_ROW("byte %zu", rows[i].at);
        b.at[rows[i].at] = rows[i].byte;
        CHECK(!unpack(&b, b.len, SIZE_MAX, &p));
        dt_buf_finish(&b);
    }
}
