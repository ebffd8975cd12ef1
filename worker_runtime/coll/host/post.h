/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks tell each other of a collective before anything moves. From the same posts all of them
 * conclude the same: whether they called the same, and which of the three ways of collective.c
 * it goes. */
#ifndef DT_WORKER_RUNTIME_COLL_HOST_POST_H
#define DT_WORKER_RUNTIME_COLL_HOST_POST_H

#include "worker_runtime/coll/host/shm.h"

static inline size_t shm_element(const struct shm_op *op)
{
    return dt_dtype_size(op->call.type);
}

/* Whether each rank gives something to each, so that SEND has a part for every rank. */
static inline bool shm_in_parts(const struct shm_op *op)
{
    return op->call.kind == DT_REDUCE_SCATTER || op->call.kind == DT_ALL_TO_ALL;
}

static inline bool shm_gives(const struct shm *s, const struct shm_op *op)
{
    return op->call.kind != DT_BARRIER &&
           (op->call.kind != DT_BROADCAST || op->call.peer == s->seats.rank);
}

static inline const char *shm_given(const struct shm_op *op)
{
    return op->call.kind == DT_BROADCAST ? op->call.recv : op->call.send;
}

/* How many bytes one element of COUNT takes in a slot. */
static inline size_t shm_width(const struct shm *s, const struct shm_op *op)
{
    return shm_element(op) * (shm_in_parts(op) ? (size_t)s->seats.size : 1);
}

static inline size_t shm_given_bytes(const struct shm *s, const struct shm_op *op)
{
    return op->call.count * shm_width(s, op);
}

/* Of what this rank calls in OP. */
struct dt_post shm_post_describe(const struct shm *s, const struct shm_op *op);
/* RANK's, when it is known to be there. */
const struct dt_post *shm_post_of(const struct shm *s, const struct shm_op *op, int rank);

/* While OP, a large one whose turn it is, waits for posts: -1 when a rank will not post it. */
int shm_posts_expect(struct shm *s, const struct shm_op *op);
/* All ranks must have called the same; -1 when not. */
int shm_posts_compare(struct shm *s, const struct shm_op *op);
/* An all-gather of what all see already. */
bool shm_posts_gathered(const struct shm *s, const struct shm_op *op);
/* All that must be read lies in dt_coll_alloc() memory. */
bool shm_posts_direct(const struct shm *s, const struct shm_op *op);

#endif
