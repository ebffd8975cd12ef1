/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/report/markup.h"
#include "tests/lib/check.h"

#include <math.h>

TEST(what_came_from_a_file_is_text_and_nothing_else)
{
    static const struct {
        const char *in, *out;
        size_t most;
    } rows[] = {
        {"plain", "plain", 100},
        {NULL, "", 100},
        {"<script>alert('1')</script>", "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;", 100},
        {"\" onload=\"x", "&quot; onload=&quot;x", 100},
        {"a & b &amp; c", "a &amp; b &amp;amp; c", 100},
        {"line\nbell\a", "line\\x0abell\\x07", 100},
        {"turn\xe2\x80\xae", "turn\\u202e", 100},
        {"no utf-8: \xff\xc3", "no utf-8: \\xff\\xc3", 100},
        {"no character \xef\xbf\xbe", "no character \xef\xbf\xbd", 100},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f", 100},
        {"gr\xc3\xbc\xc3\x9f", "gr\xe2\x80\xa6", 3}, /* not inside of a character */
        {"abcdef", "abc\xe2\x80\xa6", 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].in);
        struct dt_buf out = {0};
        dt_markup_text(&out, rows[i].in, rows[i].most);
        CHECK_STR(dt_buf_cstr(&out), rows[i].out);
        dt_buf_finish(&out);
    }
}

TEST(numbers_are_as_short_as_they_can_be)
{
    static const struct {
        double v;
        int digits;
        const char *out;
    } rows[] = {
        {1.5, 2, "1.5"},    {2, 2, "2"},        {0.001, 2, "0"},    {-0.001, 2, "0"},
        {100, 0, "100"},    {99.996, 2, "100"}, {-3.25, 1, "-3.2"}, {NAN, 2, "0"},
        {INFINITY, 2, "0"}, {-1e300, 2, "0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%g", rows[i].v);
        struct dt_buf out = {0};
        dt_markup_number(&out, rows[i].v, rows[i].digits);
        CHECK_STR(dt_buf_cstr(&out), rows[i].out);
        dt_buf_finish(&out);
    }
}
