/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulator asks of chance: the same from a seed on every machine. */
#ifndef DT_TESTS_SIM_RANDOM_H
#define DT_TESTS_SIM_RANDOM_H

#include "base/chance.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0 to N - 1; 0 for N of 0. The bias of a remainder of 64 bits does not matter here. */
static inline uint32_t sim_below(uint64_t *seed, size_t n)
{
    return n ? (uint32_t)(dt_chance(seed) % n) : 0;
}

static inline int64_t sim_between(uint64_t *seed, int64_t from, int64_t to)
{
    return from + (int64_t)(dt_chance(seed) % (uint64_t)(to - from + 1));
}

static inline bool sim_likely(uint64_t *seed, unsigned percent)
{
    return sim_below(seed, 100) < percent;
}

#endif
