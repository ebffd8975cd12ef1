/* SPDX-License-Identifier: Apache-2.0 */
#include "base/port_owner.h"
#include "tests/lib/check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static struct dt_addr address(const char *text)
{
    struct dt_addr a;
    struct dt_err err = {0};
    CHECK_OK(dt_addr_parse(text, 0, &a, &err), err);
    return a;
}

/* As a little-endian machine prints it, which all we build for are. */
TEST(the_table_of_the_kernel_is_read)
{
    static const char v4[] = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when "
                             "retrnsmt   uid  timeout "
                             "inode\n"
                             "   0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 "
                             "00000000     0        0 "
                             "111 1 0 100 0 0 10 0\n"
                             "   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 "
                             "00000000  1000        0 "
                             "222 1 0\n"
                             "   2: 0200000A:733D 0300000A:9C40 01 00000000:00000000 00:00000000 "
                             "00000000     0        0 "
                             "333 1 0\n"
                             "   3: 0200000A:733D 00000000:0000 0A 00000000:00000000 00:00000000 "
                             "00000000     0        0 "
                             "444 1 0\n"
                             "   4: 0200000A:733E 0300000A:9C41 06 00000000:00000000 03:00001770 "
                             "00000000     0        0 "
                             "0 3 0\n"
                             "   5: garbage\n"
                             "   6: 0200000A:733F 0300000A:9C41 01 00000000:00000000 00:00000000 "
                             "00000000     0        0 "
                             "555 1 0";
    static const char v6[] =
        "   0: 00000000000000000000000001000000:733C 00000000000000000000000000000000:0000 0A "
        "00000000:00000000 00:00000000 00000000     0        0 666 1 0\n"
        "   1: 0000000000000000FFFF00000100007F:733D 00000000000000000000000000000000:0000 0A "
        "00000000:00000000 00:00000000 00000000     0        0 777 1 0\n"
        "   2: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A "
        "00000000:00000000 00:00000000 00000000     0        0 888 1 0\n";
    static const struct {
        const char *addr;
        unsigned long in_v4, in_v6;
    } rows[] = {
        {"127.0.0.1:29500", 111, 0}, /* 733C */
        {"0.0.0.0:29500", 111, 666}, /* every address is in the way of each */
        {"[::]:29500", 111, 666},
        {"[::1]:29500", 0, 666},
        {"10.0.0.2:29500", 0, 0},
        {"127.0.0.1:8080", 222, 888},
        {"10.9.9.9:8080", 222, 888},
        {"10.0.0.2:29501", 444, 0}, /* the one that listens, not the connection */
        {"127.0.0.1:29501", 0, 777},
        {"10.0.0.2:29502", 0, 0}, /* nobody's any more */
        {"10.0.0.2:29503", 555, 0},
        {"127.0.0.1:1", 0, 0},
    };
    if (htonl(1) == 1)
        SKIP("a big-endian machine prints addresses otherwise");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].addr);
        struct dt_addr a = address(rows[i].addr);
        CHECK_EQ(dt_port_owner_inode(v4, false, &a), rows[i].in_v4);
        CHECK_EQ(dt_port_owner_inode(v6, true, &a), rows[i].in_v6);
    }
}

TEST(no_table_has_nobody)
{
    static const char *const tables[] = {
        "", "\n", ":", "0:", "0: 0100007F", "\n\n:\n", "0: 0100007F:733C 00000000:0000 0A"};
    struct dt_addr a = address("127.0.0.1:29500"), unix_addr = address("unix:/run/x");
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        CHECK_ROW("\"%s\"", tables[i]);
        CHECK_EQ(dt_port_owner_inode(tables[i], false, &a), 0);
        CHECK_EQ(dt_port_owner_inode(tables[i], true, &a), 0);
    }
    CHECK_EQ(dt_port_owner_inode("", false, &unix_addr), 0);
}

/* A socket that listens on a free port of loopback. */
static int listen_anywhere(struct dt_addr *at)
{
    *at = address("127.0.0.1:0");
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&at->sa, at->len), 0);
    CHECK_EQ(listen(fd, 1), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&at->sa, &at->len), 0);
    return fd;
}

TEST(the_process_that_listens_is_named)
{
    struct dt_addr at;
    struct dt_port_owner owner;
    char said[256], want[256], text[DT_ADDR_TEXT];
    int fd = listen_anywhere(&at);
    dt_addr_text(&at, text, sizeof text);
    snprintf(want, sizeof want, "%s is in use by this very process (pid %d)", text, (int)getpid());
    CHECK_STR(dt_port_owner_text(&at, said, sizeof said), want);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
    close(fd); /* the child has it */
    CHECK(dt_port_owner_find(&at, &owner));
    CHECK_EQ(owner.pid, pid);
    CHECK_STR(owner.program, "test_port_owner");
    snprintf(want, sizeof want, "%s is in use by pid %d (test_port_owner)", text, (int)pid);
    CHECK_STR(dt_port_owner_text(&at, said, sizeof said), want);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK(!dt_port_owner_find(&at, &owner) || owner.pid != pid);
}
