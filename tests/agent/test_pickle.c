/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/pickle/pickle.h"
#include "tests/lib/check.h"

#define ROWS(a) (sizeof(a) / sizeof *(a))

static const char *const classes[] = {"a.A", "b.c.B", NULL};
static const struct dt_pickle_limits limits = {.bytes = 1024, .opcodes = 64};

/* A literal with NULs in it. */
#define B(s)                                                                                       \
    {                                                                                              \
        (const uint8_t *)(s), sizeof(s) - 1                                                        \
    }
#define P "\x80\x04"

TEST(what_is_read)
{
    /* clang-format off */
    static const struct {
        const char *what; struct dt_bytes bytes; enum dt_pickle_type type; int64_t number; size_t count;
    } rows[] = {
        {"None", B(P "N."), DT_PICKLE_NONE, 0, 0},
        {"True", B(P "\x88."), DT_PICKLE_BOOL, 1, 0},
        {"False", B(P "\x89."), DT_PICKLE_BOOL, 0, 0},
        {"a byte", B(P "K\xff."), DT_PICKLE_INT, 255, 0},
        {"two", B(P "M\x01\x02."), DT_PICKLE_INT, 513, 0},
        {"four", B(P "J\xff\xff\xff\xff."), DT_PICKLE_INT, -1, 0},
        {"any number of them", B(P "\x8a\x05\x00\x00\x00\x00\x01."), DT_PICKLE_INT, INT64_C(1) << 32, 0},
        {"a long of -2", B(P "\x8a\x01\xfe."), DT_PICKLE_INT, -2, 0},
        {"a long of none", B(P "\x8a\x00."), DT_PICKLE_INT, 0, 0},
        {"protocol 2, a float", B("\x80\x02G\x3f\xf8\0\0\0\0\0\0."), DT_PICKLE_FLOAT, 0, 0},
        {"[]", B("\x80\x02]q\0."), DT_PICKLE_LIST, 0, 0},
        {"[None]", B("\x80\x02]q\0Na."), DT_PICKLE_LIST, 0, 1},
        {"[1, 2, 3]", B("\x80\x02]q\0(K\x01K\x02K\x03" "e."), DT_PICKLE_LIST, 0, 3},
        {"a tuple of four", B("\x80\x02(K\x01K\x02K\x03Ntq\x01."), DT_PICKLE_TUPLE, 0, 4},
        {"recalled by the number it was noted under", B("\x80\x02]r\x01\0\0\0h\x01\x86."), DT_PICKLE_TUPLE, 0, 2},
        {"a text with a long length", B(P "\x8d\x01\0\0\0\0\0\0\0x."), DT_PICKLE_TEXT, 0, 0},
        {"bytes with a long length", B(P "\x8e\x01\0\0\0\0\0\0\0x."), DT_PICKLE_BYTES, 0, 0},
        {"a class in the old way", B("\x80\x02" "cb.c\nB\n."), DT_PICKLE_CLASS, 1, 0},
        {"protocol 5, framed", B("\x80\x05\x95\x02\0\0\0\0\0\0\0N."), DT_PICKLE_NONE, 0, 0},
        {"()", B(P ")."), DT_PICKLE_TUPLE, 0, 0},
        {"(None, 1)", B(P "NK\x01\x86."), DT_PICKLE_TUPLE, 0, 2},
        {"{}", B(P "}\x94."), DT_PICKLE_DICT, 0, 0},
        {"{1: 2}", B(P "}K\x01K\x02s."), DT_PICKLE_DICT, 0, 1},
        {"{1: 2, 3: 4}", B(P "}(K\x01K\x02K\x03K\x04u."), DT_PICKLE_DICT, 0, 2},
        {"{1, 2}", B(P "\x8f(K\x01K\x02\x90."), DT_PICKLE_SET, 0, 2},
        {"a dict in itself", B(P "}\x94K\x01h\x00s."), DT_PICKLE_DICT, 0, 1},
        {"recalled by a long number", B(P "N\x94K\x01j\x00\x00\x00\x00\x87."), DT_PICKLE_TUPLE, 0, 3},
        {"a class", B(P "\x8c\x03" "b.c\x8c\x01" "B\x93."), DT_PICKLE_CLASS, 1, 0},
        {"an object", B(P "\x8c\x01" "a\x8c\x01" "A\x93)\x81}b."), DT_PICKLE_OBJECT, 0, 0},
        {"a call", B(P "\x8c\x03" "b.c\x8c\x01" "B\x93K\x01\x85R."), DT_PICKLE_OBJECT, 1, 0},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].what);
        struct dt_pickle p;
        struct dt_err err;
        CHECK_OK(dt_pickle_read(&p, rows[i].bytes, &limits, classes, &err), err);
        CHECK_EQ(p.root->type, rows[i].type);
        CHECK_EQ(p.root->number, rows[i].number);
        CHECK_EQ(p.root->count, rows[i].count);
        dt_pickle_finish(&p);
    }
}

