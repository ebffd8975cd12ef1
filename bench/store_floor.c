/* SPDX-License-Identifier: Apache-2.0 */
/* store_floor: the least that a server with one thread, one read and one write per ready connection
 * can do. It answers modern c10d's hello, and to every ADD the number 1, without a table, limits or
 * fairness. What it reaches is the ceiling that kernel and client set on a machine. Not a store;
 * for store.sh.
 *
 * Requests are expected whole, of the length of the first one: all else ends the connection. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/say.h"

enum { BUFFER = 256 * 1024, EVENTS = 256, HELLO = 10, ADD = 4, LIFETIME_S = 3600 };

static int open_listener(struct dt_err *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 4096) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        return dt_err_set(err, DT_E_RUNTIME, "cannot listen on 127.0.0.1");
    fprintf(stderr, "listening on 127.0.0.1:%d\n", ntohs(at.sin_port));
    return fd;
}

/* Returns -1 when the connection is over. */
static int serve(int fd)
{
    static uint8_t in[BUFFER], out[BUFFER];
    uint64_t key_size;
    ssize_t n = recv(fd, in, sizeof(in), 0);
    if (n == HELLO && in[0] == 0)
        return send(fd, in + HELLO - 4, 4, MSG_NOSIGNAL) == 4 ? 0 : -1;
    if (n < 1 + (ssize_t)sizeof(key_size) || in[0] != ADD)
        return -1;
    memcpy(&key_size, in + 1, sizeof(key_size));
    size_t request = 1 + 8 + (size_t)key_size + 8;
    if (key_size > 8192 || (size_t)n % request != 0)
        return -1;
    size_t answers = (size_t)n / request;
    for (size_t i = 0; i < answers; i++)
        memcpy(out + i * 8, &(uint64_t){1}, 8);
    return send(fd, out, answers * 8, MSG_NOSIGNAL) == (ssize_t)answers * 8 ? 0 : -1;
}

static void welcome(int epoll, int listener)
{
    int on = 1, fd = accept(listener, NULL, NULL);
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev);
}

int main(void)
{
    struct dt_err err;
    struct epoll_event events[EVENTS];
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    alarm(LIFETIME_S);
    int listener = open_listener(&err);
    if (listener < 0) {
        dt_say("store_floor", err.text);
        return 1;
    }
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &ev);
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener)
                welcome(epoll, listener);
            else if (serve(fd) < 0)
                close(fd);
        }
    }
}
