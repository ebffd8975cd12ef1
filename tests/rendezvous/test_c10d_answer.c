/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of answer, whole, cut at every byte, and in slices. */
#include "rendezvous/protocol/c10d_answer.h"
#include "tests/lib/check.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ITEMS: what a walk over the items finds, joined by commas. */
struct row {
    enum dt_c10d_op op;
    uint64_t asked;
    const char *bytes;
    size_t len;
    int64_t number;
    const char *value;
    const char *items;
};

#define BYTES(s) s, sizeof(s) - 1
#define I64(low) low "\0\0\0\0\0\0\0"

/* clang-format off */
static const struct row rows[] = {
    {DT_C10D_VALIDATE,    1, BYTES(""),                                 0, "", ""},
    {DT_C10D_SET,         1, BYTES(""),                                 0, "", ""},
    {DT_C10D_COMPARE_SET, 1, BYTES(I64("\1") "w"),                      0, "w", ""},
    {DT_C10D_GET,         1, BYTES(I64("\3") "abc"),                    0, "abc", ""},
    {DT_C10D_GET,         1, BYTES(I64("\0")),                          0, "", ""},
    {DT_C10D_ADD,         1, BYTES("\xfe\xff\xff\xff\xff\xff\xff\xff"), -2, "", ""},
    {DT_C10D_CHECK,       2, BYTES("\0"),                               0, "", ""},
    {DT_C10D_CHECK,       2, BYTES("\1"),                               1, "", ""},
    {DT_C10D_WAIT,        3, BYTES("\0"),                               0, "", ""},
    {DT_C10D_GETNUMKEYS,  1, BYTES(I64("\5")),                          5, "", ""},
    {DT_C10D_DELETE_KEY,  1, BYTES(I64("\1")),                          1, "", ""},
    {DT_C10D_APPEND,      1, BYTES(""),                                 0, "", ""},
    {DT_C10D_MULTI_GET,   0, BYTES(""),                                 0, "", ""},
    {DT_C10D_MULTI_GET,   1, BYTES(I64("\0")),                          0, "", ","},
    {DT_C10D_MULTI_GET,   3, BYTES(I64("\1") "1" I64("\0") I64("\2") "22"), 0, "", "1,,22,"},
    {DT_C10D_MULTI_SET,   2, BYTES(""),                                 0, "", ""},
    {DT_C10D_CANCEL_WAIT, 1, BYTES("\1"),                               1, "", ""},
    {DT_C10D_PING,        1, BYTES("\x4b\x53\0\x80"),                   0x8000534b, "", ""},
    {DT_C10D_QUEUE_PUSH,  1, BYTES(""),                                 0, "", ""},
    {DT_C10D_QUEUE_POP,   1, BYTES(I64("\0")),                          0, "", ""},
    {DT_C10D_QUEUE_POP,   1, BYTES(I64("\2") I64("\1") "a"),            2, "a", ""},
    {DT_C10D_QUEUE_POP,   1, BYTES(I64("\1") I64("\0")),                1, "", ""},
    {DT_C10D_QUEUE_LEN,   1, BYTES(I64("\7")),                          7, "", ""},
    {DT_C10D_LIST_KEYS,   1, BYTES(I64("\0")),                          0, "", ""},
    {DT_C10D_LIST_KEYS,   1, BYTES(I64("\2") I64("\2") "/a" I64("\5") "init/"), 2, "", "/a,init/,"},
    {DT_C10D_BARRIER,     1, BYTES("\0"),                               0, "", ""},
    {DT_C10D_WATCH_KEY,   1, BYTES("\3"),                               3, "", ""},
};
/* clang-format on */

static struct dt_c10d_answer_decoder expecting(enum dt_c10d_op op, uint64_t asked)
{
    struct dt_c10d_answer_decoder d = {
        .limits = {.key = 100, .value = 1000, .keys = 50, .whole = 2000}};
    dt_c10d_answer_expect(&d, op, asked);
    return d;
}

