/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/init.h"

#include "base/chance.h"

#include <math.h>

/* Uniform in (0, 1]: its logarithm is finite. */
static double uniform(uint64_t key, uint64_t i)
{
    return (double)((dt_chance_mix(key + i * 0x9e3779b97f4a7c15u) >> 11) + 1) * 0x1p-53;
}

/* Box and Muller: two uniform numbers make two normal ones, of which element I takes one. */
static double normal(uint64_t key, uint64_t i)
{
    double radius = sqrt(-2 * log(uniform(key, i | 1)));
    double angle = 2 * M_PI * uniform(key, i & ~(uint64_t)1);
    return radius * (i & 1 ? sin(angle) : cos(angle));
}

void dt_init_tensor(const struct dt_tensor *t, size_t tensor, uint64_t seed, size_t first,
                    size_t count, float *out)
{
    uint64_t key = dt_chance_mix(dt_chance_mix(seed + 1) + tensor);
    for (size_t i = 0; i < count; i++) {
        out[i] = t->init_value;
        if (t->init_std > 0)
            out[i] = (float)(t->init_std * normal(key, first + i));
        else if (t->init_bound > 0)
            out[i] = (float)(t->init_bound * (2 * uniform(key, first + i) - 1));
    }
}
