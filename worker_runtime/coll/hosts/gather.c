/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers between hosts: each part travels once to each other host. */
#include "worker_runtime/coll/hosts/cut.h"

#include <string.h>

/* Parts of others that this rank is in charge of, to TABLE, where they lie STRIDE apart. */
static int expect_pieces(struct dt_hosts *h, const struct dt_cut *c, size_t from, char *table,
                         size_t stride, struct dt_err *err)
{
    for (int rank = 0; rank < h->roster.size; rank++) {
        struct dt_cut_part p = dt_cut_part(c, rank, from);
        if (p.n > 0 && dt_hosts_in_charge(h, rank) &&
            dt_hosts_recv(h, &h->receives, rank, table + (size_t)rank * stride, p.n * c->element,
                          err) < 0)
            return -1;
    }
    return 0;
}

static int send_piece(struct dt_hosts *h, const char *bytes, size_t len, struct dt_err *err)
{
    for (int host = 0; len > 0 && host < h->roster.hosts; host++)
        if (host != h->roster.host &&
            dt_hosts_send(h, &h->rest, dt_roster_in_charge(&h->roster, host, h->roster.rank), bytes,
                          len, err) < 0)
            return -1;
    return 0;
}

int dt_hosts_gather_shared(struct dt_hosts *h, const struct dt_coll_call *call, size_t bytes,
                           struct dt_err *err)
{
    struct dt_cut c = {
        .total = bytes * (size_t)h->roster.size, .slice = bytes, .chunk = bytes, .element = 1};
    char *table = call->recv, *mine = table + (size_t)h->roster.rank * bytes;
    if (bytes == 0)
        return dt_hosts_meet(h, err);
    if (mine != call->send)
        memcpy(mine, call->send, bytes);
    if (expect_pieces(h, &c, 0, table, bytes, err) < 0 || send_piece(h, mine, bytes, err) < 0 ||
        dt_hosts_land(h, &h->receives, err) < 0)
        return -1;
    return dt_hosts_meet(h, err);
}

static void copy_pieces(const struct dt_hosts *h, const struct dt_cut *c, const char *table,
                        size_t from, char *out, bool own_too)
{
    for (int rank = 0; rank < h->roster.size; rank++) {
        struct dt_cut_part p = dt_cut_part(c, rank, from);
        if (p.n > 0 && (own_too || rank != h->roster.rank))
            memcpy(out + p.at * c->element, table + (size_t)rank * c->chunk * c->element,
                   p.n * c->element);
    }
}

int dt_hosts_gather(struct dt_hosts *h, const struct dt_cut *c, const char *mine, char *out,
                    struct dt_err *err)
{
    size_t stride = c->chunk * c->element;
    bool in_place = mine == out + (size_t)h->roster.rank * c->slice * c->element;
    for (size_t from = 0; from < c->slice; from += c->chunk) {
        struct dt_cut_part p = dt_cut_part(c, h->roster.rank, from);
        const char *bytes = mine + from * c->element;
        uint32_t turn = h->turn++;
        char *table = dt_hosts_stage(h, turn, 0);
        if (p.n > 0)
            memcpy(table + (size_t)h->roster.rank * stride, bytes, p.n * c->element);
        if (expect_pieces(h, c, from, table, stride, err) < 0 ||
            send_piece(h, bytes, p.n * c->element, err) < 0 ||
            dt_hosts_land(h, &h->receives, err) < 0 || dt_hosts_meet(h, err) < 0)
            return -1;
        copy_pieces(h, c, table, from, out, !in_place);
    }
    return 0;
}
