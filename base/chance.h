/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that a seed repeats, for jitter and for tests; nothing secret may hang on them. */
#ifndef DT_BASE_CHANCE_H
#define DT_BASE_CHANCE_H

#include <stdint.h>

/* The finaliser of splitmix64: each bit of the result hangs on every bit of Z, and neighbours in
 * give strangers out. The order of a run's samples and its first weights follow from it. */
static inline uint64_t dt_chance_mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* The next of SEED's numbers. One step makes even neighbouring seeds differ everywhere. */
static inline uint64_t dt_chance(uint64_t *seed)
{
    return dt_chance_mix(*seed += UINT64_C(0x9E3779B97F4A7C15));
}

#endif
