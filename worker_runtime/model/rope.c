/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/rope.h"

#include <math.h>

#define TURN 6.283185307179586

static double between(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

/* TURNS: how often a pair turns within the positions of the first training. */
static double llama3(const struct dt_rope_scaling *s, double speed)
{
    double turns = (double)s->original * speed / TURN;
    double low = (double)s->low_freq, high = (double)s->high_freq;
    if (turns > high)
        return speed;
    if (turns < low)
        return speed / (double)s->factor;
    double share = (turns - low) / (high - low);
    return speed * ((1 - share) / (double)s->factor + share);
}

/* The pair that turns TURNS times within the positions of the first training; a fraction. */
static double yarn_pair(const struct dt_rope_scaling *s, double theta, double dim, double turns)
{
    return dim * log((double)s->original / (turns * TURN)) / (2 * log(theta));
}

struct ramp {
    double from, to;
};

static struct ramp yarn_ramp(const struct dt_rope_scaling *s, double theta, double dim)
{
    struct ramp r = {yarn_pair(s, theta, dim, (double)s->beta_fast),
                     yarn_pair(s, theta, dim, (double)s->beta_slow)};
    if (!s->exact)
        r = (struct ramp){floor(r.from), ceil(r.to)};
    r = (struct ramp){fmax(r.from, 0), fmin(r.to, dim - 1)};
    if (r.from >= r.to && r.from <= r.to)
        r.to += 0.001;
    return r;
}

/* Pairs before the ramp keep their speed, those behind it are slower by the factor. */
static double yarn(const struct dt_rope_scaling *s, struct ramp r, double speed, double pair)
{
    double share = between((pair - r.from) / (r.to - r.from), 0, 1);
    return speed * (1 - share) + speed / (double)s->factor * share;
}

void dt_rope_speeds(const struct dt_rope_scaling *s, float theta, size_t head_dim, float *speeds)
{
    struct ramp ramp = {0};
    if (s->kind == DT_ROPE_YARN)
        ramp = yarn_ramp(s, (double)theta, (double)head_dim);
    for (size_t i = 0; i < head_dim / 2; i++) {
        double speed = pow((double)theta, -2.0 * (double)i / (double)head_dim);
        if (s->kind == DT_ROPE_LINEAR)
            speed /= (double)s->factor;
        if (s->kind == DT_ROPE_LLAMA3)
            speed = llama3(s, speed);
        if (s->kind == DT_ROPE_YARN)
            speed = yarn(s, ramp, speed, (double)i);
        speeds[i] = (float)speed;
    }
}

float dt_rope_scale(const struct dt_rope_scaling *s)
{
    return s->kind == DT_ROPE_YARN ? s->attention : 1;
}

static double mscale_of(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

float dt_rope_yarn_attention(double factor, double mscale, double mscale_all)
{
    if (mscale > 0 && mscale_all > 0)
        return (float)(mscale_of(factor, mscale) / mscale_of(factor, mscale_all));
    return (float)mscale_of(factor, 1);
}
