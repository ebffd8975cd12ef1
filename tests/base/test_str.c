/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "tests/lib/check.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

TEST(names_are_as_far_apart_as_the_letters_to_change)
{
    static const struct {
        const char *a, *b;
        size_t distance;
    } rows[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"abc", "", 3},
        {"stage", "stage", 0},
        {"stagee", "stage", 1},
        {"sgate", "stage", 2},
        {"kitten", "sitting", 3},
        {"this-name-is-of-many-more-letters-than-anybody-types", "x", SIZE_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s, %s", rows[i].a, rows[i].b);
        CHECK_EQ(dt_str_distance(rows[i].a, rows[i].b), rows[i].distance);
        CHECK_EQ(dt_str_distance(rows[i].b, rows[i].a), rows[i].distance);
    }
}

TEST(whole_numbers)
{
    /* clang-format off */
    static const struct { const char *s; int64_t min, max; bool ok; int64_t is; } rows[] = {
        {"0", 0, 10, true, 0},
        {"10", 0, 10, true, 10},
        {"-5", -5, 10, true, -5},
        {"9223372036854775807", 0, INT64_MAX, true, INT64_MAX},
        {"-9223372036854775808", INT64_MIN, 0, true, INT64_MIN},
        {"9223372036854775808", 0, INT64_MAX, false, 0},
        {"11", 0, 10, false, 0},
        {"-1", 0, 10, false, 0},
        {"", 0, 10, false, 0},
        {" 1", 0, 10, false, 0},
        {"1 ", 0, 10, false, 0},
        {"1x", 0, 10, false, 0},
        {"0x1", 0, 10, false, 0},
        {"1.5", 0, 10, false, 0},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("\"%s\"", rows[i].s);
        struct dt_err err = {0};
        int64_t v = 77;
        int rc = dt_str_to_int(rows[i].s, rows[i].min, rows[i].max, &v, &err);
        if (rows[i].ok)
            CHECK_OK(rc, err);
        else
            CHECK_FAIL(rc, err, "is not a whole number from ");
        CHECK_EQ(v, rows[i].ok ? rows[i].is : 77);
        CHECK_EQ(err.code, rows[i].ok ? DT_E_NONE : DT_E_USAGE);
    }
}

