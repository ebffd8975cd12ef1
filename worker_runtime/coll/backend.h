/* SPDX-License-Identifier: Apache-2.0 */
/* The seam behind coll.h: what moves bytes between the ranks of a group. coll.c checks arguments,
 * keeps order and deadline, and wraps errors; a backend does the rest. Backends: alone (one rank),
 * shm (one host), hosts (several hosts: shm inside, a dt_wire between), and NCCL by way of the
 * plugin. */
#ifndef DT_WORKER_RUNTIME_COLL_BACKEND_H
#define DT_WORKER_RUNTIME_COLL_BACKEND_H

#include "base/clock.h"

#include <dtrun/coll.h>

/* Who takes part, the same on all: made from the context, or by a split. */
struct dt_coll_member {
    int world_rank; /* how errors name it */
    int host;       /* equal: shares memory with us */
    int pid;        /* on its host; 0: not known yet */
};

struct dt_coll_group {
    /* In the order of group ranks; copied by who keeps them. */
    const struct dt_coll_member *members;
    int size, rank;
    int64_t epoch;
    const char *name; /* the same on all and unique in an epoch: "world", "world/3.0" */
    int neighbours;   /* ranks that share this host's cores, when more than are in the group; 0 */
    dt_ms timeout;
    const struct dt_coll_backend *backend; /* NULL: of the host's, the one that fits the members */
    struct dt_device *device; /* whose memory BACKEND moves, in the order of its work */
    /* Of a part of a device's group of which all ranks got into some part: what open() gave for
     * that group, and the colour and key this rank gave. Else NULL. */
    void *parent;
    int colour, key;
};

/* How ranks that cannot talk yet find each other: set once, get waits. Over the job's store in
 * life, in memory in tests. */
struct dt_meeting {
    int (*set)(struct dt_meeting *m, const char *key, const void *value, size_t len,
               struct dt_err *err);
    int (*get)(struct dt_meeting *m, const char *key, void *value, size_t len, dt_ms timeout,
               struct dt_err *err); /* exactly LEN bytes */
};

struct dt_coll_backend {
    const char *name;
    void *(*open)(const struct dt_coll_group *g, struct dt_meeting *m, struct dt_err *err);
    int (*start)(void *b, struct dt_coll_handle *h, struct dt_err *err);
    /* Makes h->done, or fails at DEADLINE, or as soon as a peer is known to be gone. */
    int (*wait)(void *b, struct dt_coll_handle *h, dt_ms deadline, struct dt_err *err);
    void *(*alloc)(void *b, size_t bytes, enum dt_coll_memory memory, struct dt_err *err);
    void (*release)(void *b, void *memory);
    bool (*shares_all)(void *b);
    /* Of a device's: whether it moves what it lends better than other memory of the device. NULL:
     * it does not. */
    bool (*lends_better)(void *b);
    void (*abort)(void *b);
    void (*close)(void *b);
};

extern const struct dt_coll_backend dt_coll_alone;
extern const struct dt_coll_backend dt_coll_shm;
extern const struct dt_coll_backend dt_coll_hosts;

/* A group of the members of HOST, which outlives it, for the memory of DEVICE: by BACKEND, whose
 * ranks meet through HOST. Collective. Where a call's done, its result is there for work that
 * the device is given later, not yet for the host. In its open(), rank 0 of the group calls set()
 * and all others get(), as often and in one order. */
struct dt_coll *dt_coll_beside(struct dt_coll *host, const struct dt_coll_backend *backend,
                               struct dt_device *device, struct dt_err *err);

bool dt_coll_lends_better(const struct dt_coll *c);

/* The group of all of G by the backend that fits its members; M outlives it. */
struct dt_coll *dt_coll_open(const struct dt_coll_group *g, struct dt_meeting *m,
                             struct dt_err *err);

#endif
