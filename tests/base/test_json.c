/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "tests/lib/check.h"

#include <cjson/cJSON.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))

static struct dt_json parsed(const char *text)
{
    struct dt_json doc;
    struct dt_err err = {0};
    CHECK_OK(dt_json_parse(&doc, text, strlen(text), 1 << 20, &err), err);
    return doc;
}

TEST(what_is_no_json_is_refused_with_its_place)
{
    /* clang-format off */
    static const struct { const char *text, *error; } rows[] = {
        {"", "line 1, column 1: the JSON ends early"},
        {"{", "ends early"},
        {"{\"a\":1", "ends early"},
        {"{\"a\":1,\n  nope}", "line 2, column 4: this is no JSON"},
        {"{}\n{}", "line 2, column 1: something follows the JSON"},
        {"[1,2] x", "line 1, column 7: something follows"},
        {"\"a\nb\"", "line 1, column 3: a control character in a string"},
        {"\"a\\u0000b\"", "column 3: \\u0000 in a string"},
        {"\"\xff\"", "column 2: this is not UTF-8"},
        {"\"\xc0\xaf\"", "column 2: this is not UTF-8"},
        {"\"\xed\xa0\x80\"", "column 2: this is not UTF-8"},
        {"{\"a\":\"\\ud800\"}", "this is no JSON"},
        {"[\x01]", "column 2: a control character"},
        {"\"\\\nx\"", "a control character in a string"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_json doc = {0};
        struct dt_err err = {0};
        CHECK_FAIL(dt_json_parse(&doc, rows[i].text, strlen(rows[i].text), 1000, &err), err,
                   rows[i].error);
        CHECK(doc.root == NULL);
        dt_json_finish(&doc);
    }
}

TEST(json_is_taken_with_white_space_around_and_no_nul_behind)
{
    static const char text[] = " \r\n{\"a\": [1, \"\\\\\\\"\\n\", null]}\t \nBEYOND";
    struct dt_json doc;
    struct dt_err err = {0};
    char *copy = malloc(sizeof text - 7); /* so that a sanitizer sees a read beyond */
    memcpy(copy, text, sizeof text - 7);
    CHECK_OK(dt_json_parse(&doc, copy, sizeof text - 7, 1000, &err), err);
    free(copy);
    dt_json_finish(&doc);
}

TEST(a_document_cut_anywhere_is_refused)
{
    static const char text[] = "{\"a\":[true,{\"b\":\"\xc3\xa9\\u00e9\"}],\"c\":-1.5e3}";
    for (size_t len = 0; len < sizeof text - 1; len++) {
        CHECK_ROW("%zu bytes", len);
        struct dt_json doc;
        struct dt_err err = {0};
        char *copy = malloc(len + !len);
        memcpy(copy, text, len);
        CHECK_FAIL(dt_json_parse(&doc, copy, len, 1000, &err), err, "line 1, column ");
        free(copy);
    }
}

TEST(a_nul_byte_is_no_end)
{
    struct dt_json doc;
    struct dt_err err = {0};
    CHECK_FAIL(dt_json_parse(&doc, "{}\0", 3, 1000, &err), err, "a control character");
    CHECK_FAIL(dt_json_parse(&doc, "\"a\0b\"", 5, 1000, &err), err, "a control character");
}

TEST(size_and_depth_are_bounded)
{
    struct dt_json doc;
    struct dt_err err = {0};
    char deep[2000];
    CHECK_FAIL(dt_json_parse(&doc, "[1,2,3]", 7, 6, &err), err, "7 bytes of JSON; at most 6");
    CHECK_EQ(err.code, DT_E_LIMIT);
    memset(deep, '[', 1000);
    memset(deep + 1000, ']', 1000);
    CHECK_FAIL(dt_json_parse(&doc, deep, sizeof deep, sizeof deep, &err), err,
               "line 1, column 101: nested more than 100 deep");
    CHECK_OK(dt_json_parse(&doc, deep + 900, 200, 200, &err), err);
    dt_json_finish(&doc);
}

TEST(members_come_out_typed)
{
    struct dt_json doc =
        parsed("{\"s\":\"x\",\"i\":-7,\"n\":1.5,\"b\":true,\"o\":{\"k\":1},\"a\":[],\"z\":null}");
    struct dt_err err = {0};
    const char *s;
    int64_t i;
    double n;
    bool b;
    const struct cJSON *o, *a;
    CHECK_OK(dt_json_string(&doc, NULL, "s", &s, &err), err);
    CHECK_STR(s, "x");
    CHECK_OK(dt_json_int(&doc, NULL, "i", -10, 10, &i, &err), err);
    CHECK_EQ(i, -7);
    CHECK_OK(dt_json_number(&doc, NULL, "n", &n, &err), err);
    CHECK(n == 1.5);
    CHECK_OK(dt_json_bool(&doc, NULL, "b", &b, &err), err);
    CHECK(b);
    CHECK_OK(dt_json_object(&doc, NULL, "o", &o, &err), err);
    CHECK_OK(dt_json_int(&doc, o, "k", 0, 10, &i, &err), err);
    CHECK_OK(dt_json_array(&doc, NULL, "a", &a, &err), err);
    CHECK(dt_json_has(doc.root, "a"));
    CHECK(!dt_json_has(doc.root, "z"));
    CHECK(!dt_json_has(doc.root, "missing"));
    dt_json_finish(&doc);
}

TEST(an_error_names_the_path_and_what_stands_there)
{
    struct dt_json doc = parsed("{\"workers\":[{},{\"rank\":\"x\",\"n\":1.5,\"big\":1e300,"
                                "\"odd name\":[{}]}]}");
    struct dt_err err = {0};
    const struct cJSON *workers, *second;
    int64_t i;
    double n;
    const char *s;
    bool b;
    CHECK_OK(dt_json_array(&doc, NULL, "workers", &workers, &err), err);
    second = cJSON_GetArrayItem(workers, 1);
    CHECK_FAIL(dt_json_int(&doc, second, "rank", 0, 9, &i, &err), err,
               "workers[1].rank: expected a whole number, found \"x\"");
    CHECK_FAIL(dt_json_int(&doc, second, "n", 0, 9, &i, &err), err,
               "workers[1].n: expected a whole number, found 1.5");
    CHECK_FAIL(dt_json_int(&doc, second, "big", 0, INT64_MAX, &i, &err), err,
               "workers[1].big: expected a whole number from 0 to 9007199254740992, found 1e+300");
    CHECK_FAIL(dt_json_string(&doc, second, "none", &s, &err), err,
               "workers[1]: \"none\" is missing");
    CHECK_FAIL(dt_json_string(&doc, NULL, "none", &s, &err), err,
               "the document: \"none\" is missing");
    CHECK_FAIL(dt_json_number(&doc, second, "rank", &n, &err), err, "expected a number");
    CHECK_FAIL(dt_json_bool(&doc, second, "odd name", &b, &err), err,
               "workers[1].odd name: expected true or false, found an array");
    CHECK_FAIL(dt_json_string(&doc, workers, "none", &s, &err), err,
               "workers: expected an object, found an array");
    dt_json_finish(&doc);
}

TEST(unknown_members_are_found_by_path)
{
    static const char *const top[] = {"a", "b", NULL}, *const inner[] = {"c", NULL};
    struct dt_json doc = parsed("{\"a\":1,\"b\":{\"c\":1,\"d\":2}}");
    struct dt_err err = {0};
    const struct cJSON *b;
    CHECK_OK(dt_json_only(&doc, NULL, top, &err), err);
    CHECK_OK(dt_json_object(&doc, NULL, "b", &b, &err), err);
    CHECK_FAIL(dt_json_only(&doc, b, inner, &err), err, "b.d: there is no such setting");
    dt_json_finish(&doc);
}

TEST(a_path_too_long_for_its_room_is_cut)
{
    struct dt_buf text = {0};
    char out[16];
    for (int i = 0; i < 90; i++)
        dt_buf_put_str(&text, "{\"a rather long name\":");
    dt_buf_put_str(&text, "1");
    for (int i = 0; i < 90; i++)
        dt_buf_put_str(&text, "}");
    struct dt_json doc = parsed(dt_buf_cstr(&text));
    const struct cJSON *node = doc.root;
    while (node->child)
        node = node->child;
    CHECK_STR(dt_json_path(&doc, node, out, sizeof out), "a rather long n");
    CHECK_STR(dt_json_path(&doc, doc.root, out, sizeof out), "the document");
    dt_json_finish(&doc);
    dt_buf_finish(&text);
}

#define BAD "\xef\xbf\xbd"

TEST(quoting_makes_json_of_any_bytes)
{
    /* clang-format off */
    static const struct { const char *in, *out; } rows[] = {
        {"", "\"\""},
        {"plain", "\"plain\""},
        {"\"\\/", "\"\\\"\\\\/\""},
        {"\n\r\t\b\f", "\"\\n\\r\\t\\b\\f\""},
        {"\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\""},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {"\x80", "\"" BAD "\""},                                    /* a lone continuation */
        {"\xc3", "\"" BAD "\""},                                    /* cut short */
        {"\xe2\x82", "\"" BAD BAD "\""},
        {"\xc3x", "\"" BAD "x\""},
        {"\xc0\xaf", "\"" BAD BAD "\""},                            /* overlong slash */
        {"\xc1\xbf", "\"" BAD BAD "\""},
        {"\xe0\x9f\xbf", "\"" BAD BAD BAD "\""},                    /* overlong, three bytes */
        {"\xe0\xa0\x80", "\"\xe0\xa0\x80\""},                       /* the first that is not */
        {"\xf0\x8f\xbf\xbf", "\"" BAD BAD BAD BAD "\""},            /* overlong, four bytes */
        {"\xf0\x90\x80\x80", "\"\xf0\x90\x80\x80\""},
        {"\xed\x9f\xbf", "\"\xed\x9f\xbf\""},                       /* U+D7FF */
        {"\xed\xa0\x80", "\"" BAD BAD BAD "\""},                    /* surrogates */
        {"\xed\xbf\xbf", "\"" BAD BAD BAD "\""},
        {"\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\""},               /* U+10FFFF */
        {"\xf4\x90\x80\x80", "\"" BAD BAD BAD BAD "\""},
        {"\xf5\x80\x80\x80", "\"" BAD BAD BAD BAD "\""},
        {"\xfe\xff", "\"" BAD BAD "\""},
        {"\xc2\x9b" "31m", "\"\\u009b31m\""},                      /* obeyed by terminals */
        {"\xe2\x80\xae", "\"\\u202e\""},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("row %zu", i);
        struct dt_buf out = {0};
        size_t len = strlen(rows[i].in);
        char *copy = malloc(len + !len);
        memcpy(copy, rows[i].in, len);
        dt_json_quote(&out, copy, len);
        free(copy);
        CHECK_STR(dt_buf_cstr(&out), rows[i].out);
        dt_buf_finish(&out);
    }
}

TEST(a_cut_quote_is_never_read_as_longer_and_never_ends_inside_a_character)
{
    static const struct {
        const char *in;
        size_t most;
        const char *out;
    } rows[] = {
        {"plain", 5, "\"plain\""},      {"plain", 4, "\"plai\""},
        {"plain", 0, "\"\""},           {"\n\n", 1, "\"\\n\""},
        {"\xe2\x82\xac", 2, "\"\""},    {"\xe2\x82\xac", 3, "\"\xe2\x82\xac\""},
        {"\x80\x80", 5, "\"" BAD "\""},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("row %zu", i);
        struct dt_buf out = {0};
        dt_json_quote_most(&out, rows[i].in, strlen(rows[i].in), rows[i].most);
        CHECK_STR(dt_buf_cstr(&out), rows[i].out);
        dt_buf_finish(&out);
    }
}

TEST(a_value_goes_back_to_text)
{
    struct dt_json doc = parsed("{ \"a\": [1, 0.5, \"\\n\"], \"b\": null }");
    char *text = dt_json_text(doc.root);
    CHECK_STR(text, "{\"a\":[1,0.5,\"\\n\"],\"b\":null}");
    free(text);
    dt_json_finish(&doc);
}

TEST(a_value_as_text_steers_no_terminal)
{
    struct dt_json doc = parsed("[\"a\\u007f\\u0085\", {\"\\u202e\": \"\\u00e9\\n\"}]");
    char *text = dt_json_text(doc.root);
    CHECK_STR(text, "[\"a\\u007f\\u0085\",{\"\\u202e\":\"\xc3\xa9\\n\"}]");
    free(text);
    dt_json_finish(&doc);
}

TEST(quoted_bytes_parse_back_unless_nul_is_among_them)
{
    uint32_t random = 12345;
    for (int round = 0; round < 2000; round++) {
        CHECK_ROW("round %d", round);
        char bytes[24];
        for (size_t i = 0; i < sizeof bytes; i++) {
            random = random * 1664525 + 1013904223;
            bytes[i] = (char)(random >> 24 ? random >> 24 : 1);
        }
        struct dt_buf out = {0};
        struct dt_json doc;
        struct dt_err err = {0};
        dt_json_quote(&out, bytes, sizeof bytes);
        CHECK_OK(dt_json_parse(&doc, (char *)out.at, out.len, 1000, &err), err);
        dt_json_finish(&doc);
        dt_buf_finish(&out);
    }
}

TEST(a_name_that_is_there_twice_is_found_at_any_depth)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"{\"a\":1,\"b\":{\"c\":1,\"d\":2}}", NULL},
        {"[{\"a\":1},{\"a\":1}]", NULL},
        {"{\"a\":{\"a\":1}}", NULL},
        {"{\"A\":1,\"a\":1}", NULL},
        {"{\"a\":1,\"b\":2,\"a\":1}", "a: it is there twice"},
        {"{\"x\":[0,{\"b\":1,\"\":2,\"b\":3}]}", "x[1].b: it is there twice"},
        {"{\"\\u0061\":1,\"a\":1}", "a: it is there twice"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_json doc = parsed(rows[i].text);
        struct dt_err err = {0};
        if (rows[i].error)
            CHECK_FAIL(dt_json_no_duplicates(&doc, &err), err, rows[i].error);
        else
            CHECK_OK(dt_json_no_duplicates(&doc, &err), err);
        dt_json_finish(&doc);
    }
}
