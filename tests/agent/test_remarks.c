/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/remarks.h"
#include "tests/lib/check.h"

TEST(each_is_taken_once_and_in_order_whenever_it_was_added)
{
    struct dt_remarks r = {0};
    struct dt_message m = {.run = "job", .round = -1, .remark.node = "node7"};
    CHECK(!dt_remarks_take(&r, &m));
    dt_remarks_add(&r, false, "shm: small");
    dt_remarks_add(&r, true, "gpus: one is lost");
    CHECK(dt_remarks_take(&r, &m));
    CHECK_EQ(m.type, DT_MSG_REMARK);
    CHECK_STR(m.why, "shm: small");
    CHECK(!m.remark.failed);
    CHECK(dt_remarks_take(&r, &m));
    CHECK_STR(m.why, "gpus: one is lost");
    CHECK(m.remark.failed);
    CHECK(!dt_remarks_take(&r, &m));
    dt_remarks_add(&r, false, "limits: low");
    CHECK(dt_remarks_take(&r, &m));
    CHECK_STR(m.why, "limits: low");
    CHECK_STR(m.remark.node, "node7");
    CHECK_STR(m.run, "job");
}

TEST(too_many_and_too_long_ones_are_cut)
{
    struct dt_remarks r = {0};
    struct dt_message m = {0};
    char words[2 * DT_WHY_MAX];
    memset(words, 'x', sizeof words);
    words[sizeof words - 1] = '\0';
    for (int i = 0; i < 3 * DT_REMARKS_MOST; i++)
        dt_remarks_add(&r, false, words);
    for (int i = 0; i < DT_REMARKS_MOST; i++) {
        CHECK(dt_remarks_take(&r, &m));
        CHECK_EQ(strlen(m.why), DT_WHY_MAX - 1);
    }
    CHECK(!dt_remarks_take(&r, &m));
}
