/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the shm backend: collectives among the ranks of one host, over memory that they
 * share (segment.h, seat.h) and futexes. Nothing else includes it.
 *
 * An operation is a small state machine that goes as far as it can
 * and then says whom it waits for; whoever waits for one of them moves all, so that what was
 * started and not yet waited for never holds up a peer that waits. Collectives are done one after
 * another, in the order of their starts, which is the same on all ranks; messages in the order of
 * each pair.
 */
#ifndef DT_WORKER_RUNTIME_COLL_HOST_SHM_H
#define DT_WORKER_RUNTIME_COLL_HOST_SHM_H

#include "worker_runtime/coll/host/memory.h"
#include "worker_runtime/coll/host/seat.h"

/* What an operation waits for: until a counter of a peer has got to VALUE. */
struct shm_need {
    enum shm_counter { NEED_NOTHING, NEED_STEP, NEED_POST, NEED_FILLED, NEED_DRAINED } counter;
    uint32_t value;
    int peer; /* -1: of all of them */
};

struct shm_op {
    struct dt_coll_call call;
    bool used, done;
    uint64_t order; /* of its start */
    int phase;
    struct shm_need need;
    uint32_t post; /* its number among those posted */
    uint32_t step, slot;
    size_t at, behind, part; /* elements, or bytes of a message; how they are used: see the steps */
    char *from;              /* where a message is read, when it need not be copied in between */
};

/* Of calls by the caller, and one of our own while memory is made. */
#define SHM_OPS (DT_COLL_PENDING + 1)

struct shm {
    struct dt_shm_seats seats;
    struct dt_memories memories;
    struct shm_op ops[SHM_OPS];
    uint64_t orders;
    uint32_t step, posted, round; /* what we have published; slots used so far */
    uint32_t *sent, *taken;       /* letters, by peer */
    char **from;                  /* by rank: where its part is read; scratch of one step */
    dt_ms timeout;
    atomic_bool aborted;
    struct dt_err fault; /* peers called something else: the group is of no use */
    int fault_of;        /* whose fault that is */
};

static inline bool shm_is_message(const struct shm_op *op)
{
    return op->call.kind == DT_SEND || op->call.kind == DT_RECV;
}

bool shm_has(const struct shm *s, const struct shm_need *need, int peer);
bool shm_ready(const struct shm *s, const struct shm_need *need);

/* Takes the next step; the number it has. */
uint32_t shm_step(struct shm *s);

static inline int shm_world_rank(const struct shm *s, int r)
{
    return s->seats.members[r].world_rank;
}

/* The one of OP's queue whose turn it is: OP or one that was started before. */
struct shm_op *shm_front(struct shm *s, struct shm_op *op);
/* Moves all whose turn it is. 1: something moved, 0: nothing can, -1: fault. */
int shm_progress(struct shm *s);

/* wait.c: until OP is done; its place is free then. */
int shm_wait_for(struct shm *s, struct shm_op *op, dt_ms deadline, struct dt_err *err);
/* From here on peers that wait for us are told, and whom we hold to be the cause. */
void shm_give_up(struct shm *s, int blame);
/* Whom a peer that has left holds to be the cause, itself when it just left; -1: it has not left.
 */
int shm_blamed_by(const struct shm *s, int r);

/* Notes what goes wrong between ranks; -1. */
int shm_fault(struct shm *s, int peer, const char *what);

/* post.c: a collective is announced at its start, when it is large. Behind that the others may
 * read what of it lies in allocated memory. */
void shm_collective_post(struct shm *s, struct shm_op *op);
bool shm_collective_is_small(const struct shm *s, const struct shm_op *op);

/* 1: something was done, 0: it waits for its need, -1: fault. Sets op->done. */
int shm_collective_advance(struct shm *s, struct shm_op *op);
int shm_message_advance(struct shm *s, struct shm_op *op);
/* All of it is out, and lies where its reader finds it: what is sent next need not wait. */
bool shm_message_is_out(const struct shm_op *op);

#endif
