/* SPDX-License-Identifier: Apache-2.0 */
/* Lines between ranks: called, answered, and lost. Who connects says the knock of the rank it
 * wants, which only the job's store told it, and reads that rank's answer before anything else goes
 * either way. So a stranger at our door learns nothing and changes nothing, and neither does one
 * who got the port of a rank that is gone. Nothing here waits. */
#include "worker_runtime/coll/wire/tcp/inside.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SILENT_MS 10000            /* of a host until it counts as vanished */
#define CALL_TIME (30 * DT_SECOND) /* for a network to come back while we call */
#define REFUSALS_MAX 5             /* then nobody is there: peers listen before they tell where */
#define RETRY_MIN ((dt_ms)20)
#define RETRY_MAX ((dt_ms)1000)

uint64_t dt_tcp_what(enum dt_tcp_what what, int line, int number)
{
    return (uint64_t)what << 40 | (uint64_t)line << 32 | (uint32_t)number;
}

void dt_tcp_epoll(struct dt_wire *w, int op, int fd, uint32_t events, uint64_t what)
{
    struct epoll_event ev = {.events = events, .data.u64 = what};
    epoll_ctl(w->epoll, op, fd, &ev);
}

static void set_int(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof value);
}

/* Sizes of buffers are left to the kernel, which lets them grow further than we may ask for. */
static void tune(int fd, enum dt_tcp_line_name line)
{
    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, SILENT_MS / 2000);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, SILENT_MS / 2000);
    set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, line == DT_TCP_PULSE ? SILENT_MS : 0);
}

struct dt_tcp_peer *dt_tcp_peer_at(struct dt_wire *w, int number)
{
    if (number >= w->size) {
        int size = number + 16;
        struct dt_tcp_peer **peers = realloc(w->peers, (size_t)size * sizeof *peers);
        if (!peers)
            return NULL;
        memset(peers + w->size, 0, (size_t)(size - w->size) * sizeof *peers);
        w->peers = peers;
        w->size = size;
    }
    struct dt_tcp_peer *p = w->peers[number];
    if (!p && (p = w->peers[number] = calloc(1, sizeof *p)) != NULL) {
        p->number = number;
        p->line[DT_TCP_MESSAGES].fd = p->line[DT_TCP_PULSE].fd = -1;
    }
    return p;
}

enum dt_tcp_line_name dt_tcp_line_we_call(const struct dt_wire *w, int number)
{
    return w->self < number ? DT_TCP_MESSAGES : DT_TCP_PULSE;
}

void dt_tcp_watch(struct dt_wire *w, struct dt_tcp_peer *p)
{
    const struct dt_tcp_line *l = &p->line[DT_TCP_MESSAGES];
    uint32_t in = p->stuck ? EPOLLRDHUP : EPOLLIN, out = p->wants_write ? EPOLLOUT : 0;
    if (l->state == DT_TCP_OPEN)
        dt_tcp_epoll(w, EPOLL_CTL_MOD, l->fd, in | out,
                     dt_tcp_what(DT_TCP_LINE, DT_TCP_MESSAGES, p->number));
}

