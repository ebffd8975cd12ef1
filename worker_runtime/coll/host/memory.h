/* SPDX-License-Identifier: Apache-2.0 */
/* The dt_coll_alloc() memory of one group on one host: which there are, where each rank's is mapped
 * here, and in which of them a buffer lies. Ranks allocate and release in one order, so a number
 * means the same memory to all. */
#ifndef DT_WORKER_RUNTIME_COLL_HOST_MEMORY_H
#define DT_WORKER_RUNTIME_COLL_HOST_MEMORY_H

#include "worker_runtime/coll/host/seat.h"

struct dt_memory {
    size_t bytes;
    bool shared;
    char **at; /* by rank; all the same when shared; NULL: this row is free */
};

struct dt_memories {
    struct dt_memory *rows;
    int n, ranks, rank;
};

/* Our own, or the host's one when shared. In two steps, since peers must open it between: make
 * gives the row's number and a descriptor to show (-1: another makes it, or it failed), map maps
 * rank WHOSE's. */
int dt_memories_make(struct dt_memories *m, size_t bytes, bool shared, int *fd, struct dt_err *err);
int dt_memories_map(struct dt_memories *m, int row, int whose, int pid, int fd, struct dt_err *err);
void dt_memories_drop(struct dt_memories *m, int row);
void dt_memories_finish(struct dt_memories *m);

/* In which memory all of AT[0..bytes) lies; memory -1: in none. */
struct dt_place dt_memories_find(const struct dt_memories *m, const void *at, size_t bytes);

/* Where rank WHOSE has that; NULL when the place is none of BYTES in a memory we know. */
char *dt_memories_at(const struct dt_memories *m, const struct dt_place *p, int whose,
                     size_t bytes);

#endif
