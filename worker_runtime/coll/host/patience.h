/* SPDX-License-Identifier: Apache-2.0 */
/* How a rank waits for another of its host. Spinning answers soonest, but only where nobody needs
 * the processor: more ranks than cores that spin have been seen to take 17 ms for what takes 15 us
 * when each gives way at once. So: spin where every rank has a core of its own, else give way a few
 * times, and either way sleep in the end. */
#ifndef DT_WORKER_RUNTIME_COLL_HOST_PATIENCE_H
#define DT_WORKER_RUNTIME_COLL_HOST_PATIENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define DT_CORES_WORDS 64 /* 4096 processors */

struct dt_cores { /* that a process may use */
    uint64_t bits[DT_CORES_WORDS];
};

void dt_cores_own(struct dt_cores *c);

/* Whether N ranks with these cores can each have one, when RANKS share the host in all. */
bool dt_cores_suffice(const struct dt_cores *cores, int n, int ranks);

struct dt_patience {
    bool own_core;
    int tries; /* 0 whenever something has happened */
};

/* Spins or gives way, and says true when it is time to sleep instead. */
bool dt_patience_over(struct dt_patience *p);

/* Sleeps until *WORD is no longer SEEN, or is woken, or 1 ms: a peer that was killed wakes nobody,
 * so nobody sleeps for longer without a look around. */
void dt_futex_sleep(const _Atomic uint32_t *word, uint32_t seen);
void dt_futex_wake(_Atomic uint32_t *word);

#endif
