/* SPDX-License-Identifier: Apache-2.0 */
/* A vocabulary has more than a hundred thousand words, and sorting all of them for each token would
 * take as long as a small model does. So the K best are kept in a heap, and of the rest only those
 * are sorted that can be among the fewest with a share of P. */
#include "worker_runtime/generate/sampling.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "worker_runtime/ops/by_chance.h"

/* A candidate's weight is its logit first. */
static bool is_before(const struct dt_candidate *a, const struct dt_candidate *b)
{
    return a->weight > b->weight || (a->weight == b->weight && a->id < b->id);
}

static int by_rank(const void *a, const void *b)
{
    return is_before(a, b) ? -1 : is_before(b, a);
}

static size_t list(const float *logits, size_t count, struct dt_candidate *c)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(logits[i]))
            c[n++] = (struct dt_candidate){(double)logits[i], (int32_t)i};
    return n;
}

static struct dt_candidate best_of(const struct dt_candidate *c, size_t n)
{
    struct dt_candidate best = c[0];
    for (size_t i = 1; i < n; i++)
        if (is_before(&c[i], &best))
            best = c[i];
    return best;
}

/* A heap with the last of its K on top. */
static void sink(struct dt_candidate *c, size_t k, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < k; at = child) {
        if (child + 1 < k && is_before(&c[child], &c[child + 1]))
            child++;
        if (!is_before(&c[at], &c[child]))
            return;
        struct dt_candidate up = c[child];
        c[child] = c[at];
        c[at] = up;
    }
}

static size_t keep_best(struct dt_candidate *c, size_t n, size_t k)
{
    if (k == 0 || k >= n)
        return n;
    for (size_t i = k / 2; i-- > 0;)
        sink(c, k, i);
    for (size_t i = k; i < n; i++) {
        if (!is_before(&c[i], &c[0]))
            continue;
        c[0] = c[i];
        sink(c, k, 0);
    }
    return k;
}

static double weigh(struct dt_candidate *c, size_t n, double temperature)
{
    double best = best_of(c, n).weight, sum = 0;
    for (size_t i = 0; i < n; i++) {
        c[i].weight = exp((c[i].weight - best) / temperature);
        sum += c[i].weight;
    }
    return sum;
}

/* The fewest that have a share of P, the largest first. All that weigh less than LEAST together
 * have less than the share that may be missing, so they are not among them. *SUM: what is left. */
static size_t keep_share(struct dt_candidate *c, size_t n, double p, double *sum)
{
    double wanted = p * *sum, least = (*sum - wanted) / (double)n;
    size_t heavy = 0, kept = 0;
    for (size_t i = 0; i < n; i++)
        if (c[i].weight >= least)
            c[heavy++] = c[i];
    qsort(c, heavy, sizeof *c, by_rank);
    *sum = 0;
    do
        *sum += c[kept++].weight;
    while (kept < heavy && *sum < wanted);
    return kept;
}

static int32_t draw(const struct dt_candidate *c, size_t n, double at)
{
    size_t i = 0;
    for (; i + 1 < n && at >= c[i].weight; i++)
        at -= c[i].weight;
    return c[i].id;
}

int32_t dt_sampling_pick(const struct dt_sampling *s, const float *logits, size_t count,
                         double chance, struct dt_candidate *room)
{
    size_t n = list(logits, count, room);
    if (n == 0)
        return -1;
    if (s->temperature <= 0)
        return best_of(room, n).id;
    n = keep_best(room, n, s->top_k);
    double sum = weigh(room, n, s->temperature);
    if (s->top_p < 1)
        n = keep_share(room, n, s->top_p, &sum);
    return draw(room, n, chance * sum);
}

double dt_sampling_chance(uint64_t seed, uint64_t n)
{
    return (double)(dt_mix(dt_mix(seed) + n) >> 11) * 0x1p-53;
}
