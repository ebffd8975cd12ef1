/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/planning/endpoint.h"
#include "tests/lib/check.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

TEST(endpoints)
{
    static const struct {
        const char *text, *host;
        int port;
    } rows[] = {
        {"", "localhost", 29400},
        {" \t", "localhost", 29400},
        {"node0", "node0", 29400},
        {" node0:5 ", "node0", 5},
        {"node-0.rack_1.example:65535", "node-0.rack_1.example", 65535},
        {"10.0.0.1:0", "10.0.0.1", 0},
        {"h:00080", "h", 80},
        {"[::1]", "::1", 29400},
        {"[::1]:7", "::1", 7},
        {"fd00::1:29500", "fd00::1", 29500}, /* cut at the last colon, as torchrun does */
        {"::1:29500", "::1", 29500},
        {"n\xc3\xb6rd:1", "n\xc3\xb6rd", 1},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_rdzv_endpoint e;
        struct dt_err err = {0};
        CHECK_OK(dt_rdzv_endpoint_parse(rows[i].text, 29400, &e, &err), err);
        CHECK_STR(e.host, rows[i].host);
        CHECK_EQ(e.port, rows[i].port);
    }
}

TEST(what_is_no_endpoint)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"h:", "has no port"},
        {"h:x", "has no port"},
        {"h:65536", "has no port"},
        {"h:000080", "has no port"},
        {"h:-1", "has no port"},
        {"h: 1", "has no port"},
        {":80", "does not start with a host"},
        {"a b:80", "does not start with a host"},
        {"http://h:80", "does not start with a host"},
        {"[]:80", "does not start with a host"},
        {"[fe80::1%eth0]:80", "is a link-local address"},
        {"[fe80::1]:80", "is a link-local address"},
        {"29400", "is a port and names no host; write HOST:29400"},
        {"::1", "[::1]:PORT"},
        {"a:b:80", "write an IPv6 address as"},
    };
    char long_host[400];
    struct dt_rdzv_endpoint e;
    struct dt_err err = {0};
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        CHECK_FAIL(dt_rdzv_endpoint_parse(rows[i].text, 29400, &e, &err), err, rows[i].words);
        CHECK_EQ(err.code, DT_E_RUNTIME);
    }
    for (size_t n = 250; n < sizeof long_host; n++) {
        CHECK_ROW("%zu letters", n);
        memset(long_host, 'a', n);
        long_host[n] = '\0';
        CHECK_EQ(dt_rdzv_endpoint_parse(long_host, 1, &e, &err), n < sizeof e.host ? 0 : -1);
    }
    CHECK_FAIL(dt_rdzv_endpoint_parse("h", DT_ENDPOINT_PORT_REQUIRED, &e, &err), err,
               "lacks a port");
    CHECK_FAIL(dt_rdzv_endpoint_parse("", DT_ENDPOINT_PORT_REQUIRED, &e, &err), err,
               "lacks a port");
}
