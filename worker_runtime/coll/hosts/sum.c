/* SPDX-License-Identifier: Apache-2.0 */
/* Sums between hosts: of the ranks of a host in their order, and of hosts in theirs. */
#include "worker_runtime/coll/host/reduce.h"
#include "worker_runtime/coll/hosts/cut.h"

#include <string.h>

/* OUT = over the ranks of this host, in order, of what their stages have at byte AT. */
static void sum_stages(struct dt_hosts *h, const struct dt_coll_call *call, uint32_t turn,
                       size_t at, void *out, size_t n)
{
    int ranks = dt_roster_own(&h->roster)->n;
    for (int place = 0; place < ranks; place++)
        h->in[place] = dt_hosts_stage(h, turn, place) + at;
    dt_reduce(call->type, call->op, out, h->in, ranks, n);
}

/* OUT = over all hosts, in order, of OWN for this one and of PARTS, one behind the other, for the
 * others. */
static void sum_hosts(struct dt_hosts *h, const struct dt_coll_call *call, const char *own,
                      const char *parts, size_t stride, void *out, size_t n)
{
    for (int host = 0; host < h->roster.hosts; host++)
        h->in[host] = host == h->roster.host ? own : parts + (size_t)host * stride;
    dt_reduce(call->type, call->op, out, h->in, h->roster.hosts, n);
}

/* Receives this rank's parts of a chunk, each in the place of its host. */
static int expect_parts(struct dt_hosts *h, const struct dt_cut *c, size_t n, struct dt_err *err)
{
    for (int host = 0; n > 0 && host < h->roster.hosts; host++)
        if (host != h->roster.host &&
            dt_hosts_recv(h, &h->receives, dt_roster_in_charge(&h->roster, host, h->roster.rank),
                          h->incoming + (size_t)host * c->chunk * c->element, n * c->element,
                          err) < 0)
            return -1;
    return 0;
}

static void fill_stage(const struct dt_hosts *h, const struct dt_cut *c, uint32_t turn,
                       const char *send, size_t from)
{
    char *stage = dt_hosts_stage(h, turn, h->roster.local);
    for (int rank = 0; rank < h->roster.size; rank++) {
        struct dt_cut_part p = dt_cut_part(c, rank, from);
        if (p.n > 0)
            memcpy(stage + (size_t)rank * c->chunk * c->element, send + p.at * c->element,
                   p.n * c->element);
    }
}

/* What this host has for those of others that this rank is in charge of. */
static int send_parts(struct dt_hosts *h, const struct dt_coll_call *call, const struct dt_cut *c,
                      uint32_t turn, size_t from, struct dt_err *err)
{
    char *out = h->partial[turn & 1];
    size_t stride = c->chunk * c->element;
    for (int rank = 0; rank < h->roster.size; rank++) {
        struct dt_cut_part p = dt_cut_part(c, rank, from);
        if (p.n == 0 || !dt_hosts_in_charge(h, rank))
            continue;
        sum_stages(h, call, turn, (size_t)rank * stride, out, p.n);
        if (dt_hosts_send(h, &h->sends[turn & 1], rank, out, p.n * c->element, err) < 0)
            return -1;
        out += stride;
    }
    return 0;
}

int dt_hosts_scatter(struct dt_hosts *h, const struct dt_coll_call *call, const struct dt_cut *c,
                     const char *send, char *out, struct dt_err *err)
{
    size_t stride = c->chunk * c->element;
    for (size_t from = 0; from < c->slice; from += c->chunk) {
        struct dt_cut_part mine = dt_cut_part(c, h->roster.rank, from);
        uint32_t turn = h->turn++;
        if (expect_parts(h, c, mine.n, err) < 0)
            return -1;
        fill_stage(h, c, turn, send, from);
        if (dt_hosts_meet(h, err) < 0 || dt_hosts_land(h, &h->sends[turn & 1], err) < 0 ||
            send_parts(h, call, c, turn, from, err) < 0)
            return -1;
        sum_stages(h, call, turn, (size_t)h->roster.rank * stride, h->own, mine.n);
        if (dt_hosts_land(h, &h->receives, err) < 0)
            return -1;
        sum_hosts(h, call, h->own, h->incoming, stride, out + from * c->element, mine.n);
    }
    return 0;
}

/* A short vector is not worth cutting: the leaders of all hosts tell each other their sums. */
static int exchange_sums(struct dt_hosts *h, const struct dt_coll_call *call, uint32_t turn,
                         struct dt_err *err)
{
    size_t bytes = call->count * dt_dtype_size(call->type);
    char *own = h->partial[turn & 1];
    sum_stages(h, call, turn, 0, own, call->count);
    for (int host = 0; host < h->roster.hosts; host++) {
        int leader = dt_roster_leader(&h->roster, host);
        if (host != h->roster.host &&
            (dt_hosts_recv(h, &h->receives, leader, h->incoming + (size_t)host * bytes, bytes,
                           err) < 0 ||
             dt_hosts_send(h, &h->rest, leader, own, bytes, err) < 0))
            return -1;
    }
    if (dt_hosts_land(h, &h->receives, err) < 0)
        return -1;
    sum_hosts(h, call, own, h->incoming, bytes, dt_hosts_stage(h, turn, 0), call->count);
    return 0;
}

int dt_hosts_reduce_small(struct dt_hosts *h, const struct dt_coll_call *call, struct dt_err *err)
{
    size_t bytes = call->count * dt_dtype_size(call->type);
    uint32_t turn = h->turn++;
    memcpy(dt_hosts_stage(h, turn, h->roster.local), call->send, bytes);
    if (dt_hosts_meet(h, err) < 0)
        return -1;
    if (h->roster.local == 0 &&
        (dt_hosts_land(h, &h->sends[turn & 1], err) < 0 || exchange_sums(h, call, turn, err) < 0))
        return -1;
    if (dt_hosts_meet(h, err) < 0)
        return -1;
    memcpy(call->recv, dt_hosts_stage(h, turn, 0), bytes);
    return 0;
}
