/* SPDX-License-Identifier: Apache-2.0 */
/* A client of HTTP that shows a test each byte: blocking, and with a ceiling of 30 s that only a
 * hang reaches. */
#ifndef DT_TESTS_HTTP_H
#define DT_TESTS_HTTP_H

#include "tests/lib/check.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

/* A connection to PORT of the loopback address of FAMILY; -1: there is none. */
static inline int http_reach(int port, int family)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = in6addr_loopback};
    const struct timeval ceiling = {.tv_sec = 30};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &ceiling, sizeof ceiling);
    int rc = family == AF_INET
                 ? TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&in, sizeof in))
                 : TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&in6, sizeof in6));
    if (rc == 0)
        return fd;
    close(fd);
    return -1;
}

/* Sends a request; HEADERS are lines with their ends, or "". */
static inline void http_send(int fd, const char *method, const char *path, const char *headers)
{
    char request[2000];
    int n = snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", method,
                     path, headers);
    CHECK_EQ(send(fd, request, (size_t)n, MSG_NOSIGNAL), n);
}

/* All that comes until the server closes, or nothing comes any more; closes FD. In static memory.
 */
static inline const char *http_read_all(int fd)
{
    static char text[1 << 20];
    size_t n = 0;
    ssize_t got;
    while (n < sizeof text - 1 &&
           (got = TEMP_FAILURE_RETRY(recv(fd, text + n, sizeof text - 1 - n, 0))) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(fd);
    return text;
}

/* What comes until WORDS are among it; the connection stays. In static memory. */
static inline const char *http_read_until(int fd, const char *words)
{
    static char text[1 << 16];
    size_t n = 0;
    text[0] = '\0';
    while (!strstr(text, words)) {
        ssize_t got = TEMP_FAILURE_RETRY(recv(fd, text + n, sizeof text - 1 - n, 0));
        if (got <= 0)
            printf("# \"%s\" is not in \"%.3000s\"\n", words, text);
        CHECK(got > 0);
        n += (size_t)got;
        text[n] = '\0';
    }
    return text;
}

/* One request on a connection of its own, and the whole answer. */
static inline const char *http_ask(int port, const char *method, const char *path,
                                   const char *headers)
{
    char all[1500];
    int fd = http_reach(port, AF_INET);
    CHECK(fd >= 0);
    snprintf(all, sizeof all, "%sConnection: close\r\n", headers);
    http_send(fd, method, path, all);
    return http_read_all(fd);
}

static inline bool http_has(const char *text, const char *words)
{
    if (strstr(text, words))
        return true;
    printf("# \"%s\" is not in \"%.3000s\"\n", words, text);
    return false;
}

#endif
