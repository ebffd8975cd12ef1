/* SPDX-License-Identifier: Apache-2.0 */
/* A permutation without a table: a Feistel network permutes the numbers of 2 * half bits, whatever
 * its round function is, and a result that is no sample is permuted again until it is one. That
 * comes back to the samples after fewer than 4 turns on average, as the network's numbers are at
 * most about 4 times as many, and it stays a permutation: it walks along the cycles of one. */
#include "worker_runtime/data/sampler.h"

#include "base/chance.h"

#define ROUNDS 6

struct network {
    unsigned half; /* bits of each side */
    uint64_t mask;
    uint64_t keys[ROUNDS];
};

/* Never less than 4 bits: over 4 numbers a network has too few permutations to be a shuffle. */
static void prepare(struct network *n, uint64_t samples, uint64_t seed, uint64_t epoch)
{
    n->half = 2;
    while (n->half < 32 && (samples - 1) >> (2 * n->half))
        n->half++;
    n->mask = ((uint64_t)1 << n->half) - 1;
    uint64_t key =
        dt_chance_mix(seed + 0x9e3779b97f4a7c15u) ^ dt_chance_mix(epoch * 0xd1342543de82ef95u + 1);
    for (int i = 0; i < ROUNDS; i++)
        n->keys[i] = key = dt_chance_mix(key + 0x9e3779b97f4a7c15u);
}

static uint64_t permute(const struct network *n, uint64_t x)
{
    uint64_t left = x >> n->half, right = x & n->mask;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t next = left ^ (dt_chance_mix(right + n->keys[i]) & n->mask);
        left = right;
        right = next;
    }
    return (left << n->half) | right;
}

size_t dt_sampler_at(const struct dt_sampler *s, uint64_t position)
{
    if (s->samples == 0)
        return 0;
    uint64_t epoch = position / s->samples, x = position % s->samples;
    if (!s->shuffle)
        return (size_t)x;
    struct network n;
    prepare(&n, s->samples, s->seed, epoch);
    do
        x = permute(&n, x);
    while (x >= s->samples);
    return (size_t)x;
}

uint64_t dt_sampler_first(const int *micro_steps, int rank, size_t micro)
{
    uint64_t before = 0;
    for (int r = 0; r < rank; r++)
        before += (uint64_t)micro_steps[r];
    return before * micro;
}
