/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/guesses.h"
#include "tests/lib/check.h"

static struct dt_guesses g;

static bool may(const char *host, dt_ms now)
{
    struct dt_addr a;
    struct dt_err err;
    CHECK_OK(dt_addr_parse(host, 1000, &a, &err), err);
    return dt_guesses_may_try(&g, &a, now);
}

static void wrong(const char *host, int times, dt_ms now)
{
    struct dt_addr a;
    struct dt_err err;
    CHECK_OK(dt_addr_parse(host, 1000, &a, &err), err);
    for (int i = 0; i < times; i++)
        dt_guesses_wrong(&g, &a, now);
}

TEST(ten_at_once_and_one_more_each_second)
{
    g = (struct dt_guesses){0};
    wrong("10.0.0.1", 9, 0);
    CHECK(may("10.0.0.1", 0));
    wrong("10.0.0.1", 5, 0); /* no more than all can be used up */
    CHECK(!may("10.0.0.1", 999));
    CHECK(may("10.0.0.1", 1000));
    wrong("10.0.0.1", 1, 1000);
    CHECK(!may("10.0.0.1", 1999));
    CHECK(may("10.0.0.1", 2000));
    CHECK(may("10.0.0.1", 3600 * DT_SECOND));
    wrong("10.0.0.1", 9, 3600 * DT_SECOND);
    CHECK(may("10.0.0.1", 3600 * DT_SECOND)); /* all are forgotten */
}

TEST(each_host_has_its_own_and_one_host_has_one)
{
    static const struct {
        const char *one, *other;
        bool same;
    } rows[] = {
        {"10.0.0.1:5", "10.0.0.1:6", true},
        {"10.0.0.1", "10.0.0.2", false},
        {"10.0.0.1", "[::ffff:10.0.0.1]", true},
        {"[fd00:1:2:3::1]", "[fd00:1:2:3:ffff::2]", true},
        {"[fd00:1:2:3::1]", "[fd00:1:2:4::1]", false},
        {"[fd00:1:2:3::1]", "10.0.0.1", false},
        {"/run/a", "/run/b", true},
        {"/run/a", "10.0.0.1", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s and %s", rows[i].one, rows[i].other);
        g = (struct dt_guesses){0};
        wrong(rows[i].one, 10, 0);
        CHECK(!may(rows[i].one, 0));
        CHECK_EQ(may(rows[i].other, 0), !rows[i].same);
    }
}

TEST(the_right_token_gives_all_back)
{
    struct dt_addr a;
    g = (struct dt_guesses){0};
    wrong("10.0.0.1", 9, 0);
    CHECK_EQ(dt_addr_parse("10.0.0.1", 0, &a, NULL), 0);
    dt_guesses_right(&g, &a);
    wrong("10.0.0.1", 9, 0);
    CHECK(may("10.0.0.1", 0));
}

TEST(who_is_quiet_for_longest_is_forgotten_first)
{
    char host[32];
    g = (struct dt_guesses){0};
    for (int i = 0; i < DT_GUESSES_HOSTS; i++) {
        snprintf(host, sizeof host, "10.0.%d.%d", i / 256, i % 256);
        wrong(host, 10, i == 7 ? 0 : 1);
    }
    wrong("10.1.1.1", 10, 1);
    CHECK(!may("10.1.1.1", 1));
    CHECK(may("10.0.0.7", 1));
    CHECK(!may("10.0.0.8", 1));
}
