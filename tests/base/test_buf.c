/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "tests/lib/check.h"

TEST(integers_are_little_endian_and_come_back)
{
    struct dt_buf b = {0};
    dt_buf_put_u8(&b, 0x01);
    dt_buf_put_u32(&b, 0x05040302);
    dt_buf_put_u64(&b, 0x0d0c0b0a09080706);
    dt_buf_put_i64(&b, -2);
    CHECK_BYTES(b.at, b.len,
                "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d"
                "\xfe\xff\xff\xff\xff\xff\xff\xff",
                21);
    struct dt_reader r = dt_reader_over(b.at, b.len);
    CHECK_EQ(dt_read_u8(&r), 1);
    CHECK_EQ(dt_read_u32(&r), 0x05040302);
    CHECK_EQ(dt_read_u64(&r), 0x0d0c0b0a09080706);
    CHECK_EQ(dt_read_i64(&r), -2);
    CHECK(!r.bad);
    CHECK_EQ(dt_reader_left(&r), 0);
    dt_buf_finish(&b);
}

TEST(a_buffer_is_as_large_as_it_is_told_or_as_its_content)
{
    struct dt_buf b = {0};
    CHECK_EQ(dt_buf_resize(&b, 1000), 0);
    CHECK_EQ(b.size, 1000);
    dt_buf_put_str(&b, "gone and left");
    dt_buf_consume(&b, 9);
    dt_buf_trim(&b);
    CHECK_EQ(b.size, 4);
    CHECK_EQ(dt_buf_resize(&b, 1), 0);
    CHECK_BYTES(b.at, b.len, "left", 4);
    dt_buf_consume(&b, 4);
    dt_buf_trim(&b);
    CHECK(b.base == NULL);
    CHECK_EQ(b.size, 0);
}

TEST(a_length_is_set_when_it_is_known)
{
    struct dt_buf b = {0};
    dt_buf_put_str(&b, "gone");
    dt_buf_consume(&b, 4);
    dt_buf_put_str(&b, "a....b");
    dt_buf_set_u32(&b, 1, 0x05040302);
    CHECK_BYTES(b.at, b.len, "a\2\3\4\5b", 6);
    dt_buf_finish(&b);
}

TEST(a_reader_cut_at_any_byte_goes_bad_and_stays_bad)
{
    static const uint8_t message[1 + 4 + 8 + 8 + 5] = {1, 2, 3};
    for (size_t len = 0; len <= sizeof message; len++) {
        CHECK_ROW("cut to %zu bytes", len);
        /* A copy of just that size lets the sanitizer see a read beyond it. */
        uint8_t *copy = malloc(len + !len);
        memcpy(copy, message, len);
        struct dt_reader r = dt_reader_over(copy, len);
        dt_read_u8(&r);
        dt_read_u32(&r);
        dt_read_u64(&r);
        dt_read_i64(&r);
        const uint8_t *tail = dt_read_bytes(&r, 5);
        CHECK_EQ(r.bad, len < sizeof message);
        CHECK_EQ(tail != NULL, len == sizeof message);
        if (r.bad) {
            CHECK_EQ(dt_read_u8(&r), 0);
            CHECK(dt_read_bytes(&r, 0) == NULL);
            CHECK(r.bad);
        }
        free(copy);
    }
}

TEST(a_short_read_consumes_nothing)
{
    struct dt_reader r = dt_reader_over("abc", 3);
    CHECK_EQ(dt_read_u32(&r), 0);
    CHECK_EQ(dt_reader_left(&r), 3);
    CHECK_EQ(dt_read_u8(&r), 0); /* though there are bytes: sticky */
}

TEST(lengths_from_outside_do_not_wrap)
{
    static const uint64_t lens[] = {4, (uint64_t)1 << 32, (uint64_t)1 << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        CHECK_ROW("length %ju", (uintmax_t)lens[i]);
        struct dt_reader r = dt_reader_over("abc", 3);
        CHECK(dt_read_bytes(&r, lens[i]) == NULL);
        CHECK(r.bad);
    }
}

