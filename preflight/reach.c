/* SPDX-License-Identifier: Apache-2.0 */
/* A message is its size in eight bytes behind a magic number, and as many bytes; the answer is the
 * time of the host that has taken them all. */
#include "preflight/reach.h"

#include "base/addr.h"
#include "base/auto.h"
#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAGIC 0x64747264u
#define HEADER 12
#define ANSWER 8
#define PINGS 5
#define TRIES 3
#define LARGE ((uint64_t)32 << 10) /* more than a frame of any size */
#define SERVED 64                  /* connections at a time */
#define PATIENCE 10                /* seconds that a peer may be silent */

/* -- bytes ------------------------------------------------------------------------------------ */

static bool send_all(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static bool receive_all(int fd, void *bytes, size_t len)
{
    char *at = bytes;
    while (len > 0) {
        ssize_t n = recv(fd, at, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? ECONNRESET : errno;
            return false;
        }
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static void set_patience(int fd, dt_ms limit)
{
    struct timeval t = {.tv_sec = limit / 1000, .tv_usec = limit % 1000 * 1000};
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* -- the one who listens ---------------------------------------------------------------------- */

static bool take_bytes(int fd, uint64_t size)
{
    static char bytes[1 << 16];
    while (size > 0) {
        size_t n = size < sizeof bytes ? (size_t)size : sizeof bytes;
        if (!receive_all(fd, bytes, n))
            return false;
        size -= n;
    }
    return true;
}

/* Messages of one peer until it leaves, or breaks the rules. */
static void serve_peer(int fd)
{
    uint8_t header[HEADER];
    set_patience(fd, PATIENCE * DT_SECOND);
    while (receive_all(fd, header, sizeof header)) {
        struct dt_reader r = dt_reader_over(header, sizeof header);
        struct dt_buf answer = {0};
        bool known = dt_read_u32(&r) == MAGIC;
        uint64_t size = dt_read_u64(&r);
        if (!known || size > DT_REACH_MOST || !take_bytes(fd, size))
            return;
        dt_buf_put_i64(&answer, dt_clock_wall_us());
        bool sent = !answer.bad && send_all(fd, answer.at, answer.len);
        dt_buf_finish(&answer);
        if (!sent)
            return;
    }
}

/* A process for each peer, so that none waits for another. */
static void serve(int listener) __attribute__((noreturn));
static void serve(int listener)
{
    int running = 0;
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        while (waitpid(-1, NULL, running < SERVED ? WNOHANG : 0) > 0)
            running--;
        if (fd < 0)
            continue;
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve_peer(fd);
            _exit(0);
        }
        running += pid > 0;
        close(fd);
    }
}

static int listen_anywhere(int *port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    int off = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        if (bind(fd, (struct sockaddr *)&six, sizeof six) < 0) {
            close(fd);
            fd = -1;
        }
    }
    if (fd < 0) {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&four, sizeof four) < 0)
            return fd;
    }
    if (listen(fd, SOMAXCONN) == 0 && getsockname(fd, (struct sockaddr *)&at, &len) == 0)
        *port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                               : ((struct sockaddr_in *)&at)->sin_port);
    return fd;
}

int dt_reach_serve(struct dt_reach_server *s, struct dt_err *err)
{
    *s = (struct dt_reach_server){0};
    DT_AUTO_FD fd = listen_anywhere(&s->port);
    if (fd < 0 || s->port == 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "no port can be opened for other nodes");
    s->pid = fork();
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(fd);
    }
    if (s->pid > 0)
        return 0;
    s->pid = 0;
    return dt_err_errno(err, DT_E_RUNTIME, errno, "no process can be forked to answer other nodes");
}

void dt_reach_stop(struct dt_reach_server *s)
{
    if (s->pid > 0) {
        kill(s->pid, SIGKILL);
        waitpid(s->pid, NULL, 0);
    }
    *s = (struct dt_reach_server){0};
}

/* -- the one who connects --------------------------------------------------------------------- */

static int connect_within(const struct dt_addr *to, dt_ms limit)
{
    int failed = 0;
    socklen_t len = sizeof failed;
    int fd = socket(to->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)&to->sa, to->len) < 0) {
        if (errno != EINPROGRESS && errno != EINTR)
            failed = errno;
        else if (poll(&p, 1, (int)limit) <= 0)
            failed = ETIMEDOUT;
        else
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len);
    }
    if (failed) {
        close(fd);
        errno = failed;
        return -1;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    set_patience(fd, limit);
    return fd;
}

