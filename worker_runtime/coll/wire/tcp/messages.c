/* SPDX-License-Identifier: Apache-2.0 */
/* A message is its tag and length in front of its bytes, which are read straight to where its
 * receive wants them. What comes before its receive is kept, within a bound. */
#include "worker_runtime/coll/wire/tcp/inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define SEND_PARTS 16 /* heads and bytes that leave in one system call */

static void append(struct dt_tcp_list *l, struct dt_wire_request *r)
{
    if (!l->first)
        l->end = &l->first;
    r->next = NULL;
    *l->end = r;
    l->end = &r->next;
}

static struct dt_wire_request *take(struct dt_tcp_list *l, uint64_t tag)
{
    for (struct dt_wire_request **at = &l->first, *r; (r = *at); at = &r->next)
        if (r->head.tag == tag) {
            *at = r->next;
            if (!*at)
                l->end = at;
            return r;
        }
    return NULL;
}

static struct dt_wire_request *take_first(struct dt_tcp_list *l)
{
    return l->first ? take(l, l->first->head.tag) : NULL;
}

static bool is_open(const struct dt_tcp_peer *p)
{
    return p->line[DT_TCP_MESSAGES].state == DT_TCP_OPEN;
}

/* -- out -------------------------------------------------------------------------------------- */

static size_t list_parts(const struct dt_tcp_list *l, struct iovec v[SEND_PARTS], int *parts)
{
    size_t all = 0, head = sizeof(struct dt_tcp_head);
    *parts = 0;
    for (struct dt_wire_request *r = l->first; r && *parts + 2 <= SEND_PARTS; r = r->next) {
        size_t sent = r->at > head ? r->at - head : 0;
        if (r->at < head)
            v[(*parts)++] = (struct iovec){(char *)&r->head + r->at, head - r->at};
        if (r->head.len > sent)
            v[(*parts)++] = (struct iovec){r->bytes + sent, r->head.len - sent};
        all += head + r->head.len - r->at;
    }
    return all;
}

static void note_sent(struct dt_tcp_list *l, size_t n)
{
    while (n > 0) {
        struct dt_wire_request *r = l->first;
        size_t left = sizeof r->head + r->head.len - r->at, part = n < left ? n : left;
        r->at += part;
        n -= part;
        if (part == left) {
            take_first(l);
            r->done = true;
        }
    }
}

void dt_tcp_push(struct dt_wire *w, struct dt_tcp_peer *p)
{
    while (is_open(p) && p->out.first) {
        struct iovec v[SEND_PARTS];
        int parts;
        size_t all = list_parts(&p->out, v, &parts);
        struct msghdr m = {.msg_iov = v, .msg_iovlen = (size_t)parts};
        ssize_t n = sendmsg(p->line[DT_TCP_MESSAGES].fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            return dt_tcp_break_line(w, p, errno);
        if (n > 0)
            note_sent(&p->out, (size_t)n);
        if (n < 0 || (size_t)n < all)
            break;
    }
    bool wants = p->out.first != NULL;
    if (is_open(p) && wants != p->wants_write) {
        p->wants_write = wants;
        dt_tcp_watch(w, p);
    }
}

void dt_tcp_post_send(struct dt_wire *w, struct dt_tcp_peer *p, struct dt_wire_request *r)
{
    append(&p->out, r);
    if (!p->wants_write)
        dt_tcp_push(w, p);
}

/* -- in --------------------------------------------------------------------------------------- */

static size_t early_cost(size_t len)
{
    return sizeof(struct dt_wire_request) + len;
}

static void free_early(struct dt_wire *w, struct dt_wire_request *r)
{
    w->early_bytes -= early_cost(r->head.len);
    free(r->bytes);
    free(r);
}

static bool fits(struct dt_wire_request *r, size_t came)
{
    if (came == r->head.len)
        return true;
    snprintf(r->why, sizeof r->why,
             "%zu bytes came where %zu were expected: the ranks do not make the same calls", came,
             (size_t)r->head.len);
    r->code = DT_E_PROTOCOL;
    r->done = true;
    return false;
}

static void arrive(struct dt_tcp_peer *p)
{
    struct dt_wire_request *r = p->coming;
    p->coming = NULL;
    r->done = true;
    if (r->early)
        append(&p->early, r);
}

static struct dt_wire_request *new_early(struct dt_wire *w, struct dt_tcp_head head)
{
    struct dt_wire_request *r = calloc(1, sizeof *r);
    if (r && head.len > 0 && !(r->bytes = malloc(head.len))) {
        free(r);
        r = NULL;
    }
    if (!r)
        return NULL;
    r->early = true;
    r->head = head;
    w->early_bytes += early_cost(head.len);
    return r;
}

static void set_stuck(struct dt_wire *w, struct dt_tcp_peer *p, bool stuck)
{
    if (p->stuck == stuck)
        return;
    p->stuck = stuck;
    w->stuck += stuck ? 1 : -1;
    dt_tcp_watch(w, p);
}

/* The head is there: where do the bytes belong? False: nowhere for now. */
static bool place(struct dt_wire *w, struct dt_tcp_peer *p)
{
    struct dt_wire_request *r = take(&p->wanted, p->head.tag);
    size_t len = p->head.len;
    if (r && !fits(r, len)) {
        p->skip = len;
    } else {
        bool room = p->drains || (len < DT_TCP_EARLY_MAX &&
                                  w->early_bytes + early_cost(len) <= DT_TCP_EARLY_MAX);
        if (!r && !room) {
            set_stuck(w, p, true);
            return false;
        }
        if (!r && (len > SIZE_MAX / 2 || (r = new_early(w, p->head)) == NULL)) {
            dt_tcp_break(w, p, "no memory for a message of %zu bytes", len);
            return false;
        }
        p->coming = r;
    }
    p->head_at = 0;
    set_stuck(w, p, false);
    if (p->coming && len == 0)
        arrive(p);
    return true;
}

/* Reads once; how much was asked for. Bytes that nobody wants are not even copied. */
static size_t read_once(struct dt_tcp_peer *p, ssize_t *n)
{
    int fd = p->line[DT_TCP_MESSAGES].fd;
    struct iovec v[2];
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 1};
    struct dt_wire_request *r = p->coming;
    if (p->skip > 0) {
        size_t some = p->skip < (size_t)1 << 30 ? p->skip : (size_t)1 << 30;
        *n = recv(fd, NULL, some, MSG_TRUNC | MSG_DONTWAIT);
        return some;
    }
    size_t body = r ? r->head.len - r->at : 0;
    if (r)
        v[0] = (struct iovec){r->bytes + r->at, body};
    v[r ? 1 : 0] = (struct iovec){(char *)&p->head + p->head_at, sizeof p->head - p->head_at};
    m.msg_iovlen = r ? 2 : 1;
    *n = recvmsg(fd, &m, MSG_DONTWAIT);
    return body + sizeof p->head - p->head_at;
}

