/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end of a connection on this host: rows as the kernel writes them, and a
 * connection of this process to itself. */
#include "base/buf.h"
#include "base/tcp_user.h"
#include "tests/lib/check.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROW(local, remote, state, user, inode)                                                     \
    "   0: " local " " remote " " state " 00000000:00000000 00:00000000 00000000  " user           \
    "        0 " inode " 1 0000000000000000 20 4 30 10 -1\n"
#define US "0100007F:72D8"   /* 127.0.0.1:29400 */
#define THEM "0100007F:D431" /* 127.0.0.1:54321 */

TEST(the_other_end_has_the_user)
{
    static const struct {
        const char *table;
        int user; /* -1: nobody is there */
    } rows[] = {
        {ROW(THEM, US, "01", "1000", "77"), 1000},
        {ROW(US, THEM, "01", "0", "78") ROW(THEM, US, "01", "1000", "77"), 1000},
        {ROW(THEM, US, "08", "1000", "77"), 1000}, /* CLOSE_WAIT: its process still has it */
        {ROW(US, THEM, "01", "0", "78"), -1},      /* our own end */
        {ROW(THEM, US, "04", "0", "0"), -1},       /* closed: the kernel says root */
        {ROW(THEM, US, "06", "0", "0"), -1},
        {ROW(THEM, "0100007F:72D9", "01", "0", "77"), -1},
        {ROW("0200007F:D431", US, "01", "0", "77"), -1},
        {"", -1},
        {"  sl  local_address rem_address\n", -1},
    };
    struct dt_addr theirs, ours;
    struct dt_err err;
    if (htonl(1) == 1)
        SKIP("the rows are those of a little-endian machine");
    CHECK_OK(dt_addr_parse("127.0.0.1:54321", 0, &theirs, &err), err);
    CHECK_OK(dt_addr_parse("127.0.0.1:29400", 0, &ours, &err), err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uid_t user = 4711;
        CHECK_ROW("%zu", i);
        CHECK_EQ(dt_tcp_user_in(rows[i].table, false, &theirs, &ours, &user), rows[i].user >= 0);
        CHECK_EQ(user, rows[i].user >= 0 ? (uid_t)rows[i].user : 4711);
    }
}

/* A daemon that serves others looks there: a table of 30 MiB must not take it minutes. */
TEST(a_table_of_many_connections_is_read_once)
{
    static const char other[] = ROW("0200007F:D431", US, "06", "0", "0");
    struct dt_addr theirs, ours;
    struct dt_err err;
    struct dt_buf table = {0};
    uid_t user = 4711;
    CHECK_OK(dt_addr_parse("127.0.0.1:54321", 0, &theirs, &err), err);
    CHECK_OK(dt_addr_parse("127.0.0.1:29400", 0, &ours, &err), err);
    for (int i = 0; i < 200000; i++)
        dt_buf_put_str(&table, other);
    CHECK(!dt_tcp_user_in(dt_buf_cstr(&table), false, &theirs, &ours, &user));
    dt_buf_finish(&table);
}

static void name_of(int fd, struct dt_addr *out)
{
    out->len = sizeof out->sa;
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&out->sa, &out->len), 0);
}

/* False: this machine has no such address. */
static bool meet(const char *text, int fds[3])
{
    struct dt_addr at;
    struct dt_err err;
    CHECK_OK(dt_addr_parse(text, 0, &at, &err), err);
    fds[0] = socket(at.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds[1] = socket(at.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fds[0] < 0 || bind(fds[0], (struct sockaddr *)&at.sa, at.len) < 0)
        return false;
    CHECK_EQ(listen(fds[0], 1), 0);
    name_of(fds[0], &at);
    CHECK_EQ(connect(fds[1], (struct sockaddr *)&at.sa, at.len), 0);
    fds[2] = accept(fds[0], NULL, NULL);
    CHECK(fds[2] >= 0);
    return true;
}

TEST(a_connection_to_ourselves_is_ours_until_we_close_it)
{
    static const char *const rows[] = {"127.0.0.1:0", "[::1]:0"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int fds[3];
        struct dt_addr theirs, ours;
        uid_t user = 4711;
        CHECK_ROW("%s", rows[i]);
        if (!meet(rows[i], fds))
            continue; /* no IPv6 */
        name_of(fds[1], &theirs);
        name_of(fds[2], &ours);
        CHECK_EQ(dt_tcp_user_find(&theirs, &ours, &user), DT_TCP_USER_FOUND);
        CHECK_EQ(user, getuid());
        close(fds[1]); /* what it sent may still be read */
        CHECK_EQ(dt_tcp_user_find(&theirs, &ours, &user), DT_TCP_USER_GONE);
        close(fds[0]);
        close(fds[2]);
    }
}
