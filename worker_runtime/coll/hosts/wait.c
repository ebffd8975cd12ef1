/* SPDX-License-Identifier: Apache-2.0 */
/* How a rank waits for others of its host and of other hosts, and how its group ends for it when
 * one of them does not come. */
#include "worker_runtime/coll/hosts/inside.h"

#include <stdio.h>
#include <stdlib.h>

/* The most that a rank sleeps while it waits for other hosts: what ranks of its own host have to
 * say, short of their death, is in memory and wakes nobody. */
#define NET_DOZE 5 /* ms */
/* For a better reason to come than that a connection does not work any more. */
#define REASON_TIME ((dt_ms)50)

int dt_hosts_say_lost(const struct dt_hosts *h, struct dt_err *err)
{
    return dt_err_set(err, h->lost.code, "%s", h->lost.text);
}

/* The end of the group for this rank. The wire goes, since what is under way there must not be
 * written to buffers that the caller is about to free. */
static int lose(struct dt_hosts *h, const struct dt_hosts_blame *b, struct dt_err *err)
{
    if (h->lost.code != DT_E_NONE)
        return dt_hosts_say_lost(h, err);
    if (b->rank == h->roster.rank)
        dt_err_set(&h->lost, (enum dt_err_code)b->code, "this rank (%d): %.*s",
                   h->roster.members[b->rank].world_rank, DT_BLAME_WHY, b->why);
    else
        dt_err_set(&h->lost, (enum dt_err_code)b->code, "rank %d on host %d: %.*s",
                   h->roster.members[b->rank].world_rank, h->roster.members[b->rank].host,
                   DT_BLAME_WHY, b->why);
    dt_board_blame(&h->board, b);
    dt_net_close(h->net, b);
    h->net = NULL;
    h->sends[0].n = h->sends[1].n = h->receives.n = h->rest.n = 0;
    for (size_t i = 0; i < DT_COLL_PENDING; i++)
        h->slots[i].mail = NULL;
    h->inside->abort(h->inner);
    return dt_hosts_say_lost(h, err);
}

struct dt_hosts_blame dt_hosts_gave_up(const struct dt_hosts *h)
{
    return (struct dt_hosts_blame){
        .rank = h->roster.rank, .code = DT_E_CANCELED, .why = "it gave up"};
}

static bool somebody_lost(struct dt_hosts *h, struct dt_hosts_blame *b)
{
    if (!atomic_load(&h->aborted))
        return dt_board_look(&h->board, b) || dt_net_look(h->net, b);
    *b = dt_hosts_gave_up(h);
    return true;
}

int dt_hosts_look(struct dt_hosts *h, int waits_for, struct dt_err *err)
{
    struct dt_hosts_blame b;
    if (h->lost.code != DT_E_NONE)
        return dt_hosts_say_lost(h, err);
    if (somebody_lost(h, &b))
        return lose(h, &b, err);
    if (dt_clock_monotonic() < h->deadline)
        return 0;
    b = (struct dt_hosts_blame){.rank = waits_for, .code = DT_E_TIMEOUT};
    snprintf(b.why, sizeof b.why, "it is late: what it was to do did not come in time");
    return lose(h, &b, err);
}

int dt_hosts_lose_rank(struct dt_hosts *h, int rank, const struct dt_err *why, struct dt_err *err)
{
    dt_ms until = dt_clock_after(dt_clock_monotonic(), REASON_TIME);
    struct dt_hosts_blame b;
    while (dt_clock_monotonic() < until) {
        if (somebody_lost(h, &b))
            return lose(h, &b, err);
        dt_net_doze(h->net, 1);
    }
    b = (struct dt_hosts_blame){.rank = rank, .code = (int32_t)why->code};
    snprintf(b.why, sizeof b.why, "%.*s", DT_BLAME_WHY - 1, why->text);
    return lose(h, &b, err);
}

int dt_hosts_meet(struct dt_hosts *h, struct dt_err *err)
{
    int behind;
    dt_board_step(&h->board);
    h->patience.tries = 0;
    while ((behind = dt_board_behind(&h->board)) >= 0) {
        if (dt_hosts_look(h, behind, err) < 0)
            return -1;
        if (!dt_patience_over(&h->patience))
            continue;
        /* What we send moves only while we look after it. */
        if (h->sends[0].n + h->sends[1].n + h->rest.n > 0)
            dt_net_doze(h->net, 1);
        else
            dt_board_doze(&h->board);
    }
    return 0;
}

int dt_hosts_await(struct dt_hosts *h, struct dt_wire_request *r, int rank, struct dt_err *err)
{
    struct dt_err why = {0};
    int rc;
    h->patience.tries = 0;
    while ((rc = dt_net_test(h->net, r, &why)) == 0) {
        if (dt_hosts_look(h, rank, err) < 0)
            return -1;
        if (dt_patience_over(&h->patience))
            dt_net_doze(h->net, NET_DOZE);
    }
    return rc > 0 ? 0 : dt_hosts_lose_rank(h, rank, &why, err);
}

static int add(struct dt_hosts_flight *f, struct dt_wire_request *r, int rank, struct dt_err *err)
{
    if (f->n == f->size) {
        size_t size = f->size ? 2 * f->size : 16;
        void *at = realloc(f->at, size * sizeof *f->at);
        if (!at)
            return dt_err_set(err, DT_E_MEMORY, "no memory for messages");
        f->at = at;
        f->size = size;
    }
    f->at[f->n].request = r;
    f->at[f->n++].rank = rank;
    return 0;
}

static int took_off(struct dt_hosts *h, int rc, struct dt_hosts_flight *f,
                    struct dt_wire_request *r, int rank, const struct dt_err *why,
                    struct dt_err *err)
{
    struct dt_err more = *why;
    if (rc < 0 || add(f, r, rank, &more) < 0)
        return dt_hosts_lose_rank(h, rank, &more, err);
    return 0;
}

int dt_hosts_send(struct dt_hosts *h, struct dt_hosts_flight *f, int rank, const void *bytes,
                  size_t len, struct dt_err *err)
{
    struct dt_wire_request *r = NULL;
    struct dt_err why = {0};
    int rc = dt_net_send(h->net, rank, DT_NET_COLL, bytes, len, &r, &why);
    return took_off(h, rc, f, r, rank, &why, err);
}

int dt_hosts_recv(struct dt_hosts *h, struct dt_hosts_flight *f, int rank, void *bytes, size_t len,
                  struct dt_err *err)
{
    struct dt_wire_request *r = NULL;
    struct dt_err why = {0};
    int rc = dt_net_recv(h->net, rank, DT_NET_COLL, bytes, len, &r, &why);
    return took_off(h, rc, f, r, rank, &why, err);
}

int dt_hosts_land(struct dt_hosts *h, struct dt_hosts_flight *f, struct dt_err *err)
{
    for (size_t i = 0; i < f->n; i++)
        if (dt_hosts_await(h, f->at[i].request, f->at[i].rank, err) < 0)
            return -1;
    f->n = 0;
    return 0;
}
