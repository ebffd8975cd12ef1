/* SPDX-License-Identifier: Apache-2.0 */
/* How vectors are cut for ranks and stages, and what moves them: sum.c sums, gather.c
 * gathers, run.c makes collectives of both. */
#ifndef DT_WORKER_RUNTIME_COLL_HOSTS_CUT_H
#define DT_WORKER_RUNTIME_COLL_HOSTS_CUT_H

#include "worker_runtime/coll/hosts/inside.h"

/* How a vector is cut: each rank has a slice, each chunk a piece of every slice. */
struct dt_cut {
    size_t total, slice, chunk; /* elements */
    size_t element;             /* bytes */
};

struct dt_cut_part {
    size_t at, n; /* elements */
};

static inline struct dt_cut_part dt_cut_part(const struct dt_cut *c, int rank, size_t from)
{
    size_t at = (size_t)rank * c->slice + from;
    size_t end = (size_t)(rank + 1) * c->slice;
    size_t n = c->slice - from < c->chunk ? c->slice - from : c->chunk;
    end = end < c->total ? end : c->total;
    return (struct dt_cut_part){at, at >= end ? 0 : n < end - at ? n : end - at};
}

static inline struct dt_cut dt_cut_make(const struct dt_hosts *h, size_t total, size_t slice,
                                        size_t element)
{
    size_t chunk = h->stage / element / (size_t)h->roster.size;
    return (struct dt_cut){total, slice, chunk > 64 ? chunk / 64 * 64 : chunk, element};
}

static inline bool dt_hosts_elsewhere(const struct dt_hosts *h, int rank)
{
    return h->roster.host_of[rank] != h->roster.host;
}

/* Whether this rank is the one of its host that deals with RANK of another. */
static inline bool dt_hosts_in_charge(const struct dt_hosts *h, int rank)
{
    return dt_hosts_elsewhere(h, rank) &&
           dt_roster_in_charge(&h->roster, h->roster.host, rank) == h->roster.rank;
}

/* OUT[0..slice) = the sum of this rank's slice of SEND. */
int dt_hosts_scatter(struct dt_hosts *h, const struct dt_coll_call *call, const struct dt_cut *c,
                     const char *send, char *out, struct dt_err *err);

/* An all-reduce of a vector that is not worth cutting. */
#define DT_HOSTS_SMALL ((size_t)16 << 10) /* bytes up to which leaders alone exchange */
int dt_hosts_reduce_small(struct dt_hosts *h, const struct dt_coll_call *call, struct dt_err *err);

/* OUT = all slices; MINE is this rank's, which may be where it belongs in OUT. */
int dt_hosts_gather(struct dt_hosts *h, const struct dt_cut *c, const char *mine, char *out,
                    struct dt_err *err);
/* An all-gather into memory that this host shares: all goes straight to where it belongs. */
int dt_hosts_gather_shared(struct dt_hosts *h, const struct dt_coll_call *call, size_t bytes,
                           struct dt_err *err);

#endif
