/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/strip.h"

#include "tests/lib/check.h"

/* clang-format off */
static const struct row {
    const char *in, *left;
} rows[] = {
    {"plain\n", "plain\n"},
    {"\x1b[31mred\x1b[0m\n", "red\n"},
    {"\x1b[1;38;5;200mbold\x1b[K", "bold"},
    {"a\x1b[?25lb", "ab"},
    {"\x1b]0;a title\x07text", "text"},
    {"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"},
    {"\x1bPq#0\x1b\\after", "after"},
    {"\x1b(Bascii\x1b=", "ascii"},
    {"\x1b]\x1b]0\x07text", "text"},
    {"cut \x1b[31\nnext", "cut \nnext"},
    {"cut \x1b]0;never ends\r\nnext", "cut \r\nnext"},
    {"\xe2\x9b\x5b is no code", "\xe2\x9b\x5b is no code"},
    {"tab\there\x08", "tab\there\x08"},
    {"ends in \x1b", "ends in "},
};
/* clang-format on */

static void check_slices(const struct row *r, size_t first, size_t step)
{
    struct dt_strip s = {0};
    char out[100];
    size_t len = strlen(r->in), n = 0;
    for (size_t from = 0, to = first; from < len; from = to, to += step) {
        size_t part = (to < len ? to : len) - from;
        memcpy(out + n, r->in + from, part);
        n += dt_strip(&s, (uint8_t *)out + n, part);
    }
    out[n] = '\0';
    CHECK_STR(out, r->left);
}

TEST(codes_go_text_stays_however_it_is_cut)
{
    for (const struct row *r = rows; r < rows + sizeof rows / sizeof *rows; r++) {
        CHECK_ROW("%zu", (size_t)(r - rows));
        for (size_t cut = 1; cut <= strlen(r->in); cut++)
            check_slices(r, cut, 100);
        check_slices(r, 1, 1);
    }
}
