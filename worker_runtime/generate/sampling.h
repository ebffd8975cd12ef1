/* SPDX-License-Identifier: Apache-2.0 */
/* Which token comes next, of those that a model thinks likely. In this order, as other programs
 * have it: the K likeliest, each weighed by exp(logit / temperature), of them the fewest that
 * together have a share of P, and of those one by chance. Pure. */
#ifndef DT_WORKER_RUNTIME_GENERATE_SAMPLING_H
#define DT_WORKER_RUNTIME_GENERATE_SAMPLING_H

#include <stddef.h>
#include <stdint.h>

struct dt_sampling {
    double temperature; /* 0: always the likeliest */
    double top_p;       /* 0 to 1; 1: all */
    size_t top_k;       /* 0: all */
};

struct dt_candidate {
    double weight;
    int32_t id;
};

/* CHANCE is from 0 to below 1, LOGITS are of COUNT tokens, ROOM is for as many. The likeliest of
 * equals is the one with the lowest number. -1: no logit is a finite number. */
int32_t dt_sampling_pick(const struct dt_sampling *s, const float *logits, size_t count,
                         double chance, struct dt_candidate *room);

/* The chance for token number N of a text: SEED alone decides. */
double dt_sampling_chance(uint64_t seed, uint64_t n);

#endif
