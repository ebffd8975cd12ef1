/* SPDX-License-Identifier: Apache-2.0 */
/* The request decoder and encoder: every operation there and back, every length at its limit and
 * one beyond, wherever the bytes are cut. */
#include "rendezvous/protocol/c10d.h"
#include "tests/lib/check.h"

static const struct dt_c10d_limits limits = {.key = 8, .value = 16, .keys = 3, .whole = 100};

static struct dt_bytes B(const char *s) {
    return dt_bytes_of(s);
}

/* One of each, with all its fields. */
static struct dt_c10d_request
sample(enum dt_c10d_op op, struct dt_buf *items)
{
    struct dt_bytes v1 = B("1"), v2 = B("");
    bool sets = op == DT_C10D_MULTI_SET;
    dt_buf_clear(items);
    dt_c10d_put_item(items, B("a"), sets ? &v1 : NULL);
    dt_c10d_put_item(items, B("bc"), sets ? &v2 : NULL);
    bool list = op == DT_C10D_CHECK || op == DT_C10D_WAIT || op == DT_C10D_MULTI_GET || sets;
    struct dt_c10d_request req = {.op = op, .key = B("key"), .value = B("val"), .number = -7};
    if (op == DT_C10D_COMPARE_SET)
        req.desired = B("other");
    if (op == DT_C10D_PING)
        req.number = 0x12345678;
    if (list) {
        req.count = 2;
        req.items = (struct dt_bytes){items->at, items->len};
    }
    return req;
}

static void check_same_bytes(const struct dt_c10d_request *req, enum dt_c10d_dialect dialect,
                             const struct dt_buf *wire)
{
    struct dt_buf again = {0};
    CHECK(dt_c10d_encode(&again, dialect, req));
    CHECK_BYTES(again.at, again.len, wire->at, wire->len);
    dt_buf_finish(&again);
}

TEST(every_operation_survives_the_wire_in_every_dialect_cut_anywhere)
{
    static const enum dt_c10d_dialect dialects[] = {DT_C10D_MODERN, DT_C10D_L1, DT_C10D_L2};
    struct dt_buf items = {0};
    int seen = 0;
    for (size_t i = 0; i < 3; i++) {
        for (int op = DT_C10D_SET; op < DT_C10D_OPS; op++) {
            struct dt_c10d_request req = sample((enum dt_c10d_op)op, &items), got;
            struct dt_buf wire = {0};
            CHECK_ROW("%s in dialect %d", dt_c10d_op_name(req.op), dialects[i]);
            if (!dt_c10d_encode(&wire, dialects[i], &req))
                continue;
            seen++;
            for (size_t cut = 0; cut < wire.len; cut++) {
                struct dt_c10d_decoder d = {.limits = limits, .dialect = dialects[i]};
                struct dt_err err;
                size_t used;
                CHECK_EQ(dt_c10d_decode(&d, wire.at, cut, &got, &used, &err), DT_MORE);
                CHECK(d.needed > cut && d.needed <= wire.len);
                CHECK_EQ(dt_c10d_decode(&d, wire.at, wire.len, &got, &used, &err), DT_DONE);
                CHECK_EQ(used, wire.len);
                CHECK_EQ(got.op, op);
                check_same_bytes(&got, dialects[i], &wire);
            }
            dt_buf_finish(&wire);
        }
    }
    CHECK_EQ(seen, 18 + 9 + 12); /* what each dialect has */
    dt_buf_finish(&items);
}

