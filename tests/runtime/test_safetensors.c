/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/safetensors.h"

#include "base/fs.h"
#include "tests/lib/folder.h"

#include <sys/stat.h>

BEFORE_ALL
{
    folder_make();
}

static void put_file(struct dt_buf *out, const char *header, size_t data)
{
    size_t n = strlen(header);
    dt_buf_clear(out);
    dt_buf_put_u64(out, n);
    dt_buf_put(out, header, n);
    for (size_t i = 0; i < data; i++)
        dt_buf_put_u8(out, (uint8_t)i);
}

TEST(what_is_written_is_read)
{
    struct dt_st_tensor t[] = {
        {.name = "a.weight", .type = DT_F32, .rank = 2, .dims = {3, 5}},
        {.name = "a scalar \"quoted\" \xc3\xa9", .type = DT_F64},
        {.name = "nothing", .type = DT_BF16, .rank = 3, .dims = {4, 0, 2}},
        {.name = "bytes", .type = DT_U8, .rank = 1, .dims = {7}},
        {.name = "eight", .type = DT_I64, .rank = 8, .dims = {1, 1, 2, 1, 1, 1, 1, 1}},
    };
    const char *const metadata[] = {"step", "100", "note", "two\nlines", NULL};
    struct dt_buf out = {0};
    struct dt_st_file f;
    struct dt_err err;
    CHECK_OK(dt_st_header(t, 5, metadata, &out, &err), err);
    CHECK_EQ(out.len % 64, 0);
    CHECK_EQ(t[4].end, 60 + 8 + 7 + 16);
    size_t data_at = out.len;
    for (uint64_t i = 0; i < t[4].end; i++)
        dt_buf_put_u8(&out, (uint8_t)i);
    CHECK_OK(dt_fs_replace(at("x.safetensors"), out.at, out.len, 0644, &err), err);
    CHECK_OK(dt_st_open(&f, at("x.safetensors"), &err), err);
    CHECK_EQ(f.count, 5);
    CHECK_EQ(f.data_at, data_at);
    for (size_t i = 0; i < 5; i++) {
        const struct dt_st_tensor *found = dt_st_find(&f, t[i].name);
        CHECK_ROW("%s", t[i].name);
        CHECK(found != NULL);
        CHECK_EQ(found->type, t[i].type);
        CHECK_EQ(found->rank, t[i].rank);
        CHECK_EQ(found->begin, t[i].begin);
        CHECK_EQ(found->end, t[i].end);
        for (int d = 0; d < t[i].rank; d++)
            CHECK_EQ(found->dims[d], t[i].dims[d]);
    }
    CHECK(dt_st_find(&f, "other") == NULL);
    dt_st_close(&f);
    dt_buf_finish(&out);
}

TEST(a_file_without_tensors)
{
    struct dt_buf out = {0};
    struct dt_st_file f;
    struct dt_err err;
    CHECK_OK(dt_st_header(NULL, 0, NULL, &out, &err), err);
    CHECK_OK(dt_st_parse(&f, (struct dt_bytes){out.at, out.len}, out.len, &err), err);
    CHECK_EQ(f.count, 0);
    CHECK(dt_st_find(&f, "x") == NULL);
    dt_st_close(&f);
    dt_buf_finish(&out);
}

#define T(dtype, shape, begin, end)                                                                \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

