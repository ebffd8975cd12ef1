/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "tests/lib/check.h"

#include <errno.h>

TEST(setting_fills_and_answers_minus_one)
{
    struct dt_err err = {0};
    CHECK_EQ(dt_err_set(&err, DT_E_LIMIT, "%d of %s", 3, "keys"), -1);
    CHECK_EQ(err.code, DT_E_LIMIT);
    CHECK_STR(err.text, "3 of keys");
}

TEST(errno_is_put_into_words)
{
    struct dt_err err = {0};
    CHECK_EQ(dt_err_errno(&err, DT_E_RUNTIME, ENOENT, "cannot open %s", "/x"), -1);
    CHECK_STR(err.text, "cannot open /x: No such file or directory");
}

TEST(wrapping_puts_names_in_front_and_keeps_the_code)
{
    struct dt_err err = {0};
    dt_err_set(&err, DT_E_USAGE, "\"x\" is not a number");
    CHECK_EQ(dt_err_wrap(&err, "--%s", "port"), -1);
    CHECK_EQ(dt_err_wrap(&err, "dtrun"), -1);
    CHECK_STR(err.text, "dtrun: --port: \"x\" is not a number");
    CHECK_EQ(err.code, DT_E_USAGE);
}

TEST(null_is_fine_everywhere)
{
    CHECK_EQ(dt_err_set(NULL, DT_E_USAGE, "x"), -1);
    CHECK_EQ(dt_err_errno(NULL, DT_E_USAGE, ENOENT, "x"), -1);
    CHECK_EQ(dt_err_wrap(NULL, "x"), -1);
}

TEST(long_texts_are_cut_and_stay_strings)
{
    char long_text[2 * sizeof(((struct dt_err *)0)->text)];
    memset(long_text, 'a', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    struct dt_err err = {0};
    dt_err_set(&err, DT_E_RUNTIME, "%s", long_text);
    CHECK_EQ(strlen(err.text), sizeof err.text - 1);
    dt_err_wrap(&err, "outer");
    CHECK_EQ(strlen(err.text), sizeof err.text - 1);
    CHECK_EQ(strncmp(err.text, "outer: aaa", 10), 0);
    dt_err_wrap(&err, "%s", long_text);
    CHECK_EQ(strlen(err.text), sizeof err.text - 1);
    dt_err_errno(&err, DT_E_RUNTIME, EIO, "%s", long_text);
    CHECK_EQ(strlen(err.text), sizeof err.text - 1);
}

TEST(usage_exits_2_and_all_else_1)
{
    for (int code = DT_E_RUNTIME; code <= DT_E_MEMORY; code++) {
        CHECK_ROW("code %d", code);
        struct dt_err err = {.code = (enum dt_err_code)code};
        CHECK_EQ(dt_err_exit_status(&err), code == DT_E_USAGE ? 2 : 1);
    }
}
