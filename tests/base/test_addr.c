/* SPDX-License-Identifier: Apache-2.0 */
#include "base/addr.h"
#include "tests/lib/check.h"

TEST(addresses_there_and_back)
{
    static const struct {
        const char *text, *want, *words; /* WANT NULL: refused, with WORDS */
    } rows[] = {
        {"127.0.0.1:29400", "127.0.0.1:29400", NULL},
        {"127.0.0.1", "127.0.0.1:4711", NULL},
        {"[::1]:80", "[::1]:80", NULL},
        {"[::1]", "[::1]:4711", NULL},
        {"::1", "[::1]:4711", NULL},
        {"[::ffff:10.1.2.3]:9", "10.1.2.3:9", NULL},
        {"unix:/run/x.sock", "unix:/run/x.sock", NULL},
        {"/run/x.sock", "unix:/run/x.sock", NULL},
        {"127.0.0.1:", NULL, "port: \"\" is not a whole number"},
        {"127.0.0.1:65536", NULL, "65535"},
        {"127.0.0.1:-1", NULL, "port"},
        {"[::1", NULL, "not [ADDRESS]:PORT"},
        {"[::1]80", NULL, "not [ADDRESS]:PORT"},
        {":80", NULL, "names no host"},
        {"", NULL, "names no host"},
        {"29400", NULL, "is a port and names no host; write HOST:29400, or *:29400"},
        {"65536", "0.1.0.0:4711", NULL},
        {"unix:relative", NULL, "absolute"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("\"%s\"", rows[i].text);
        struct dt_addr a;
        struct dt_err err;
        char text[DT_ADDR_TEXT];
        if (rows[i].want) {
            CHECK_OK(dt_addr_check(rows[i].text, &err), err);
            CHECK_OK(dt_addr_parse(rows[i].text, 4711, &a, &err), err);
            CHECK_STR(dt_addr_text(&a, text, sizeof text), rows[i].want);
        } else {
            CHECK_FAIL(dt_addr_check(rows[i].text, &err), err, rows[i].words);
            CHECK_FAIL(dt_addr_parse(rows[i].text, 4711, &a, &err), err, rows[i].words);
            CHECK_EQ(err.code, DT_E_USAGE);
        }
    }
}

TEST(a_name_is_checked_without_being_looked_up)
{
    struct dt_addr a;
    struct dt_err err;
    CHECK_OK(dt_addr_check("no-such-host.invalid:80", &err), err);
    CHECK_FAIL(dt_addr_parse("no-such-host.invalid:80", 0, &a, &err), err, "no-such-host.invalid");
    CHECK_EQ(err.code, DT_E_RUNTIME);
}

TEST(a_number_is_an_address_without_a_look_up)
{
    static const struct {
        const char *text;
        bool is_number;
    } rows[] = {
        {"127.0.0.1:1", true},  {"[::1]:1", true},         {"*:1", true},     {"unix:/run/x", true},
        {"localhost:1", false}, {"head.example:1", false}, {"::1:x:", false}, {"1:99999", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_addr a;
        CHECK_ROW("%s", rows[i].text);
        CHECK_EQ(dt_addr_parse_number(rows[i].text, 0, &a), rows[i].is_number);
    }
}

TEST(a_path_as_long_as_the_kernel_takes)
{
    char path[110] = "/";
    struct dt_addr a;
    struct dt_err err;
    memset(path + 1, 'x', sizeof path - 1);
    path[108] = '\0';
    CHECK_FAIL(dt_addr_parse(path, 0, &a, &err), err, "at most 107");
    path[107] = '\0';
    CHECK_OK(dt_addr_parse(path, 0, &a, &err), err);
}

TEST(ranges)
{
    static const struct {
        const char *range, *addr;
        bool within;
    } rows[] = {
        {"10.0.0.0/8", "10.255.0.1", true},
        {"10.0.0.0/8", "11.0.0.1", false},
        {"10.0.0.0/8", "[::ffff:10.1.2.3]", true},
        {"::ffff:0:0/96", "[::ffff:10.1.2.3]", false}, /* counts as IPv4 */
        {"192.168.1.128/25", "192.168.1.127", false},
        {"192.168.1.128/25", "192.168.1.128", true},
        {"1.2.3.4", "1.2.3.4", true},
        {"1.2.3.4", "1.2.3.5", false},
        {"0.0.0.0/0", "200.1.1.1", true},
        {"0.0.0.0/0", "[::1]", false},
        {"::/0", "[::1]", true},
        {"fd00::/8", "[fdab::1]", true},
        {"fd00::/8", "[fe80::1]", false},
        {"0.0.0.0/0", "unix:/run/x", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s in %s", rows[i].addr, rows[i].range);
        struct dt_cidr c;
        struct dt_addr a;
        struct dt_err err;
        CHECK_OK(dt_cidr_parse(rows[i].range, &c, &err), err);
        CHECK_OK(dt_addr_parse(rows[i].addr, 1, &a, &err), err);
        CHECK_EQ(dt_cidr_contains(&c, &a), rows[i].within);
    }
}

TEST(one_range_of_several_is_enough)
{
    struct dt_cidr c[2];
    struct dt_addr a;
    struct dt_err err;
    CHECK_OK(dt_cidr_parse("10.0.0.0/8", &c[0], &err), err);
    CHECK_OK(dt_cidr_parse("fd00::/8", &c[1], &err), err);
    CHECK_OK(dt_addr_parse("[fd01::1]:1", 1, &a, &err), err);
    CHECK(dt_cidr_any_contains(c, 2, &a));
    CHECK(!dt_cidr_any_contains(c, 1, &a));
    CHECK(!dt_cidr_any_contains(c, 0, &a));
}

TEST(what_is_no_range)
{
    static const char *const rows[] = {"",       "/8",   "10.0.0.0/", "10.0.0.0/33",
                                       "::/129", "10/8", "host/8"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("\"%s\"", rows[i]);
        struct dt_cidr c;
        struct dt_err err;
        CHECK_FAIL(dt_cidr_parse(rows[i], &c, &err), err, rows[i]);
    }
}

TEST(which_addresses_are_one_host_and_which_this_one)
{
    static const struct {
        const char *one, *other;
        bool same, same_ip, local; /* local: the first */
    } rows[] = {
        {"10.0.0.1:5", "10.0.0.1:6", true, true, false},
        {"10.0.0.1:5", "10.0.0.2:5", false, false, false},
        {"[::ffff:10.0.0.1]:5", "10.0.0.1:5", true, true, false},
        {"[fd00:1:2:3::1]:5", "[fd00:1:2:3:ffff::2]:5", true, false, false},
        {"[fd00:1:2:3::1]:5", "[fd00:1:2:4::1]:5", false, false, false},
        {"[fd00:1:2:3::1]:5", "[fd00:1:2:3::1]:6", true, true, false},
        {"[a00:1::]:5", "10.0.0.1:5", false, false, false},
        {"127.1.2.3:5", "127.0.0.1:5", false, false, true},
        {"[::ffff:127.0.0.1]:5", "127.0.0.1:5", true, true, true},
        {"[::1]:5", "127.0.0.1:5", false, false, true},
        {"unix:/a", "unix:/b", true, false, true},
        {"unix:/a", "10.0.0.1:5", false, false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s and %s", rows[i].one, rows[i].other);
        struct dt_addr one, other;
        struct dt_err err;
        CHECK_OK(dt_addr_parse(rows[i].one, 1, &one, &err), err);
        CHECK_OK(dt_addr_parse(rows[i].other, 1, &other, &err), err);
        struct dt_addr_host a = dt_addr_host(&one), b = dt_addr_host(&other);
        CHECK_EQ(memcmp(&a, &b, sizeof a) == 0, rows[i].same);
        CHECK_EQ(dt_addr_is_same_ip(&one, &other), rows[i].same_ip);
        CHECK_EQ(dt_addr_is_local(&one), rows[i].local);
    }
}
