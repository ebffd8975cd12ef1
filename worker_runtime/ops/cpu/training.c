/* SPDX-License-Identifier: Apache-2.0 */
/* Loss and optimizer: a row of logits, or a stretch of parameters, passes through the cache once.
 */
#include <math.h>
#include <string.h>

#include "worker_runtime/ops/by_chance.h"
#include "worker_runtime/ops/cpu/cpu.h"
#include "worker_runtime/ops/cpu/math.h"

enum { ROWS = 4, PART = 1 << 14, SQUARES = 1 << 16 };

struct loss_job {
    const struct dt_cross_entropy *c;
    float *losses, *logits;
    bool gradients;
};

/* The sum of exp(x - largest). */
static float sum_exp(size_t n, const float *x, float largest)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += dt_expf(x[i] - largest);
    return sum;
}

/* The same, and x becomes exp(x - largest). */
static float exp_in_place(size_t n, float *x, float largest)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++) {
        x[i] = dt_expf(x[i] - largest);
        sum += x[i];
    }
    return sum;
}

static float lose_row(const struct dt_cross_entropy *c, float *x, size_t target, float scale,
                      bool gradients)
{
    float largest = dt_largest(c->vocabulary, x), wanted = x[target];
    if (!gradients)
        return logf(sum_exp(c->vocabulary, x, largest)) + (largest - wanted);
    float sum = exp_in_place(c->vocabulary, x, largest), share = scale / sum;
#pragma omp simd
    for (size_t i = 0; i < c->vocabulary; i++)
        x[i] *= share;
    x[target] -= scale;
    return logf(sum) + (largest - wanted);
}

/* The sum of exp(capped x - largest). */
static float sum_capped_exp(size_t n, const float *x, float largest, float cap)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += dt_expf(dt_capped(x[i], cap) - largest);
    return sum;
}

/* Of one row: the largest logit, the sum of exp(logit - that), and the target's logit. */
struct row_sums {
    float largest, sum, wanted;
};

/* X, logits of which some of the row's or all are here, becomes their gradients. */
static void pull_row(const struct dt_cross_entropy *c, float *x, size_t target, float scale,
                     const struct row_sums *all)
{
    float cap = c->cap, largest = all->largest, share = scale / all->sum;
    if (cap > 0) {
#pragma omp simd
        for (size_t i = 0; i < c->vocabulary; i++) {
            float y = dt_capped(x[i], cap);
            x[i] = dt_expf(y - largest) * share * dt_cap_slope(y, cap);
        }
    } else {
#pragma omp simd
        for (size_t i = 0; i < c->vocabulary; i++)
            x[i] = dt_expf(x[i] - largest) * share;
    }
    if (target < c->vocabulary)
        x[target] -= cap > 0 ? scale * dt_cap_slope(all->wanted, cap) : scale;
}

/* The same of capped logits, which are found twice rather than kept. */
static float lose_capped_row(const struct dt_cross_entropy *c, float *x, size_t target, float scale,
                             bool gradients)
{
    struct row_sums all = {.largest = dt_capped(dt_largest(c->vocabulary, x), c->cap),
                           .wanted = dt_capped(x[target], c->cap)};
    all.sum = sum_capped_exp(c->vocabulary, x, all.largest, c->cap);
    if (gradients)
        pull_row(c, x, target, scale, &all);
    return logf(all.sum) + (all.largest - all.wanted);
}

static void lose(void *arg, size_t part)
{
    const struct loss_job *j = arg;
    const struct dt_cross_entropy *c = j->c;
    struct dt_range r = dt_part(c->rows, ROWS, part);
    float (*lose_one)(const struct dt_cross_entropy *, float *, size_t, float, bool) =
        c->cap > 0 ? lose_capped_row : lose_row;
    for (size_t n = r.from; n < r.to; n++) {
        float *x = j->logits + n * c->stride;
        bool counts = c->targets[n] >= 0;
        float scale = c->weights ? c->scale * c->weights[n] : c->scale;
        j->losses[n] = counts ? lose_one(c, x, (size_t)c->targets[n], scale, j->gradients) : 0;
        size_t from = counts ? c->vocabulary : 0;
        if (j->gradients)
            memset(x + from, 0, (c->stride - from) * sizeof *x);
    }
}

void DT_CPU(cross_entropy)(const struct dt_cross_entropy *c, float *losses, dt_elem *logits,
                           bool gradients, struct dt_stream *s)
{
    struct loss_job j = {.c = c, .losses = losses, .logits = logits, .gradients = gradients};
    dt_pool_run(s->pool, dt_parts(c->rows, ROWS), lose, &j);
}

