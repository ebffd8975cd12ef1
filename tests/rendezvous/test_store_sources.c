/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses are one host, and how many connections each may have. */
#include "rendezvous/store/sources.h"
#include "tests/lib/check.h"

static struct dt_addr addr_of(const char *text)
{
    struct dt_addr a;
    struct dt_err err;
    CHECK_OK(dt_addr_parse(text, 1, &a, &err), err);
    return a;
}

TEST(addresses_of_one_host_are_counted_together)
{
    static const struct {
        const char *first, *second;
        bool same; /* the second finds the only place taken */
    } rows[] = {
        {"10.0.0.1:1", "10.0.0.1:2", true},
        {"10.0.0.1:1", "10.0.0.2:1", false},
        {"[::ffff:10.0.0.1]:1", "10.0.0.1:1", true},
        {"[fd00::1]:1", "[fd00::2]:1", true},
        {"[fd00::1]:1", "[fd00:0:0:1::1]:1", false},
        {"127.0.0.1:1", "127.0.0.1:1", false},
        {"[::1]:1", "[::1]:1", false},
        {"[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:1", false},
        {"unix:/a", "unix:/a", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s and %s", rows[i].first, rows[i].second);
        struct dt_store_sources s;
        struct dt_store_source *a, *b;
        struct dt_addr first = addr_of(rows[i].first), second = addr_of(rows[i].second);
        dt_store_sources_init(&s);
        CHECK(dt_store_sources_enter(&s, &first, 1, &a));
        CHECK_EQ(dt_store_sources_enter(&s, &second, 1, &b), !rows[i].same);
        dt_store_sources_leave(&s, b);
        dt_store_sources_leave(&s, a);
        CHECK_EQ(s.all.count, 0);
        CHECK(dt_store_sources_enter(&s, &second, 1, &b));
        dt_store_sources_leave(&s, b);
        dt_store_sources_finish(&s);
    }
}

TEST(a_host_gets_as_many_places_as_it_may_have)
{
    struct dt_store_sources s;
    struct dt_store_source *from[3];
    struct dt_addr a = addr_of("192.0.2.1:1");
    dt_store_sources_init(&s);
    CHECK(dt_store_sources_enter(&s, &a, 2, &from[0]));
    CHECK(dt_store_sources_enter(&s, &a, 2, &from[1]));
    CHECK(!dt_store_sources_enter(&s, &a, 2, &from[2]));
    dt_store_sources_leave(&s, from[0]);
    CHECK(dt_store_sources_enter(&s, &a, 2, &from[2]));
    dt_store_sources_leave(&s, from[1]);
    dt_store_sources_leave(&s, from[2]);
    CHECK_EQ(s.all.count, 0);
    dt_store_sources_finish(&s);
}
