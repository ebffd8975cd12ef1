/* SPDX-License-Identifier: Apache-2.0 */
/* The wire over plain TCP, as wire.h wants it; what it is made of stands in inside.h. */
#include "worker_runtime/coll/wire/tcp/tcp.h"

#include "worker_runtime/coll/wire/tcp/inside.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 64
/* For peers to take our last words. A connection that is closed with bytes unread takes what it has
 * not sent yet with it. */
#define LAST_WORDS ((dt_ms)200)

static void tcp_close(struct dt_wire *w);

static struct dt_wire *tcp_open(int self, struct dt_err *err)
{
    struct dt_wire *w = calloc(1, sizeof *w);
    if (!w) {
        dt_err_set(err, DT_E_MEMORY, "no memory for connections to other hosts");
        return NULL;
    }
    w->self = self;
    w->listener = -1;
    for (int i = 0; i < DT_TCP_CALLERS_MAX; i++)
        w->caller[i].fd = -1;
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (w->epoll < 0)
        dt_err_errno(err, DT_E_RUNTIME, errno, "no way to wait for other hosts");
    else if (dt_tcp_listen(w, err) == 0)
        return w;
    tcp_close(w);
    return NULL;
}

static int tcp_address(struct dt_wire *w, void *out, size_t *len, struct dt_err *err)
{
    (void)err;
    dt_tcp_card_write(&w->card, out);
    *len = DT_TCP_CARD;
    return 0;
}

static int tcp_connect(struct dt_wire *w, int number, const void *address, size_t len,
                       struct dt_err *err)
{
    struct dt_tcp_card card;
    struct dt_tcp_peer *p = dt_tcp_peer_at(w, number);
    if (!p)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a connection");
    if (dt_tcp_card_read(&card, address, len, err) < 0)
        return -1;
    p->card = card;
    dt_tcp_call(w, p);
    return 0;
}

/* -- messages --------------------------------------------------------------------------------- */

static struct dt_wire_request *new_request(struct dt_wire *w, uint64_t tag, const void *bytes,
                                           size_t len)
{
    struct dt_wire_request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->head = (struct dt_tcp_head){tag, len};
    r->bytes = (char *)(uintptr_t)bytes;
    r->all_next = w->all;
    r->all_link = &w->all;
    if (w->all)
        w->all->all_link = &r->all_next;
    return w->all = r;
}

static int tcp_send(struct dt_wire *w, int number, uint64_t tag, const void *bytes, size_t len,
                    struct dt_wire_request **out, struct dt_err *err)
{
    struct dt_tcp_peer *p = w->peers[number];
    if (p->broken)
        return dt_err_set(err, DT_E_DISCONNECTED, "its connection broke (%s)", p->why);
    if (!(*out = new_request(w, tag, bytes, len)))
        return dt_err_set(err, DT_E_MEMORY, "no memory for a message");
    dt_tcp_post_send(w, p, *out);
    return 0;
}

static int tcp_recv(struct dt_wire *w, int number, uint64_t tag, void *bytes, size_t len,
                    struct dt_wire_request **out, struct dt_err *err)
{
    if (!(*out = new_request(w, tag, bytes, len)))
        return dt_err_set(err, DT_E_MEMORY, "no memory for a message");
    dt_tcp_post_recv(w, w->peers[number], *out);
    return 0;
}

static int tcp_test(struct dt_wire *w, struct dt_wire_request *r, struct dt_err *err)
{
    (void)w;
    if (!r->done)
        return 0;
    int rc = r->code ? dt_err_set(err, r->code, "%s", r->why) : 1;
    *r->all_link = r->all_next;
    if (r->all_next)
        r->all_next->all_link = r->all_link;
    free(r);
    return rc;
}

static void tcp_progress(struct dt_wire *w)
{
    struct epoll_event ev[EVENTS];
    int n = epoll_wait(w->epoll, ev, EVENTS, 0);
    for (int i = 0; i < n; i++)
        dt_tcp_handle_event(w, ev[i].data.u64, ev[i].events);
    dt_tcp_handle_time(w);
    if (w->stuck > 0)
        dt_tcp_unstick(w);
}

