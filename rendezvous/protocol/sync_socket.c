/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/sync_socket.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE (64u << 10)

static int cut_to_int(dt_ms t)
{
    return t < 0 ? 0 : t > INT_MAX ? INT_MAX : (int)t;
}

/* Waits for EVENTS on FD, which may be -1. *GOT: they came; else the deadline did. */
static int await(int fd, short events, dt_ms deadline, bool *got, struct dt_err *err)
{
    struct pollfd wanted = {.fd = fd, .events = events};
    for (;;) {
        dt_ms left = deadline - dt_clock_monotonic();
        int n = poll(&wanted, 1, cut_to_int(left));
        if (n < 0 && errno != EINTR)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "poll");
        *got = n > 0;
        if (n > 0 || left <= 0)
            return 0;
    }
}

static int await_or_fail(const struct dt_sync_socket *s, short events, dt_ms deadline,
                         struct dt_err *err)
{
    bool got;
    if (await(s->fd, events, deadline, &got, err) < 0)
        return -1;
    return got ? 0 : dt_err_set(err, DT_E_TIMEOUT, "timed out");
}

int dt_sync_socket_peek(const struct dt_sync_socket *s, bool *input, struct dt_err *err)
{
    return await(s->fd, POLLIN, 0, input, err);
}

void dt_sync_socket_pause(dt_ms until)
{
    bool got;
    await(-1, 0, until, &got, NULL);
}

void dt_sync_socket_disconnect(struct dt_sync_socket *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

/* A connect that a signal interrupted goes on by itself, as one that would block does. */
static int connect_fd(const struct dt_sync_socket *s, const struct dt_addr *to, dt_ms deadline,
                      struct dt_err *err)
{
    int cause = 0;
    socklen_t size = sizeof cause;
    if (connect(s->fd, (const struct sockaddr *)&to->sa, to->len) == 0)
        return 0;
    if (errno != EINPROGRESS && errno != EINTR)
        return dt_err_errno(err, DT_E_DISCONNECTED, errno, "cannot connect");
    if (await_or_fail(s, POLLOUT, deadline, err) < 0)
        return -1;
    getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &cause, &size);
    return cause ? dt_err_errno(err, DT_E_DISCONNECTED, cause, "cannot connect") : 0;
}

/* A host that lost power sends no FIN, and a firewall that forgot the connection neither. */
static void tune(int fd)
{
    static const int on = 1, idle = 60, interval = 5, probes = 6; /* seconds */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

int dt_sync_socket_connect(struct dt_sync_socket *s, const struct dt_addr *to, dt_ms deadline,
                           struct dt_err *err)
{
    dt_sync_socket_disconnect(s);
    s->fd = socket(to->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0)
        return dt_err_errno(err, DT_E_DISCONNECTED, errno, "cannot make a socket");
    if (connect_fd(s, to, deadline, err) < 0) {
        dt_sync_socket_disconnect(s);
        return -1;
    }
    if (to->sa.ss_family != AF_UNIX)
        tune(s->fd);
    return 0;
}

static bool try_again(int errnum)
{
    return errnum == EAGAIN || errnum == EINTR;
}

int dt_sync_socket_send(const struct dt_sync_socket *s, struct dt_bytes bytes, dt_ms deadline,
                        struct dt_err *err)
{
    while (bytes.len > 0) {
        ssize_t n = send(s->fd, bytes.at, bytes.len, MSG_NOSIGNAL);
        if (n < 0 && !try_again(errno))
            return dt_err_errno(err, DT_E_DISCONNECTED, errno, "the connection is lost");
        if (n >= 0)
            bytes = (struct dt_bytes){bytes.at + n, bytes.len - (size_t)n};
        if (bytes.len > 0 && await_or_fail(s, POLLOUT, deadline, err) < 0)
            return -1;
    }
    return 0;
}

int dt_sync_socket_receive(const struct dt_sync_socket *s, struct dt_buf *into, dt_ms deadline,
                           struct dt_err *err)
{
    uint8_t *room = dt_buf_room(into, READ_SIZE);
    if (!room)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the answer");
    for (;;) {
        if (await_or_fail(s, POLLIN, deadline, err) < 0)
            return -1;
        ssize_t n = recv(s->fd, room, READ_SIZE, 0);
        if (n > 0) {
            dt_buf_grew(into, (size_t)n);
            return 0;
        }
        if (n == 0)
            return dt_err_set(err, DT_E_DISCONNECTED, "the server closed the connection");
        if (!try_again(errno))
            return dt_err_errno(err, DT_E_DISCONNECTED, errno, "the connection is lost");
    }
}