static void check_reply(const struct row *row, struct dt_c10d_reply *reply)
{
    struct dt_buf walked = {0};
    CHECK_EQ(reply->op, row->op);
    CHECK_EQ(reply->number, row->number);
    CHECK_BYTES(reply->value.at, reply->value.len, row->value, strlen(row->value));
    uint64_t items = 0;
    for (struct dt_bytes item; dt_c10d_next_blob(&reply->items, &item); items++) {
        dt_buf_put(&walked, item.at, item.len);
        dt_buf_put_u8(&walked, ',');
    }
    CHECK_EQ(items, reply->count);
    CHECK_BYTES(walked.at, walked.len, row->items, strlen(row->items));
    dt_buf_finish(&walked);
}

/* Exactly LEN bytes, so that ASan sees who reads one more. */
static uint8_t *copy_of(const char *bytes, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    CHECK(copy != NULL);
    memcpy(copy, bytes, len);
    return copy;
}

TEST(every_operation_has_a_row)
{
    for (enum dt_c10d_op op = 0; op < DT_C10D_OPS; op++) {
        bool there = false;
        for (size_t i = 0; i < COUNT(rows); i++)
            there |= rows[i].op == op;
        CHECK_ROW("%s", dt_c10d_op_name(op));
        CHECK(there);
    }
}

TEST(a_whole_answer_is_read_and_nothing_behind_it)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("%zu: %s", i, dt_c10d_op_name(rows[i].op));
        struct dt_c10d_answer_decoder d = expecting(rows[i].op, rows[i].asked);
        char more[128] = "";
        memcpy(more, rows[i].bytes, rows[i].len);
        memset(more + rows[i].len, 0xff, 16);
        struct dt_c10d_reply reply;
        struct dt_err err = {0};
        size_t used = 99;
        CHECK_EQ(dt_c10d_answer_decode(&d, (uint8_t *)more, rows[i].len + 16, &reply, &used, &err),
                 DT_DONE);
        CHECK_EQ(used, rows[i].len);
        check_reply(&rows[i], &reply);
    }
}

TEST(a_cut_answer_wants_more_and_says_how_much)
{
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t cut = 0; cut < rows[i].len; cut++) {
            CHECK_ROW("%zu: %s cut to %zu", i, dt_c10d_op_name(rows[i].op), cut);
            struct dt_c10d_answer_decoder d = expecting(rows[i].op, rows[i].asked);
            struct dt_c10d_reply reply;
            struct dt_err err = {0};
            size_t used;
            uint8_t *bytes = copy_of(rows[i].bytes, cut);
            CHECK_EQ(dt_c10d_answer_decode(&d, bytes, cut, &reply, &used, &err), DT_MORE);
            CHECK(d.needed > cut && d.needed <= rows[i].len);
            free(bytes);
        }
}

TEST(slices_of_any_size_give_the_same_answer_and_each_byte_is_scanned_once)
{
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t slice = 1; slice <= 3; slice++) {
            CHECK_ROW("%zu: %s in slices of %zu", i, dt_c10d_op_name(rows[i].op), slice);
            struct dt_c10d_answer_decoder d = expecting(rows[i].op, rows[i].asked);
            struct dt_c10d_reply reply;
            struct dt_err err = {0};
            size_t used = 0, scanned = 0;
            for (size_t len = 0;; len = len + slice < rows[i].len ? len + slice : rows[i].len) {
                uint8_t *bytes = copy_of(rows[i].bytes, len);
                enum dt_decoded got = dt_c10d_answer_decode(&d, bytes, len, &reply, &used, &err);
                CHECK(d.scan.scanned >= scanned);
                scanned = d.scan.scanned;
                if (got == DT_DONE)
                    check_reply(&rows[i], &reply);
                free(bytes);
                if (got == DT_DONE)
                    break;
                CHECK_EQ(got, DT_MORE);
                CHECK(len < rows[i].len);
            }
            CHECK_EQ(used, rows[i].len);
        }
}

