/* SPDX-License-Identifier: Apache-2.0 */
/* Who sits where in the next round. Pure, and without memory of its own: a table of seats in, a
 * table out.
 *
 * A survivor keeps its seat. A hole is filled by the node that had it and is back, then by a spare
 * of the same domain, then by any. When the world shrinks only those in the highest seats move,
 * into the lowest holes. The first time, and always under the torchrun policy, seats follow an
 * order: the node's wish, then its domain and name as people sort them (node2 before node10). */
#ifndef DT_RENDEZVOUS_RDZV_SEATS_H
#define DT_RENDEZVOUS_RDZV_SEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A node that is ready for the next round. */
struct dt_seat_candidate {
    uint64_t id; /* incarnation */
    const char *name, *domain;
    int order;        /* its wish; -1: none */
    int64_t came;     /* earlier is smaller: breaks ties, and decides who is surplus */
    int last_seat;    /* in the round before; -1: none. No two have the same */
    bool last_resort; /* only if the world would else be too small */
    int seat;         /* out: -1: stays out */
};

/* What is remembered of a seat whose holder is gone. */
struct dt_seat_memory {
    const char *name, *domain; /* of its last holder; "" */
};

enum dt_rank_policy { DT_RANKS_STABLE, DT_RANKS_TORCHRUN };

/* Gives seats 0..n-1 to N = min(target, count) of the candidates and -1 to the others. LAST: the
 * LAST_COUNT seats of the round before, 0 the first time. -1: no memory. Returns n. */
int dt_seats_assign(struct dt_seat_candidate *c, size_t count, size_t target,
                    const struct dt_seat_memory *last, size_t last_count,
                    enum dt_rank_policy policy);

/* As people sort names with numbers in them: "node2" before "node10". */
int dt_seats_compare_names(const char *a, const char *b);

#endif