TEST(lengths_are_judged_as_soon_as_they_are_there)
{
    static const struct {
        const char *what;
        uint8_t bytes[40];
        size_t len;
        const char *words; /* NULL: within the limits */
    } rows[] = {
        {"key at its limit", {3, 8}, 9, NULL},
        {"key beyond", {3, 9}, 9, "a key of 9 bytes is over the limit of 8"},
        {"key beyond 32 bits", {3, 1, 0, 0, 0, 1}, 9, "a key of 4294967297"},
        {"value at its limit", {1, 1, 0, 0, 0, 0, 0, 0, 0, 'k', 16}, 18, NULL},
        {"value beyond", {1, 1, 0, 0, 0, 0, 0, 0, 0, 'k', 17}, 18, "a value of 17 bytes"},
        {"keys at their limit", {6, 3}, 9, NULL},
        {"keys beyond", {6, 4}, 9, "4 keys are over the limit of 3"},
        {"keys that would overflow a product",
         {6, 0, 0, 0, 0, 0, 0, 0, 0x20},
         9,
         "2305843009213693952 keys"},
        {"the last opcode", {18}, 1, NULL},
        {"an opcode beyond", {19}, 1, "opcode 19 is unknown to modern clients"},
        {"a second hello", {0}, 1, "opcode 0 is unknown"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].what);
        struct dt_c10d_decoder d = {.limits = limits, .dialect = DT_C10D_MODERN};
        struct dt_c10d_request req;
        struct dt_err err;
        size_t used;
        enum dt_decoded got = dt_c10d_decode(&d, rows[i].bytes, rows[i].len, &req, &used, &err);
        if (rows[i].words)
            CHECK_FAIL(got == DT_BAD ? -1 : 0, err, rows[i].words);
        else
            CHECK_EQ(got, DT_MORE);
    }
}

TEST(a_request_is_bounded_as_a_whole)
{
    struct dt_c10d_decoder d = {.limits = limits, .dialect = DT_C10D_MODERN};
    struct dt_buf wire = {0};
    struct dt_err err;
    struct dt_c10d_request req;
    size_t used;
    d.limits.whole = 60;
    dt_buf_put_u8(&wire, DT_C10D_MULTI_SET);
    dt_buf_put_u64(&wire, 3);
    struct dt_bytes value = B("0123456789");
    dt_c10d_put_item(&wire, B("a"), &value);
    CHECK_EQ(dt_c10d_decode(&d, wire.at, wire.len, &req, &used, &err), DT_MORE);
    dt_buf_put_u64(&wire, 8);
    dt_buf_put(&wire, "12345678", 8);
    dt_buf_put_u64(&wire, 10); /* 9 + 27 + 16 + 8 + 10 > 60 */
    CHECK_EQ(dt_c10d_decode(&d, wire.at, wire.len, &req, &used, &err), DT_BAD);
    CHECK_STR(err.text, "a request of more than 60 bytes is over the limit");
    dt_buf_finish(&wire);
}

TEST(the_generation_is_told_by_the_first_byte_that_differs)
{
    static const struct {
        uint8_t bytes[6];
        size_t len;
        enum dt_c10d_dialect told;
    } rows[] = {
        {{0}, 1, DT_C10D_UNTOLD},
        {{0, 0xCE}, 2, DT_C10D_UNTOLD},
        {{0, 0xCE, 0xF7, 0x85}, 4, DT_C10D_UNTOLD},
        {{0, 0xCE, 0xF7, 0x85, 0x3C}, 5, DT_C10D_MODERN},
        {{0, 0xCE, 0xF7, 0x85, 0x3D}, 5, DT_C10D_L1},
        {{0, 5}, 2, DT_C10D_L1},
        {{0, 0xCE, 0}, 3, DT_C10D_L1},
        {{3}, 1, DT_C10D_L1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        struct dt_c10d_decoder d = {.limits = DT_C10D_LIMITS_DEFAULT};
        struct dt_c10d_request req;
        struct dt_err err;
        size_t used = 0;
        enum dt_decoded got = dt_c10d_decode(&d, rows[i].bytes, rows[i].len, &req, &used, &err);
        CHECK_EQ(d.dialect, rows[i].told);
        CHECK_EQ(got == DT_DONE, rows[i].told == DT_C10D_MODERN);
    }
}
