/* SPDX-License-Identifier: Apache-2.0 */
/* What one rank shows to the others of its host: how far it is, what it is about to do, and copies
 * of what it sends from ordinary memory. Only its owner writes a seat; the others map it for
 * reading, so a rank that runs wild cannot spoil what another says. */
#ifndef DT_WORKER_RUNTIME_COLL_HOST_SEAT_H
#define DT_WORKER_RUNTIME_COLL_HOST_SEAT_H

#include "worker_runtime/coll/backend.h"
#include "worker_runtime/coll/host/patience.h"
#include "worker_runtime/coll/life.h"

#include <stdatomic.h>

#define DT_LINE 64          /* bytes of a cache line */
#define DT_POSTS 64         /* more than two ranks can be apart: each has DT_COLL_PENDING */
#define DT_SLOT (256 << 10) /* bytes of one of the two copies for collectives */
#define DT_MAIL (64 << 10)  /* bytes of one of the two copies for each receiver */

/* Where in dt_coll_alloc() memory a buffer lies; the same on all ranks but for whose it is. */
struct dt_place {
    int memory; /* -1: not in any */
    bool shared;
    uint64_t offset;
};

/* What a rank is about to do. */
struct dt_post {
    enum dt_coll_kind kind;
    enum dt_dtype type;
    enum dt_coll_op op;
    int peer;
    uint64_t count;
    struct dt_place send, recv;
    bool gathered; /* an all-gather in place, in shared memory: nothing is to be moved */
};

/* Counters only rise, and wrap; those who wait look at differences. */
struct dt_shm_seat {
    uint64_t nonce;
    struct dt_cores cores;
    _Alignas(DT_LINE) _Atomic uint32_t step; /* grows at each point that others wait for */
    _Atomic uint32_t posted;                 /* of posts[] */
    _Atomic uint32_t bell;      /* what others sleep on; rung when one says that it does */
    _Atomic uint32_t asleep_on; /* 1 + the rank whose bell this one sleeps on; 0: awake */
    _Atomic uint32_t gave_up;   /* 1 + the rank that is to blame, which may be this one */
    _Alignas(DT_LINE) struct dt_post posts[DT_POSTS];
    _Alignas(DT_LINE) struct dt_post slot_post[2]; /* what slots hold */
};

struct dt_letter {
    uint64_t total; /* bytes of the whole message */
    uint64_t len;   /* of them here */
    enum dt_dtype type;
    struct dt_place place; /* where all of it is, then LEN is TOTAL */
};

struct dt_mailbox {                            /* of one rank, for one other */
    _Alignas(DT_LINE) _Atomic uint32_t filled; /* letters to it */
    _Atomic uint32_t drained;                  /* letters from it that were read */
    _Alignas(DT_LINE) struct dt_letter letters[2];
};

/* Behind the seat: a mailbox for each rank, then the slots, then the mail. */
static inline struct dt_mailbox *dt_shm_seat_mailbox(struct dt_shm_seat *s, int other)
{
    return (struct dt_mailbox *)(s + 1) + other;
}

static inline char *dt_shm_seat_slot(struct dt_shm_seat *s, int size, uint32_t round)
{
    return (char *)dt_shm_seat_mailbox(s, size) + (size_t)(round % 2) * DT_SLOT;
}

static inline char *dt_shm_seat_mail(struct dt_shm_seat *s, int size, int other, uint32_t letter)
{
    return dt_shm_seat_slot(s, size, 0) + 2 * DT_SLOT + ((size_t)other * 2 + letter % 2) * DT_MAIL;
}

static inline size_t dt_shm_seat_bytes(int size)
{
    return sizeof(struct dt_shm_seat) +
           (size_t)size * (sizeof(struct dt_mailbox) + 2 * (size_t)DT_MAIL) + 2 * (size_t)DT_SLOT;
}

/* All seats of a group, and who sits on them. */
struct dt_shm_seats {
    int size, rank;
    struct dt_coll_member *members; /* with their pids */
    struct dt_life *life;           /* of the peers' processes; of nobody: own */
    struct dt_shm_seat **seat;
    bool own_core;
    int culprit; /* when they could not be opened: because of whom; own: nobody else */
};

/* Collective. Peers can still be on their way to our seat when this is back, so *OWN_FD is to stay
 * open until a first barrier has gone well; the caller closes it, also on failure. */
int dt_shm_seats_open(struct dt_shm_seats *s, const struct dt_coll_group *g, struct dt_meeting *m,
                      int *own_fd, struct dt_err *err);
/* For those who still come: this rank gave up, because of CULPRIT. */
void dt_shm_seats_tell(const struct dt_coll_group *g, struct dt_meeting *m, int culprit);
/* Those of a group that dt_coll_shm opened. */
const struct dt_shm_seats *dt_shm_seats_of(const void *backend);
void dt_shm_seats_close(struct dt_shm_seats *s); /* also of what could not be opened */

static inline struct dt_shm_seat *dt_shm_seats_own(const struct dt_shm_seats *s)
{
    return s->seat[s->rank];
}

/* Sets a counter of the own seat, and wakes who sleeps because of us. */
void dt_shm_seats_publish(const struct dt_shm_seats *s, _Atomic uint32_t *word, uint32_t value);

/* Rings the own bell for whoever sleeps on it; part of the above. */
void dt_shm_seats_ring(const struct dt_shm_seats *s);

bool dt_shm_seats_dead(const struct dt_shm_seats *s, int rank);

#endif
