/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/peer.h"

#include "tests/lib/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A socket call with a time-out is not begun again by the kernel after an interruption, and where
 * libuv uses io_uring the completions of a loop that this thread has made interrupt it. So each
 * call here is begun again by TEMP_FAILURE_RETRY. */
static void bound_waits(int fd)
{
    struct timeval ceiling = {.tv_sec = 30};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &ceiling, sizeof ceiling) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &ceiling, sizeof ceiling) == 0);
}

static int try_to_connect(int fd, uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    CHECK(fd >= 0);
    return TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&to, sizeof to));
}

int peer_connect(uint16_t port)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bound_waits(fd);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    CHECK_EQ(try_to_connect(fd, port), 0);
    return fd;
}

void peer_expect_refusal(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(try_to_connect(fd, port) < 0);
    CHECK_EQ(errno, ECONNREFUSED);
    close(fd);
}

int peer_connect_path(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    bound_waits(fd);
    CHECK(TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&to, sizeof to)) == 0);
    return fd;
}

int peer_greet(uint16_t port)
{
    static const uint8_t hello[] = {0, 0xce, 0xf7, 0x85, 0x3c, 0x0d, 1, 2, 3, 4};
    int fd = peer_connect(port);
    peer_send(fd, hello, sizeof hello);
    peer_receive(fd, hello + 6, 4);
    return fd;
}

void peer_send(int fd, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    while (len > 0) {
        ssize_t n = TEMP_FAILURE_RETRY(send(fd, at, len, MSG_NOSIGNAL));
        CHECK(n > 0);
        at += n;
        len -= (size_t)n;
    }
}

void peer_receive(int fd, const void *want, size_t len)
{
    uint8_t *got = malloc(len + 1);
    size_t n = 0;
    CHECK(got != NULL);
    while (n < len) {
        ssize_t r = TEMP_FAILURE_RETRY(recv(fd, got + n, len - n, 0));
        if (r <= 0)
            break;
        n += (size_t)r;
    }
    CHECK_BYTES(got, n, want, len);
    free(got);
}

void peer_expect_end(int fd)
{
    uint8_t byte;
    ssize_t n = TEMP_FAILURE_RETRY(recv(fd, &byte, 1, 0));
    CHECK(n == 0 || (n < 0 && errno == ECONNRESET));
    close(fd);
}

static void send_request(int fd, const struct dt_c10d_request *req)
{
    struct dt_buf out = {0};
    CHECK(dt_c10d_encode(&out, DT_C10D_MODERN, req));
    peer_send(fd, out.at, out.len);
    dt_buf_finish(&out);
}

void peer_set_bytes(int fd, const char *key, const void *value, size_t len)
{
    struct dt_bytes bytes = {value, len};
    send_request(
        fd, &(struct dt_c10d_request){.op = DT_C10D_SET, .key = dt_bytes_of(key), .value = bytes});
}

void peer_set(int fd, const char *key, const char *value)
{
    peer_set_bytes(fd, key, value, strlen(value));
}

void peer_ask_get(int fd, const char *key)
{
    send_request(fd, &(struct dt_c10d_request){.op = DT_C10D_GET, .key = dt_bytes_of(key)});
}

void peer_get(int fd, const char *key, const char *want)
{
    struct dt_buf answer = {0};
    dt_c10d_put_value(&answer, dt_bytes_of(want));
    peer_ask_get(fd, key);
    peer_receive(fd, answer.at, answer.len);
    dt_buf_finish(&answer);
}

static void receive_i64(int fd, int64_t want)
{
    struct dt_buf answer = {0};
    dt_buf_put_i64(&answer, want);
    peer_receive(fd, answer.at, answer.len);
    dt_buf_finish(&answer);
}

void peer_add(int fd, const char *key, int64_t delta, int64_t want)
{
    send_request(
        fd, &(struct dt_c10d_request){.op = DT_C10D_ADD, .key = dt_bytes_of(key), .number = delta});
    receive_i64(fd, want);
}

void peer_wait(int fd, const char *key)
{
    struct dt_buf items = {0};
    dt_c10d_put_item(&items, dt_bytes_of(key), NULL);
    send_request(fd, &(struct dt_c10d_request){
                         .op = DT_C10D_WAIT, .count = 1, .items = {items.at, items.len}});
    dt_buf_finish(&items);
}

void peer_num_keys(int fd, int64_t want)
{
    send_request(fd, &(struct dt_c10d_request){.op = DT_C10D_GETNUMKEYS});
    receive_i64(fd, want);
}