/* Said and not left to close(): a child that the program has forked may hold the socket too. */
void dt_tcp_hang_up(struct dt_wire *w, int fd)
{
    if (fd < 0)
        return;
    dt_tcp_epoll(w, EPOLL_CTL_DEL, fd, 0, 0);
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

/* What may follow what. A line that the other rank calls for is none, and then open. */
static const bool may_follow[DT_TCP_LINE_STATES][DT_TCP_LINE_STATES] = {
    [DT_TCP_NONE] = {[DT_TCP_NONE] = true, [DT_TCP_CALLING] = true, [DT_TCP_OPEN] = true},
    [DT_TCP_CALLING] = {[DT_TCP_NONE] = true, [DT_TCP_GREETED] = true, [DT_TCP_RESTS] = true},
    [DT_TCP_GREETED] = {[DT_TCP_NONE] = true, [DT_TCP_OPEN] = true, [DT_TCP_RESTS] = true},
    [DT_TCP_RESTS] = {[DT_TCP_NONE] = true, [DT_TCP_CALLING] = true},
    [DT_TCP_OPEN] = {[DT_TCP_NONE] = true, [DT_TCP_ENDED] = true},
    [DT_TCP_ENDED] = {[DT_TCP_NONE] = true},
};

static void enter(struct dt_wire *w, struct dt_tcp_line *l, enum dt_tcp_line_state to)
{
    assert(may_follow[l->state][to]);
    w->resting += (to == DT_TCP_RESTS) - (l->state == DT_TCP_RESTS);
    l->state = to;
}

static void drop_socket(struct dt_wire *w, struct dt_tcp_line *l)
{
    dt_tcp_hang_up(w, l->fd);
    l->fd = -1;
    l->got = 0;
}

void dt_tcp_close_line(struct dt_wire *w, struct dt_tcp_line *l)
{
    drop_socket(w, l);
    enter(w, l, DT_TCP_NONE);
}

void dt_tcp_break(struct dt_wire *w, struct dt_tcp_peer *p, const char *fmt, ...)
{
    va_list ap;
    if (p->broken)
        return;
    p->broken = true;
    va_start(ap, fmt);
    vsnprintf(p->why, sizeof p->why, fmt, ap);
    va_end(ap);
    for (int i = 0; i < DT_TCP_LINES; i++)
        dt_tcp_close_line(w, &p->line[i]);
    dt_tcp_drop_messages(w, p);
}

void dt_tcp_open_line(struct dt_wire *w, struct dt_tcp_peer *p, enum dt_tcp_line_name name)
{
    struct dt_tcp_line *l = &p->line[name];
    enter(w, l, DT_TCP_OPEN);
    tune(l->fd, name);
    dt_tcp_epoll(w, EPOLL_CTL_MOD, l->fd, EPOLLIN | EPOLLRDHUP,
                 dt_tcp_what(DT_TCP_LINE, name, p->number));
    if (name != DT_TCP_MESSAGES)
        return;
    dt_tcp_watch(w, p);
    dt_tcp_push(w, p);
}

/* Takes the same time wherever they differ. */
bool dt_tcp_same_secret(const uint8_t a[DT_TCP_SECRET], const uint8_t b[DT_TCP_SECRET])
{
    volatile uint8_t differ = 0;
    for (size_t i = 0; i < DT_TCP_SECRET; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

/* On a fresh connection there is room for so few bytes. */
bool dt_tcp_say_hello(int fd, const struct dt_tcp_hello *h)
{
    ssize_t n = send(fd, h, sizeof *h, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0 && n != sizeof *h)
        errno = EPIPE;
    return n == sizeof *h;
}

/* -- calling ---------------------------------------------------------------------------------- */

static void call_again_later(struct dt_wire *w, struct dt_tcp_peer *p, enum dt_tcp_line_name name,
                             int why)
{
    struct dt_tcp_line *l = &p->line[name];
    dt_ms now = dt_clock_monotonic(), wait = RETRY_MIN << (l->tries < 6 ? l->tries : 6);
    char at[DT_TCP_TEXT];
    drop_socket(w, l);
    l->tries++;
    l->refusals += why == ECONNREFUSED || why == ECONNRESET || why == EPIPE;
    if (now >= l->give_up_at || l->refusals >= REFUSALS_MAX) {
        /* The line of messages is of use without a pulse. */
        if (name == DT_TCP_PULSE && p->line[DT_TCP_MESSAGES].state == DT_TCP_OPEN)
            return enter(w, l, DT_TCP_NONE);
        dt_tcp_address_print(&p->card.at, at);
        return dt_tcp_break(w, p, "no connection to %s after %d tries: %s", at, l->tries,
                            strerror(why));
    }
    enter(w, l, DT_TCP_RESTS);
    l->retry_at = dt_clock_after(now, wait < RETRY_MAX ? wait : RETRY_MAX);
}

static void greet(struct dt_wire *w, struct dt_tcp_peer *p, enum dt_tcp_line_name name)
{
    struct dt_tcp_line *l = &p->line[name];
    struct dt_tcp_hello h = {.magic = DT_TCP_MAGIC,
                             .from = (uint32_t)w->self,
                             .to = (uint32_t)p->number,
                             .line = (uint32_t)name};
    int why = 0;
    socklen_t len = sizeof why;
    memcpy(h.secret, p->card.secrets.knock, sizeof h.secret);
    if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &why, &len) < 0)
        why = errno;
    if (why == 0 && !dt_tcp_say_hello(l->fd, &h))
        why = errno;
    if (why != 0)
        return call_again_later(w, p, name, why);
    enter(w, l, DT_TCP_GREETED);
    dt_tcp_epoll(w, EPOLL_CTL_MOD, l->fd, EPOLLIN, dt_tcp_what(DT_TCP_LINE, (int)name, p->number));
}

static void call_now(struct dt_wire *w, struct dt_tcp_peer *p, enum dt_tcp_line_name name)
{
    struct dt_tcp_line *l = &p->line[name];
    enter(w, l, DT_TCP_CALLING);
    l->fd = socket(p->card.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return call_again_later(w, p, name, errno);
    tune(l->fd, name);
    set_int(l->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, SILENT_MS);
    dt_tcp_epoll(w, EPOLL_CTL_ADD, l->fd, EPOLLOUT, dt_tcp_what(DT_TCP_LINE, (int)name, p->number));
    if (connect(l->fd, (struct sockaddr *)&p->card.at, p->card.len) == 0)
        return greet(w, p, name);
    if (errno != EINPROGRESS)
        call_again_later(w, p, name, errno);
}

void dt_tcp_call(struct dt_wire *w, struct dt_tcp_peer *p)
{
    enum dt_tcp_line_name name = dt_tcp_line_we_call(w, p->number);
    if (p->broken || p->line[name].state != DT_TCP_NONE)
        return;
    p->line[name].give_up_at = dt_clock_after(dt_clock_monotonic(), CALL_TIME);
    call_now(w, p, name);
}

static void read_answer(struct dt_wire *w, struct dt_tcp_peer *p, enum dt_tcp_line_name name)
{
    struct dt_tcp_line *l = &p->line[name];
    struct dt_tcp_hello h;
    ssize_t n = recv(l->fd, l->in + l->got, sizeof l->in - l->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        return call_again_later(w, p, name, n < 0 ? errno : ECONNRESET);
    l->got += (size_t)n;
    if (l->got < sizeof l->in)
        return;
    memcpy(&h, l->in, sizeof h);
    if (h.magic != DT_TCP_MAGIC || h.from != (uint32_t)p->number || h.to != (uint32_t)w->self ||
        h.line != (uint32_t)name || !dt_tcp_same_secret(h.secret, p->card.secrets.answer))
        return call_again_later(w, p, name, ECONNREFUSED); /* another process has the port now */
    dt_tcp_open_line(w, p, name);
}

/* -- what happens ----------------------------------------------------------------------------- */

static void name_peer(const struct dt_tcp_peer *p, char at[DT_TCP_TEXT])
{
    if (p->card.len > 0)
        dt_tcp_address_print(&p->card.at, at);
    else
        snprintf(at, DT_TCP_TEXT, "its host");
}

void dt_tcp_break_line(struct dt_wire *w, struct dt_tcp_peer *p, int why)
{
    char at[DT_TCP_TEXT];
    name_peer(p, at);
    if (why == 0)
        dt_tcp_break(w, p, "%s closed it", at);
    else
        dt_tcp_break(w, p, "%s: %s", at, strerror(why));
}

/* Nothing is said on an open pulse, so it ends. When its process did, the line of messages says the
 * same behind its last words; where that is not there yet, and is not ours to call for, it will
 * never be. */
static void end_pulse(struct dt_wire *w, struct dt_tcp_peer *p)
{
    struct dt_tcp_line *l = &p->line[DT_TCP_PULSE];
    char byte;
    ssize_t n = recv(l->fd, &byte, 1, MSG_DONTWAIT);
    int why = n == 0 ? 0 : errno;
    if (n < 0 && (why == EAGAIN || why == EINTR))
        return;
    drop_socket(w, l);
    enter(w, l, DT_TCP_ENDED);
    if (n > 0)
        return;
    if (why != 0 && why != ECONNRESET && why != EPIPE) {
        char at[DT_TCP_TEXT];
        name_peer(p, at);
        dt_tcp_break(w, p, "nothing comes from %s any more: %s", at, strerror(why));
    } else if (p->line[DT_TCP_MESSAGES].state == DT_TCP_NONE &&
               dt_tcp_line_we_call(w, p->number) == DT_TCP_PULSE) {
        dt_tcp_break_line(w, p, 0);
    }
}

static void handle_line(struct dt_wire *w, struct dt_tcp_peer *p, enum dt_tcp_line_name name,
                        uint32_t events)
{
    struct dt_tcp_line *l = &p->line[name];
    if (p->broken || l->fd < 0)
        return;
    if (l->state == DT_TCP_CALLING)
        return greet(w, p, name);
    if (l->state == DT_TCP_GREETED)
        return read_answer(w, p, name);
    if (name == DT_TCP_PULSE)
        return end_pulse(w, p);
    /* What is left to read of a connection that ended is bounded by the kernel. */
    p->drains = p->drains || events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
    if (events & ~(uint32_t)EPOLLOUT)
        dt_tcp_pull(w, p);
    dt_tcp_push(w, p);
}

/* What is gone since the event was told is not met by its number: who took the place of a caller is
 * heard without harm. */
void dt_tcp_handle_event(struct dt_wire *w, uint64_t what, uint32_t events)
{
    int number = (int)(uint32_t)what;
    switch ((enum dt_tcp_what)(what >> 40)) {
    case DT_TCP_DOOR:
        return dt_tcp_door_open(w);
    case DT_TCP_CALLER:
        return dt_tcp_door_hear(w, number);
    case DT_TCP_LINE:
        return handle_line(w, w->peers[number], (enum dt_tcp_line_name)(what >> 32 & 0xff), events);
    }
}

static void call_the_resting(struct dt_wire *w, dt_ms now)
{
    for (int i = 0; i < w->size; i++)
        for (int k = 0; w->peers[i] && k < DT_TCP_LINES; k++)
            if (w->peers[i]->line[k].state == DT_TCP_RESTS && w->peers[i]->line[k].retry_at <= now)
                call_now(w, w->peers[i], (enum dt_tcp_line_name)k);
}

void dt_tcp_handle_time(struct dt_wire *w)
{
    if (w->resting > 0)
        call_the_resting(w, dt_clock_monotonic());
    if (w->callers > 0 || w->listener_rests > 0)
        dt_tcp_door_handle_time(w, dt_clock_monotonic());
}
