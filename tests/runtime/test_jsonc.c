/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/config/config.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

TEST(what_people_write_beside_json_becomes_space)
{
    /* clang-format off */
    static const struct { const char *text, *json; } rows[] = {
        {"",                          ""},
        {"{\"a\": 1}",                "{\"a\": 1}"},
        {"{\"a\": 1,}",               "{\"a\": 1 }"},
        {"[1, 2 , ]",                 "[1, 2   ]"},
        {"[1, // x\n]",               "[1      \n]"},
        {"[1, /* ] */ ]",             "[1          ]"},
        {"[1 // a, b\n, 2]",          "[1        \n, 2]"},
        {"// all",                    "      "},
        {"/**/1",                     "    1"},
        {"/* a\n // b */ 1",          "    \n         1"},
        {"[\"//\", \"/*\", \",]\"]",  "[\"//\", \"/*\", \",]\"]"},
        {"\"\\\"// not \\\\\" // is", "\"\\\"// not \\\\\"      "},
        {"{\"a\":[1,],}",             "{\"a\":[1 ] }"},
        {"[1,,]",                     "[1,,]"},
        {"{,}",                       "{,}"},
        {"[,]",                       "[,]"},
        {"{\"a\":,}",                 "{\"a\":,}"},
        {"\"open // text",            "\"open // text"},
        {"\"open \\",                 "\"open \\"},
        {"1 / 2",                     "1 / 2"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_err err;
        char *text = strdup(rows[i].text);
        CHECK(text != NULL);
        CHECK_OK(dt_jsonc_strip(text, strlen(text), &err), err);
        CHECK_STR(text, rows[i].json);
        free(text);
    }
}

TEST(a_comment_without_an_end_is_named_with_its_line)
{
    struct dt_err err;
    char text[] = "{\n  \"a\": 1 /* of\n}\n", slash[] = "/*/";
    CHECK_FAIL(dt_jsonc_strip(text, strlen(text), &err), err, "line 2: the comment");
    CHECK_FAIL(dt_jsonc_strip(slash, strlen(slash), &err), err, "line 1: the comment");
}
