/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/error_file.h"
#include "base/fs.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

#include <sys/stat.h>

#define FORM(extra) "{\"message\": {\"message\": \"m\", \"extraInfo\": {" extra "}}}"

TEST(both_forms_are_understood_with_what_is_missing_or_odd)
{
    static const struct {
        const char *text, *message;
        int64_t time;
    } rows[] = {
        {FORM("\"py_callstack\": \"a\\nb\\n\", \"timestamp\": \"1700000000\""), "a\n  b\n  ",
         1700000000},
        {FORM("\"py_callstack\": \"a\", \"timestamp\": 1700000000.9"), "a", 1700000000},
        {FORM("\"timestamp\": \" 1700000000.5 \""), "m", 1700000000},
        {FORM("\"timestamp\": \"yesterday\""), "m", -1},
        {FORM("\"timestamp\": \"\""), "m", -1},
        {FORM("\"timestamp\": \"12 x\""), "m", -1},
        {FORM("\"timestamp\": 0"), "m", -1},
        {FORM("\"timestamp\": -5"), "m", -1},
        {FORM("\"timestamp\": 1e300"), "m", -1},
        {FORM("\"timestamp\": \"nan\""), "m", -1},
        {FORM("\"timestamp\": true, \"py_callstack\": 7"), "m", -1},
        {FORM("\"py_callstack\": \"\""), "m", -1},
        {"{\"message\": {\"message\": \"a\\nb\"}}", "a\n  b", -1},
        {"{\"message\": {\"message\": 5, \"extraInfo\": []}, \"timestamp\": 9}", "<N/A>", 9},
        {"{\"message\": {}}", "<N/A>", -1},
        {"{\"message\": \"a\\nb\", \"timestamp\": \"7\"}", "a\nb", 7},
        {"{\"message\": \"a\"}", "a", -1},
        {"{\"message\": \"\", \"timestamp\": 8}", NULL, 8},
        {" \n{\"message\": \"a\", \"other\": [1, {}]}\n\n", "a", -1},
        {"{\"message\": \"\\udcff \\ud83d\\ude00 \\ud83d \\u0000 \\\\ud800\"}",
         "\\udcff \xf0\x9f\x98\x80 \\ud83d \\u0000 \\ud800", -1},
        {"{\"message\": \"\\ud83d\\ud83d\\ude00\"}", "\\ud83d\xf0\x9f\x98\x80", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_error_file f;
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].text);
        CHECK_OK(dt_error_file_parse(rows[i].text, strlen(rows[i].text), &f, &err), err);
        CHECK_STR(f.message, rows[i].message);
        CHECK_EQ(f.time, rows[i].time);
        dt_error_file_finish(&f);
    }
}

TEST(what_is_no_error_file_is_refused)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "line 1, column 1"},
        {"boom\n", "line 1, column 1"},
        {"{\"message\": \"cut", "ends early"},
        {"{\"message\": \"a\"} {", "column"},
        {"{}", "no \"message\""},
        {"[]", "no \"message\""},
        {"null", "no \"message\""},
        {"\"message\"", "no \"message\""},
        {"{\"message\": null}", "no \"message\""},
        {"{\"message\": [\"a\"]}", "no \"message\""},
        {"{\"message\": \"\xff\"}", "not UTF-8"},
        {"\x7f"
         "ELF\x02\x01",
         "line 1"},
        {"{\"message\": \"\\u12\"}", "no JSON"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_error_file f;
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].text);
        CHECK_FAIL(dt_error_file_parse(rows[i].text, strlen(rows[i].text), &f, &err), err,
                   rows[i].why);
        CHECK(f.message == NULL);
        dt_error_file_finish(&f);
    }
}

BEFORE_ALL
{
    folder_make();
}

TEST(files_are_bounded_and_only_regular_ones_opened)
{
    struct dt_error_file f;
    struct dt_err err = {0};
    char *big = malloc(DT_ERROR_FILE_MAX + 1);
    memset(big, ' ', DT_ERROR_FILE_MAX + 1);
    memcpy(big, "{\"message\": \"a\"}", 16);
    CHECK_OK(dt_fs_replace(at("fits"), big, DT_ERROR_FILE_MAX, 0600, &err), err);
    CHECK_OK(dt_error_file_read(at("fits"), &f, &err), err);
    CHECK_STR(f.message, "a");
    dt_error_file_finish(&f);
    CHECK_OK(dt_fs_replace(at("big"), big, DT_ERROR_FILE_MAX + 1, 0600, &err), err);
    CHECK_FAIL(dt_error_file_read(at("big"), &f, &err), err, "/big is larger than");
    CHECK_FAIL(dt_error_file_parse(big, DT_ERROR_FILE_MAX + 1, &f, &err), err, "at most");
    free(big);
    CHECK_EQ(mkfifo(at("pipe"), 0600), 0);
    CHECK_FAIL(dt_error_file_read(at("pipe"), &f, &err), err, "no regular file");
    CHECK_FAIL(dt_error_file_read(dir, &f, &err), err, "no regular file");
    CHECK_FAIL(dt_error_file_read(at("none"), &f, &err), err, "/none: No such file");
    CHECK_OK(dt_fs_replace(at("bad"), "{", 1, 0600, &err), err);
    CHECK_FAIL(dt_error_file_read(at("bad"), &f, &err), err, "/bad makes no sense: line 1");
    dt_error_file_finish(&f);
}

TEST(the_exit_code_goes_into_the_first_form_only)
{
    static const struct {
        const char *text;
        int code;
        const char *printed;
    } rows[] = {
        {"{\"message\": {\"message\": \"m\"}}", 3,
         "{\"message\":{\"message\":\"m\",\"errorCode\":3}}"},
        {"{\"message\": {\"errorCode\": 1, \"x\": 2}}", -9,
         "{\"message\":{\"errorCode\":-9,\"x\":2}}"},
        {"{\"message\": {\"errorcode\": 1}}", 2, "{\"message\":{\"errorcode\":1,\"errorCode\":2}}"},
        {"{\"message\": {\"message\": \"m\"}}", 0, "{\"message\":{\"message\":\"m\"}}"},
        {"{\"message\": \"m\", \"timestamp\": \"5\"}", 3,
         "{\"message\":\"m\",\"timestamp\":\"5\"}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_error_file f;
        struct dt_err err = {0};
        struct dt_buf out = {0};
        CHECK_ROW("%s", rows[i].text);
        CHECK_OK(dt_error_file_parse(rows[i].text, strlen(rows[i].text), &f, &err), err);
        CHECK_OK(dt_error_file_print(&f, rows[i].code, &out, &err), err);
        CHECK_STR(dt_buf_cstr(&out), rows[i].printed);
        dt_buf_finish(&out);
        dt_error_file_finish(&f);
    }
}