static int tcp_broken(struct dt_wire *w, int from, const char **why)
{
    for (int i = from; i < w->size; i++)
        if (w->peers[i] && w->peers[i]->broken) {
            *why = w->peers[i]->why;
            return i;
        }
    return -1;
}

static int tcp_wait_fd(struct dt_wire *w)
{
    return w->epoll;
}

/* -- the end ---------------------------------------------------------------------------------- */

static bool is_sending(const struct dt_wire *w)
{
    for (int i = 0; i < w->size; i++)
        if (w->peers[i] && w->peers[i]->out.first)
            return true;
    return false;
}

static void tcp_flush(struct dt_wire *w, dt_ms timeout)
{
    dt_ms now = dt_clock_monotonic(), until = dt_clock_after(now, timeout);
    while (is_sending(w) && (now = dt_clock_monotonic()) < until) {
        struct pollfd p = {.fd = w->epoll, .events = POLLIN};
        /* Calls that rest are made again by the clock. */
        poll(&p, 1, until - now < 20 ? (int)(until - now) : 20);
        tcp_progress(w);
    }
}

static void free_peer(struct dt_wire *w, struct dt_tcp_peer *p)
{
    if (p->coming && p->coming->early) {
        free(p->coming->bytes);
        free(p->coming);
    }
    dt_tcp_free_early(p);
    for (int i = 0; i < DT_TCP_LINES; i++)
        dt_tcp_hang_up(w, p->line[i].fd);
    free(p);
}

static void tcp_close(struct dt_wire *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->size; i++)
        if (w->peers[i])
            free_peer(w, w->peers[i]);
    for (int i = 0; i < DT_TCP_CALLERS_MAX; i++)
        dt_tcp_hang_up(w, w->caller[i].fd);
    for (struct dt_wire_request *r = w->all, *next; r; r = next) {
        next = r->all_next;
        free(r);
    }
    free(w->peers);
    if (w->listener >= 0)
        close(w->listener);
    if (w->epoll >= 0)
        close(w->epoll);
    free(w);
}

/* Reads away what comes on the lines of messages; whether one is still open at its other end. */
static bool drain(struct dt_wire *w)
{
    bool some = false;
    for (int i = 0; i < w->size; i++) {
        struct dt_tcp_line *l = w->peers[i] ? &w->peers[i]->line[DT_TCP_MESSAGES] : NULL;
        if (!l || l->state != DT_TCP_OPEN)
            continue;
        ssize_t n = recv(l->fd, NULL, (size_t)1 << 24, MSG_TRUNC | MSG_DONTWAIT);
        if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) {
            some = true;
            continue;
        }
        dt_tcp_close_line(w, l);
    }
    return some;
}

/* Buffers of users are theirs at once, so nothing is read there any more. */
static void tcp_abandon(struct dt_wire *w)
{
    dt_ms now = dt_clock_monotonic(), until = dt_clock_after(now, LAST_WORDS);
    for (int i = 0; i < w->size; i++)
        if (w->peers[i] && w->peers[i]->line[DT_TCP_MESSAGES].state == DT_TCP_OPEN)
            shutdown(w->peers[i]->line[DT_TCP_MESSAGES].fd, SHUT_WR);
    while (drain(w) && dt_clock_monotonic() < until)
        poll(NULL, 0, 2);
    tcp_close(w);
}

const struct dt_wire_ops dt_wire_tcp = {
    .head = {DT_WIRE_ABI, sizeof(struct dt_wire_ops)},
    .open = tcp_open,
    .address = tcp_address,
    .connect = tcp_connect,
    .send = tcp_send,
    .recv = tcp_recv,
    .test = tcp_test,
    .progress = tcp_progress,
    .broken = tcp_broken,
    .wait_fd = tcp_wait_fd,
    .flush = tcp_flush,
    .close = tcp_close,
    .abandon = tcp_abandon,
};
