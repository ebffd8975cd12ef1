/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting and waking: N connections wait for one key, another one sets it. Measured is the time
 * from before the set is sent to after the last waiter has read its wake-up. Each round registers
 * all waits and has them confirmed before the clock starts, and removes the key afterwards. */
#ifndef BENCH_WAITWAKE_H
#define BENCH_WAITWAKE_H

#include "bench/dial.h"
#include "bench/hist.h"

struct waitwake;

/* Connects WAITERS and the setter. NULL and *f on failure; ended by waitwake_close(). */
struct waitwake *waitwake_open(const struct dial *d, struct key key, unsigned waiters,
                               struct dt_err *err);
void waitwake_close(struct waitwake *ww);

/* One round; *nanoseconds from the set to the last wake-up. A server that keeps a waiter asleep for
 * STALL seconds ends the round with *frozen. */
int waitwake_round(struct waitwake *ww, double stall, uint64_t *nanoseconds, bool *frozen,
                   struct dt_err *err);

struct waitwake_result {
    struct hist latency; /* nanoseconds, a round each */
    uint64_t rounds;     /* of them measured */
    double seconds;
    bool frozen;
};

/* Rounds for WARMUP and then SECONDS (or ROUNDS, when not 0). *r must be zeroed. */
int waitwake_run(const struct dial *d, struct key key, unsigned waiters, double warmup,
                 double seconds, uint64_t rounds, double stall, struct waitwake_result *r,
                 struct dt_err *err);

#endif