/* clang-format off */
static const struct row {
    const char *header;
    size_t data;
    const char *error; /* NULL: it is taken */
} rows[] = {
    {"{}", 0, NULL},
    {"{\"a\":" T("F32", "[2]", 0, 8) "}", 8, NULL},
    {"{\"a\":" T("F32", "[2]", 0, 8) "}     ", 8, NULL},
    {"{\"b\":" T("F32", "[2]", 8, 16) ",\"a\":" T("F32", "[2]", 0, 8) "}", 16, NULL},
    {"{\"a\":" T("BOOL", "[3]", 0, 3) ",\"b\":" T("F8_E4M3", "[]", 3, 4) "}", 4, NULL},
    {"{\"a\":" T("F32", "[0]", 0, 0) ",\"b\":" T("U8", "[1]", 0, 1) ",\"c\":" T("U8", "[0,9]", 1, 1) "}", 1, NULL},
    {"{\"__metadata__\":{\"a\":\"b\"}}", 0, NULL},
    {"[]", 0, "begin with"},
    {" {}", 0, "begin with"},
    {"", 0, "begin with"},
    {"{\"a\":1}", 0, "has not just"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "has not just"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", 1, "has not just"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "has not just"},
    {"{\"a\":" T("F31", "[2]", 0, 8) "}", 8, "dtype"},
    {"{\"a\":" T("f32", "[2]", 0, 8) "}", 8, "dtype"},
    {"{\"a\":{\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "dtype"},
    {"{\"a\":" T("F32", "[-2]", 0, 8) "}", 8, "shape"},
    {"{\"a\":" T("F32", "[1.5]", 0, 6) "}", 6, "shape"},
    {"{\"a\":" T("F32", "2", 0, 8) "}", 8, "shape"},
    {"{\"a\":" T("F32", "[\"2\"]", 0, 8) "}", 8, "shape"},
    {"{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, "shape"},
    {"{\"a\":" T("F32", "[1e300]", 0, 4) "}", 4, "shape"},
    {"{\"a\":" T("F32", "[4294967296,4294967296,4294967296]", 0, 8) "}", 8, "do not fit"},
    {"{\"a\":" T("F32", "[4611686018427387904]", 0, 0) "}", 0, "shape"},
    {"{\"a\":" T("F32", "[4294967296,1073741824]", 0, 0) "}", 0, "do not fit"},
    {"{\"a\":" T("F32", "[3]", 0, 8) "}", 8, "do not fit"},
    {"{\"a\":" T("F32", "[2]", 8, 0) "}", 8, "data_offsets"},
    {"{\"a\":" T("F32", "[2]", 0, 9) "}", 8, "data_offsets"},
    {"{\"a\":" T("F32", "[2]", -8, 0) "}", 8, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4,8]}}", 8, "data_offsets"},
    {"{\"a\":" T("U8", "[2]", 0, 2) ",\"b\":" T("U8", "[2]", 1, 3) "}", 3, "lies over"},
    {"{\"a\":" T("U8", "[2]", 0, 2) ",\"b\":" T("U8", "[2]", 0, 2) "}", 2, "lies over"},
    {"{\"a\":" T("U8", "[2]", 0, 2) ",\"b\":" T("U8", "[2]", 3, 5) "}", 5, "gap"},
    {"{\"a\":" T("U8", "[2]", 1, 3) "}", 3, "gap"},
    {"{\"a\":" T("U8", "[2]", 0, 2) "}", 3, "belong to no tensor"},
    {"{}", 1, "belong to no tensor"},
    {"{\"a\":" T("U8", "[1]", 0, 1) ",\"a\":" T("U8", "[1]", 1, 2) "}", 2, "is there twice"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "else than strings"},
    {"{\"__metadata__\":[]}", 0, "no object"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "is there twice"},
    {"{\"a\\u001b[2J\":" T("U8", "[1]", 0, 1) "}", 1, "control characters"},
    {"{\"a\xc2\x9b" "2J\":" T("U8", "[1]", 0, 1) "}", 1, "control characters"},
    {"{\"a\xe2\x80\xae" "b\":" T("U8", "[1]", 0, 1) "}", 1, "control characters"},
    {"{\"a\":", 0, "header"},
    {"{} x", 0, "header"},
    {"{\"\xff\":1}", 0, "UTF-8"},
};
/* clang-format on */

TEST(every_rule)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_buf b = {0};
        struct dt_st_file f;
        struct dt_err err = {0};
        CHECK_ROW("%s with %zu", rows[i].header, rows[i].data);
        put_file(&b, rows[i].header, rows[i].data);
        int rc = dt_st_parse(&f, (struct dt_bytes){b.at, b.len}, b.len, &err);
        if (rows[i].error)
            CHECK_FAIL(rc, err, rows[i].error);
        else
            CHECK_OK(rc, err);
        if (rc == 0)
            dt_st_close(&f);
        dt_buf_finish(&b);
    }
}

TEST(lengths_that_are_none)
{
    static const uint64_t lengths[] = {3, 1000, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63};
    struct dt_st_file f;
    struct dt_err err;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct dt_buf b = {0};
        CHECK_ROW("%llu", (unsigned long long)lengths[i]);
        dt_buf_put_u64(&b, lengths[i]);
        dt_buf_put_str(&b, "{}");
        CHECK_FAIL(dt_st_parse(&f, (struct dt_bytes){b.at, b.len}, b.len, &err), err,
                   "header would be");
        CHECK_OK(dt_fs_replace(at("length"), b.at, b.len, 0644, &err), err);
        CHECK_FAIL(dt_st_open(&f, at("length"), &err), err, "header would be");
        CHECK_FAIL(dt_st_open(&f, at("length"), &err), err, "/length: ");
        dt_buf_finish(&b);
    }
    /* A sparse file that is long enough costs no memory. */
    struct dt_buf b = {0};
    dt_buf_put_u64(&b, DT_ST_HEADER_MAX + 1);
    CHECK_OK(dt_fs_replace(at("sparse"), b.at, b.len, 0644, &err), err);
    CHECK_EQ(truncate(at("sparse"), (off_t)DT_ST_HEADER_MAX * 2), 0);
    CHECK_FAIL(dt_st_open(&f, at("sparse"), &err), err, "longer than 16 MiB");
    dt_buf_clear(&b);
    dt_buf_put_str(&b,
                   "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 548105171\n");
    CHECK_OK(dt_fs_replace(at("pointer"), b.at, b.len, 0644, &err), err);
    CHECK_FAIL(dt_st_open(&f, at("pointer"), &err), err, "a pointer of git-lfs and not the file");
    CHECK_EQ(truncate(at("sparse"), 7), 0);
    CHECK_FAIL(dt_st_open(&f, at("sparse"), &err), err, "too short");
    CHECK_FAIL(dt_st_open(&f, at("none"), &err), err, "cannot open");
    CHECK_FAIL(dt_st_open(&f, dir, &err), err, "it is no file");
    CHECK_EQ(mkfifo(at("pipe"), 0600), 0);
    CHECK_FAIL(dt_st_open(&f, at("pipe"), &err), err, "it is no file"); /* without a wait */
    dt_buf_finish(&b);
}

TEST(what_cannot_be_written_is_refused)
{
    struct dt_st_tensor t[2] = {
        {.name = "huge", .type = DT_F32, .rank = 2, .dims = {(uint64_t)1 << 40, (uint64_t)1 << 40}},
        {.name = "strange", .type = DT_DTYPES},
    };
    struct dt_buf out = {0};
    struct dt_err err;
    CHECK_FAIL(dt_st_header(t, 1, NULL, &out, &err), err, "huge");
    CHECK_FAIL(dt_st_header(t + 1, 1, NULL, &out, &err), err, "strange");
    dt_buf_finish(&out);
}