TEST(what_is_refused)
{
    /* clang-format off */
    static const struct { const char *what; struct dt_bytes bytes; const char *error; } rows[] = {
        {"nothing", B(""), "not one of protocol 2 to 5"},
        {"protocol 1", B("\x80\x01N."), "not one of protocol 2 to 5"},
        {"protocol 0, which has no number", B("I1\n."), "not one of protocol 2 to 5"},
        {"the header alone", B(P), "ends early"},
        {"no end", B(P "N"), "ends early"},
        {"half a text", B(P "\x8c\x05" "ab."), "ends early"},
        {"a text longer than memory", B(P "X\xff\xff\xff\xff" "a."), "ends early"},
        {"nothing on the stack", B(P "."), "takes what was not given"},
        {"two things", B(P "NN."), "more than one thing"},
        {"something behind", B(P "N.N"), "more than one thing"},
        {"a mark left over", B(P "N(."), "takes what was not given"},
        {"a class of others", B(P "\x8c\x02os\x8c\x06system\x93."), "names os.system"},
        {"a class with a longer name", B(P "\x8c\x01" "a\x8c\x02" "AA\x93."), "names a.AA"},
        {"the old way to name one", B(P "cos\nsystem\n)R."), "names os.system"},
        {"a name without an end", B(P "cos\nsystem"), "ends early"},
        {"a persistent id", B(P "NQ."), "opcode 0x51"},
        {"a list by itself alone", B(P "(l."), "opcode 0x6c"},
        {"half a float", B(P "G\0\0\0."), "ends early"},
        {"an item into a tuple", B(P ")Na."), "a value of kind"},
        {"items of a list into a dict", B(P "}(Ne."), "what does not take them"},
        {"a tuple without a mark", B(P "Nt."), "a mark that it did not set"},
        {"a number for the memo past all", B(P "Nr\0\0\0\x10."), "notes number 268435456"},
        {"an extension", B(P "\x82\x01."), "opcode 0x82"},
        {"a buffer from elsewhere", B("\x80\x05\x97."), "opcode 0x97"},
        {"an opcode of no protocol", B(P "\xff."), "opcode 0xff"},
        {"a number of nine bytes", B(P "\x8a\x09" "123456789."), "a number of 9 bytes"},
        {"a memo that was not made", B(P "h\x00."), "recalls number 0 of 0"},
        {"items without a mark", B(P "}K\x01K\x02u."), "a mark that it did not set"},
        {"items into a tuple", B(P ")(K\x01K\x02u."), "what does not take them"},
        {"items into nothing", B(P "(K\x01K\x02u."), "what does not take them"},
        {"a key without a value", B(P "}(K\x01u."), "a key without a value"},
        {"a value from under a mark", B(P "}K\x01(s."), "takes what was not given"},
        {"what is no class called", B(P "N)R."), "a value of kind"},
        {"arguments that are none", B(P "\x8c\x01" "a\x8c\x01" "A\x93NR."), "a value of kind"},
        {"attributes of a number", B(P "K\x01}b."), "a value of kind"},
        {"attributes that are none", B(P "\x8c\x01" "a\x8c\x01" "A\x93)\x81Nb."), "a value of kind"},
        {"attributes twice", B(P "\x8c\x01" "a\x8c\x01" "A\x93)\x81}b}b."), "twice"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].what);
        struct dt_pickle p;
        struct dt_err err = {0};
        CHECK_FAIL(dt_pickle_read(&p, rows[i].bytes, &limits, classes, &err), err, rows[i].error);
    }
}

