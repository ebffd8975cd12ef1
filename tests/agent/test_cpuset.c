/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/bind/cpuset.h"
#include "tests/lib/check.h"
#include "tests/lib/cpus.h"

static const char *text_of(const struct dt_cpuset *s)
{
    static char text[400];
    struct dt_buf b = {0};
    dt_cpuset_put(s, &b);
    snprintf(text, sizeof text, "%s", dt_buf_cstr(&b));
    dt_buf_finish(&b);
    return text;
}

TEST(lists_are_written_as_the_kernel_does)
{
    static const struct {
        const char *in, *out;
        size_t count;
    } rows[] = {
        {"", "", 0},           {"0", "0", 1},
        {"0-3,8", "0-3,8", 5}, {"8,0,1,2,3", "0-3,8", 5},
        {"0,1", "0-1", 2},     {"62-65", "62-65", 4},
        {"127", "127", 1},     {"0-127,8191", "0-127,8191", 129},
        {"5-5", "5", 1},       {"32-47,96-111", "32-47,96-111", 32},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("\"%s\"", rows[i].in);
        struct dt_cpuset s = cpus(rows[i].in);
        CHECK_STR(text_of(&s), rows[i].out);
        CHECK_EQ(dt_cpuset_count(&s), rows[i].count);
        CHECK_EQ(dt_cpuset_empty(&s), rows[i].count == 0);
    }
}

TEST(sets_meet_and_join)
{
    struct dt_cpuset a = cpus("0-9,100"), b = cpus("8-12,100,200");
    struct dt_cpuset both = dt_cpuset_and(&a, &b);
    CHECK_STR(text_of(&both), "8-9,100");
    CHECK(!dt_cpuset_equal(&both, &a));
    dt_cpuset_join(&a, &b);
    CHECK_STR(text_of(&a), "0-12,100,200");
    CHECK_EQ(dt_cpuset_next(&a, 13), 100);
    CHECK_EQ(dt_cpuset_next(&a, 201), -1);
    CHECK_EQ(dt_cpuset_next(&a, DT_CPUSET_MAX), -1);
    dt_cpuset_fill(&b);
    both = dt_cpuset_and(&a, &b);
    CHECK(dt_cpuset_equal(&both, &a));
    dt_cpuset_add(&a, DT_CPUSET_MAX);
    CHECK(dt_cpuset_equal(&both, &a));
    CHECK(!dt_cpuset_has(&b, DT_CPUSET_MAX));
}
