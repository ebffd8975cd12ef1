/* SPDX-License-Identifier: Apache-2.0 */
/* A picture, and what a terminal is sent for it. */
#include "ctl/top/screen.h"
#include "ctl/top/wrap.h"
#include "tests/lib/check.h"

static void check_sent(const struct dt_picture *shown, const struct dt_picture *next, bool colours,
                       const char *expected)
{
    struct dt_buf out = {0};
    dt_screen_put(shown, next, colours, &out);
    CHECK_STR(dt_buf_cstr(&out), expected);
    dt_buf_finish(&out);
}

TEST(a_picture_holds_nothing_that_steers_a_terminal)
{
    struct dt_picture p;
    struct dt_buf out = {0};
    CHECK_EQ(dt_picture_init(&p, 3, 12), 0);
    CHECK_EQ(dt_picture_put(&p, 0, 0, DT_LOOK_PLAIN, "a\033[2J\r\n\x9b\177b"), 10);
    CHECK_EQ(dt_picture_put(&p, 1, 8, DT_LOOK_PLAIN, "too long"), 12);
    dt_picture_put(&p, 7, 0, DT_LOOK_PLAIN, "nowhere");
    dt_picture_put(&p, -1, 0, DT_LOOK_PLAIN, "nowhere");
    dt_picture_put_text(&p, &out);
    CHECK_STR(dt_buf_cstr(&out), "a?[2J????b\n        too\n");
    dt_buf_finish(&out);
    dt_picture_finish(&p);
}

TEST(only_rows_that_changed_are_sent)
{
    struct dt_picture a, b, none = {0};
    CHECK_EQ(dt_picture_init(&a, 2, 4), 0);
    CHECK_EQ(dt_picture_init(&b, 2, 4), 0);
    dt_picture_put(&a, 0, 0, DT_LOOK_PLAIN, "one");
    dt_picture_put(&b, 0, 0, DT_LOOK_PLAIN, "one");
    check_sent(&none, &a, true, "\033[m\033[H\033[2J\033[1;1Hone\033[K\033[2;1H\033[K");
    check_sent(&a, &b, true, "");
    dt_picture_put(&b, 1, 0, DT_LOOK_PLAIN, "full");
    check_sent(&a, &b, true, "\033[2;1Hfull"); /* nothing is to be erased behind the last column */
    dt_picture_mark_row(&b, 0, DT_LOOK_REVERSE);
    check_sent(&a, &b, true, "\033[1;1H\033[0;7mone \033[m\033[2;1Hfull");
    dt_picture_finish(&a);
    dt_picture_finish(&b);
}

TEST(colours_can_be_done_without)
{
    struct dt_picture p, none = {0};
    CHECK_EQ(dt_picture_init(&p, 1, 9), 0);
    dt_picture_put(&p, 0, 0, DT_LOOK_BAD | DT_LOOK_BOLD, "bad");
    dt_picture_put(&p, 0, 3, DT_LOOK_GOOD, "good");
    check_sent(&none, &p, true,
               "\033[m\033[H\033[2J\033[1;1H\033[0;1;31mbad\033[0;32mgood\033[m\033[K");
    check_sent(&none, &p, false, "\033[m\033[H\033[2J\033[1;1H\033[0;1mbad\033[0mgood\033[m\033[K");
    dt_picture_finish(&p);
}

TEST(long_lines_go_on_below)
{
    static const struct {
        const char *text;
        int width;
        const char *rows; /* with | between them */
    } rows[] = {
        {"", 5, ""},
        {"one", 5, "one|"},
        {"one\n", 5, "one|"},
        {"one\n\ntwo", 5, "one||two|"},
        {"one two", 7, "one two|"},
        {"one two", 6, "one|two|"},
        {"one two", 3, "one|two|"},
        {"onetwo", 4, "onet|wo|"},
        {"  onetwo", 4, " |onet|wo|"},
        {"ab", 0, "a|b|"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("\"%s\" in %d", rows[i].text, rows[i].width);
        struct dt_buf out = {0};
        size_t count = 0;
        for (const char *text = rows[i].text; *text; count++) {
            const char *begin = text;
            size_t len = dt_wrap_row(begin, rows[i].width, &text);
            CHECK(text > begin);
            dt_buf_printf(&out, "%.*s|", (int)len, begin);
        }
        CHECK_STR(dt_buf_cstr(&out), rows[i].rows);
        CHECK_EQ(dt_wrap_count(rows[i].text, rows[i].width), count);
        dt_buf_finish(&out);
    }
}
