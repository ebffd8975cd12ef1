/* SPDX-License-Identifier: Apache-2.0 */
/* One collective after the other between hosts.
 *
 * Sums: the ranks of a host put what they have on stages that all of the host see. For each rank of
 * another host, one rank here is in charge: it sums this host's part for that rank, rank by rank,
 * and sends it. Who receives the parts of all hosts sums them host by host. So each element is
 * summed in one order whatever the sizes, and each host sends no more than its sum.
 *
 * Gathers: each part travels once to each other host, to the rank in charge there, straight into
 * memory that its host shares, or by way of the stage.
 *
 * All go through in chunks that fit the stages. There are two stages, used in turns, and one
 * meeting of the host's ranks in each turn: who is past the next turn's meeting has read all of
 * this one's stage, so that it may be written again. */
#include "worker_runtime/coll/hosts/cut.h"

#include <string.h>

static int all_reduce(struct dt_hosts *h, const struct dt_coll_call *call, struct dt_err *err)
{
    size_t element = dt_dtype_size(call->type), size = (size_t)h->roster.size;
    size_t slice = (call->count + size - 1) / size;
    struct dt_cut c = dt_cut_make(h, call->count, slice, element);
    if (call->count * element <= DT_HOSTS_SMALL)
        return dt_hosts_reduce_small(h, call, err);
    /* The last ranks' slices may lie behind the end; they are empty then. */
    size_t at =
        (size_t)h->roster.rank * slice < call->count ? (size_t)h->roster.rank * slice : call->count;
    char *mine = (char *)call->recv + at * element;
    if (dt_hosts_scatter(h, call, &c, call->send, mine, err) < 0)
        return -1;
    return dt_hosts_gather(h, &c, mine, call->recv, err);
}

static int reduce_scatter(struct dt_hosts *h, const struct dt_coll_call *call, struct dt_err *err)
{
    struct dt_cut c = dt_cut_make(h, call->count * (size_t)h->roster.size, call->count,
                                  dt_dtype_size(call->type));
    return dt_hosts_scatter(h, call, &c, call->send, call->recv, err);
}

static int all_gather(struct dt_hosts *h, const struct dt_coll_call *call, struct dt_err *err)
{
    size_t element = dt_dtype_size(call->type), size = (size_t)h->roster.size;
    struct dt_cut c = dt_cut_make(h, call->count * size, call->count, element);
    if (dt_hosts_is_shared(h, call->recv, call->count * size * element))
        return dt_hosts_gather_shared(h, call, call->count * element, err);
    return dt_hosts_gather(h, &c, call->send, call->recv, err);
}

/* The chunk at FROM, from the root's buffer to the stage of each host. */
static int spread(struct dt_hosts *h, int root, const char *from, char *stage, size_t len,
                  struct dt_err *err)
{
    const struct dt_roster *r = &h->roster;
    if (r->rank == root) {
        memcpy(stage, from, len);
        for (int host = 0; host < r->hosts; host++)
            if (host != r->host &&
                dt_hosts_send(h, &h->rest, dt_roster_in_charge(r, host, root), from, len, err) < 0)
                return -1;
        return 0;
    }
    if (!dt_hosts_in_charge(h, root))
        return 0;
    if (dt_hosts_recv(h, &h->receives, root, stage, len, err) < 0)
        return -1;
    return dt_hosts_land(h, &h->receives, err);
}

static int broadcast(struct dt_hosts *h, const struct dt_coll_call *call, struct dt_err *err)
{
    size_t bytes = call->count * dt_dtype_size(call->type);
    for (size_t from = 0; from < bytes; from += h->stage) {
        size_t len = bytes - from < h->stage ? bytes - from : h->stage;
        char *at = (char *)call->recv + from, *stage = dt_hosts_stage(h, h->turn++, 0);
        if (spread(h, call->peer, at, stage, len, err) < 0 || dt_hosts_meet(h, err) < 0)
            return -1;
        if (h->roster.rank != call->peer)
            memcpy(at, stage, len);
    }
    return 0;
}