static void write_address(const char *host, int port, char *out, size_t size)
{
    bool is_six = strchr(host, ':') != NULL;
    snprintf(out, size, "%s%.255s%s:%d", is_six ? "[" : "", host, is_six ? "]" : "", port);
}

/* HOST may have several addresses, and each may be the one that answers. */
static int connect_to(const char *host, int port, dt_ms limit, struct dt_err *err)
{
    struct dt_addr found[4];
    size_t count = 0;
    int fd = -1;
    char text[288];
    write_address(host, port, text, sizeof text);
    if (dt_addr_resolve(text, 0, found, 4, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count && fd < 0; i++)
        fd = connect_within(&found[i], limit);
    if (fd < 0)
        dt_err_set(err, DT_E_RUNTIME, "no connection to %s: %s", text, strerror(errno));
    return fd;
}

/* Sends SIZE bytes and takes the answer. */
static bool exchange(int fd, uint64_t size, int64_t *wall_us)
{
    static const char nothing[1 << 16];
    uint8_t answer[ANSWER];
    struct dt_buf header = {0};
    dt_buf_put_u32(&header, MAGIC);
    dt_buf_put_u64(&header, size);
    bool well = !header.bad && send_all(fd, header.at, header.len);
    dt_buf_finish(&header);
    while (well && size > 0) {
        size_t n = size < sizeof nothing ? (size_t)size : sizeof nothing;
        well = send_all(fd, nothing, n);
        size -= n;
    }
    if (!well || !receive_all(fd, answer, sizeof answer))
        return false;
    struct dt_reader r = dt_reader_over(answer, sizeof answer);
    *wall_us = dt_read_i64(&r);
    return true;
}

/* The quickest trip says most about the clock. */
static bool measure_clock(int fd, struct dt_compared *node)
{
    for (int i = 0; i < PINGS; i++) {
        int64_t there, began = dt_clock_wall_us();
        if (!exchange(fd, 0, &there))
            return false;
        int64_t ended = dt_clock_wall_us(), trip = ended - began;
        if (i > 0 && trip >= node->trip_us)
            continue;
        node->trip_us = trip;
        node->offset_us = there - (began + trip / 2);
    }
    return true;
}

int dt_reach(const char *host, int port, dt_ms limit, struct dt_compared *node, struct dt_err *err)
{
    int64_t ignored;
    node->reached = false;
    DT_AUTO_FD fd = connect_to(host, port, limit, err);
    if (fd < 0)
        return -1;
    if (!measure_clock(fd, node))
        return dt_err_set(err, DT_E_RUNTIME, "a connection to %s:%d opens, but nothing answers: %s",
                          host, port, strerror(errno));
    node->reached = true;
    if (!exchange(fd, LARGE, &ignored))
        return dt_err_set(err, DT_E_RUNTIME,
                          "small messages reach %s, but not one of %d KiB: packets as large as the "
                          "MTU here are lost on the way",
                          host, (int)(LARGE >> 10));
    return 0;
}

double dt_reach_rate(const char *host, int port, uint64_t size, dt_ms limit)
{
    int64_t ignored;
    double best = 0;
    DT_AUTO_FD fd = connect_to(host, port, limit, NULL);
    if (fd < 0 || !exchange(fd, size / 8, &ignored)) /* until TCP has opened its window */
        return 0;
    for (int i = 0; i < TRIES; i++) {
        int64_t began = dt_clock_monotonic_ns();
        if (!exchange(fd, size, &ignored))
            break;
        double rate = (double)size * 1e9 / (double)(dt_clock_monotonic_ns() - began);
        best = rate > best ? rate : best;
    }
    return best;
}

/* Connecting a socket of UDP sends nothing, and makes the kernel choose. */
bool dt_reach_own_address(const char *host, char *out, size_t size)
{
    char text[288];
    struct dt_addr found[1], own = {.len = sizeof own.sa};
    size_t count = 0;
    write_address(host, 9, text, sizeof text);
    if (dt_addr_resolve(text, 0, found, 1, &count, NULL) < 0 || count == 0)
        return false;
    DT_AUTO_FD fd = socket(found[0].sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&found[0].sa, found[0].len) < 0 ||
        getsockname(fd, (struct sockaddr *)&own.sa, &own.len) < 0 || dt_addr_is_local(&own))
        return false;
    return getnameinfo((const struct sockaddr *)&own.sa, own.len, out, (socklen_t)size, NULL, 0,
                       NI_NUMERICHOST) == 0;
}
