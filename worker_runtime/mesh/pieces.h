/* SPDX-License-Identifier: Apache-2.0 */
/* Which positions of each sample a rank has, where several share them. A sample is cut into two
 * pieces a rank, all of one length, and rank R has piece R and piece 2 * ranks - 1 - R: attention
 * of a later piece reads more keys, and so all have as much to compute. What a rank has stands
 * piece by piece, and sample by sample in each. Pure. */
#ifndef DT_WORKER_RUNTIME_MESH_PIECES_H
#define DT_WORKER_RUNTIME_MESH_PIECES_H

#include <stdbool.h>
#include <stddef.h>

/* How ranks come to attend to all of a sample. In the order of the words of
 * "parallel.context_by". */
enum dt_context_by {
    DT_BY_KEYS,  /* each gathers the keys and values of all: model/spread.h */
    DT_BY_HEADS, /* each has all positions of some heads: model/swap.h */
    DT_BY_RING,  /* keys and values go round: model/ring.h */
};

struct dt_pieces {
    size_t ranks, rank; /* ranks 0 or 1: all of a sample is one piece */
    size_t positions;   /* of a whole sample: a multiple of 2 * ranks, where these are several */
    enum dt_context_by by;
};

static inline bool dt_pieces_shared(const struct dt_pieces *p)
{
    return p->ranks > 1;
}

/* Of each rank, in each sample. */
static inline size_t dt_pieces_count(const struct dt_pieces *p)
{
    return dt_pieces_shared(p) ? 2 : 1;
}

static inline size_t dt_pieces_length(const struct dt_pieces *p)
{
    return dt_pieces_shared(p) ? p->positions / (2 * p->ranks) : p->positions;
}

/* Positions of each sample that a rank has. */
static inline size_t dt_pieces_own(const struct dt_pieces *p)
{
    return dt_pieces_count(p) * dt_pieces_length(p);
}

/* The position at which a rank's piece number I begins. */
static inline size_t dt_pieces_first(const struct dt_pieces *p, size_t rank, size_t i)
{
    return (i == 0 ? rank : 2 * p->ranks - 1 - rank) * dt_pieces_length(p);
}

/* The position of this rank's row number ROW, where there are BATCH samples, and which of these has
 * it. */
static inline size_t dt_pieces_place(const struct dt_pieces *p, size_t batch, size_t row,
                                     size_t *sample)
{
    size_t length = dt_pieces_length(p), piece = row / (batch * length);
    *sample = row / length % batch;
    return dt_pieces_first(p, p->rank, piece) + row % length;
}

#endif