struct sums_job {
    const struct dt_cross_entropy *c;
    float *sums;
    const float *logits;
};

/* What words of which none has a logit above -infinity add: nothing where they cannot be at all,
 * rather than infinity less infinity; but what is no number is none in the loss. */
static float sum_hopeless(size_t n, const float *x)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] == -INFINITY ? 0 : x[i];
    return sum;
}

/* Of the words here. */
static struct row_sums sum_row(const struct dt_cross_entropy *c, const float *x, size_t target)
{
    struct row_sums own = {.largest = dt_largest(c->vocabulary, x)};
    bool here = target<c->vocabulary, capped = c->cap> 0;
    if (capped)
        own.largest = dt_capped(own.largest, c->cap);
    if (own.largest > -INFINITY)
        own.sum = capped ? sum_capped_exp(c->vocabulary, x, own.largest, c->cap)
                         : sum_exp(c->vocabulary, x, own.largest);
    else
        own.sum = sum_hopeless(c->vocabulary, x);
    if (here)
        own.wanted = capped ? dt_capped(x[target], c->cap) : x[target];
    return own;
}

static void add_up(void *arg, size_t part)
{
    const struct sums_job *j = arg;
    const struct dt_cross_entropy *c = j->c;
    struct dt_range r = dt_part(c->rows, ROWS, part);
    for (size_t n = r.from; n < r.to; n++) {
        float *sums = j->sums + n * 3;
        struct row_sums own = {0};
        if (c->targets[n] >= 0)
            own = sum_row(c, j->logits + n * c->stride, (size_t)c->targets[n]);
        sums[0] = own.largest;
        sums[1] = own.sum;
        sums[2] = own.wanted;
    }
}

void DT_CPU(cross_entropy_sums)(const struct dt_cross_entropy *c, float *sums,
                                const dt_elem *logits, struct dt_stream *s)
{
    struct sums_job j = {.c = c, .sums = sums, .logits = logits};
    dt_pool_run(s->pool, dt_parts(c->rows, ROWS), add_up, &j);
}

struct join_job {
    const struct dt_cross_entropy *c;
    const float *sums;
    size_t parts;
    float *losses, *logits;
    bool gradients;
};

/* Over the words of all ranks, in the order of these. */
static struct row_sums join_row(const struct join_job *j, size_t n)
{
    const float *of = j->sums + n * 3;
    size_t step = j->c->rows * 3;
    struct row_sums all = {.largest = -INFINITY};
    for (size_t part = 0; part < j->parts; part++)
        all.largest = fmaxf(all.largest, of[part * step]);
    for (size_t part = 0; part < j->parts; part++) {
        all.sum += of[part * step + 1] * expf(of[part * step] - all.largest);
        all.wanted += of[part * step + 2];
    }
    return all;
}

static void join(void *arg, size_t part)
{
    const struct join_job *j = arg;
    const struct dt_cross_entropy *c = j->c;
    struct dt_range r = dt_part(c->rows, ROWS, part);
    for (size_t n = r.from; n < r.to; n++) {
        float *x = j->logits + n * c->stride;
        bool counts = c->targets[n] >= 0;
        struct row_sums all = join_row(j, n);
        j->losses[n] = counts ? logf(all.sum) + (all.largest - all.wanted) : 0;
        if (!j->gradients)
            continue;
        if (counts)
            pull_row(c, x, (size_t)c->targets[n], c->weights ? c->scale * c->weights[n] : c->scale,
                     &all);
        size_t from = counts ? c->vocabulary : 0;
        memset(x + from, 0, (c->stride - from) * sizeof *x);
    }
}

void DT_CPU(cross_entropy_join)(const struct dt_cross_entropy *c, size_t parts, const float *sums,
                                float *losses, dt_elem *logits, bool gradients, struct dt_stream *s)
{
    struct join_job j = {.c = c,
                         .sums = sums,
                         .parts = parts,
                         .losses = losses,
                         .logits = logits,
                         .gradients = gradients};
    dt_pool_run(s->pool, dt_parts(c->rows, ROWS), join, &j);
}

struct adamw_job {
    const struct dt_adamw *a;
    const struct dt_adamw_part *part;
};

/* Elements from AT on. As in the reference, with what does not depend on the element computed
 * before. */
