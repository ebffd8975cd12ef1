/* SPDX-License-Identifier: Apache-2.0 */
/* A micro-step leaves one rank and joins another; nothing else ever changes the deal, so its sum
 * stays. The first rank wins a tie: all ranks decide alike from the same table. */
#include "worker_runtime/train/balance.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LOW 0.65
#define HIGH 0.92
#define LOW_STEPS 3

struct dt_balance {
    enum dt_balance_policy policy;
    int ranks, total;
    int *deal;
    int *low; /* by rank: how many steps in a row it was under LOW */
};

struct dt_balance *dt_balance_create(enum dt_balance_policy policy, int ranks, int total,
                                     struct dt_err *err)
{
    if (ranks < 1 || total < ranks) {
        dt_err_set(err, DT_E_USAGE, "%d micro-batches a step are too few for %d ranks", total,
                   ranks);
        return NULL;
    }
    struct dt_balance *b = calloc(1, sizeof *b);
    if (b)
        *b = (struct dt_balance){policy, ranks, total, calloc((size_t)ranks, sizeof *b->deal),
                                 calloc((size_t)ranks, sizeof *b->low)};
    if (!b || !b->deal || !b->low) {
        dt_err_set(err, DT_E_MEMORY, "no memory to deal micro-batches to %d ranks", ranks);
        dt_balance_destroy(b);
        return NULL;
    }
    for (int r = 0; r < ranks; r++)
        b->deal[r] = total / ranks + (r < total % ranks);
    return b;
}

void dt_balance_destroy(struct dt_balance *b)
{
    if (!b)
        return;
    free(b->deal);
    free(b->low);
    free(b);
}

const int *dt_balance_deal(const struct dt_balance *b)
{
    return b->deal;
}

int dt_balance_set(struct dt_balance *b, const int *deal, int ranks, struct dt_err *err)
{
    int64_t sum = 0;
    if (ranks != b->ranks)
        return dt_err_set(err, DT_E_RUNTIME, "a deal of micro-batches to %d ranks is none to %d",
                          ranks, b->ranks);
    for (int r = 0; r < ranks; r++) {
        if (deal[r] < 1)
            return dt_err_set(err, DT_E_RUNTIME, "rank %d is dealt %d micro-batches; 1 is least", r,
                              deal[r]);
        sum += deal[r];
    }
    if (sum != b->total)
        return dt_err_set(err, DT_E_RUNTIME, "%lld micro-batches are dealt; a step has %d",
                          (long long)sum, b->total);
    memcpy(b->deal, deal, (size_t)ranks * sizeof *deal);
    memset(b->low, 0, (size_t)ranks * sizeof *b->low);
    return 0;
}

static void move(struct dt_balance *b, int from, int to)
{
    b->deal[from]--;
    b->deal[to]++;
}

/* How long R would compute with MORE micro-steps, going by this step. */
static double with(const struct dt_balance *b, const double *compute_s, int r, int more)
{
    return compute_s[r] / b->deal[r] * (b->deal[r] + more);
}

/* The rank that would be done first with one micro-step more. */
static int quickest(const struct dt_balance *b, const double *compute_s)
{
    int best = 0;
    for (int r = 1; r < b->ranks; r++)
        if (with(b, compute_s, r, 1) < with(b, compute_s, best, 1))
            best = r;
    return best;
}

static int slowest(const struct dt_balance *b, const double *compute_s)
{
    int worst = 0;
    for (int r = 1; r < b->ranks; r++)
        if (compute_s[r] > compute_s[worst])
            worst = r;
    return worst;
}

/* The step lasts as long as its slowest rank: only a move that makes that shorter is one. */
static bool by_times(struct dt_balance *b, const double *compute_s)
{
    int from = slowest(b, compute_s), to = quickest(b, compute_s);
    if (from == to || b->deal[from] < 2 || !(with(b, compute_s, to, 1) < compute_s[from]))
        return false;
    move(b, from, to);
    return true;
}

static void count_low(struct dt_balance *b, const double *compute_s, double step_s)
{
    for (int r = 0; r < b->ranks; r++)
        b->low[r] = compute_s[r] < LOW * step_s ? b->low[r] + (b->low[r] < INT_MAX) : 0;
}

/* The least used of those that were long enough under LOW and have one to give, or -1. */
static int giver(const struct dt_balance *b, const double *compute_s)
{
    int least = -1;
    for (int r = 0; r < b->ranks; r++)
        if (b->low[r] >= LOW_STEPS && b->deal[r] > 1 &&
            (least < 0 || compute_s[r] < compute_s[least]))
            least = r;
    return least;
}

/* The most used of those above HIGH, or -1. */
static int taker(const struct dt_balance *b, const double *compute_s, double step_s)
{
    int most = slowest(b, compute_s);
    return compute_s[most] > HIGH * step_s ? most : -1;
}

static bool by_utilisation(struct dt_balance *b, const double *compute_s, double step_s)
{
    count_low(b, compute_s, step_s);
    int from = giver(b, compute_s), to = taker(b, compute_s, step_s);
    if (from < 0 || to < 0 || from == to)
        return false;
    move(b, from, to);
    memset(b->low, 0, (size_t)b->ranks * sizeof *b->low);
    return true;
}

static bool are_times(const double *compute_s, int ranks)
{
    for (int r = 0; r < ranks; r++)
        if (!isfinite(compute_s[r]) || compute_s[r] <= 0)
            return false;
    return true;
}

bool dt_balance_step(struct dt_balance *b, const double *compute_s, double step_s)
{
    if (!are_times(compute_s, b->ranks) || !isfinite(step_s) || step_s <= 0)
        return false;
    switch (b->policy) {
    case DT_BALANCE_OFF:
        return false;
    case DT_BALANCE_TIMES:
        return by_times(b, compute_s);
    case DT_BALANCE_UTILISATION:
        return by_utilisation(b, compute_s, step_s);
    }
    return false;
}
