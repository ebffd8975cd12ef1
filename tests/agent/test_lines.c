/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/lines.h"

#include "tests/lib/check.h"

/* A line that starts is marked with >, one that ends with |. */
static void note(void *arg, struct dt_bytes piece, bool starts, bool ends)
{
    struct dt_buf *out = arg;
    if (starts)
        dt_buf_put_u8(out, '>');
    dt_buf_put(out, piece.at, piece.len);
    if (ends)
        dt_buf_put_u8(out, '|');
}

static struct dt_bytes part(const char *text, size_t from, size_t to)
{
    return (struct dt_bytes){(const uint8_t *)text + from, to - from};
}

/* clang-format off */
static const struct row {
    const char *in, *put, *ended; /* what put passes on, and what comes when no more does */
} rows[] = {
    {"", "", ""},
    {"one\n", ">one\n|", ""},
    {"one\ntwo\n", ">one\n|>two\n|", ""},
    {"\n\n", ">\n|>\n|", ""},
    {"one\ntw", ">one\n|", ">tw\n|"},
    {"no end", "", ">no end\n|"},
    {"10%\r20%\r30%\r\n", ">10%\r|>20%\r|>30%\r\n|", ""},
    {"dos\r\nline\r\n", ">dos\r\n|>line\r\n|", ""},
    {"\r\r\n\n", ">\r|>\r\n|>\n|", ""},
    {"a\n\rb\r", ">a\n|>\r|>b\r|", ""},
    {"\xff\xfe\n\xc3", ">\xff\xfe\n|", ">\xc3\n|"},
    {"\xc3\xa4\r\xe2\x82\xac\n", ">\xc3\xa4\r|>\xe2\x82\xac\n|", ""},
};
/* clang-format on */

#define each_row(r) for (const struct row *r = rows; r < rows + sizeof rows / sizeof *rows; r++)

TEST(lines_come_out_whole_and_keep_their_ends)
{
    each_row(r)
    {
        CHECK_ROW("%zu", (size_t)(r - rows));
        struct dt_lines l = {0};
        struct dt_buf out = {0};
        dt_lines_put(&l, dt_bytes_of(r->in), note, &out);
        CHECK_STR(dt_buf_cstr(&out), r->put);
        dt_buf_clear(&out);
        dt_lines_end(&l, note, &out);
        CHECK_STR(dt_buf_cstr(&out), r->ended);
        dt_lines_finish(&l);
        dt_buf_finish(&out);
    }
}

/* A \r is shown when it comes; its \n, if there is one, comes behind: ">a\r|\n|" for ">a\r\n|". */
static void join_halves(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (!(from[0] == '|' && from[1] == '\n' && from > text && from[-1] == '\r'))
            *to++ = *from;
    *to = '\0';
}

static void check_slices(const struct row *r, size_t first, size_t step)
{
    struct dt_lines l = {0};
    struct dt_buf out = {0};
    char wanted[200];
    size_t len = strlen(r->in);
    for (size_t from = 0, to = first; from < len; from = to, to += step)
        dt_lines_put(&l, part(r->in, from, to < len ? to : len), note, &out);
    dt_lines_end(&l, note, &out);
    dt_buf_cstr(&out);
    join_halves((char *)out.at);
    snprintf(wanted, sizeof wanted, "%s%s", r->put, r->ended);
    CHECK_STR((char *)out.at, wanted);
    dt_lines_finish(&l);
    dt_buf_finish(&out);
}

TEST(however_the_bytes_are_cut_the_lines_are_the_same)
{
    each_row(r)
    {
        for (size_t cut = 1; cut < strlen(r->in); cut++) {
            CHECK_ROW("%zu cut at %zu", (size_t)(r - rows), cut);
            check_slices(r, cut, 100);
        }
        CHECK_ROW("%zu byte by byte", (size_t)(r - rows));
        check_slices(r, 1, 1);
    }
}

TEST(an_unfinished_line_can_be_shown_and_goes_on_without_a_new_start)
{
    struct dt_lines l = {0};
    struct dt_buf out = {0};
    dt_lines_put(&l, dt_bytes_of("load"), note, &out);
    CHECK_STR(dt_buf_cstr(&out), "");
    dt_lines_show(&l, note, &out);
    dt_lines_show(&l, note, &out);
    CHECK_STR(dt_buf_cstr(&out), ">load");
    dt_lines_put(&l, dt_bytes_of("ing"), note, &out);
    CHECK_STR(dt_buf_cstr(&out), ">load");
    dt_lines_put(&l, dt_bytes_of("\nnext\n"), note, &out);
    CHECK_STR(dt_buf_cstr(&out), ">loading\n|>next\n|");
    dt_lines_put(&l, dt_bytes_of("end"), note, &out);
    dt_lines_show(&l, note, &out);
    dt_lines_end(&l, note, &out);
    CHECK_STR(dt_buf_cstr(&out), ">loading\n|>next\n|>end\n|");
    dt_lines_finish(&l);
    dt_buf_finish(&out);
}

TEST(a_line_too_long_to_hold_is_passed_on_in_pieces_that_start_once)
{
    struct dt_lines l = {0};
    struct dt_buf out = {0};
    char slice[1000];
    memset(slice, 'x', sizeof slice);
    size_t total = 3 * DT_LINES_LONGEST;
    for (size_t n = 0; n < total; n += sizeof slice) {
        dt_lines_put(&l, part(slice, 0, sizeof slice), note, &out);
        CHECK(l.tail.len <= DT_LINES_LONGEST);
    }
    CHECK(out.len > DT_LINES_LONGEST);
    dt_lines_put(&l, dt_bytes_of("\n"), note, &out);
    size_t len = (total + sizeof slice - 1) / sizeof slice * sizeof slice;
    CHECK_EQ(out.len, len + 3);
    CHECK_EQ(out.at[0], '>');
    for (size_t i = 1; i <= len; i++)
        if (out.at[i] != 'x')
            CHECK_EQ(i, 0);
    CHECK(memcmp(out.at + 1 + len, "\n|", 2) == 0);
    dt_lines_finish(&l);
    dt_buf_finish(&out);
}