static int exchange_far(struct dt_hosts *h, const struct dt_coll_call *call, size_t bytes,
                        struct dt_err *err)
{
    for (int rank = 0; bytes > 0 && rank < h->roster.size; rank++)
        if (dt_hosts_elsewhere(h, rank) &&
            (dt_hosts_recv(h, &h->receives, rank, (char *)call->recv + (size_t)rank * bytes, bytes,
                           err) < 0 ||
             dt_hosts_send(h, &h->rest, rank, (const char *)call->send + (size_t)rank * bytes,
                           bytes, err) < 0))
            return -1;
    return 0;
}

/* A chunk of what the ranks of this host have for each other, by way of the stages. */
static int exchange_near(struct dt_hosts *h, const struct dt_coll_call *call, size_t bytes,
                         size_t from, size_t chunk, struct dt_err *err)
{
    const struct dt_roster_host *own = dt_roster_own(&h->roster);
    size_t len = bytes - from < chunk ? bytes - from : chunk;
    uint32_t turn = h->turn++;
    char *stage = dt_hosts_stage(h, turn, h->roster.local);
    for (int q = 0; q < own->n; q++)
        memcpy(stage + (size_t)q * chunk,
               (const char *)call->send + (size_t)own->ranks[q] * bytes + from, len);
    if (dt_hosts_meet(h, err) < 0)
        return -1;
    for (int q = 0; q < own->n; q++)
        memcpy((char *)call->recv + (size_t)own->ranks[q] * bytes + from,
               dt_hosts_stage(h, turn, q) + (size_t)h->roster.local * chunk, len);
    return 0;
}

static int all_to_all(struct dt_hosts *h, const struct dt_coll_call *call, struct dt_err *err)
{
    size_t bytes = call->count * dt_dtype_size(call->type);
    size_t chunk = h->stage / (size_t)dt_roster_own(&h->roster)->n;
    if (exchange_far(h, call, bytes, err) < 0)
        return -1;
    for (size_t from = 0; from < bytes; from += chunk)
        if (exchange_near(h, call, bytes, from, chunk, err) < 0)
            return -1;
    return dt_hosts_land(h, &h->receives, err);
}

/* The leaders tell each other in rounds that all of theirs are there, each round to one twice as
 * far. */
static int barrier(struct dt_hosts *h, struct dt_err *err)
{
    const struct dt_roster *r = &h->roster;
    if (dt_hosts_meet(h, err) < 0)
        return -1;
    for (int far = 1; r->local == 0 && far < r->hosts; far *= 2) {
        int to = dt_roster_leader(r, (r->host + far) % r->hosts);
        int from = dt_roster_leader(r, (r->host - far + r->hosts) % r->hosts);
        if (dt_hosts_send(h, &h->rest, to, NULL, 0, err) < 0 ||
            dt_hosts_recv(h, &h->receives, from, NULL, 0, err) < 0 ||
            dt_hosts_land(h, &h->receives, err) < 0)
            return -1;
    }
    return dt_hosts_meet(h, err);
}

typedef int (*run_fn)(struct dt_hosts *h, const struct dt_coll_call *call, struct dt_err *err);

static int meet_only(struct dt_hosts *h, const struct dt_coll_call *call, struct dt_err *err)
{
    (void)call;
    return barrier(h, err);
}

int dt_hosts_run(struct dt_hosts *h, const struct dt_coll_call *call, struct dt_err *err)
{
    static const run_fn run[DT_COLL_KINDS] = {
        [DT_ALL_REDUCE] = all_reduce, [DT_REDUCE_SCATTER] = reduce_scatter,
        [DT_ALL_GATHER] = all_gather, [DT_ALL_TO_ALL] = all_to_all,
        [DT_BROADCAST] = broadcast,   [DT_BARRIER] = meet_only,
    };
    if (run[call->kind](h, call, err) < 0)
        return -1;
    /* The caller's buffers are its own again; and nobody waits for what only moves when this rank
     * comes here the next time. */
    if (dt_hosts_land(h, &h->rest, err) < 0 || dt_hosts_land(h, &h->sends[0], err) < 0)
        return -1;
    return dt_hosts_land(h, &h->sends[1], err);
}
