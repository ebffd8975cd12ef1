/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/line_table.h"
#include "tests/lib/check.h"

/* An entry's first byte: KIND, for N instructions. */
#define ENTRY(kind, n) (uint8_t)(0x80 | (kind) << 3 | ((n)-1))

TEST(each_kind_of_entry_is_followed)
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
        CHECK_EQ(dt_line_table_at(rows[i].table, rows[i].len, 7, rows[i].instruction),
                 rows[i].line);
    }
}
