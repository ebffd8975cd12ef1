/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/portion.h"

#include "tests/lib/check.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

TEST(who_is_behind_goes_on_where_something_is_left)
{
    static const struct {
        uint64_t end, at, kept, from;
    } rows[] = {
        {0, 0, 100, 0},       {50, 0, 100, 0},      {50, 20, 100, 20},
        {500, 0, 100, 400},   {500, 399, 100, 400}, {500, 450, 100, 450},
        {500, 500, 100, 500}, {50, 60, 100, 0}, /* it was cut */
        {500, 600, 100, 400},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("%zu", i);
        CHECK_EQ(dt_portion_from(rows[i].end, rows[i].at, rows[i].kept), rows[i].from);
    }
}

TEST(the_last_lines_are_counted_from_behind)
{
    static const struct {
        const char *text;
        int lines;
        const char *rest;
    } rows[] = {
        {"a\nb\nc\n", 1, "c\n"},
        {"a\nb\nc\n", 2, "b\nc\n"},
        {"a\nb\nc\n", 3, "a\nb\nc\n"},
        {"a\nb\nc\n", 9, "a\nb\nc\n"},
        {"a\nb\nc", 1, "c"},
        {"a\nb\nc", 2, "b\nc"},
        {"a\nb\nc\n", 0, ""},
        {"", 3, ""},
        {"\n\n\n", 2, "\n\n"},
        {"a\rb\rc\n", 2, "b\rc\n"},
        {"a\r\nb\r\nc", 2, "b\r\nc"},
        {"a\nb\r", 1, "b\r"},
        {"x", 1, "x"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("%zu", i);
        size_t at = dt_portion_last_lines(dt_bytes_of(rows[i].text), rows[i].lines);
        CHECK_STR(rows[i].text + at, rows[i].rest);
    }
}

TEST(the_rest_of_a_line_is_skipped)
{
    static const struct {
        const char *text, *rest;
    } rows[] = {
        {"rest\nb\n", "b\n"}, {"no end", "no end"}, {"x\ry", "y"}, {"x\r\ny", "y"}, {"", ""},
        {"x\n", ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("%zu", i);
        CHECK_STR(rows[i].text + dt_portion_first_line(dt_bytes_of(rows[i].text)), rows[i].rest);
    }
}

TEST(whole_lines_go_and_of_long_ones_whole_characters)
{
    static const struct {
        const char *text;
        size_t most;
        bool all;
        size_t cut;
    } rows[] = {
        {"a\nb\nc", 100, false, 4},
        {"a\nb\nc", 100, true, 5},
        {"a\nb\n", 100, false, 4},
        {"abc", 100, false, 0},
        {"abc", 100, true, 3},
        {"", 100, true, 0},
        {"a\nbcdef", 4, false, 2},
        {"abcdef", 4, false, 4},
        {"abcdef", 4, true, 4},
        {"abc\n", 4, false, 4},
        {"a\r", 100, false, 0}, /* half of a \r\n, perhaps */
        {"a\r", 100, true, 2},
        {"a\rb", 100, false, 2},
        {"a\r\nb", 100, false, 3},
        {"a\r\nb", 2, false, 2},
        {"abc\xc3\xa4x", 4, false, 3},
        {"ab\xe2\x82\xacx", 4, false, 2},
        {"a\xf0\x9f\x98\x80x", 4, false, 1},
        {"\xf0\x9f\x98\x80x", 4, false, 4},
        {"\x80\x80\x80\x80\x80\x80", 4, false, 4},
        {"abc\xffxx", 4, false, 3},
        {"abc\xc3", 100, true, 4}, /* nothing more comes */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("%zu", i);
        CHECK_EQ(dt_portion_cut(dt_bytes_of(rows[i].text), rows[i].most, rows[i].all), rows[i].cut);
    }
}

TEST(whatever_a_worker_prints_is_json_that_can_be_read)
{
    static const uint8_t bytes[] = "a\0b\x1b[31m\"\\\xff\xc3\xa4\n";
    struct dt_buf out = {0};
    dt_portion_quote(&out, (struct dt_bytes){bytes, sizeof bytes - 1});
    CHECK_STR(dt_buf_cstr(&out), "\"a\xef\xbf\xbd"
                                 "b\\u001b[31m\\\"\\\\\xef\xbf\xbd\xc3\xa4\\n\"");
    dt_buf_finish(&out);
}
