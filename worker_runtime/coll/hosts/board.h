/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of one host tell each other while they work with other hosts: how far each is, who
 * has left, and who is to blame when the group is lost. It lies in DT_SHARED memory of the shm
 * backend; the descriptors by which deaths are seen are each process's own. */
#ifndef DT_WORKER_RUNTIME_COLL_HOSTS_BOARD_H
#define DT_WORKER_RUNTIME_COLL_HOSTS_BOARD_H

#include "worker_runtime/coll/hosts/blame.h"
#include "worker_runtime/coll/hosts/roster.h"
#include "worker_runtime/coll/life.h"

#include <stdatomic.h>

struct dt_board_line { /* of one rank */
    _Alignas(64) _Atomic uint32_t step;
    _Atomic uint32_t left;
    _Atomic int32_t pid;
};

struct dt_board_page {
    _Alignas(64) _Atomic uint32_t bell, sleepers;
    _Atomic uint32_t blamed; /* 0: nobody yet, 1: being written, 2: blame may be read */
    struct dt_hosts_blame blame;
    struct dt_board_line line[];
};

struct dt_board {
    struct dt_board_page *page;
    const struct dt_roster *roster;
    struct dt_life *life; /* of the processes, by place on the host; of nobody: own */
    dt_ms looked;         /* at those, last */
    uint32_t step;        /* of this rank */
};

size_t dt_board_bytes(const struct dt_roster *roster);
/* PAGE is zeroed memory that the ranks of the host share. Waits until all of them have it. */
int dt_board_open(struct dt_board *b, const struct dt_roster *roster, void *page, dt_ms timeout,
                  struct dt_err *err);
void dt_board_close(struct dt_board *b);

/* This rank is one step further, which is also what it waits for the others to reach. */
void dt_board_step(struct dt_board *b);
/* The first rank of the group on this host that is not as far; -1: all are. */
int dt_board_behind(const struct dt_board *b);
/* Sleeps until somebody made a step, or 1 ms. */
void dt_board_doze(struct dt_board *b);

/* Whether the rank at PLACE of this host has closed its board. */
bool dt_board_has_left(const struct dt_board *b, int place);

/* The first blame stays. */
void dt_board_blame(struct dt_board *b, const struct dt_hosts_blame *blame);
/* True: the group is lost, by what another of this host says or because it died. */
bool dt_board_look(struct dt_board *b, struct dt_hosts_blame *blame);

#endif