TEST(sizes)
{
    /* clang-format off */
    static const struct { const char *s; uint64_t is; const char *error; } rows[] = {
        {"0", 0, NULL},
        {"512", 512, NULL},
        {"1k", 1024, NULL},
        {"64K", 65536, NULL},
        {"8MiB", 8 << 20, NULL},
        {"8 MB", 8 << 20, NULL},
        {"1.5G", 3ull << 29, NULL},
        {".5k", 512, NULL},
        {"2T", 2ull << 40, NULL},
        {"16777216T", UINT64_MAX, NULL},
        {"20000000T", 0, "out of range"},
        {"", 0, "is not a size"},
        {"K", 0, "is not a size"},
        {"-1", 0, "is not a size"},
        {"+1", 0, "is not a size"},
        {" 1", 0, "is not a size"},
        {"1 K ", 0, "is not a size"},
        {"1Z", 0, "is not a size"},
        {"0x10", 0, "is not a size"},
        {"inf", 0, "is not a size"},
        {"nan", 0, "is not a size"},
        {"1e999", 0, "is not a size"},
        {".", 0, "is not a size"},
        {"..", 0, "is not a size"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("\"%s\"", rows[i].s);
        struct dt_err err = {0};
        uint64_t v = 0;
        int rc = dt_str_to_size(rows[i].s, 0, UINT64_MAX, &v, &err);
        if (rows[i].error)
            CHECK_FAIL(rc, err, rows[i].error);
        else
            CHECK_OK(rc, err);
        CHECK_EQ(v, rows[i].is);
    }
}

TEST(bounds_of_sizes_are_named_as_people_write_them)
{
    struct dt_err err = {0};
    uint64_t v;
    CHECK_FAIL(dt_str_to_size("1G", 1 << 10, 8 << 20, &v, &err), err,
               "\"1G\" is out of range; give 1 KiB to 8 MiB");
    CHECK_FAIL(dt_str_to_size("1", 1 << 10, 8 << 20, &v, &err), err, "out of range");
    CHECK_OK(dt_str_to_size("1K", 1 << 10, 8 << 20, &v, &err), err);
    CHECK_OK(dt_str_to_size("8M", 1 << 10, 8 << 20, &v, &err), err);
}

TEST(durations)
{
    /* clang-format off */
    static const struct { const char *s; dt_ms is; const char *error; } rows[] = {
        {"0", 0, NULL},
        {"3", 3000, NULL},
        {"250ms", 250, NULL},
        {"1.5s", 1500, NULL},
        {"5m", 300000, NULL},
        {"5 min", 300000, NULL},
        {"2h", 7200000, NULL},
        {"1d", 86400000, NULL},
        {"1e30", 0, "out of range"},
        {"5 parsecs", 0, "is not a duration"},
        {"-1s", 0, "is not a duration"},
        {"", 0, "is not a duration"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("\"%s\"", rows[i].s);
        struct dt_err err = {0};
        dt_ms v = 0;
        int rc = dt_str_to_duration(rows[i].s, 0, DT_FOREVER, &v, &err);
        if (rows[i].error)
            CHECK_FAIL(rc, err, rows[i].error);
        else
            CHECK_OK(rc, err);
        CHECK_EQ(v, rows[i].is);
    }
}

TEST(yes_and_no)
{
    static const char *const words[] = {"yes", "no", "TRUE", "false", "On",
                                        "off", "1",  "0",    "maybe", ""};
    for (size_t i = 0; i < ROWS(words); i++) {
        CHECK_ROW("\"%s\"", words[i]);
        struct dt_err err = {0};
        bool v = false;
        int rc = dt_str_to_bool(words[i], &v, &err);
        CHECK_EQ(rc, i < 8 ? 0 : -1);
        CHECK_EQ(v, i < 8 && i % 2 == 0);
    }
}

TEST(sizes_and_durations_as_people_write_them)
{
    char out[32];
    CHECK_STR(dt_str_from_size(0, out, sizeof out), "0 B");
    CHECK_STR(dt_str_from_size(512, out, sizeof out), "512 B");
    CHECK_STR(dt_str_from_size(1536, out, sizeof out), "1.5 KiB");
    CHECK_STR(dt_str_from_size(8 << 20, out, sizeof out), "8 MiB");
    CHECK_STR(dt_str_from_size(UINT64_MAX, out, sizeof out), "16777216 TiB");
    CHECK_STR(dt_str_from_duration(0, out, sizeof out), "0 s");
    CHECK_STR(dt_str_from_duration(250, out, sizeof out), "250 ms");
    CHECK_STR(dt_str_from_duration(1500, out, sizeof out), "1.5 s");
    CHECK_STR(dt_str_from_duration(7200000, out, sizeof out), "2 h");
    CHECK_STR(dt_str_from_size(8 << 20, out, 3), "8 ");
}

TEST(unprintable_bytes_are_spelled_out_and_the_rest_is_cut)
{
    char out[64];
    struct dt_bytes b = {(const uint8_t *)"a\n\x00\xff\\z", 6};
    CHECK_STR(dt_str_printable(b, out, sizeof out), "a\\x0a\\x00\\xff\\x5cz");
    for (size_t size = 8; size < 40; size++) {
        CHECK_ROW("room for %zu", size);
        char small[40];
        memset(small, 'Z', sizeof small);
        dt_str_printable(dt_bytes_of("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a"), small, size);
        CHECK(strlen(small) < size);
        CHECK_STR(small + strlen(small) - 3, "...");
    }
    CHECK_STR(dt_str_printable((struct dt_bytes){0}, out, sizeof out), "");
}

TEST(trimming)
{
    static const char *const rows[][2] = {
        {"", ""}, {"a", "a"}, {" \t a b\r\n", "a b"}, {"   ", ""}, {"a ", "a"}};
    for (size_t i = 0; i < ROWS(rows); i++) {
        char text[32];
        strcpy(text, rows[i][0]);
        CHECK_STR(dt_str_trim(text), rows[i][1]);
    }
}
