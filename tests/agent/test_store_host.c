/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/store_host.h"
#include "tests/lib/check.h"

TEST(where_the_store_listens)
{
    /* EVERY stands for the address of all, which depends on this kernel's IPv6. */
    static const struct {
        const char *master, *listen, *at, *second;
        int nodes, spares;
    } rows[] = {
        {"127.0.0.1", NULL, "127.0.0.1:29500", NULL, 1, 0},
        {"127.1.2.3", NULL, "127.1.2.3:29500", NULL, 1, 0},
        {"::1", NULL, "[::1]:29500", NULL, 1, 0},
        {"localhost", NULL, "127.0.0.1:29500", "[::1]:29500", 1, 0},
        {"localhost", NULL, "EVERY", NULL, 2, 0}, /* as others do not call it */
        {"localhost", NULL, "EVERY", NULL, 1, 1},
        {"127.0.0.1", NULL, "127.0.0.1:29500", NULL, 2, 0},
        {"node0.example", NULL, "EVERY", NULL, 1, 0},
        {"10.0.0.1", NULL, "EVERY", NULL, 1, 0},
        {"fd00::1", NULL, "EVERY", NULL, 1, 0},
        {"0.0.0.0", NULL, "EVERY", NULL, 1, 0},
        {"127.0.0.1/8", NULL, "EVERY", NULL, 1, 0}, /* no address, whatever it is */
        {"127.0.0.1", "*", "EVERY", NULL, 1, 0},
        {"node0.example", "10.0.0.1", "10.0.0.1:29500", NULL, 1, 0},
        {"node0.example", "10.0.0.1:29500", "10.0.0.1:29500", NULL, 1, 0},
        {"node0.example", "[fd00::1]", "[fd00::1]:29500", NULL, 1, 0},
        {"localhost", "127.0.0.1", "127.0.0.1:29500", NULL, 1, 0},
    };
    char every[DT_ADDR_TEXT], at[DT_ADDR_TEXT];
    struct dt_addr any;
    struct dt_err err;
    CHECK_OK(dt_addr_parse("*:29500", 0, &any, &err), err);
    dt_addr_text(&any, every, sizeof every);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s, %s", rows[i].master, rows[i].listen ? rows[i].listen : "");
        struct dt_plan plan = {.endpoint_port = 29500,
                               .store_listen = (char *)rows[i].listen,
                               .max_nodes = rows[i].nodes,
                               .run.spares = rows[i].spares};
        struct dt_store_host_where where;
        CHECK_OK(dt_store_host_decide(&plan, rows[i].master, &where, &err), err);
        CHECK_STR(dt_addr_text(&where.at[0], at, sizeof at),
                  strcmp(rows[i].at, "EVERY") == 0 ? every : rows[i].at);
        CHECK_EQ(dt_store_host_port(&where.at[0]), 29500);
        CHECK_EQ(where.count, rows[i].second ? 2 : 1);
        if (rows[i].second)
            CHECK_STR(dt_addr_text(&where.at[1], at, sizeof at), rows[i].second);
    }
}

TEST(an_address_to_listen_on_has_no_port_of_its_own)
{
    static const char *const rows[] = {"127.0.0.1:1", "/tmp/store.sock", "unix:/tmp/store.sock"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i]);
        struct dt_plan plan = {.endpoint_port = 29500, .store_listen = (char *)rows[i]};
        struct dt_store_host_where where;
        struct dt_err err;
        CHECK_FAIL(dt_store_host_decide(&plan, "localhost", &where, &err), err,
                   "give an address alone");
    }
}
