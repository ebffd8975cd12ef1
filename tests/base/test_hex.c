/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hex.h"
#include "tests/lib/check.h"

TEST(bytes_are_written_and_read)
{
    uint8_t bytes[256], again[256];
    char text[2 * sizeof bytes + 1];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    dt_hex(bytes, sizeof bytes, text);
    CHECK_EQ(strlen(text), 2 * sizeof bytes);
    CHECK(strncmp(text, "000102", 6) == 0);
    CHECK_STR(text + 2 * 253, "fdfeff");
    CHECK(dt_hex_read(text, again, sizeof again));
    CHECK(memcmp(bytes, again, sizeof bytes) == 0);
}

TEST(what_does_not_stand_for_so_many_bytes_is_not_read)
{
    static const char *const rows[] = {"",     "0",    "000",  "00000",           "000g",
                                       "00 0", "AB00", "0x00", "\xff\xff\xff\xff"};
    uint8_t bytes[2];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("\"%s\"", rows[i]);
        CHECK(!dt_hex_read(rows[i], bytes, sizeof bytes));
    }
    CHECK(dt_hex_read("ab0f", bytes, sizeof bytes));
    CHECK(dt_hex_read("", bytes, 0));
}