static void step(const struct dt_adamw *a, const struct dt_adamw_part *p, size_t at, size_t n)
{
    /* Taken from the weight with the rest: 1 - decay, as a float, would round a small one away. */
    float decay = a->decoupled ? p->lr * p->weight_decay : 0;
    float pull = a->decoupled ? 0 : p->weight_decay, rest1 = 1 - a->beta1, rest2 = 1 - a->beta2;
    float beta1 = a->beta1, beta2 = a->beta2, eps = a->eps, grad_scale = a->grad_scale;
    float rate = p->lr / a->bias1, root = 1 / sqrtf(a->bias2);
    float *master = p->master + at, *exp_avg = p->exp_avg + at, *exp_avg_sq = p->exp_avg_sq + at;
    const float *grads = (const float *)p->grads + at;
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float g = grads[i] * grad_scale + pull * master[i];
        float m = beta1 * exp_avg[i] + rest1 * g;
        float v = beta2 * exp_avg_sq[i] + rest2 * g * g;
        exp_avg[i] = m;
        exp_avg_sq[i] = v;
        master[i] -= decay * master[i] + rate * m / (sqrtf(v) * root + eps);
    }
}

static void put_params(enum dt_dtype type, size_t n, float *params, const float *master)
{
    if (type == DT_BF16) {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            params[i] = dt_bf16_to_float(dt_float_to_bf16(master[i]));
    } else if (type == DT_F16) {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            params[i] = dt_f16_to_float(dt_float_to_f16(master[i]));
    } else if (params != master) {
        memcpy(params, master, n * sizeof *params);
    }
}

static void put_by_chance(enum dt_dtype type, const struct dt_adamw_part *p, size_t at, size_t n)
{
    uint64_t start = dt_mix(p->chance) + p->chance_at + at;
    float *params = (float *)p->params + at;
    const float *master = p->master + at;
    if (type == DT_BF16) {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            params[i] =
                dt_bf16_to_float(dt_float_to_bf16_by_chance(master[i], dt_chance_bits(start, i)));
    } else {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            params[i] =
                dt_f16_to_float(dt_float_to_f16_by_chance(master[i], dt_chance_bits(start, i)));
    }
}

/* Pieces small enough for the new values to be in the first cache when they are rounded. */
static void adamw(void *arg, size_t part)
{
    enum { PIECE = 1024 };
    const struct adamw_job *j = arg;
    const struct dt_adamw_part *p = j->part;
    struct dt_range r = dt_part(p->count, PART, part);
    enum dt_dtype type = j->a->model_type;
    bool by_chance = p->chance && (type == DT_BF16 || type == DT_F16);
    for (size_t i = r.from; i < r.to; i += PIECE) {
        size_t n = r.to - i < PIECE ? r.to - i : PIECE;
        step(j->a, p, i, n);
        if (by_chance)
            put_by_chance(type, p, i, n);
        else
            put_params(type, n, (float *)p->params + i, p->master + i);
    }
}

void DT_CPU(adamw)(const struct dt_adamw *a, size_t parts, const struct dt_adamw_part *part,
                   struct dt_stream *s)
{
    for (size_t i = 0; i < parts; i++) {
        struct adamw_job j = {.a = a, .part = &part[i]};
        dt_pool_run(s->pool, dt_parts(part[i].count, PART), adamw, &j);
    }
}

struct squares_job {
    size_t n;
    const float *x;
    double *sums;
};

static void sum_part(void *arg, size_t part)
{
    const struct squares_job *j = arg;
    struct dt_range r = dt_part(j->n, SQUARES, part);
    const float *x = j->x;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = r.from; i < r.to; i++)
        sum += (double)x[i] * (double)x[i];
    j->sums[part] = sum;
}

/* The parts' sums lie in memory that threads share, as many at a time as fit. */
static double sum_of(size_t n, const float *x, struct dt_stream *s)
{
    size_t most = DT_SHARED_BYTES / sizeof(double) * SQUARES;
    double total = 0;
    for (size_t from = 0; from < n; from += most) {
        struct squares_job j = {
            .n = n - from < most ? n - from : most, .x = x + from, .sums = s->shared};
        size_t parts = dt_parts(j.n, SQUARES);
        dt_pool_run(s->pool, parts, sum_part, &j);
        for (size_t i = 0; i < parts; i++)
            total += j.sums[i];
    }
    return total;
}

void DT_CPU(sum_squares)(enum dt_dtype type, size_t parts, double *sums,
                         const struct dt_squares_part *part, struct dt_stream *s)
{
    (void)type; /* floats */
    for (size_t i = 0; i < parts; i++)
        sums[i] = sum_of(part[i].count, part[i].x, s);
}
