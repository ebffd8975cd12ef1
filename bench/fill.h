/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a server with keys numbered from 0, in batches over one connection; a batch is sent when
 * the one before has been acknowledged. */
#ifndef BENCH_FILL_H
#define BENCH_FILL_H

#include "bench/dial.h"
#include "bench/hist.h"

/* Makes the values that loads read exist. */
int fill_values(const struct dial *d, struct key key, unsigned long keys, size_t value_size,
                struct dt_err *err);

struct fill_result {
    struct hist latency; /* nanoseconds, of a batch */
    double seconds;
    int64_t before, after; /* keys that the server counts */
    bool verified;         /* it has exactly KEYS more */
};

/* Fills with fresh keys and asks the server for its count. *r must be zeroed. Gives up after
 * SECONDS. */
int fill_run(const struct dial *d, struct key key, unsigned long keys, size_t value_size,
             double seconds, struct fill_result *r, struct dt_err *err);

#endif
