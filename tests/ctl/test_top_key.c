/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/key.h"
#include "tests/lib/check.h"

#define ROW(text) text, sizeof text - 1

static const struct {
    const char *bytes;
    size_t len;
    bool quiet;
    enum dt_decoded decoded;
    enum dt_key_kind kind;
    char character;
    size_t used;
} rows[] = {
    /* clang-format off */
    {ROW(""),            true,  DT_MORE, DT_KEY_OTHER,     0,   0},
    {ROW("q"),           false, DT_DONE, DT_KEY_CHARACTER, 'q', 1},
    {ROW(" x"),          false, DT_DONE, DT_KEY_CHARACTER, ' ', 1},
    {ROW("\r"),          false, DT_DONE, DT_KEY_ENTER,     0,   1},
    {ROW("\n"),          false, DT_DONE, DT_KEY_ENTER,     0,   1},
    {ROW("\177"),        false, DT_DONE, DT_KEY_BACKSPACE, 0,   1},
    {ROW("\b"),          false, DT_DONE, DT_KEY_BACKSPACE, 0,   1},
    {ROW("\f"),          false, DT_DONE, DT_KEY_REDRAW,    0,   1},
    {ROW("\0"),          false, DT_DONE, DT_KEY_OTHER,     0,   1},
    {ROW("\303\274"),    false, DT_DONE, DT_KEY_OTHER,     0,   1},
    {ROW("\033"),        false, DT_MORE, DT_KEY_OTHER,     0,   0},
    {ROW("\033"),        true,  DT_DONE, DT_KEY_ESCAPE,    0,   1},
    {ROW("\033["),       false, DT_MORE, DT_KEY_OTHER,     0,   0},
    {ROW("\033["),       true,  DT_DONE, DT_KEY_ESCAPE,    0,   1},
    {ROW("\033[A"),      false, DT_DONE, DT_KEY_UP,        0,   3},
    {ROW("\033[Bj"),     false, DT_DONE, DT_KEY_DOWN,      0,   3},
    {ROW("\033[1;5B"),   false, DT_DONE, DT_KEY_DOWN,      0,   6},
    {ROW("\033[1;5"),    false, DT_MORE, DT_KEY_OTHER,     0,   0},
    {ROW("\033O"),       false, DT_MORE, DT_KEY_OTHER,     0,   0},
    {ROW("\033OA"),      false, DT_DONE, DT_KEY_UP,        0,   3},
    {ROW("\033OH"),      false, DT_DONE, DT_KEY_HOME,      0,   3},
    {ROW("\033[H"),      false, DT_DONE, DT_KEY_HOME,      0,   3},
    {ROW("\033[1~"),     false, DT_DONE, DT_KEY_HOME,      0,   4},
    {ROW("\033[4~"),     false, DT_DONE, DT_KEY_END,       0,   4},
    {ROW("\033[F"),      false, DT_DONE, DT_KEY_END,       0,   3},
    {ROW("\033[5~"),     false, DT_DONE, DT_KEY_PAGE_UP,   0,   4},
    {ROW("\033[6~"),     false, DT_DONE, DT_KEY_PAGE_DOWN, 0,   4},
    {ROW("\033[6;2~"),   false, DT_DONE, DT_KEY_PAGE_DOWN, 0,   6},
    {ROW("\033[15~"),    false, DT_DONE, DT_KEY_OTHER,     0,   5}, /* F5 is no PgUp */
    {ROW("\033[?1;2c"),  false, DT_DONE, DT_KEY_OTHER,     0,   7},
    {ROW("\033[99999999999999999999A"), false, DT_DONE, DT_KEY_UP, 0, 23},
    {ROW("\033q"),       false, DT_DONE, DT_KEY_ESCAPE,    0,   1},
    {ROW("\033\033[A"),  false, DT_DONE, DT_KEY_ESCAPE,    0,   1},
    {ROW("\033[1\033[A"), false, DT_DONE, DT_KEY_OTHER,    0,   3},
    {ROW("\033[0000000000000000000000000000000000"), false, DT_DONE, DT_KEY_OTHER, 0, 32},
    /* clang-format on */
};

TEST(bytes_are_keys)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu: %zu bytes, \"%s\"", i, rows[i].len, rows[i].bytes + (*rows[i].bytes == 27));
        struct dt_key key = {DT_KEY_OTHER, 0};
        size_t used = 0;
        struct dt_bytes in = {(const uint8_t *)rows[i].bytes, rows[i].len};
        CHECK_EQ(dt_key_read(in, rows[i].quiet, &key, &used), rows[i].decoded);
        CHECK_EQ(key.kind, rows[i].kind);
        CHECK_EQ(key.character, rows[i].character);
        CHECK_EQ(used, rows[i].used);
    }
}

/* A key is the same however its bytes come. */
TEST(a_key_that_comes_byte_by_byte_is_the_same)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        struct dt_key key = {DT_KEY_OTHER, 0};
        size_t used = 0, len = 0;
        enum dt_decoded got = DT_MORE;
        if (rows[i].quiet)
            continue;
        while (got == DT_MORE && len < rows[i].len) {
            len++;
            got = dt_key_read((struct dt_bytes){(const uint8_t *)rows[i].bytes, len}, false, &key,
                              &used);
        }
        CHECK_EQ(got, rows[i].decoded);
        CHECK_EQ(key.kind, rows[i].kind);
        CHECK_EQ(used, rows[i].used);
    }
}
