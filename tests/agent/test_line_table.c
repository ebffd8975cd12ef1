/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/line_table.h"
#include "tests/lib/check.h"

/* A location's first byte: KIND, for N instructions. */
#define ENTRY(kind, n) (uint8_t)(0x80 | (kind) << 3 | ((n)-1))

TEST(each_kind_of_location_is_followed)
{
    /* clang-format off */
    static const struct {
        const char *story;
        uint8_t table[16];
        size_t len;
        int64_t instruction;
        int line;
    } rows[] = {
        {"before the first",          {ENTRY(10, 1), 0, 0}, 3, -1, 7},
        {"short",                     {ENTRY(0, 2), 0}, 2, 1, 7},
        {"one line, the same",        {ENTRY(10, 1), 0, 0}, 3, 0, 7},
        {"one line, two on",          {ENTRY(12, 1), 0, 0}, 3, 0, 9},
        {"no columns, three on",      {ENTRY(13, 1), 6}, 2, 0, 10},
        {"no columns, two back",      {ENTRY(13, 1), 5}, 2, 0, 5},
        {"long, 40 on",               {ENTRY(14, 1), 64 | 16, 1, 0, 0, 0}, 6, 0, 47},
        {"none",                      {ENTRY(15, 1)}, 1, 0, 0},
        {"the second entry",          {ENTRY(10, 8), 0, 0, ENTRY(11, 1), 0, 0}, 6, 8, 8},
        {"the line before none stays", {ENTRY(11, 1), 0, 0, ENTRY(15, 1), ENTRY(0, 1), 0}, 6, 2, 8},
        {"behind the last",           {ENTRY(10, 1), 0, 0}, 3, 1, 0},
        {"no table",                  {0}, 0, 0, 0},
        {"cut short",                 {ENTRY(10, 1), 0}, 2, 0, 0},
        {"an endless number",         {ENTRY(13, 1), 127, 127, 127, 127, 127, 127}, 7, 0, 0},
        {"no entry",                  {0x50, 0, 0}, 3, 0, 0},
        {"below the first line",      {ENTRY(13, 1), 31}, 2, 0, 0},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].story);
        CHECK_EQ(dt_line_table_at(DT_LINES_LOCATIONS, rows[i].table, rows[i].len, 7,
                                  rows[i].instruction * 2),
                 rows[i].line);
    }
}

/* Code that begins at line 7, with a table of two bytes an entry. */
struct two_bytes_row {
    const char *story;
    uint8_t table[16];
    size_t len;
    int64_t at;
    int line;
};

static void check_two_bytes(enum dt_line_format format, const struct two_bytes_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        CHECK_ROW("%s", rows[i].story);
        CHECK_EQ(dt_line_table_at(format, rows[i].table, rows[i].len, 7, rows[i].at), rows[i].line);
    }
}

TEST(a_change_of_the_line_comes_behind_its_bytes)
{
    /* clang-format off */
    static const struct two_bytes_row rows[] = {
        {"before the first",               {0, 2}, 2, -1, 7},
        {"at once",                        {0, 2}, 2, 0, 9},
        {"not yet",                        {4, 1}, 2, 3, 7},
        {"now",                            {4, 1}, 2, 4, 8},
        {"back",                           {4, 1, 2, 0xff}, 4, 6, 7},
        {"behind the last",                {4, 1}, 2, 400, 8},
        {"no table",                       {0}, 0, 8, 7},
        {"more lines than an entry holds", {4, 127, 0, 127, 0, 46}, 6, 4, 307},
        {"more bytes than an entry holds", {255, 0, 45, 1}, 4, 300, 8},
        {"cut short",                      {4, 1, 2}, 3, 8, 0},
        {"below the first line",           {0, 0xf0}, 2, 0, 0},
    };
    /* clang-format on */
    check_two_bytes(DT_LINES_NUMBERS, rows, sizeof rows / sizeof *rows);
}

TEST(a_range_has_one_line_or_none)
{
    /* clang-format off */
    static const struct two_bytes_row rows[] = {
        {"before the first",               {2, 2}, 2, -2, 7},
        {"the first",                      {4, 2}, 2, 2, 9},
        {"the second",                     {4, 2, 4, 1}, 4, 4, 10},
        {"back",                           {4, 2, 4, 0xfe}, 4, 6, 7},
        {"none",                           {4, 2, 4, 0x80, 2, 0}, 6, 6, 0},
        {"the line before none stays",     {4, 2, 4, 0x80, 2, 0}, 6, 8, 9},
        {"more lines than an entry holds", {4, 0, 0, 127, 0, 127, 6, 46}, 8, 8, 307},
        {"more bytes than an entry holds", {254, 1, 46, 0}, 4, 298, 8},
        {"behind the last",                {4, 2}, 2, 4, 0},
        {"no table",                       {0}, 0, 0, 0},
        {"cut short",                      {4, 2, 4}, 3, 4, 0},
        {"below the first line",           {4, 0xf0}, 2, 0, 0},
    };
    /* clang-format on */
    check_two_bytes(DT_LINES_RANGES, rows, sizeof rows / sizeof *rows);
}