TEST(what_is_consumed_gives_its_room_back)
{
    struct dt_buf b = {0};
    uint8_t block[200];
    for (int i = 0; i < 10000; i++) {
        memset(block, i & 0xff, sizeof block);
        dt_buf_put(&b, block, sizeof block);
        if (b.len > 400) {
            CHECK_EQ(*b.at, (i - 2) & 0xff);
            dt_buf_consume(&b, sizeof block);
        }
    }
    CHECK(b.size <= 1024);
    dt_buf_consume(&b, b.len);
    CHECK_EQ(dt_buf_free_room(&b), b.size);
    dt_buf_finish(&b);
}

TEST(room_then_grew_makes_content)
{
    struct dt_buf b = {0};
    CHECK_EQ(dt_buf_free_room(&b), 0);
    uint8_t *to = dt_buf_room(&b, 10);
    CHECK(to != NULL);
    CHECK(dt_buf_free_room(&b) >= 10);
    memcpy(to, "0123456789", 10);
    dt_buf_grew(&b, 10);
    CHECK_BYTES(b.at, b.len, "0123456789", 10);
    dt_buf_finish(&b);
    CHECK_EQ(b.size, 0);
    dt_buf_finish(&b); /* zeroed memory is an empty one */
}

TEST(an_impossible_size_makes_it_bad_until_cleared_or_finished)
{
    struct dt_buf b = {0};
    dt_buf_put_str(&b, "x");
    /* Opaque, or gcc warns about a size it can see; our own check must refuse before realloc is
     * asked. */
    volatile size_t huge = SIZE_MAX;
    CHECK(dt_buf_room(&b, huge) == NULL);
    CHECK(dt_buf_room(&b, huge - 2) == NULL);
    CHECK(b.bad);
    dt_buf_put_str(&b, "y");
    dt_buf_printf(&b, "%d", 1);
    CHECK_EQ(b.len, 1);
    CHECK_STR(dt_buf_cstr(&b), "");
    dt_buf_finish(&b);
    CHECK(!b.bad);
}

TEST(text_is_appended_and_ended)
{
    struct dt_buf b = {0};
    CHECK_STR(dt_buf_cstr(&b), "");
    dt_buf_put_str(&b, "a=");
    dt_buf_printf(&b, "%d,%s", 7, "b");
    dt_buf_put(&b, NULL, 0);
    CHECK_STR(dt_buf_cstr(&b), "a=7,b");
    CHECK_EQ(b.len, 5);
    for (int i = 0; i < 1000; i++)
        dt_buf_printf(&b, "%03d", i);
    CHECK_EQ(b.len, 3005);
    CHECK_BYTES(b.at + 3002, 3, "999", 3);
    dt_buf_clear(&b);
    CHECK_STR(dt_buf_cstr(&b), "");
    dt_buf_finish(&b);
}

TEST(views_compare_and_copy_even_when_empty)
{
    struct dt_bytes none = {0};
    char out[4] = "zzz";
    CHECK(dt_bytes_equal(none, dt_bytes_of("")));
    CHECK(dt_bytes_equal(dt_bytes_of("ab"), dt_bytes_of("ab")));
    CHECK(!dt_bytes_equal(dt_bytes_of("ab"), dt_bytes_of("abc")));
    CHECK(!dt_bytes_equal(dt_bytes_of("ab"), dt_bytes_of("ax")));
    dt_bytes_copy(out, none);
    CHECK_STR(out, "zzz");
}

TEST(a_text_is_read_as_it_was_written_and_never_past_its_room)
{
    struct dt_buf b = {0};
    char out[8];
    dt_buf_put_text(&b, "");
    dt_buf_put_text(&b, "node0");
    struct dt_reader r = dt_reader_over(b.at, b.len);
    dt_read_text(&r, out, sizeof out);
    CHECK_STR(out, "");
    dt_read_text(&r, out, sizeof out);
    CHECK_STR(out, "node0");
    CHECK(!r.bad && dt_reader_left(&r) == 0);
    for (size_t cut = 4; cut < b.len; cut++) { /* of the second one */
        r = dt_reader_over(b.at + 4, cut - 4);
        dt_read_text(&r, out, sizeof out);
        CHECK(r.bad);
        CHECK_STR(out, "");
    }
    r = dt_reader_over(b.at + 4, b.len - 4);
    dt_read_text(&r, out, 5); /* no room for its NUL */
    CHECK(r.bad);
    b.at[b.len - 1] = '\0';
    r = dt_reader_over(b.at + 4, b.len - 4);
    dt_read_text(&r, out, sizeof out);
    CHECK(r.bad);
    dt_buf_finish(&b);
}
