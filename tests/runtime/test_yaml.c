/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/config/yaml.h"

#include <stdlib.h>

/* TEXT as JSON, or what is wrong with it; good until the next call. */
static const char *read_as(const char *text)
{
    static char out[600];
    struct dt_json doc;
    struct dt_err err = {0};
    if (dt_yaml_parse(&doc, text, strlen(text), &err) < 0) {
        CHECK(doc.root == NULL);
        snprintf(out, sizeof out, "%s", err.text);
        return out;
    }
    char *json = dt_json_text(doc.root);
    CHECK(json != NULL);
    snprintf(out, sizeof out, "%s", json);
    free(json);
    dt_json_finish(&doc);
    return out;
}

struct row {
    const char *text, *out;
};

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CHECK_ROW("%s", rows[i].text);
        CHECK_STR(read_as(rows[i].text), rows[i].out);
    }
}

#define ROWS(rows) (rows), sizeof(rows) / sizeof *(rows)

TEST(settings_are_read_as_people_write_them)
{
    static const struct row rows[] = {
        {"", "{}"},
        {"# nothing\n\n  # at all", "{}"},
        {"---\na: 1\n", "{\"a\":1}"},
        {"\xef\xbb\xbf"
         "a: 1\r\nb: x\r\n",
         "{\"a\":1,\"b\":\"x\"}"},
        {"### model\nmodel_name_or_path: meta-llama/Llama-2-7b # a hub's name\nb: x#y\n",
         "{\"model_name_or_path\":\"meta-llama/Llama-2-7b\",\"b\":\"x#y\"}"},
        {"a:\nb: ~\nc: null\nd: # later\n", "{\"a\":null,\"b\":null,\"c\":null,\"d\":null}"},
        {"a: [q_proj, \"v, proj\",'x', 3]\nb: []\nc: [1, 2, ]",
         "{\"a\":[\"q_proj\",\"v, proj\",\"x\",3],\"b\":[],\"c\":[1,2]}"},
        {"a:\n- q\n- 2 # two\n\n-  'three'\nb: 1", "{\"a\":[\"q\",2,\"three\"],\"b\":1}"},
        {"a:\n  - q\n  - [x, {y: z}]\nb: 1", "{\"a\":[\"q\",[\"x\",{\"y\":\"z\"}]],\"b\":1}"},
        {"a:\n  b: 1\n  c:\n    d: x y z\ne: 2",
         "{\"a\":{\"b\":1,\"c\":{\"d\":\"x y z\"}},\"e\":2}"},
        {"a: {\"min_lr\":1e-6, b: [1]}\n", "{\"a\":{\"min_lr\":1e-06,\"b\":[1]}}"},
        {"\"a b\": 1\n'c': 2\nd e : 3\n", "{\"a b\":1,\"c\":2,\"d e\":3}"},
        {"a: http://x:80/y\nb: a:b\nc: -x\nd: ?x\n",
         "{\"a\":\"http://x:80/y\",\"b\":\"a:b\",\"c\":\"-x\",\"d\":\"?x\"}"},
        {"a: \"x \\\"y\\\" \\\\ \\n \\u00e9\\x41\\U0001F600\"\nb: 'it''s \\n'\n",
         "{\"a\":\"x \\\"y\\\" \\\\ \\n \xc3\xa9"
         "A\xf0\x9f\x98\x80\",\"b\":\"it's \\\\n\"}"},
    };
    check_rows(ROWS(rows));
}

TEST(a_plain_scalar_is_a_null_a_flag_a_number_or_a_text)
{
    static const struct row rows[] = {
        {"a: true\nb: False\nc: yes\nd: No\ne: off\nf: \"no\"",
         "{\"a\":true,\"b\":false,\"c\":true,\"d\":false,\"e\":false,\"f\":\"no\"}"},
        {"a: 1.0e-4\nb: 1e-4\nc: -3\nd: .5\ne: 1.\nf: +2\ng: 0",
         "{\"a\":0.0001,\"b\":0.0001,\"c\":-3,\"d\":0.5,\"e\":1,\"f\":2,\"g\":0}"},
        {"a: 0x10\nb: 010\nc: 1_000\nd: .inf\ne: 1e\nf: 1e999\ng: .\nh: 1.2.3\ni: '7'",
         "{\"a\":\"0x10\",\"b\":\"010\",\"c\":\"1_000\",\"d\":\".inf\",\"e\":\"1e\",\"f\":"
         "\"1e999\","
         "\"g\":\".\",\"h\":\"1.2.3\",\"i\":\"7\"}"},
    };
    check_rows(ROWS(rows));
}

