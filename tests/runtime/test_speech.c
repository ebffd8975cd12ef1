/* SPDX-License-Identifier: Apache-2.0 */
/* A text that comes in parts of any size. */
#include "worker_runtime/generate/speech.h"

#include "tests/lib/check.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

struct row {
    const char *text;
    const char *stops[3];
    size_t len; /* of TEXT, where it holds a NUL; 0: its own */
    bool visible;
    const char *shown;
};

/* What is shown of the row's text that comes PART bytes at a time. */
static void say(const struct row *r, size_t part, struct dt_buf *out)
{
    size_t len = r->len ? r->len : strlen(r->text), stops = 0;
    while (stops < ROWS(r->stops) && r->stops[stops])
        stops++;
    struct dt_speech s = {.stops = {r->stops, stops}, .visible = r->visible};
    for (size_t at = 0; at < len; at += part) {
        size_t left = len - at;
        const struct dt_bytes bytes = {(const uint8_t *)r->text + at, left < part ? left : part};
        dt_speech_put(&s, bytes, false, out);
    }
    dt_speech_put(&s, (struct dt_bytes){NULL, 0}, true, out);
    dt_speech_finish(&s);
}

TEST(what_is_shown_does_not_hang_on_the_parts)
{
    static const struct row rows[] = {
        {.text = "", .shown = ""},
        {.text = "plain", .shown = "plain"},
        {.text = "gr\xc3\xbc\xc3\x9f dich \xf0\x9f\x98\x80",
         .shown = "gr\xc3\xbc\xc3\x9f dich \xf0\x9f\x98\x80"},
        {.text = "no \xc3 text", .shown = "no \xef\xbf\xbd text"},
        {.text = "cut \xe2\x82", .shown = "cut \xef\xbf\xbd"},
        {.text = "one two three", .stops = {"two"}, .shown = "one "},
        {.text = "one two three", .stops = {"three", "two"}, .shown = "one "},
        {.text = "one tw", .stops = {"two"}, .shown = "one tw"},
        {.text = "one twtwo", .stops = {"two"}, .shown = "one tw"},
        {.text = "ababac", .stops = {"abac"}, .shown = "ab"},
        {.text = "two", .stops = {"two"}, .shown = ""},
        {.text = "a\nUser: b", .stops = {"\nUser:"}, .shown = "a"},
        {.text = "a \xc3\xbc b", .stops = {"\xc3\xbc"}, .shown = "a "},
        /* A terminal obeys none of it; to a file it goes as it is. */
        {.text = "a\x1b[2Jb\r\n\tc\x7f", .visible = true, .shown = "a\\x1b[2Jb\\x0d\n\tc\\x7f"},
        {.text = "a\x1b[2Jb", .shown = "a\x1b[2Jb"},
        {.text = "a\xc2\x9b"
                 "b",
         .visible = true,
         .shown = "a\\u009bb"},
        {.text = "a\0b\0", .len = 4, .visible = true, .shown = "a\\x00b\\x00"},
        {.text = "a\0b--c", .len = 6, .visible = true, .stops = {"--"}, .shown = "a\\x00b"},
    };
    for (size_t i = 0; i < ROWS(rows); i++)
        for (size_t part = 1; part < 12; part++) {
            struct dt_buf out = {0};
            CHECK_ROW("row %zu by %zu", i, part);
            say(&rows[i], part, &out);
            CHECK_STR(dt_buf_cstr(&out), rows[i].shown);
            dt_buf_finish(&out);
        }
}

TEST(text_that_begins_no_stop_is_shown_at_once)
{
    const char *stops[] = {"END", "\n\n"};
    struct dt_speech s = {.stops = {stops, 2}};
    struct dt_buf out = {0};
    dt_speech_put(&s, dt_bytes_of("one\n"), false, &out);
    CHECK_STR(dt_buf_cstr(&out), "one");
    dt_speech_put(&s, dt_bytes_of("two E"), false, &out);
    CHECK_STR(dt_buf_cstr(&out), "one\ntwo ");
    dt_speech_put(&s, dt_bytes_of("NTER\xc3"), false, &out);
    CHECK_STR(dt_buf_cstr(&out), "one\ntwo ENTER");
    dt_speech_put(&s, dt_bytes_of("\xbc END more"), false, &out);
    CHECK_STR(dt_buf_cstr(&out), "one\ntwo ENTER\xc3\xbc ");
    CHECK(s.stopped);
    dt_speech_put(&s, dt_bytes_of("and more"), true, &out);
    CHECK_STR(dt_buf_cstr(&out), "one\ntwo ENTER\xc3\xbc ");
    dt_speech_finish(&s);
    dt_buf_finish(&out);
}
