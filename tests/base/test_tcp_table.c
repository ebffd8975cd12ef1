/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tcp_table.h"
#include "tests/lib/check.h"

#include <arpa/inet.h>

#define REST " 00000000:00000000 00:00000000 00000000  1000        0 34567 1 0000000000000000"

TEST(a_row_says_both_ends)
{
    static const struct {
        const char *line;
        bool v6;
        const char *local, *remote;
        bool listens;
    } rows[] = {
        {"   0: 0100007F:733C 0200000A:1F90 01" REST, false, "127.0.0.1:29500", "10.0.0.2:8080",
         false},
        {"  12: 00000000:733C 00000000:0000 0A" REST, false, "0.0.0.0:29500", "0.0.0.0:0", true},
        {"   3: 00000000000000000000000001000000:0050 0000000000000000FFFF00000200000A:1F90 "
         "01" REST,
         true, "[::1]:80", "10.0.0.2:8080", false},
    };
    char text[DT_ADDR_TEXT];
    if (htonl(1) == 1)
        SKIP("the rows are those of a little-endian machine");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].line);
        struct dt_tcp_row row;
        CHECK(dt_tcp_row_parse(rows[i].line, rows[i].v6, &row));
        struct dt_addr local = dt_tcp_end_addr(&row.local), remote = dt_tcp_end_addr(&row.remote);
        CHECK_STR(dt_addr_text(&local, text, sizeof text), rows[i].local);
        CHECK_STR(dt_addr_text(&remote, text, sizeof text), rows[i].remote);
        CHECK_EQ(row.listens, rows[i].listens);
        CHECK_EQ(row.user, 1000);
        CHECK_EQ(row.inode, 34567);
    }
}

TEST(what_is_no_row_is_refused)
{
    static const char *const rows[] = {
        "",
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid",
        "   0:",
        "   0: 0100007F",
        "   0: 0100007F:733C",
        "   0: 0100007F:733C 0200000A:",
        "   0: 0100007F:733C 0200000A:1F90 01 00000000:00000000",
    };
    struct dt_tcp_row row;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i]);
        CHECK(!dt_tcp_row_parse(rows[i], false, &row));
    }
}
