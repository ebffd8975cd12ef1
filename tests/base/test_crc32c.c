/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"
#include "tests/lib/check.h"

static void check_both(struct dt_bytes bytes, uint32_t wanted)
{
    CHECK_EQ(dt_crc32c(0, bytes), wanted);
    CHECK_EQ(dt_crc32c_portable(0, bytes), wanted);
}

/* From RFC 3720, B.4, and the check value of the algorithm's catalogue entry. */
TEST(known_vectors)
{
    uint8_t b[32];
    struct dt_bytes all = {b, sizeof b};
    check_both(dt_bytes_of(""), 0);
    check_both(dt_bytes_of("123456789"), 0xe3069283);
    memset(b, 0, sizeof b);
    check_both(all, 0x8a9136aa);
    memset(b, 0xff, sizeof b);
    check_both(all, 0x62a8ab43);
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (uint8_t)i;
    check_both(all, 0x46dd794e);
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (uint8_t)(31 - i);
    check_both(all, 0x113fdb5c);
}

TEST(pieces_of_any_size_and_place_give_what_the_whole_gives)
{
    uint8_t b[67];
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (uint8_t)(i * i + 7 * i + 3);
    for (size_t from = 0; from < sizeof b; from++) {
        uint32_t whole = dt_crc32c_portable(0, (struct dt_bytes){b + from, sizeof b - from});
        for (size_t cut = from; cut <= sizeof b; cut++) {
            struct dt_bytes first = {b + from, cut - from}, second = {b + cut, sizeof b - cut};
            CHECK_ROW("from %zu, cut at %zu", from, cut);
            CHECK_EQ(dt_crc32c(dt_crc32c(0, first), second), whole);
            CHECK_EQ(dt_crc32c_portable(dt_crc32c_portable(0, first), second), whole);
        }
    }
}

TEST(two_sums_are_joined_without_the_bytes)
{
    static uint8_t b[5000];
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (uint8_t)(i * i + 7 * i + 3);
    uint32_t whole = dt_crc32c(0, (struct dt_bytes){b, sizeof b});
    for (size_t cut = 0; cut <= sizeof b; cut += cut < 70 || cut > 4930 ? 1 : 97) {
        uint32_t first = dt_crc32c(0, (struct dt_bytes){b, cut});
        uint32_t second = dt_crc32c(0, (struct dt_bytes){b + cut, sizeof b - cut});
        CHECK_ROW("cut at %zu", cut);
        CHECK_EQ(dt_crc32c_combine(first, second, sizeof b - cut), whole);
    }
}

/* Joined with itself again and again: 2^40 bytes, which nobody wants to read. Order and grouping
 * make no difference. */
TEST(sums_of_great_lengths_are_joined)
{
    uint8_t b[16] = {1, 2, 3};
    uint32_t one = dt_crc32c(0, (struct dt_bytes){b, sizeof b});
    uint32_t all = one;
    for (uint64_t len = sizeof b; len < (uint64_t)1 << 40; len *= 2)
        all = dt_crc32c_combine(all, all, len);
    uint32_t left = dt_crc32c_combine(one, all, (uint64_t)1 << 40);
    uint32_t right = dt_crc32c_combine(all, one, sizeof b);
    CHECK_EQ(left, right);
}
