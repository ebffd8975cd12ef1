/* SPDX-License-Identifier: Apache-2.0 */
/* Ports for programs that are told where to listen, and do so later. They are below those that the
 * kernel gives out, so that no connection of anybody takes one meanwhile; and a name in the
 * kernel's table of unix sockets, which goes with this program, keeps other tests away from it. */
#ifndef DT_TESTS_PORT_H
#define DT_TESTS_PORT_H

#include "tests/lib/check.h"

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PORT_FIRST 20000
#define PORT_COUNT 9000 /* and below those that are usual for PyTorch */

static inline bool port_claim(int port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int len = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "dtrun-test-port-%d", port);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    if (bind(fd, (struct sockaddr *)&name,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) == 0)
        return true; /* and the socket stays open */
    close(fd);
    return false;
}

static inline bool port_is_free(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    bool is = bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return is;
}

/* One that nobody uses now, and that no other test is given while this program runs. */
static inline int port_take(void)
{
    static unsigned turn;
    for (int tries = 0; tries < PORT_COUNT; tries++) {
        int port = PORT_FIRST + (int)(((unsigned)getpid() * 61 + turn++) % PORT_COUNT);
        if (port_claim(port) && port_is_free(port))
            return port;
    }
    CHECK(!"a free port");
    return 0;
}

#endif