TEST(what_is_not_read_is_refused_with_its_line)
{
    static const struct row rows[] = {
        {"a: 1\nb: |\n  x\n", "line 2: a text of several lines; write it on one, in double quotes, "
                              "with \\n"},
        {"a: >\n", "line 1: a text of several lines; write it on one, in double quotes"},
        {"a: &x 1\n", "line 1: an anchor; write the value itself"},
        {"a: *x\n", "line 1: an alias; write the value itself"},
        {"a: !!int 1\n", "line 1: a tag; write the value alone"},
        {"a: 1\n\n# x\na: 2\n", "line 4: a is there twice"},
        {"a: {b: 1, b: 2}", "line 1: b is there twice"},
        {"a: 1\n  b: 2\n",
         "line 2: this line is indented more than the one above it, which has a value"},
        {"  a: 1\nb: 2\n", "line 2: this line is indented less than those above it"},
        {"a:\n    b: 1\n  c: 2\n",
         "line 3: this line is indented more than the one above it, which has a value"},
        {"\ta: 1\n", "line 1: a tab in front of a key; write blanks"},
        {"a: b: c\n", "line 1: a key within a value; write the value in quotes, or the key on a "
                      "line of its own"},
        {"a: - b\n", "line 1: an entry of a list behind a key; begin a line with it"},
        {"- a\n", "line 1: an entry of a list where a key is expected"},
        {"a:\n- b: 1\n", "line 2: a key within a value; write the value in quotes, or the key on a "
                         "line of its own"},
        {"a:\n-\n  - 1\n", "line 2: an entry of a list without a value on its line"},
        {"a\n", "line 1: expected KEY: VALUE"},
        {": 1\n", "line 1: a key is empty"},
        {"? a\n", "line 1: a key of several lines"},
        {"[a]: 1\n", "line 1: a list or an object where a key is expected"},
        {"a: [1, 2\n", "line 1: ] or , is missing; what begins with [ ends on its line"},
        {"a: [1, 2] 3\n", "line 1: what is \"3\"? A value is over in front of it"},
        {"a: [1, , 2]\n", "line 1: a value is missing in front of a comma"},
        {"a: [\n  1]\n", "line 1: a value is missing at the end of the line"},
        {"a: 'x\n", "line 1: a quote that does not end on its line"},
        {"a: \"\\q\"\n", "line 1: a backslash in double quotes, and no escape behind it; in single "
                         "quotes it is itself"},
        {"a: \"\\ud800\"\n", "line 1: an escape that stands for no character"},
        {"a: \"\\x0\"\n", "line 1: an escape without its hexadecimal digits"},
        {"a: \x01\n", "line 1: a control character"},
        {"a: \xff\n", "line 1: this is not UTF-8"},
        {"a: [[[[[[[[[1]]]]]]]]]\n", "line 1: nested more than 8 deep"},
        {"a: 1\n---\nb: 2\n", "line 2: expected KEY: VALUE"},
    };
    check_rows(ROWS(rows));
}

TEST(more_than_a_file_of_settings_has_is_refused)
{
    struct dt_json doc;
    struct dt_err err = {0};
    struct dt_buf text = {0};
    for (int i = 0; i <= 1000; i++)
        dt_buf_printf(&text, "k%d: 1\n", i);
    CHECK_FAIL(dt_yaml_parse(&doc, dt_buf_cstr(&text), text.len, &err), err,
               "line 1001: more than 1000 keys");
    size_t len = DT_YAML_MAX + 1;
    char *much = malloc(len);
    CHECK(much != NULL);
    memset(much, ' ', len);
    CHECK_FAIL(dt_yaml_parse(&doc, much, len, &err), err, "at most 1048576 are taken");
    free(much);
    dt_buf_finish(&text);
}