static void note_read(struct dt_tcp_peer *p, size_t n)
{
    struct dt_wire_request *r = p->coming;
    if (p->skip > 0) {
        p->skip -= n;
        return;
    }
    if (r) {
        size_t left = r->head.len - r->at, part = n < left ? n : left;
        r->at += part;
        n -= part;
        if (part == left)
            arrive(p);
    }
    p->head_at += n;
}

void dt_tcp_pull(struct dt_wire *w, struct dt_tcp_peer *p)
{
    while (is_open(p)) {
        ssize_t n;
        if (p->head_at == sizeof p->head && !place(w, p))
            return;
        size_t asked = read_once(p, &n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            return dt_tcp_break_line(w, p, n == 0 ? 0 : errno);
        note_read(p, (size_t)n);
        if ((size_t)n < asked && p->head_at < sizeof p->head)
            return;
    }
}

/* The rest of a message that is half here goes straight to where it is wanted. */
static void take_over(struct dt_wire *w, struct dt_tcp_peer *p, struct dt_wire_request *r)
{
    struct dt_wire_request *early = p->coming;
    if (fits(r, early->head.len)) {
        memcpy(r->bytes, early->bytes, early->at);
        r->at = early->at;
        p->coming = r;
    } else {
        p->skip = early->head.len - early->at;
        p->coming = NULL;
    }
    free_early(w, early);
}

void dt_tcp_post_recv(struct dt_wire *w, struct dt_tcp_peer *p, struct dt_wire_request *r)
{
    struct dt_wire_request *early = take(&p->early, r->head.tag), *coming = p->coming;
    if (early) {
        if (fits(r, early->head.len) && early->head.len > 0)
            memcpy(r->bytes, early->bytes, early->head.len);
        r->done = true;
        free_early(w, early);
        return;
    }
    if (coming && coming->early && coming->head.tag == r->head.tag)
        return take_over(w, p, r);
    append(&p->wanted, r);
    if (p->stuck && p->head.tag == r->head.tag)
        dt_tcp_pull(w, p);
}

void dt_tcp_unstick(struct dt_wire *w)
{
    for (int i = 0; i < w->size && w->stuck > 0; i++)
        if (w->peers[i] && w->peers[i]->stuck)
            dt_tcp_pull(w, w->peers[i]);
}

/* -- the end ---------------------------------------------------------------------------------- */

void dt_tcp_drop_messages(struct dt_wire *w, struct dt_tcp_peer *p)
{
    struct dt_wire_request *r;
    if (p->stuck)
        w->stuck--;
    p->stuck = false;
    if (p->coming && p->coming->early)
        free_early(w, p->coming);
    p->coming = NULL;
    while ((r = take_first(&p->out)) != NULL) {
        snprintf(r->why, sizeof r->why, "its connection broke (%.*s)", 100, p->why);
        r->code = DT_E_DISCONNECTED;
        r->done = true;
    }
}

void dt_tcp_free_early(struct dt_tcp_peer *p)
{
    struct dt_wire_request *r;
    while ((r = take_first(&p->early)) != NULL) {
        free(r->bytes);
        free(r);
    }
}
