/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/planning/rdzv_conf.h"
#include "tests/lib/check.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

TEST(pairs)
{
    static const struct {
        const char *text, *pairs, *error;
    } rows[] = {
        {"", "", NULL},
        {"  ", "", NULL},
        {"a=1", "a=1;", NULL},
        {" a = 1 , b=2=3,c = x y ", "a=1;b=2=3;c=x y;", NULL},
        {"a=1,a=2", "a=1;a=2;", NULL},
        {"a", NULL, "a has no value; write a=VALUE"},
        {"a=", NULL, "a has no value; write a=VALUE"},
        {"a= ,b=1", NULL, "a has no value; write a=VALUE"},
        {"=1", NULL, "a pair has no key; write KEY=VALUE,KEY=VALUE"},
        {"a=1,", NULL, "a pair has no key; write KEY=VALUE,KEY=VALUE"},
        {",", NULL, "a pair has no key; write KEY=VALUE,KEY=VALUE"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("\"%s\"", rows[i].text);
        struct dt_rdzv_conf c;
        struct dt_err err = {0};
        int rc = dt_rdzv_conf_parse(rows[i].text, &c, &err);
        if (rows[i].error) {
            CHECK_EQ(rc, -1);
            CHECK_STR(err.text, rows[i].error);
            CHECK_EQ(err.code, DT_E_RUNTIME);
            CHECK(!c.text && !c.at);
            continue;
        }
        CHECK_OK(rc, err);
        char all[128] = "";
        for (size_t k = 0; k < c.len; k++)
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s=%s;", c.at[k].key,
                     c.at[k].value);
        CHECK_STR(all, rows[i].pairs);
        dt_rdzv_conf_finish(&c);
    }
}

TEST(the_last_value_of_a_key_counts)
{
    struct dt_rdzv_conf c;
    struct dt_err err = {0};
    CHECK_OK(dt_rdzv_conf_parse("a=1,b=2,a=3", &c, &err), err);
    CHECK_STR(dt_rdzv_conf_find(&c, "a"), "3");
    CHECK_STR(dt_rdzv_conf_find(&c, "b"), "2");
    CHECK(!dt_rdzv_conf_find(&c, "A"));
    dt_rdzv_conf_finish(&c);
}

TEST(seconds_and_truths)
{
    struct dt_rdzv_conf c;
    struct dt_err err = {0};
    dt_ms t = 7;
    bool is = false;
    static const char *const bad[] = {"zero", "negative", "word", "half"};
    CHECK_OK(
        dt_rdzv_conf_parse("s= 9 0,n=90,zero=0,negative=-1,word=x,half=0.5,big=9223372036854775"
                           "807,yes=Y,no=FALSE",
                           &c, &err),
        err);
    CHECK_OK(dt_rdzv_conf_seconds(&c, "absent", &t, &err), err);
    CHECK_EQ(t, 7);
    CHECK_OK(dt_rdzv_conf_seconds(&c, "n", &t, &err), err);
    CHECK_EQ(t, 90 * DT_SECOND);
    CHECK_OK(dt_rdzv_conf_seconds(&c, "big", &t, &err), err);
    CHECK_EQ(t, DT_FOREVER);
    for (size_t i = 0; i < ROWS(bad); i++) {
        CHECK_ROW("%s", bad[i]);
        CHECK_FAIL(dt_rdzv_conf_seconds(&c, bad[i], &t, &err), err, "whole seconds from 1 on");
        CHECK_EQ(err.code, DT_E_RUNTIME);
    }
    CHECK_OK(dt_rdzv_conf_bool(&c, "yes", &is, &err), err);
    CHECK(is);
    CHECK_OK(dt_rdzv_conf_bool(&c, "no", &is, &err), err);
    CHECK(!is);
    CHECK_FAIL(dt_rdzv_conf_bool(&c, "n", &is, &err), err, "n is \"90\"; give true or false");
    dt_rdzv_conf_finish(&c);
}