TEST(every_beginning_of_one_is_refused)
{
    static const uint8_t whole[] = P "\x8c\x01"
                                     "a\x8c\x01"
                                     "A\x93\x94)\x81}\x94(\x8c\x01k\x94M\x10\x10K\x01h\x00ub.";
    struct dt_pickle p;
    struct dt_err err;
    for (size_t len = 0; len < sizeof whole - 1; len++) {
        CHECK_ROW("%zu bytes", len);
        CHECK(dt_pickle_read(&p, (struct dt_bytes){whole, len}, &limits, classes, &err) < 0);
    }
    CHECK_OK(dt_pickle_read(&p, (struct dt_bytes){whole, sizeof whole - 1}, &limits, classes, &err),
             err);
    CHECK_EQ(p.root->fields->count, 2);
    dt_pickle_finish(&p);
}

TEST(one_that_is_too_large)
{
    static const uint8_t large[1025];
    struct dt_pickle p;
    struct dt_err err;
    CHECK_FAIL(dt_pickle_read(&p, (struct dt_bytes){large, sizeof large}, &limits, classes, &err),
               err, "at most 1024");
}

TEST(one_that_does_too_much)
{
    uint8_t many[100] = P;
    struct dt_pickle p;
    struct dt_err err;
    memset(many + 2, ')', 63);
    many[65] = DT_PICKLE_STOP;
    CHECK_FAIL(dt_pickle_read(&p, (struct dt_bytes){many, 66}, &limits, NULL, &err), err,
               "more than one thing");
    many[65] = ')';
    many[66] = DT_PICKLE_STOP;
    CHECK_FAIL(dt_pickle_read(&p, (struct dt_bytes){many, 67}, &limits, NULL, &err), err,
               "more than 64 opcodes");
}

TEST(what_a_dict_has_under_a_name)
{
    static const struct dt_bytes bytes = B(P "}(\x8c\x01"
                                             "aG\x3f\xf8\0\0\0\0\0\0\x8c\x01"
                                             "bNu.");
    struct dt_pickle p;
    struct dt_err err;
    CHECK_OK(dt_pickle_read(&p, bytes, &limits, NULL, &err), err);
    const struct dt_pickle_value *a = dt_pickle_get(p.root, "a", DT_PICKLE_FLOAT);
    CHECK(a && a->real == 1.5);
    CHECK(!dt_pickle_get(p.root, "b", DT_PICKLE_FLOAT));
    CHECK(!dt_pickle_get(p.root, "c", DT_PICKLE_NONE));
    dt_pickle_finish(&p);
}

TEST(what_is_written_is_read_again)
{
    static const int64_t numbers[] = {0,
                                      255,
                                      256,
                                      65535,
                                      65536,
                                      INT32_MAX,
                                      INT32_MIN,
                                      -1,
                                      INT64_C(1) << 31,
                                      (INT64_C(1) << 39) - 1,
                                      INT64_C(1) << 39,
                                      -(INT64_C(1) << 40),
                                      INT64_MAX,
                                      INT64_MIN};
    struct dt_buf out = {0};
    struct dt_pickle_writer w;
    struct dt_pickle p;
    struct dt_err err;
    char text[301];
    for (size_t i = 0; i < ROWS(numbers); i++) {
        CHECK_ROW("%lld", (long long)numbers[i]);
        dt_buf_clear(&out);
        dt_pickle_begin(&w, &out);
        dt_pickle_put_int(&w, numbers[i]);
        dt_pickle_end(&w);
        CHECK_OK(dt_pickle_read(&p, (struct dt_bytes){out.at, out.len}, &limits, classes, &err),
                 err);
        CHECK_EQ(p.root->number, numbers[i]);
        dt_pickle_finish(&p);
    }
    for (size_t len = 254; len <= 300; len++) {
        CHECK_ROW("%zu characters", len);
        memset(text, 'x', len);
        text[len] = '\0';
        dt_buf_clear(&out);
        dt_pickle_begin(&w, &out);
        dt_pickle_put_text(&w, text);
        dt_pickle_end(&w);
        CHECK_OK(dt_pickle_read(&p, (struct dt_bytes){out.at, out.len}, &limits, classes, &err),
                 err);
        CHECK_BYTES(p.root->bytes.at, p.root->bytes.len, text, len);
        dt_pickle_finish(&p);
    }
    dt_buf_finish(&out);
}
