/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of one host tell each other while they work with other hosts: how far each is, who
 * has left, and who is to blame when the group is lost. It lies in DT_SHARED memory of the shm
 * backend, whose seats also tell who lives. */
#ifndef DT_WORKER_RUNTIME_COLL_HOSTS_BOARD_H
#define DT_WORKER_RUNTIME_COLL_HOSTS_BOARD_H

#include "worker_runtime/coll/host/seat.h"
#include "worker_runtime/coll/hosts/blame.h"
#include "worker_runtime/coll/hosts/roster.h"

#include <stdatomic.h>

struct dt_board_line { /* of one rank */
    _Alignas(64) _Atomic uint32_t step;
    _Atomic uint32_t left;
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
    const struct dt_shm_seats *seats; /* by place on the host; NULL: this rank is alone there */
    dt_ms looked;                     /* at who lives, last */
    uint32_t step;                    /* of this rank */
};

size_t dt_board_bytes(const struct dt_roster *roster);
/* PAGE is zeroed memory that all ranks of the host have. ROSTER and SEATS outlive the board. */
void dt_board_open(struct dt_board *b, const struct dt_roster *roster, void *page,
                   const struct dt_shm_seats *seats);
void dt_board_close(struct dt_board *b);

/* This rank is one step further, which is also what it waits for the others to reach. */
void dt_board_step(struct dt_board *b);
/* The first rank of the group on this host that is not as far; -1: all are. */
int dt_board_behind(const struct dt_board *b);
/* Sleeps until somebody made a step, or 1 ms. */
void dt_board_doze(struct dt_board *b);

/* For poll(): readable once the rank at PLACE of this host has died. -1: nothing tells, or the rank
 * has closed its board and may end. */
int dt_board_wait_fd(const struct dt_board *b, int place);

/* The first blame stays. */
void dt_board_blame(struct dt_board *b, const struct dt_hosts_blame *blame);
/* True: the group is lost, by what another of this host says or because it died. */
bool dt_board_look(struct dt_board *b, struct dt_hosts_blame *blame);

#endif
