/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"
#include "tests/lib/check.h"

#define ROWS(a) (sizeof(a) / sizeof *(a))

TEST(bytes_and_their_text)
{
    static const struct {
        const char *bytes, *text;
    } rows[] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"canimadam", "Y2FuaW1hZGFt"},
        {"\xff\xef\xbe\xfb\xff", "/++++/8="},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_buf text = {0}, bytes = {0};
        struct dt_err err;
        dt_base64_write(&text, dt_bytes_of(rows[i].bytes));
        CHECK_STR(dt_buf_cstr(&text), rows[i].text);
        CHECK_OK(dt_base64_read(dt_bytes_of(rows[i].text), &bytes, &err), err);
        CHECK_BYTES(bytes.at, bytes.len, rows[i].bytes, strlen(rows[i].bytes));
        dt_buf_finish(&text);
        dt_buf_finish(&bytes);
    }
}

TEST(what_is_no_base64)
{
    static const char *const rows[] = {
        "Z",    "Zg",     "Zg=",  "Zg==Zg==", "Z===",
        "====", "Zm9v\n", "Zm 9", "Zm-_",     "Zh==" /* bits left over */,
        "Zm9=",
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i]);
        struct dt_buf bytes = {0};
        struct dt_err err;
        CHECK_FAIL(dt_base64_read(dt_bytes_of(rows[i]), &bytes, &err), err, "base64");
        dt_buf_finish(&bytes);
    }
    struct dt_buf bytes = {0};
    struct dt_err err;
    CHECK_FAIL(dt_base64_read((struct dt_bytes){(const uint8_t *)"Zm\0v", 4}, &bytes, &err), err,
               "base64");
    dt_buf_finish(&bytes);
}
