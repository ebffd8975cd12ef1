/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"
#include "tests/lib/check.h"

TEST(lengths_and_code_points)
{
    static const struct {
        const char *bytes;
        size_t len;
        unsigned code;
    } rows[] = {
        {"a", 1, 'a'},
        {"\xc2\x80", 2, 0x80},
        {"\xdf\xbf", 2, 0x7ff},
        {"\xe0\xa0\x80", 3, 0x800},
        {"\xef\xbf\xbd", 3, 0xfffd},
        {"\xf0\x90\x80\x80", 4, 0x10000},
        {"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
        {"\x80", 0, 0},
        {"\xc0\x80", 0, 0},         /* overlong */
        {"\xed\xa0\x80", 0, 0},     /* a surrogate */
        {"\xf4\x90\x80\x80", 0, 0}, /* above all */
        {"\xe2\x80", 0, 0},         /* cut */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint8_t *s = (const uint8_t *)rows[i].bytes;
        CHECK_ROW("row %zu", i);
        CHECK_EQ(dt_utf8_len(s, strlen(rows[i].bytes)), rows[i].len);
        if (rows[i].len)
            CHECK_EQ(dt_utf8_code(s, rows[i].len), rows[i].code);
    }
}

TEST(what_would_steer_a_terminal_is_shown_instead)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"plain n\xc3\xb6rd \xe6\x97\xa5", "plain n\xc3\xb6rd \xe6\x97\xa5"},
        {"\x1b[2J\r\x7f", "\\x1b[2J\\x0d\\x7f"},
        {"\xc2\x9b"
         "31m",
         "\\u009b31m"}, /* CSI in one character */
        {"\xc2\x80\xc2\x9f\xc2\xa0", "\\u0080\\u009f\xc2\xa0"},
        {"\xe2\x80\xae"
         "abc",
         "\\u202eabc"}, /* right-to-left override */
        {"\xe2\x80\xaa\xe2\x81\xa6\xe2\x81\xa9", "\\u202a\\u2066\\u2069"},
        {"\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", "\\u200e\\u200f\\u061c"},
        {"\xe2\x80\x8d\xe2\x80\xaf\xe2\x81\xaa", "\xe2\x80\x8d\xe2\x80\xaf\xe2\x81\xaa"},
        {"\x9b"
         "1m \xe2\x80",
         "\\x9b1m \\xe2\\x80"},                    /* no UTF-8 */
        {"two\nlines\tand", "two\nlines\\x09and"}, /* the newline is kept */
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_buf out = {0};
        CHECK_ROW("row %zu", i);
        dt_utf8_put_visible(&out, rows[i].text, "\n");
        CHECK_STR(dt_buf_cstr(&out), rows[i].want);
        dt_buf_finish(&out);
    }
}
