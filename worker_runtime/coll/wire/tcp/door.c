/* SPDX-License-Identifier: Apache-2.0 */
/* The door at which other ranks call, and strangers. Who comes in says the knock first, which only
 * the job's store told it; all others are closed, and have learnt and changed nothing. */
#include "worker_runtime/coll/wire/tcp/inside.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define KNOCK_TIME (5 * DT_SECOND) /* for a caller to say who it is */
#define DOOR_REST ((dt_ms)100)     /* when there is no room for another connection */

int dt_tcp_listen(struct dt_wire *w, struct dt_err *err)
{
    char at[DT_TCP_TEXT];
    w->card.len = sizeof w->card.at;
    if (getrandom(&w->card.secrets, sizeof w->card.secrets, 0) != sizeof w->card.secrets)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "the kernel gives no random bytes");
    if (dt_tcp_address_choose(&w->card.at, &w->card.len, err) < 0)
        return -1;
    dt_tcp_address_print(&w->card.at, at);
    w->listener = socket(w->card.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (w->listener < 0 || bind(w->listener, (struct sockaddr *)&w->card.at, w->card.len) < 0 ||
        listen(w->listener, 4096) < 0 ||
        getsockname(w->listener, (struct sockaddr *)&w->card.at, &w->card.len) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno,
                            "other hosts cannot be let connect to %.*s (DTRUN_COLL_ADDR in the "
                            "environment may name another interface or address of this host)",
                            (int)strcspn(at, " "), at);
    dt_tcp_epoll(w, EPOLL_CTL_ADD, w->listener, EPOLLIN, dt_tcp_what(DT_TCP_DOOR, 0, 0));
    return 0;
}

static void send_off(struct dt_wire *w, struct dt_tcp_caller *c)
{
    dt_tcp_hang_up(w, c->fd);
    *c = (struct dt_tcp_caller){.fd = -1};
    w->callers--;
}

/* A free place, or that of who has kept us waiting longest: strangers do not crowd out peers, who
 * speak at once and call again. */
static struct dt_tcp_caller *caller_place(struct dt_wire *w)
{
    struct dt_tcp_caller *oldest = &w->caller[0];
    for (struct dt_tcp_caller *c = w->caller; c < w->caller + DT_TCP_CALLERS_MAX; c++) {
        if (c->fd < 0)
            return c;
        if (c->since < oldest->since)
            oldest = c;
    }
    send_off(w, oldest);
    return oldest;
}

/* The caller has shown that it is a peer: its connection becomes the line. A second one is not
 * taken, and nobody calls for a line that is ours to call for. */
static void let_in(struct dt_wire *w, struct dt_tcp_caller *c, const struct dt_tcp_hello *h)
{
    int number = (int)h->from, fd = c->fd;
    enum dt_tcp_line_name name = (enum dt_tcp_line_name)h->line;
    struct dt_tcp_peer *p = dt_tcp_peer_at(w, number);
    if (!p || p->broken || p->line[name].state != DT_TCP_NONE)
        return send_off(w, c);
    struct dt_tcp_hello answer = {
        .magic = DT_TCP_MAGIC, .from = h->to, .to = h->from, .line = h->line};
    memcpy(answer.secret, w->card.secrets.answer, sizeof answer.secret);
    if (!dt_tcp_say_hello(fd, &answer))
        return send_off(w, c);
    *c = (struct dt_tcp_caller){.fd = -1};
    w->callers--;
    p->line[name].fd = fd;
    dt_tcp_open_line(w, p, name);
}

static bool is_peer(const struct dt_wire *w, const struct dt_tcp_hello *h)
{
    return dt_tcp_same_secret(h->secret, w->card.secrets.knock) && h->magic == DT_TCP_MAGIC &&
           h->to == (uint32_t)w->self && h->from != h->to && h->from < DT_WIRE_PEERS_MAX &&
           h->line < DT_TCP_LINES && h->line != (uint32_t)dt_tcp_line_we_call(w, (int)h->from);
}

static void hear(struct dt_wire *w, struct dt_tcp_caller *c)
{
    struct dt_tcp_hello h;
    if (c->fd < 0)
        return;
    ssize_t n = recv(c->fd, c->in + c->got, sizeof c->in - c->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        return send_off(w, c);
    c->got += (size_t)n;
    if (c->got < sizeof c->in)
        return;
    memcpy(&h, c->in, sizeof h);
    if (is_peer(w, &h))
        let_in(w, c, &h);
    else
        send_off(w, c);
}

void dt_tcp_door_hear(struct dt_wire *w, int place)
{
    hear(w, &w->caller[place]);
}

static void rest_door(struct dt_wire *w)
{
    dt_tcp_epoll(w, EPOLL_CTL_MOD, w->listener, 0, dt_tcp_what(DT_TCP_DOOR, 0, 0));
    w->listener_rests = dt_clock_after(dt_clock_monotonic(), DOOR_REST);
}

/* Not more at once than there is room for, so that calls alone cannot keep us here. */
void dt_tcp_door_open(struct dt_wire *w)
{
    for (int i = 0; i < DT_TCP_CALLERS_MAX; i++) {
        int fd = accept4(w->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
            return rest_door(w);
        if (fd < 0 && errno == EAGAIN)
            return;
        if (fd < 0)
            continue;
        struct dt_tcp_caller *c = caller_place(w);
        *c = (struct dt_tcp_caller){.fd = fd, .since = dt_clock_monotonic()};
        w->callers++;
        dt_tcp_epoll(w, EPOLL_CTL_ADD, fd, EPOLLIN,
                     dt_tcp_what(DT_TCP_CALLER, 0, (int)(c - w->caller)));
        hear(w, c);
    }
}

/* Who does not say who it is in time is sent off; a door that rested is open again. */
void dt_tcp_door_handle_time(struct dt_wire *w, dt_ms now)
{
    for (int i = 0; w->callers > 0 && i < DT_TCP_CALLERS_MAX; i++)
        if (w->caller[i].fd >= 0 && now - w->caller[i].since >= KNOCK_TIME)
            send_off(w, &w->caller[i]);
    if (w->listener_rests > 0 && now >= w->listener_rests) {
        w->listener_rests = 0;
        dt_tcp_epoll(w, EPOLL_CTL_MOD, w->listener, EPOLLIN, dt_tcp_what(DT_TCP_DOOR, 0, 0));
    }
}
