/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "base/json_write.h"
#include "tests/lib/check.h"

#include <math.h>

/* One of everything, at three depths. */
static void write_all(struct dt_json_writer *w)
{
    dt_json_put_object(w, NULL);
    dt_json_put_text(w, "text", "a \"b\"\n");
    dt_json_put_text(w, "none", NULL);
    dt_json_put_int(w, "int", INT64_MIN);
    dt_json_put_uint(w, "uint", UINT64_MAX);
    dt_json_put_array(w, "list");
    dt_json_put_bool(w, NULL, true);
    dt_json_put_object(w, NULL);
    dt_json_put_number(w, "half", 0.5);
    dt_json_put_number(w, "nan", NAN);
    dt_json_put_end(w);
    dt_json_put_array(w, NULL);
    dt_json_put_end(w);
    dt_json_put_end(w);
    dt_json_put_object(w, "empty");
    dt_json_put_end(w);
    dt_json_put_raw(w, "raw", "%03d", 7);
    dt_json_put_end(w);
}

#define CHECK_WRITTEN(style_, lines_, expected)                                                    \
    do {                                                                                           \
        struct dt_buf out = {0};                                                                   \
        struct dt_json_writer w = {.out = &out, .style = (style_), .lines = (lines_)};             \
        write_all(&w);                                                                             \
        CHECK_STR(dt_buf_cstr(&out), expected);                                                    \
        CHECK_EQ(w.depth, 0);                                                                      \
        dt_buf_finish(&out);                                                                       \
    } while (0)

TEST(commas_and_brackets_stand_where_they_must)
{
    CHECK_WRITTEN(DT_JSON_COMPACT, 0,
                  "{\"text\":\"a \\\"b\\\"\\n\",\"none\":null,\"int\":-9223372036854775808,"
                  "\"uint\":18446744073709551615,\"list\":[true,{\"half\":0.5,\"nan\":null},[]],"
                  "\"empty\":{},\"raw\":007}");
}

TEST(python_puts_blanks_behind_commas_and_colons)
{
    CHECK_WRITTEN(
        DT_JSON_SPACED, 0,
        "{\"text\": \"a \\\"b\\\"\\n\", \"none\": null, \"int\": -9223372036854775808, "
        "\"uint\": 18446744073709551615, \"list\": [true, {\"half\": 0.5, \"nan\": null}, "
        "[]], \"empty\": {}, \"raw\": 007}");
}

TEST(outer_members_stand_on_lines_of_their_own)
{
    CHECK_WRITTEN(DT_JSON_SPACED, 2,
                  "{\n  \"text\": \"a \\\"b\\\"\\n\",\n  \"none\": null,\n"
                  "  \"int\": -9223372036854775808,\n  \"uint\": 18446744073709551615,\n"
                  "  \"list\": [\n    true,\n    {\"half\": 0.5, \"nan\": null},\n    []\n  ],\n"
                  "  \"empty\": {},\n  \"raw\": 007\n}");
}

TEST(what_is_written_can_be_read)
{
    struct dt_buf out = {0};
    struct dt_json_writer w = {.out = &out};
    struct dt_json doc;
    struct dt_err err;
    double third;
    dt_json_put_object(&w, NULL);
    dt_json_put_number(&w, "third", 1.0 / 3);
    dt_json_put_end(&w);
    CHECK_OK(dt_json_parse(&doc, (const char *)out.at, out.len, 1000, &err), err);
    CHECK_OK(dt_json_number(&doc, NULL, "third", &third, &err), err);
    CHECK(third == 1.0 / 3);
    dt_json_finish(&doc);
    dt_buf_finish(&out);
}
