/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/planning/streams.h"
#include "launcher/words.h"
#include "tests/lib/check.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))
#define NPROC 12

TEST(masks)
{
    static const struct {
        const char *text, *masks; /* of each rank; NULL: an error */
        int beyond;
    } rows[] = {
        {"0", "000000000000", -1},
        {"3", "333333333333", -1},
        {"0:3", "300000000000", -1},
        {"0:1,1:2,11:3", "120000000003", -1},
        {"1:3,1:1", "010000000000", -1},
        {"12:1", "000000000000", 12},
        {"0:1,999:2", "100000000000", 999},
        {"", NULL, 0},
        {"4", NULL, 0},
        {"33", NULL, 0},
        {"-1", NULL, 0},
        {"0:4", NULL, 0},
        {"0:", NULL, 0},
        {":1", NULL, 0},
        {"0:1,", NULL, 0},
        {",0:1", NULL, 0},
        {"0:1,,1:1", NULL, 0},
        {"0:1 ,1:1", NULL, 0},
        {"0:11", NULL, 0},
        {"0:1;1:1", NULL, 0},
        {"1234567890:1", NULL, 0},
        {"0:1,3", NULL, 0},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("\"%s\"", rows[i].text);
        unsigned masks[NPROC] = {0};
        char text[NPROC + 1] = "";
        int64_t beyond;
        struct dt_err err = {0};
        int rc = dt_streams_masks(rows[i].text, masks, NPROC, &beyond, &err);
        if (!rows[i].masks) {
            CHECK_FAIL(rc, err, "is neither 0, 1 (stdout)");
            CHECK_EQ(err.code, DT_E_RUNTIME);
            continue;
        }
        CHECK_OK(rc, err);
        for (int k = 0; k < NPROC; k++)
            text[k] = (char)('0' + masks[k]);
        CHECK_STR(text, rows[i].masks);
        CHECK_EQ(beyond, rows[i].beyond);
    }
}

TEST(lists_of_ranks)
{
    static const struct {
        const char *text, *shown; /* NULL: an error */
    } rows[] = {
        {"0", "1000"}, {"0,2", "1010"},  {" 1 , 3 ", "0101"},
        {"7", "0000"}, {"-1,2", "0010"}, {"1,1", "0100"},
        {"x", NULL},   {"", NULL},       {"0,", NULL},
        {"0;1", NULL}, {"0.0", NULL},    {"1,11111111111111111111111111111111111111111111", NULL},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("\"%s\"", rows[i].text);
        bool shown[4] = {0};
        char text[5] = "";
        struct dt_err err = {0};
        int rc = dt_streams_ranks(rows[i].text, shown, 4, &err);
        if (!rows[i].shown) {
            CHECK_FAIL(rc, err, "is no local rank; write them as 0,2,3");
            continue;
        }
        CHECK_OK(rc, err);
        for (int k = 0; k < 4; k++)
            text[k] = shown[k] ? '1' : '0';
        CHECK_STR(text, rows[i].shown);
    }
}

TEST(filters)
{
    static const struct {
        const char *text, *items;
    } rows[] = {
        {"", ""},          {"loss", "<loss>"},      {"loss,step 1", "<loss><step 1>"},
        {"a,,b", "<a,b>"}, {"a,,,b", "<a,><b>"},    {",,", "<,>"},
        {",a,", "<a>"},    {" a , b", "< a >< b>"}, {"a,,", "<a,>"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("\"%s\"", rows[i].text);
        char **list = NULL, text[64] = "";
        struct dt_err err = {0};
        CHECK_OK(dt_streams_filters(rows[i].text, &list, &err), err);
        for (char **s = list; s && *s; s++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "<%s>", *s);
        CHECK_STR(text, rows[i].items);
        dt_words_free(list);
    }
}
