/* SPDX-License-Identifier: Apache-2.0 */
/* See dial.h. */
#include "bench/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

int dial_init(struct dial *d, const char *server, const struct wire *wire, double patience,
              struct dt_err *err)
{
    size_t count;
    if (dt_addr_resolve(server, 0, &d->addr, 1, &count, err) < 0)
        return -1;
    d->wire = wire;
    d->patience = patience;
    snprintf(d->name, sizeof(d->name), "%s", server);
    return 0;
}

static int broken(const struct dial *d, const char *doing, ssize_t n, struct dt_err *err)
{
    if (n == 0)
        return dt_err_set(err, DT_E_RUNTIME, "%s closed the connection while %s", d->name, doing);
    if (errno == EAGAIN || errno == EINPROGRESS)
        return dt_err_set(err, DT_E_RUNTIME, "%s gave no sign for %.3g s while %s", d->name,
                          d->patience, doing);
    return dt_err_set(err, DT_E_RUNTIME, "%s: %s while %s", d->name, strerror(errno), doing);
}

int dial_connect(const struct dial *d, struct dt_err *err)
{
    int fd = socket(d->addr.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return dt_err_set(err, DT_E_RUNTIME, "no socket: %s", strerror(errno));
    int on = 1;
    struct timeval limit = {.tv_sec = (time_t)d->patience,
                            .tv_usec = (suseconds_t)((d->patience - (time_t)d->patience) * 1e6)};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, (const struct sockaddr *)&d->addr.sa, d->addr.len) < 0) {
        broken(d, "connecting", -1, err);
        dial_close(fd);
        return -1;
    }
    return fd;
}

int dial_open(const struct dial *d, struct dt_err *err)
{
    int fd = dial_connect(d, err);
    if (fd < 0 || !d->wire->hello)
        return fd;
    struct out o = {0};
    uint8_t answer[WIRE_HEAD_MAX];
    d->wire->hello(&o);
    int rc = dial_send(d, fd, o.text.at, o.text.len, err);
    if (rc == 0) {
        ssize_t n = recv(fd, answer, d->wire->hello_answer, MSG_WAITALL);
        if (n != (ssize_t)d->wire->hello_answer)
            rc = broken(d, "waiting for the answer to the hello (is it the right --protocol?)",
                        n < 0 ? n : 0, err);
    }
    dt_buf_finish(&o.text);
    if (rc < 0) {
        dial_close(fd);
        return -1;
    }
    return fd;
}

void dial_nonblocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void dial_close(int fd)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(fd);
}

int dial_send(const struct dial *d, int fd, const void *bytes, size_t len, struct dt_err *err)
{
    const char *at = bytes;
    if (len > 0 && !bytes)
        return dt_err_set(err, DT_E_RUNTIME, "out of memory");
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return broken(d, "sending", n, err);
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Reads and drops LEN bytes of a body. */
static int skip(const struct dial *d, int fd, size_t len, struct dt_err *err)
{
    char rest[4096];
    while (len > 0) {
        ssize_t n = recv(fd, rest, len < sizeof(rest) ? len : sizeof(rest), 0);
        if (n <= 0)
            return broken(d, "reading a value", n, err);
        len -= (size_t)n;
    }
    return 0;
}

int dial_answers(const struct dial *d, int fd, enum answer_kind kind, size_t n, struct answer *last,
                 struct dt_err *err)
{
    uint8_t text[16384];
    size_t have = 0;
    while (n > 0) {
        size_t at = 0;
        enum answer_state got = ANSWER_MORE;
        for (; n > 0; n--) {
            got = d->wire->answer(kind, text + at, have - at, last);
            if (got != ANSWER_DONE)
                break;
            at += last->head;
            size_t here = last->body < have - at ? last->body : have - at;
            at += here;
            if (skip(d, fd, last->body - here, err) < 0)
                return -1;
        }
        if (got == ANSWER_BAD)
            return dt_err_set(err, DT_E_RUNTIME, "%s sent an answer that is none: \"%.40s\"",
                              d->name, (const char *)text + at);
        have -= at;
        memmove(text, text + at, have);
        if (n == 0)
            break;
        ssize_t r = recv(fd, text + have, sizeof(text) - 1 - have, 0);
        if (r <= 0)
            return broken(d, "waiting for an answer", r, err);
        have += (size_t)r;
        text[have] = '\0';
    }
    return 0;
}

int dial_count(const struct dial *d, int fd, int64_t *keys, struct dt_err *err)
{
    struct out o = {0};
    struct answer a;
    d->wire->count(d->wire, &o);
    int rc = dial_send(d, fd, o.text.at, o.text.len, err);
    if (rc == 0)
        rc = dial_answers(d, fd, ANSWER_NUMBER, 1, &a, err);
    if (rc == 0)
        *keys = a.number;
    dt_buf_finish(&o.text);
    return rc;
}

int dial_room_for(unsigned long n, struct dt_err *err)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (n + 16 > files.rlim_max)
        return dt_err_set(err, DT_E_RUNTIME,
                          "%lu connections need more than the %lu open files allowed", n,
                          (unsigned long)files.rlim_max);
    return 0;
}
