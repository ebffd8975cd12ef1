/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule is a ratio between two rates: it rises from 0 to 1 over the warm-up, then stays or
 * falls. DeepSpeed's kinds share one rise, and Hugging Face's but one share another. */
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

/* -- Hugging Face's --------------------------------------------------------------------------- */

#define TIMESCALE 10000.0 /* without a warm-up */

/* From 1 to 0 in half a cycle, and up again in another half. */
static double wave(double cycles, double way)
{
    return (1 + cos(M_PI * cycles * 2 * way)) / 2;
}

static double restarts(double cycles, double way)
{
    return way >= 1 ? 0 : (1 + cos(M_PI * fmod(cycles * way, 1))) / 2;
}

static double polynomial(const struct dt_schedule *s, double k)
{
    double all = (double)(s->total_steps - s->warmup_steps);
    if (k > (double)s->total_steps || all <= 0)
        return s->min_lr / s->lr;
    return between(s->min_lr / s->lr, 1, pow(1 - (k - (double)s->warmup_steps) / all, s->power));
}

static double inverse_sqrt(const struct dt_schedule *s, double k)
{
    double warmup = (double)s->warmup_steps;
    double scale = s->timescale > 0 ? s->timescale : warmup > 0 ? warmup : TIMESCALE;
    return 1 / sqrt((k - warmup) / scale + 1);
}

static double ramp_up(enum dt_ramp ramp, double way)
{
    return ramp == DT_RAMP_LINEAR   ? way
           : ramp == DT_RAMP_COSINE ? (1 - cos(M_PI * way)) / 2
                                    : 1 - sqrt(1 - way);
}

static double ramp_down(enum dt_ramp ramp, double cycles, double way)
{
    return ramp == DT_RAMP_LINEAR   ? 1 - way
           : ramp == DT_RAMP_COSINE ? wave(cycles, way)
                                    : 1 - sqrt(way);
}

/* Its warm-up begins where it ends, and not at 0. */
static double stable(const struct dt_schedule *s, double k)
{
    double warmup = (double)s->warmup_steps, decay = (double)s->decay_steps;
    double level =
        s->stable_steps >= 0 ? (double)s->stable_steps : (double)s->total_steps - warmup - decay;
    double falling = k - warmup - level;
    double ratio = 0;
    if (k < warmup)
        ratio = ramp_up(s->rise, k / warmup);
    else if (falling < 0)
        ratio = 1;
    else if (falling < decay)
        ratio = ramp_down(s->fall, s->cycles, falling / decay);
    return fmax(0, between(s->min_ratio, 1, ratio));
}

/* Of the optimizer's rate. */
static double rule(const struct dt_schedule *s, double k)
{
    double warmup = (double)s->warmup_steps, all = fmax(1, (double)s->total_steps - warmup);
    double way = (k - warmup) / all;
    if (s->kind == DT_RULE_STABLE)
        return stable(s, k);
    if (k < warmup)
        return k / warmup;
    if (s->kind == DT_RULE_LINEAR)
        return fmax(0, ((double)s->total_steps - k) / all);
    if (s->kind == DT_RULE_COSINE)
        return fmax(0, between(s->min_ratio, 1, wave(s->cycles, way)));
    if (s->kind == DT_RULE_RESTARTS)
        return restarts(s->cycles, way);
    if (s->kind == DT_RULE_POLYNOMIAL)
        return polynomial(s, k);
    return s->kind == DT_RULE_INVERSE_SQRT ? inverse_sqrt(s, k) : 1;
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
    case DT_RULE_WARMUP:
    case DT_RULE_LINEAR:
    case DT_RULE_COSINE:
    case DT_RULE_RESTARTS:
    case DT_RULE_POLYNOMIAL:
    case DT_RULE_INVERSE_SQRT:
    case DT_RULE_STABLE:
        return s->lr * rule(s, (double)k);
    }
    return s->lr;
}
