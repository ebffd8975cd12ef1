/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/reach.h"
#include "tests/preflight/judged.h"

#include <netinet/in.h>
#include <sys/socket.h>

#define LIMIT (30 * DT_SECOND)

static int dial(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    return fd;
}

TEST(a_host_that_answers)
{
    struct dt_reach_server server;
    struct dt_compared node = {.name = "x"};
    struct dt_err err;
    CHECK_OK(dt_reach_serve(&server, &err), err);
    CHECK_OK(dt_reach("127.0.0.1", server.port, LIMIT, &node, &err), err);
    CHECK(node.reached);
    CHECK(node.trip_us > 0);
    CHECK(llabs(node.offset_us) <= node.trip_us); /* it is the same clock */
    CHECK(dt_reach_rate("127.0.0.1", server.port, 1 << 20, LIMIT) > 0);
    dt_reach_stop(&server);
    CHECK_FAIL(dt_reach("127.0.0.1", 1, LIMIT, &node, &err), err,
               "no connection to 127.0.0.1:1: Connection refused");
    CHECK(!node.reached);
    CHECK_EQ((int)dt_reach_rate("127.0.0.1", 1, 1, LIMIT), 0);
}

TEST(strangers_are_shown_the_door_and_hold_up_nobody)
{
    static const char *const nonsense[] = {
        "GET / HTTP/1.0\r\n\r\n",
        "\x64\x72\x74\x64\xff\xff\xff\xff\xff\xff\xff\x7f", /* the magic number, and too many bytes
                                                             */
    };
    struct dt_reach_server server;
    struct dt_compared node = {.name = "x"};
    struct dt_err err;
    char byte;
    CHECK_OK(dt_reach_serve(&server, &err), err);
    int silent = dial(server.port);
    for (size_t i = 0; i < 2; i++) {
        CHECK_ROW("%zu", i);
        int fd = dial(server.port);
        CHECK(send(fd, nonsense[i], i ? 12 : strlen(nonsense[i]), MSG_NOSIGNAL) > 0);
        CHECK(recv(fd, &byte, 1, 0) <= 0);
        close(fd);
    }
    CHECK_OK(dt_reach("127.0.0.1", server.port, LIMIT, &node, &err), err);
    close(silent);
    dt_reach_stop(&server);
}

TEST(somebody_who_says_nothing)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t len = sizeof any;
    struct dt_compared node = {.name = "x"};
    struct dt_err err;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)&any, len) == 0 && listen(fd, 4) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&any, &len) == 0);
    CHECK_FAIL(dt_reach("127.0.0.1", ntohs(any.sin_port), 100, &node, &err), err,
               "opens, but nothing answers");
    CHECK(!node.reached);
    close(fd);
}

TEST(the_own_address)
{
    char own[64];
    CHECK(!dt_reach_own_address("127.0.0.1", own, sizeof own));
    CHECK(!dt_reach_own_address("no-such-host.invalid", own, sizeof own));
}
