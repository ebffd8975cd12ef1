/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule is a ratio between two rates: it rises from 0 to 1 over the warm-up, then stays or
 * falls. All kinds share the rise. */
#include "worker_runtime/optim/schedule.h"

#include <math.h>
#include <stdbool.h>

/* The warm-up's length, as used below a logarithm: of 1 that would divide by ln(1). */
static double warmup_length(const struct dt_schedule *s)
{
    return s->warmup_steps < 2 ? 2.0 : (double)s->warmup_steps;
}

static double rise(const struct dt_schedule *s, double at)
{
    double n = warmup_length(s);
    return s->warmup_type == DT_WARMUP_LINEAR ? at / n : log(at + 1) / log(n);
}

static double after_warmup(const struct dt_schedule *s)
{
    return fmax(1, (double)s->total_steps - warmup_length(s));
}

static double fall(const struct dt_schedule *s, double at)
{
    return fmax(0, ((double)s->total_steps - at) / after_warmup(s));
}

static double between(double low, double high, double ratio)
{
    return low + (high - low) * ratio;
}

static double cosine_ratio(const struct dt_schedule *s, double at)
{
    if (at < 0)
        return 0;
    if (at < warmup_length(s))
        return between(s->warmup_min_ratio, 1, rise(s, at));
    double way = fmin(1, (at - warmup_length(s) + 1) / after_warmup(s));
    return between(s->cos_min_ratio, 1, (1 + cos(M_PI * way)) / 2);
}

double dt_schedule_rate(const struct dt_schedule *s, int64_t k)
{
    double at = (double)k - 1; /* last_batch_iteration */
    bool warm = at >= warmup_length(s);
    switch (s->kind) {
    case DT_SCHEDULE_CONSTANT:
        return s->lr;
    case DT_WARMUP:
    case DT_WARMUP_DECAY:
        if (at < 0)
            return s->min_lr;
        if (!warm)
            return between(s->min_lr, s->max_lr, rise(s, at));
        return between(s->min_lr, s->max_lr, s->kind == DT_WARMUP ? 1 : fall(s, at));
    case DT_WARMUP_COSINE:
        return s->lr * cosine_ratio(s, at);
    }
    return s->lr;
}
