/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/excerpt.h"
#include "tests/lib/check.h"

static void check_excerpt(struct dt_bytes last, const char *wanted)
{
    struct dt_buf out = {0};
    dt_excerpt_put(last, &out);
    CHECK_STR(dt_buf_cstr(&out), wanted);
    dt_buf_finish(&out);
}

TEST(the_last_traceback_is_found_or_the_last_lines)
{
#define MARK "Traceback (most recent call last):"
    static const struct {
        const char *last, *shown;
    } rows[] = {
        {"", ""},
        {"\n \t\r\n\n", ""},
        {"one", "one"},
        {"\n\n  one\n\ntwo\n\n", "  one\n\ntwo"},
        {"noise\n" MARK "\n  File\nValueError: x\n", MARK "\n  File\nValueError: x"},
        {MARK "\nKeyError\n\nDuring\n\n" MARK "\nOSError\nbye\n", MARK "\nOSError\nbye"},
        {"x\n[rank0]: " MARK "\n[rank0]: E\n", "[rank0]: " MARK "\n[rank0]: E"},
        {"Traceback (most recent call last)\nx", "Traceback (most recent call last)\nx"},
        {MARK, MARK},
        {"a\r\nb\r\n", "a\nb"},
        {" 10%\r 50%\r100%\ndone", "100%\ndone"},
        {" 10%\r 50%\r", " 50%"},
        {"\x1b[1;31mred\x1b[0m x\x1b]0;title\ay\x1b]8;;u\x1b\\z\x1b(Bw\x1b", "red xyzBw"},
        {"\x1b[12", ""},
        {"a\x01\x7f\bb\tc", "ab\tc"},
        {"gr\xc3\xb6\xc3\x9f"
         "e",
         "gr\xc3\xb6\xc3\x9f"
         "e"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        check_excerpt(dt_bytes_of(rows[i].last), rows[i].shown);
    }
    check_excerpt((struct dt_bytes){0}, "");
}

TEST(of_many_lines_the_last_twenty_are_shown)
{
    char all[1000] = "", wanted[1000] = "";
    for (int i = 0; i < 50; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "line %d\n", i);
    for (int i = 30; i < 50; i++)
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "line %d%s", i,
                 i == 49 ? "" : "\n");
    check_excerpt(dt_bytes_of(all), wanted);
}

/* How many lines TEXT has. */
static size_t count_lines(struct dt_buf *text)
{
    size_t n = 1;
    for (const char *c = dt_buf_cstr(text); *c; c++)
        n += *c == '\n';
    return n;
}

TEST(a_long_traceback_keeps_both_its_ends)
{
    struct dt_buf all = {0}, out = {0};
    dt_buf_put_str(&all, MARK "\n");
    for (int i = 0; i < 5000; i++)
        dt_buf_printf(&all, "  File %d\n", i);
    dt_buf_put_str(&all, "RuntimeError: deep\n");
    dt_excerpt_put((struct dt_bytes){all.at, all.len}, &out);
    CHECK_EQ(count_lines(&out), 121);
    CHECK(strncmp(dt_buf_cstr(&out), MARK "\n  File 0\n", sizeof MARK + 9) == 0);
    CHECK(strstr(dt_buf_cstr(&out), "  File 58\n...\n  File 4941\n") != NULL);
    CHECK(strstr(dt_buf_cstr(&out), "  File 4999\nRuntimeError: deep") != NULL);
    dt_buf_finish(&all);
    dt_buf_finish(&out);
}

TEST(a_long_line_is_cut_between_characters)
{
    struct dt_buf all = {0}, out = {0};
    dt_buf_put_u8(&all, 'x');
    for (int i = 0; i < 1000; i++)
        dt_buf_put_str(&all, "\xc3\xa4");
    dt_excerpt_put((struct dt_bytes){all.at, all.len}, &out);
    CHECK_EQ(out.len, 1001 + 3);
    CHECK_BYTES(out.at + out.len - 5, 5, "\xc3\xa4...", 5);
    dt_buf_clear(&all);
    dt_buf_clear(&out);
    for (int i = 0; i < 50000; i++)
        dt_buf_put_u8(&all, 0x80);
    dt_excerpt_put((struct dt_bytes){all.at, all.len}, &out);
    CHECK(out.len < 1010);
    dt_buf_finish(&all);
    dt_buf_finish(&out);
}
