/* SPDX-License-Identifier: Apache-2.0 */
/* The load engine: many connections on one epoll, each with a fixed number of operations in flight
 * (a closed loop). One read and one write per ready connection; nothing is allocated between the
 * first request and the last answer.
 *
 * A run has four phases: warm-up, measuring, draining, done. While draining nothing new is begun,
 * but all that is in flight is waited for and counted in the latencies, so a stall shows even when
 * nothing else ends while measuring. A run always ends: by time, by count, or because no answer
 * came for the stall time. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "bench/dial.h"
#include "bench/hist.h"
#include "bench/plan.h"

struct load {
    const struct dial *dial;
    enum op op;
    struct key key;
    unsigned long keys;
    size_t value_size;
    unsigned connections;
    unsigned depth;
    double warmup, seconds;
    uint64_t requests; /* 0: no limit but the time */
    double stall;
};

struct load_result {
    struct hist latency; /* nanoseconds, of every operation that ended after the warm-up */
    uint64_t done;       /* operations ended while measuring */
    double seconds;      /* how long that was */
    bool frozen;         /* no answer for the stall time; latencies count up to that moment */
};

/* Runs a load of steps (all but waitwake and fill). *r must be zeroed. */
int load_run(const struct load *l, struct load_result *r, struct dt_err *err);

uint64_t load_now(void); /* nanoseconds of the monotonic clock */

#endif