TEST(answers_in_a_row_with_one_decoder)
{
    static const char bytes[] = I64("\1") "x"
                                          "\0" I64("\2") I64("\1") "y";
    struct dt_c10d_answer_decoder d = expecting(DT_C10D_GET, 1);
    static const enum dt_c10d_op ops[] = {DT_C10D_GET, DT_C10D_SET, DT_C10D_WAIT,
                                          DT_C10D_QUEUE_POP};
    static const size_t sizes[] = {9, 0, 1, 17};
    size_t at = 0;
    for (size_t i = 0; i < COUNT(ops); i++) {
        struct dt_c10d_reply reply;
        struct dt_err err = {0};
        size_t used;
        dt_c10d_answer_expect(&d, ops[i], 1);
        CHECK_EQ(dt_c10d_answer_decode(&d, (const uint8_t *)bytes + at, sizeof bytes - 1 - at,
                                       &reply, &used, &err),
                 DT_DONE);
        CHECK_EQ(used, sizes[i]);
        at += used;
    }
    CHECK_EQ(at, sizeof bytes - 1);
}

/* What is refused is refused at the byte that decides, not when all of it is there. */
static const struct {
    enum dt_c10d_op op;
    uint64_t asked;
    const char *bytes;
    size_t len;
    const char *words;
} bad[] = {
    {DT_C10D_CHECK, 1, BYTES("\2"), "2 is no answer to CHECK"},
    {DT_C10D_WAIT, 1, BYTES("H"), "72 is no answer to WAIT"},
    {DT_C10D_WATCH_KEY, 1, BYTES("\4"), "no answer to WATCH_KEY"},
    {DT_C10D_QUEUE_POP, 1, BYTES("\xff\xff\xff\xff\xff\xff\xff\xff"), "-1 is no answer"},
    {DT_C10D_LIST_KEYS, 1, BYTES("\0\0\0\0\0\0\0\x80"), "no answer to LIST_KEYS"},
    {DT_C10D_LIST_KEYS, 1, BYTES("\xff\xff\xff\xff\xff\xff\xff\x7f"), "items is over the limit"},
    {DT_C10D_LIST_KEYS, 1, BYTES(I64("\x33")), "51 items is over the limit"},
    {DT_C10D_LIST_KEYS, 1, BYTES(I64("\1") I64("\x65")), "key of 101 bytes is over the limit"},
    {DT_C10D_GET, 1, BYTES("\xe9\3\0\0\0\0\0\0"), "value of 1001 bytes is over the limit"},
    {DT_C10D_GET, 1, BYTES("\xff\xff\xff\xff\xff\xff\xff\xff"), "is over the limit of 1000"},
    {DT_C10D_GET, 1, BYTES("HTTP/1.1"), "is over the limit of 1000"},
    {DT_C10D_QUEUE_POP, 1, BYTES(I64("\1") "\xe9\3\0\0\0\0\0\0"), "value of 1001 bytes"},
    {DT_C10D_MULTI_GET, UINT64_MAX, BYTES(I64("\0")), "items is over the limit"},
};

TEST(nonsense_and_excess_are_refused_at_once)
{
    for (size_t i = 0; i < COUNT(bad); i++) {
        CHECK_ROW("%zu: %s", i, dt_c10d_op_name(bad[i].op));
        struct dt_c10d_answer_decoder d = expecting(bad[i].op, bad[i].asked);
        struct dt_c10d_reply reply;
        struct dt_err err = {0};
        size_t used;
        uint8_t *bytes = copy_of(bad[i].bytes, bad[i].len);
        CHECK_EQ(dt_c10d_answer_decode(&d, bytes, bad[i].len - 1, &reply, &used, &err), DT_MORE);
        CHECK_EQ(dt_c10d_answer_decode(&d, bytes, bad[i].len, &reply, &used, &err), DT_BAD);
        CHECK(strstr(err.text, bad[i].words) != NULL);
        free(bytes);
    }
}

TEST(values_that_are_each_fine_meet_the_limit_of_the_whole)
{
    struct dt_c10d_answer_decoder d = expecting(DT_C10D_MULTI_GET, 3);
    struct dt_buf bytes = {0};
    struct dt_c10d_reply reply;
    struct dt_err err = {0};
    size_t used;
    char value[700];
    memset(value, 'x', sizeof value);
    for (int i = 0; i < 3; i++)
        dt_c10d_put_value(&bytes, (struct dt_bytes){(uint8_t *)value, sizeof value});
    CHECK_EQ(dt_c10d_answer_decode(&d, bytes.at, 2 * 708 + 8, &reply, &used, &err), DT_BAD);
    CHECK_STR(err.text, "an answer of more than 2000 bytes is over the limit");
    dt_buf_finish(&bytes);
}
