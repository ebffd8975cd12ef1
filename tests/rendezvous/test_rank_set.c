/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/rank_set.h"

#include "tests/lib/check.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

TEST(a_set_of_ranks_is_read_and_written_as_text)
{
    static const struct {
        const char *text;
        size_t len;  /* ranges */
        int in, out; /* a rank that it has, and one that it has not; -1: none */
    } rows[] = {
        {"", 0, 7, -1},
        {"0", 1, 0, 1},
        {"3", 1, 3, 2},
        {"8-15", 1, 15, 16},
        {"0-3,7", 2, 7, 5},
        {"7,0-3", 2, 2, 4},
        {"2147483647", 1, 2147483647, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct dt_rank_set s;
        struct dt_buf again = {0};
        struct dt_err err = {0};
        CHECK_ROW("\"%s\"", rows[i].text);
        CHECK_OK(dt_rank_set_read(rows[i].text, &s, &err), err);
        CHECK_EQ(s.len, rows[i].len);
        CHECK(dt_rank_set_has(&s, rows[i].in, rows[i].in));
        if (rows[i].out >= 0)
            CHECK(!dt_rank_set_has(&s, rows[i].out, rows[i].out));
        dt_rank_set_put(&s, &again);
        CHECK_STR(dt_buf_cstr(&again), rows[i].text);
        dt_buf_finish(&again);
    }
}

TEST(a_node_is_concerned_where_one_of_its_ranks_is)
{
    struct dt_rank_set s;
    CHECK_EQ(dt_rank_set_read("4-5,9", &s, NULL), 0);
    CHECK(!dt_rank_set_has(&s, 0, 3));
    CHECK(dt_rank_set_has(&s, 0, 4));
    CHECK(dt_rank_set_has(&s, 5, 8));
    CHECK(!dt_rank_set_has(&s, 6, 8));
    CHECK(dt_rank_set_has(&s, 0, 100));
}

TEST(what_are_no_ranks_is_refused)
{
    static const char *const rows[] = {
        "x",    "-1",    "3-",  "-",
        "5-3",  ",",     "1,",  ",1",
        "1,,2", "1-2-3", " 1",  "99999999999",
        "1-x",  "0x1",   "1;2", "1111111111111111111111111111111111111111111111111"};
    struct dt_buf many = {0};
    struct dt_rank_set s;
    struct dt_err err;
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("\"%s\"", rows[i]);
        CHECK_FAIL(dt_rank_set_read(rows[i], &s, &err), err, "are no ranks");
    }
    for (int i = 0; i <= DT_RANK_SET_MAX; i++)
        dt_buf_printf(&many, "%s%d", i ? "," : "", 2 * i);
    CHECK_ROW("too many");
    CHECK_FAIL(dt_rank_set_read(dt_buf_cstr(&many), &s, &err), err, "more than 64 ranges");
    dt_buf_finish(&many);
}
