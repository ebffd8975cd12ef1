/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/own_node.h"
#include "tests/lib/check.h"

#define ROWS(a) (sizeof(a) / sizeof *(a))

TEST(a_host_is_ours_or_it_is_not)
{
    char name[256];
    CHECK_EQ(gethostname(name, sizeof name), 0);
    const struct {
        const char *host;
        bool ours;
    } rows[] = {
        {"localhost", true},    {"LocalHost", true},   {"127.0.0.1", true},
        {"127.9.8.7", true},    {"::1", true},         {name, true},
        {"192.0.2.7", false}, /* for documentation: nobody has these */
        {"2001:db8::7", false}, {"10.0.0.0/8", false}, {"no-such-host.invalid", false},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].host);
        CHECK_EQ(dt_own_node_is(rows[i].host), rows[i].ours);
    }
}

TEST(others_reach_us_where_we_came_from)
{
    static const struct {
        const char *host, *local, *wanted;
        bool others;
    } rows[] = {
        {"node0", "10.1.2.3:40000", "10.1.2.3", false},
        {"node0", "[fd00::7]:40000", "fd00::7", false},
        {"node0", "[::ffff:10.1.2.3]:40000", "10.1.2.3", false},
        /* On the endpoint's host itself, whose name leads to loopback there. */
        {"node0", "127.0.0.1:40000", "node0", false},
        {"10.1.2.3", "127.0.0.1:40000", "10.1.2.3", false},
        /* All nodes are on one host. */
        {"localhost", "127.0.0.1:40000", "127.0.0.1", false},
        {"localhost", "10.1.2.3:40000", "10.1.2.3", true},
        {"127.0.0.1", "127.0.0.1:40000", "127.0.0.1", true},
        {"127.0.0.1", "127.0.0.1:40000", "127.0.0.1", false},
        {"::1", "[::1]:40000", "::1", false},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_addr local;
        struct dt_err err;
        char addr[100];
        CHECK_ROW("%s at %s", rows[i].local, rows[i].host);
        CHECK_OK(dt_addr_parse(rows[i].local, 0, &local, &err), err);
        dt_own_node_addr(rows[i].host, &local, rows[i].others, addr, sizeof addr);
        CHECK_STR(addr, rows[i].wanted);
    }
}

TEST(a_boot_has_an_id)
{
    char once[48], again[48];
    dt_own_node_boot(once, sizeof once);
    dt_own_node_boot(again, sizeof again);
    CHECK_STR(once, again);
    CHECK_EQ(strlen(once), access("/proc/sys/kernel/random/boot_id", R_OK) == 0 ? 36 : 0);
}
